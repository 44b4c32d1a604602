// The formulas, computed again from the embedded numbers, in 64-bit arithmetic.

// The page holds each 32-bit float as its shortest decimal; fround gives the float itself.
// A missing number is a forbidden score, minus infinity.
const exact = (value) => (value === null ? -Infinity : Math.fround(value));

// Element (i, j) of a matrix as it is written in the page.
const at = (matrix, i, j) => matrix.data[i * matrix.cols + j];

function row(matrix, i) {
  return Array.from({ length: matrix.cols }, (_, j) => exact(at(matrix, i, j)));
}

const sum = (values) => values.reduce((total, value) => total + value, 0);

// A score is a sum of one term for each dimension, and a last step.
const SCORES = {
  dot: {
    columns: ["q", "k", "q × k"],
    term: (q, k) => q * k,
    finish: (total) => total,
    worked: (total) => `Σ q × k = ${show(total)}`,
  },
  "scaled-dot": {
    columns: ["q", "k", "q × k"],
    term: (q, k) => q * k,
    finish: (total, d) => total / Math.sqrt(d),
    worked: (total, d) => `Σ q × k / √d_k = ${show(total)} / √${d} = ${show(total)} / ${show(Math.sqrt(d))}`,
  },
  additive: {
    columns: ["q", "k", "v_a", "v_a × tanh(q + k)"],
    term: (q, k, v) => v * Math.tanh(q + k),
    finish: (total) => total,
    worked: (total) => `Σ v_a × tanh(q + k) = ${show(total)}`,
  },
};

// The score of a report's model, or undefined where this page does not know its formula.
function scoreKind(report, head) {
  const name = report.model.score.replaceAll("_", "-");
  if (name === "additive" && !head.v_a) return undefined;
  return SCORES[name];
}

// The terms of s_ij, one for each dimension.
function scoreTerms(kind, head, i, j) {
  const k = row(head.k, j);
  return row(head.q, i).map((q, d) => kind.term(q, k[d], head.v_a ? exact(head.v_a[d]) : 1));
}

function recomputeScore(kind, head, i, j) {
  return kind.finish(sum(scoreTerms(kind, head, i, j)), head.q.cols);
}

// exp(s_j - max) for each key, their sum, and the weights; all 0 where nothing is allowed.
function softmax(scores) {
  const max = Math.max(...scores);
  const exps = scores.map((score) => (max === -Infinity ? 0 : Math.exp(score - max)));
  const total = sum(exps);
  return { max, exps, total, weights: exps.map((value) => (total === 0 ? 0 : value / total)) };
}

// The sum over the keys of weight × value, for one dimension.
function recomputeContext(head, i, d) {
  return sum(row(head.weights, i).map((weight, j) => weight * exact(at(head.v, j, d))));
}

// Largest differences between a head's numbers and the formulas, each with the size of the terms
// that were added up: rounding grows with those, not with the sum.
function differences(kind, head) {
  const found = { scores: kind ? 0 : null, weights: 0, context: 0, size: 1 };
  const n = head.scores.rows;
  const queries = Array.from({ length: n }, (_, i) => row(head.q, i));
  const keys = Array.from({ length: n }, (_, j) => row(head.k, j));
  const v_a = head.v_a && head.v_a.map(exact);
  const d_k = head.q.cols;
  for (let i = 0; i < n; i++) {
    const scores = row(head.scores, i);
    const weights = row(head.weights, i);
    softmax(scores).weights.forEach((weight, j) => {
      found.weights = Math.max(found.weights, Math.abs(weight - weights[j]));
    });
    for (let j = 0; kind && j < n; j++) {
      if (scores[j] === -Infinity) continue;
      let total = 0;
      let size = 0;
      for (let d = 0; d < d_k; d++) {
        const term = kind.term(queries[i][d], keys[j][d], v_a ? v_a[d] : 1);
        total += term;
        size += Math.abs(term);
      }
      found.scores = Math.max(found.scores, Math.abs(kind.finish(total, d_k) - scores[j]));
      found.size = Math.max(found.size, kind.finish(size, d_k));
    }
    for (let d = 0; d < head.v.cols; d++) {
      const context = recomputeContext(head, i, d);
      found.context = Math.max(found.context, Math.abs(context - exact(at(head.context, i, d))));
    }
  }
  found.size = head.v.data.reduce((size, value) => Math.max(size, Math.abs(value)), found.size);
  return found;
}

// A number with four decimals and a true minus sign; small ones with an exponent.
function show(value) {
  if (value === null || value === -Infinity) return "−∞";
  const small = value !== 0 && Math.abs(value) < 0.00005;
  return (small ? value.toExponential(1) : value.toFixed(4)).replaceAll("-", "−");
}
