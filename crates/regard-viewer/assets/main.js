// The page's state and what follows from a change of it.

const reports = JSON.parse(byId("data").textContent);
const state = { sentence: 0, layer: 0, head: 0, query: 0, key: 0 };
let scale = readScale();

const report = () => reports[state.sentence];
const hasAttention = () => report().layers.some((layer) => layer.heads.length > 0);
const head = () => report().layers[state.layer].heads[state.head];

// Brings every part of the state into its range: sentences differ in length, addresses may be old.
function settle() {
  const within = (value, count) => Math.max(0, Math.min(Number.isInteger(value) ? value : 0, count - 1));
  state.sentence = within(state.sentence, reports.length);
  state.layer = within(state.layer, report().layers.length);
  state.head = within(state.head, report().model.n_heads);
  state.query = within(state.query, report().tokens.length);
  state.key = within(state.key, report().tokens.length);
}

// Changes the state and redraws what depends on it.
function choose(change) {
  const before = { ...state };
  Object.assign(state, change);
  settle();
  const sentence = state.sentence !== before.sentence;
  draw(sentence, sentence || state.layer !== before.layer || state.head !== before.head);
}

function draw(newSentence, newHead) {
  if (newSentence) drawSentence();
  markWords();
  byId("attention").hidden = !hasAttention();
  byId("no-attention").hidden = hasAttention();
  if (hasAttention()) {
    if (newSentence) drawHeads(report(), scale, choose);
    if (newHead) drawHead();
    markHead(state.layer, state.head);
    markHeatmap(state.query, state.key);
    markLines(head(), state.query);
    byId("query").value = state.query;
    byId("key").value = state.key;
    tell(state.query, state.key);
    drawSteps(report(), head(), state.query, state.key, choose);
  }
  saveAddress();
}

function drawHead() {
  byId("head-title").textContent = `Layer ${state.layer}, head ${state.head}`;
  drawHeatmap(report(), head(), scale, choose, tell);
  drawLines(report(), head(), choose);
  drawCheck(report(), head());
}

function drawSentence() {
  const { tokens, predicted, gold, model } = report();
  const buttons = tokens.map((word, i) => {
    const chip = make("button", { type: "button", class: "chip", "data-word": i }, makeWord(word));
    const guess = predicted[i];
    if (guess) {
      const label = make("small", { "data-label": guess.label, "data-probability": String(guess.probability) });
      label.append(make("bdi", {}, guess.label), ` ${(100 * guess.probability).toFixed(1)} %`);
      chip.append(label);
      if (gold && gold[i] !== guess.label) {
        chip.append(make("small", { class: "wrong" }, "✗ should be ", make("bdi", {}, gold[i])));
      }
    }
    chip.onclick = () => choose({ query: i });
    return chip;
  });
  const list = fresh("words");
  list.append(...buttons.map((chip) => make("li", {}, chip)));
  arrowKeys(list, buttons, 1);

  const facts = {
    Model: model.name,
    "Layers × heads": `${model.n_layers} × ${model.n_heads}`,
    Score: model.score,
    Position: model.position,
    Scope: model.scope,
    Words: tokens.length,
  };
  if (!hasAttention()) for (const name of Object.keys(facts)) if (name !== "Model" && name !== "Words") delete facts[name];
  byId("model").replaceChildren(
    ...Object.entries(facts).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, makeWord(String(value))))),
  );
  for (const [id, what] of [["query", "query"], ["key", "key"]]) {
    const select = byId(id);
    select.replaceChildren(...tokens.map((word, i) => make("option", { value: i }, `${i}: ${word}`)));
    select.onchange = () => choose({ [what]: Number(select.value) });
  }
}

function markWords() {
  for (const chip of byId("words").querySelectorAll("button")) {
    chip.setAttribute("aria-pressed", Number(chip.dataset.word) === state.query);
  }
}

// Says a pair's numbers in words.
function tell(query, key) {
  const words = report().tokens;
  const score = at(head().scores, query, key);
  const numbers = score === null ? "not allowed by the scope" : `weight ${at(head().weights, query, key).toFixed(6)}, score ${show(score)}`;
  byId("readout").replaceChildren(
    `query ${query} `, make("strong", {}, makeWord(words[query])),
    ` → key ${key} `, make("strong", {}, makeWord(words[key])),
    `: ${numbers}`,
  );
}

// The state is kept in the address, so that a view can be passed on.
function saveAddress() {
  const parts = Object.entries(state).map(([name, value]) => `${name}=${value}`);
  try {
    history.replaceState(null, "", `#${parts.join("&")}`);
  } catch {
    // A page inside another's frame may not change its address, and need not.
  }
}

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(state)) {
    if (given.has(name)) state[name] = Number(given.get(name));
  }
  settle();
}

const choice = byId("sentence");
choice.append(...reports.map(({ tokens }, n) => make("option", { value: n }, tokens.join(" ").slice(0, 100))));
choice.onchange = () => choose({ sentence: Number(choice.value), query: 0, key: 0 });
byId("sentence-choice").hidden = reports.length === 1;

readAddress();
choice.value = state.sentence;
drawTicks();
draw(true, true);
window.onhashchange = () => {
  readAddress();
  choice.value = state.sentence;
  draw(true, true);
};
matchMedia("(prefers-color-scheme: dark)").onchange = () => {
  scale = readScale();
  draw(true, true);
};
