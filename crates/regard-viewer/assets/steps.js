// The way from one query to its context in numbers, the engine's beside those computed here.

const AGREE = 1e-6;

function drawSteps(report, head, query, key, choose) {
  const kind = scoreKind(report, head);
  const steps = byId("steps");
  const folds = Array.from(steps.querySelectorAll("details"), ({ id, open }) => [id, open]);
  const inKeys = document.activeElement?.closest("#step-weights") !== null;
  steps.replaceChildren(
    formulas(report),
    ...pairStep(report, head, kind, query, key),
    ...weightsStep(report, head, kind, query, key, choose),
    ...contextStep(report, head, query),
  );
  // What the reader had opened stays open for the next query, and the keyboard stays where it was.
  for (const [id, open] of folds) {
    if (byId(id)) byId(id).open = open;
  }
  if (inKeys) steps.querySelector(`#step-weights tr[data-key="${key}"] button`).focus();
}

function drawCheck(report, head) {
  const found = differences(scoreKind(report, head), head);
  const names = { scores: "scores", weights: "weights", context: "contexts" };
  const parts = Object.keys(names).filter((name) => found[name] !== null);
  // Scores and contexts are as exact as the numbers that they add up, and a weight moves as much as
  // its score does.
  const agree = parts.every((name) => found[name] <= AGREE * found.size);
  const figures = parts.map((name) => `${names[name]} ${found[name].toExponential(1)}`).join(", ");
  const left = found.scores === null ? " This page does not know the score's formula and takes the engine's scores as given." : "";
  const check = byId("check");
  check.textContent = `${agree ? "✓ Engine and page agree" : "✗ Engine and page differ"} on this head. Largest differences: ${figures}.${left}`;
  setAll(check, { "data-agree": agree, "data-size": found.size, "data-scores": found.scores, "data-weights": found.weights, "data-context": found.context });
}

function formulas(report) {
  return make(
    "ul",
    { class: "formulas", id: "formulas" },
    make("li", {}, make("bdi", {}, ...math(report.model.formula))),
    make("li", {}, ...math("a_ij = exp(s_ij) / Σ_j exp(s_ij)")),
    make("li", {}, ...math("c_i = Σ_j a_ij v_j")),
  );
}

// One pair: the terms that make the score of query i and key j.
function pairStep(report, head, kind, i, j) {
  const title = make("h4", {}, "1. The score of ", makeWord(report.tokens[i]), " and ", makeWord(report.tokens[j]), ...math(`: s_${i},${j}`));
  const engine = at(head.scores, i, j);
  if (engine === null) {
    return [title, make("p", { class: "worked" }, "The scope does not allow this pair: s = −∞, so its weight is 0.")];
  }
  if (!kind) return [title, make("p", { class: "worked" }, `Engine: ${show(engine)}`)];
  const terms = scoreTerms(kind, head, i, j);
  const d = head.q.cols;
  const total = sum(terms);
  const score = kind.finish(total, d);
  const worked = make("p", { class: "worked", id: "worked" }, ...math(`s = ${kind.worked(total, d)} = ${show(score)} here, ${show(engine)} by the engine`));
  const vectors = [row(head.q, i), row(head.k, j)];
  if (head.v_a) vectors.push(head.v_a.map(exact));
  vectors.push(terms);
  return [title, worked, fold("pair-terms", `All ${d} dimensions`, () => pairTable(kind, vectors, total))];
}

function pairTable(kind, vectors, total) {
  const head = make("tr", {}, heading("dimension"), ...kind.columns.map((name) => heading(name, "col", "n")));
  const lines = vectors[0].map((_, d) => make("tr", {}, heading(String(d), "row"), ...vectors.map((vector) => number(vector[d]))));
  const foot = make("tr", {}, heading("Σ", "row"), ...vectors.slice(1).map(() => make("td")), number(total));
  return make("table", { class: "numbers" }, make("thead", {}, head), make("tbody", {}, ...lines), make("tfoot", {}, foot));
}

