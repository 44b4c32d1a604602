// The grid of all heads: a row for each layer, a column for each head.

function drawHeads(report, scale, choose) {
  const grid = fresh("heads");
  grid.style.gridTemplateColumns = `auto repeat(${report.model.n_heads}, auto)`;
  grid.append(make("span"));
  for (let h = 0; h < report.model.n_heads; h++) {
    grid.append(make("span", { class: "top" }, `head ${h}`));
  }
  const buttons = [];
  report.layers.forEach((layer, l) => {
    grid.append(make("span", { class: "side" }, `layer ${l}`));
    layer.heads.forEach((head, h) => {
      const button = make(
        "button",
        { type: "button", class: "thumb", "data-layer": l, "data-head": h, "aria-label": `Layer ${l}, head ${h}` },
        thumbnail(head, scale),
      );
      button.onclick = () => choose({ layer: l, head: h });
      buttons.push(button);
      grid.append(button);
    });
  });
  arrowKeys(grid, buttons, report.model.n_heads);
}

// A canvas with one pixel for each pair; a forbidden pair stays clear, so the hatching shows.
function thumbnail(head, scale) {
  const n = head.weights.rows;
  const canvas = make("canvas", { width: n, height: n });
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(n, n);
  for (let pair = 0; pair < n * n; pair++) {
    if (head.scores.data[pair] === null) continue;
    pixels.data.set([...mix(scale, head.weights.data[pair]), 255], 4 * pair);
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

function markHead(layer, head) {
  for (const button of byId("heads").querySelectorAll("button")) {
    const chosen = Number(button.dataset.layer) === layer && Number(button.dataset.head) === head;
    button.setAttribute("aria-pressed", chosen);
  }
}
