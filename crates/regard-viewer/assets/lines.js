// Two columns of words: from each query on the left to its keys on the right.

const FAINTEST = 0.01;

function drawLines(report, head, choose) {
  const box = fresh("lines");
  const words = report.tokens;
  const n = words.length;
  const height = n <= 24 ? 28 : n <= 48 ? 20 : 16;
  box.style.setProperty("--row", `${height}px`);
  box.style.setProperty("--row-font", n <= 24 ? "14px" : "11px");

  const from = make("ol", { class: "from", "aria-label": "Queries" });
  const to = make("ol", { class: "to", "aria-label": "Keys" });
  const svg = makeSvg("svg", { viewBox: `0 0 100 ${n * height}`, height: n * height, preserveAspectRatio: "none", "aria-hidden": "true" });
  const middle = (index) => (index + 0.5) * height;
  const buttons = words.map((word, i) => {
    const button = make("button", { type: "button", "data-line-query": i, "aria-label": `Query ${i}: ${word}` }, makeWord(word));
    button.onclick = () => choose({ query: i });
    button.onmouseenter = () => light(head, i);
    button.onfocus = () => light(head, i);
    from.append(make("li", {}, button));
    to.append(make("li", {}, make("span", {}, makeWord(word))));

    const group = makeSvg("g", {});
    words.forEach((_, j) => {
      const weight = at(head.weights, i, j);
      if (weight < FAINTEST) return;
      const [y1, y2] = [middle(i), middle(j)];
      group.append(makeSvg("path", { d: `M0 ${y1} C45 ${y1} 55 ${y2} 100 ${y2}`, "stroke-width": (0.5 + 8 * weight).toFixed(2), "stroke-opacity": (0.25 + 0.75 * weight).toFixed(2) }));
    });
    svg.append(group);
    return button;
  });
  box.append(from, svg, to);
  arrowKeys(from, buttons, 1);
}

// Shows one query's lines in full and the others faintly.
function light(head, query) {
  const box = byId("lines");
  for (const lit of box.querySelectorAll(".lit")) lit.classList.remove("lit");
  box.querySelectorAll("g")[query].classList.add("lit");
  box.querySelectorAll(".to span").forEach((word, j) => {
    word.classList.toggle("lit", at(head.weights, query, j) >= FAINTEST);
  });
}

function markLines(head, query) {
  const box = byId("lines");
  for (const button of box.querySelectorAll("button")) {
    const chosen = Number(button.dataset.lineQuery) === query;
    button.setAttribute("aria-pressed", chosen);
    if (chosen) reveal(button);
  }
  light(head, query);
  box.onmouseleave = () => light(head, query);
}