// All keys of one query: vectors, scores, exponentials, weights.
function weightsStep(report, head, kind, i, chosen, choose) {
  const scores = row(head.scores, i);
  const soft = softmax(scores);
  const names = ["key j", "k_j", "s_ij engine", "s_ij here", "exp(s_ij − max)", "a_ij engine", "a_ij here", "a_ij", "v_j"];
  const left = [0, 1, 7, 8];
  const top = make("tr", {}, ...names.map((name, n) => heading(name, "col", left.includes(n) ? "" : "n")));
  const lines = report.tokens.map((word, j) => {
    const forbidden = scores[j] === -Infinity;
    const here = kind && !forbidden ? recomputeScore(kind, head, i, j) : null;
    const button = make("button", { type: "button", "aria-label": `Key ${j}: ${word}` }, `${j} `, makeWord(word));
    const bar = make("span", { class: "bar", "aria-hidden": "true" }, make("i"));
    bar.firstChild.style.width = `${100 * at(head.weights, i, j)}%`;
    const name = heading("", "row");
    name.append(button);
    const line = make(
      "tr",
      { "data-key": j, class: j === chosen ? "chosen" : null },
      name,
      preview(row(head.k, j)),
      number(forbidden ? -Infinity : at(head.scores, i, j), "score-engine"),
      here === null ? make("td", { class: "n muted" }, forbidden ? "−∞" : "–") : number(here, "score-here"),
      number(soft.exps[j], "exp"),
      number(at(head.weights, i, j), "weight-engine"),
      number(soft.weights[j], "weight-here"),
      make("td", {}, bar),
      preview(row(head.v, j)),
    );
    line.onclick = () => choose({ key: j });
    return line;
  });
  const blank = () => make("td");
  const weightSum = sum(row(head.weights, i));
  const foot = make("tr", {}, heading("Σ", "row"), blank(), blank(), blank(), number(soft.total), number(weightSum), number(sum(soft.weights)), blank(), blank());
  const table = make("table", { class: "numbers", id: "step-weights" }, make("thead", {}, top), make("tbody", {}, ...lines), make("tfoot", {}, foot));
  const title = make("h4", {}, "2. From scores to weights for the query ", makeWord(report.tokens[i]));
  const query = make("p", { class: "worked" }, ...math(`q_${i} = ${brief(row(head.q, i))}`));
  const none = soft.max === -Infinity ? [make("p", { class: "worked" }, "This query may see no key: all weights and its context are 0.")] : [];
  return [
    title,
    query,
    ...none,
    make("div", { class: "scroll tall" }, table),
    fold("all-query", `The query q_${i}, all ${head.q.cols} numbers`, () => matrixTable([report.tokens[i]], [row(head.q, i)])),
    fold("all-keys", `All keys k_j: ${head.k.rows} × ${head.k.cols} numbers`, () => matrixTable(report.tokens, report.tokens.map((_, j) => row(head.k, j)))),
    fold("all-values", `All values v_j: ${head.v.rows} × ${head.v.cols} numbers`, () => matrixTable(report.tokens, report.tokens.map((_, j) => row(head.v, j)))),
  ];
}

// The weighted sum of the values, dimension by dimension.
function contextStep(report, head, i) {
  const d_v = head.v.cols;
  const here = Array.from({ length: d_v }, (_, d) => recomputeContext(head, i, d));
  const top = make("tr", {}, heading("dimension"), ...["c_i engine", "c_i here", "difference"].map((name) => heading(name, "col", "n")));
  const lines = here.map((value, d) => {
    const engine = at(head.context, i, d);
    return make("tr", { "data-dimension": d }, heading(String(d), "row"), number(engine, "context-engine"), number(value, "context-here"), number(value - exact(engine)));
  });
  const table = () => make("table", { class: "numbers", id: "step-context" }, make("thead", {}, top), make("tbody", {}, ...lines));
  const weights = row(head.weights, i);
  const parts = () => weights.map((weight, j) => row(head.v, j).map((value) => weight * value));
  const largest = weights.map((weight, j) => [weight, j]).sort((a, b) => b[0] - a[0]).slice(0, 3).filter(([weight]) => weight > 0);
  const terms = largest.map(([weight, j]) => `${show(weight)} v_${j}`).join(" + ");
  const more = weights.filter((weight) => weight > 0).length > 3 ? " + …" : "";
  const context = fold("context", `The context c_${i}, all ${d_v} numbers, engine and here`, table);
  context.open = true;
  return [
    make("h4", {}, "3. The context of ", makeWord(report.tokens[i]), ...math(`: c_${i}`)),
    make("p", { class: "worked" }, ...math(`c_${i} = ${terms || "0"}${more} = ${brief(here)}`)),
    context,
    fold("all-parts", `All products a_ij v_j: ${head.v.rows} × ${d_v} numbers and their sum`, () => matrixTable(report.tokens, parts(), here)),
  ];
}

// Rows of numbers under the numbers of their dimensions, with a row of sums where given.
function matrixTable(words, rows, sums) {
  const top = make("tr", {}, heading(""), ...rows[0].map((_, d) => heading(String(d), "col", "n")));
  const lines = rows.map((values, j) => {
    const name = heading("", "row");
    name.append(makeWord(words[j]));
    return make("tr", {}, name, ...values.map((value) => number(value)));
  });
  const foot = sums ? [make("tfoot", {}, make("tr", {}, heading("Σ", "row"), ...sums.map((value) => number(value))))] : [];
  return make("table", { class: "numbers" }, make("thead", {}, top), make("tbody", {}, ...lines), ...foot);
}

// A part that opens; its content is made when it first does, since it may be large.
function fold(id, title, content) {
  const box = make("div", { class: "scroll" });
  const details = make("details", { id }, make("summary", {}, ...math(title)), box);
  details.ontoggle = () => {
    if (details.open && !box.hasChildNodes()) box.append(content());
  };
  return details;
}

const brief = (vector) => `[${vector.slice(0, 3).map(show).join(", ")}${vector.length > 3 ? ", …" : ""}]`;
const preview = (vector) => make("td", { class: "muted", title: vector.join(", ") }, brief(vector));
