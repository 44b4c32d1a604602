// One head, large: a table with a row for each query and a column for each key.

function drawHeatmap(report, head, scale, choose, tell) {
  const table = fresh("heatmap");
  const words = report.tokens;
  const n = words.length;
  const cell = n <= 12 ? 44 : n <= 24 ? 32 : n <= 48 ? 20 : 14;
  // Short words stand upright above wide columns; others lie on their side.
  const flat = cell >= 44 && words.every((word) => [...word].length <= 5);
  table.className = `heatmap${n > 24 ? " dense" : ""}${flat ? " flat" : ""}`;
  table.style.setProperty("--cell", `${cell}px`);
  // Where a number does not fit it is there for those who listen, not for those who look.
  table.style.setProperty("--cell-font", cell >= 44 ? "12px" : cell >= 32 ? "10px" : "0");

  const top = make("tr", {}, heading("query ↓ key →"));
  for (const word of words) {
    const name = heading("");
    name.append(makeWord(word, { class: "word" }));
    top.append(name);
  }
  const body = make("tbody");
  const buttons = [];
  const cells = [];
  words.forEach((query, i) => {
    const button = make("button", { type: "button", "aria-label": `Query ${i}: ${query}` }, makeWord(query));
    button.onclick = () => choose({ query: i });
    buttons.push(button);
    const line = make("tr", {}, make("th", { scope: "row" }, button));
    words.forEach((_, j) => {
      const one = heatmapCell(head, scale, i, j);
      cells.push(one);
      line.append(one);
    });
    body.append(line);
  });
  table.append(make("thead", {}, top), body);

  // Two stops of the Tab key: the names of the rows, and the cells.
  arrowKeys(table, buttons, 1);
  arrowKeys(table, cells, n);
  const onCell = (act) => (event) => {
    const one = event.target.closest("td[data-query]");
    if (one) act(one, Number(one.dataset.query), Number(one.dataset.key), event);
  };
  const point = onCell((one, query, key) => {
    for (const marked of table.querySelectorAll(".at")) marked.classList.remove("at");
    one.parentElement.cells[0].classList.add("at");
    top.cells[key + 1].classList.add("at");
    tell(query, key);
  });
  table.addEventListener("mouseover", point);
  table.addEventListener("focusin", point);
  table.addEventListener("click", onCell((_, query, key) => choose({ query, key })));
  table.addEventListener("keydown", onCell((_, query, key, event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose({ query, key });
  }));
}

function heatmapCell(head, scale, i, j) {
  const weight = at(head.weights, i, j);
  const forbidden = at(head.scores, i, j) === null;
  const cell = make(
    "td",
    { "data-query": i, "data-key": j, "data-weight": String(weight), class: forbidden ? "forbidden" : null },
    forbidden ? "" : weight.toFixed(2).replace(/^0/, ""),
  );
  if (!forbidden) {
    cell.style.backgroundColor = colour(scale, weight);
    cell.style.color = textColour(scale, weight);
  }
  return cell;
}

function markHeatmap(query, key) {
  const table = byId("heatmap");
  for (const marked of table.querySelectorAll(".chosen")) marked.classList.remove("chosen");
  const line = table.tBodies[0].rows[query];
  line.classList.add("chosen");
  line.cells[key + 1].classList.add("chosen");
  reveal(line);
}
