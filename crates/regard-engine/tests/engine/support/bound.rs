//! How far the engine may be from the reference, fixed before any test runs.
//!
//! Every number below is computed in f64 from the problem and is an upper bound, to first order, of what rounding
//! can do in any order of the sums; nothing is fitted. A rounding is off by ε/2 at most, with ε the distance from 1
//! to the next number (Higham, *Accuracy and Stability of Numerical Algorithms*, §2.2 and §3.1). Both sides round,
//! so that ε stands for the sum of the two precisions', `ε_T + ε_f64`. Where a count of roundings is not plain, the
//! text counts ε for each and not ε/2; that half pays for the products of two errors, which are left out.
//! Functions keep what `Real` promises: exp within 2 units in the last place, tanh and σ within 4, and a
//! unit is at most ε.
//!
//! Magnitudes: for a result Σ_l x_l y_l, |x|·|y| without the signs, Σ_l |x_l||y_l|. An error is denoted by e, a magnitude by a
//! capital letter.
//!
//! **Sums.** A term of a sum of n is rounded at most once when it is multiplied, n times when it is added, and, as
//! tiles of it are summed first and then added with a factor, twice more for each tile that holds a term: 3n roundings,
//! and 16 for what comes before and after. So a sum is off by Σ e_l + (1.5 n + 8) ε Σ X_l. [`Sums`] carries
//! n, Σ e_l and Σ X_l. Contexts are also rescaled when a larger score comes, at most n times, and go through
//! position's values: 3 n in place of 1.5 n.
//!
//! **Underflow.** exp of f32 gives 0 for what lies below the smallest normal number μ: every share that is an exp has an
//! error of 2μ beside. Each product may lose με/2, half of the smallest number: με more for every term of a
//! sum, and 4με for every weight and every ∂L/∂a, ∂L/∂p and ∂L/∂s, each of which is a product of few numbers.
//!
//! **Scores**: see [`score`]. **Positions**: see [`position`]. **Normalisers** and their derivatives: see
//! [`weighing`]. What follows from them for one query, with p_j the share of key j, w_j position's factor, f_j dropout's, r_j
//! position's value, g = ∂L/∂c:
//!
//! 1. weights: a_j = w_j p_j, e(a_j) = |w_j| e(p_j) + p_j e(w_j) + 2ε |a_j|.
//! 2. contexts: Σ_j f_j a_j (v_j + r_j), with e = f_j (e(a_j) + 2ε|a_j|)·|v_j| a term.
//! 3. D_j = (|v_j| + |r_j|)·|g|, and ∂L/∂a_j = f_j (v_j + r_j)·g + looks: magnitude A_j = f_j D_j + |looks|, error
//!    f_j (d_v + 6) ε D_j + 4ε A_j.
//! 4. ∂L/∂p_j = w_j ∂L/∂a_j − h (ln p_j + 1), h = ∂L/∂entropy: magnitude B_j = |w_j| A_j + |h|(|ln p_j| + 1), error
//!    |w_j| e(A_j) + e(w_j) A_j + 2ε B_j + |h|(e(ln p_j) + 3ε(|ln p_j| + 1)).
//! 5. ∂L/∂s_j from that by the normaliser.
//! 6. gradients: sums of ∂L/∂s_j times the slopes of score and bias, of f_j a_j times g, of p_j ∂L/∂a_j times the slopes of
//!    w_j: a product x y has the error |x| e(y) + e(x)(|y| + e(y)).
//! 7. The turn by position: a pair (x, y) turned by an angle has errors of e(x) + e(y) + 4ε(|x| + |y|).
//!
//! **Jumps.** Some results are no continuous functions: the choice of `hard` and `sampled`, the slope of a LeakyReLU at 0,
//! of the distance at 0, the support of sparsemax in its derivative. Where the reference is nearer to such a place
//! than the error there, the height of the jump is added, and the row is counted as ambiguous. The net holds
//! that such rows are rare.

mod position;
mod score;
mod weighing;

use regard_attn::{At, Call};
use regard_tensor::Real;

use super::{Problem, at as row_at};
use score::{Side, Slopes};
use weighing::Row;

/// Allowed differences, laid out as the results, and what goes with them.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) context: Vec<f64>,
    pub(crate) lse: Vec<f64>,
    pub(crate) weights: Vec<f64>,
    pub(crate) dq: Vec<f64>,
    pub(crate) dk: Vec<f64>,
    pub(crate) dv: Vec<f64>,
    pub(crate) dscore_params: Vec<f64>,
    pub(crate) dposition_params: Vec<f64>,
    pub(crate) key_sums: Vec<f64>,
    pub(crate) entropy: Vec<f64>,
    pub(crate) log_prob: Vec<f64>,
    pub(crate) distances: Vec<f64>,
    /// Of the weights as they are computed again for summaries.
    pub(crate) weights_again: Vec<f64>,
    /// For each row, the keys that may be chosen.
    pub(crate) candidates: Vec<Vec<usize>>,
    /// Rows with an allowed key, and how many of them are near a jump.
    pub(crate) rows: usize,
    pub(crate) ambiguous: usize,
}

/// The precision of the engine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Precision {
    /// ε of it and of the reference.
    epsilon: f64,
    /// μ, the smallest normal number.
    smallest: f64,
    /// ε of it alone.
    own: f64,
}

impl Precision {
    pub(crate) fn of<T: Real>() -> Self {
        let own = T::EPSILON.to_f64();
        let smallest =
            if T::DTYPE == "F32" { f64::from(f32::MIN_POSITIVE) } else { f64::MIN_POSITIVE };
        Self { epsilon: own + f64::EPSILON, smallest, own }
    }
}

/// Sums of terms: what they may be off by, what they amount to, how many there are.
#[derive(Debug)]
struct Sums {
    errors: Vec<f64>,
    magnitudes: Vec<f64>,
    terms: Vec<f64>,
}

impl Sums {
    fn new(len: usize) -> Self {
        Self { errors: vec![0.0; len], magnitudes: vec![0.0; len], terms: vec![0.0; len] }
    }

    #[inline]
    fn add(&mut self, n: usize, magnitude: f64, error: f64) {
        self.magnitudes[n] += magnitude;
        self.errors[n] += error;
        self.terms[n] += 1.0;
    }

    /// x·y, where the magnitude and the error of both are known.
    #[inline]
    fn add_product(&mut self, n: usize, x: (f64, f64), y: (f64, f64)) {
        self.add(n, x.0 * y.0, x.0 * y.1 + x.1 * (y.0 + y.1));
    }

    /// The bound, with so many roundings (of ε/2) a term, in pairs.
    fn finish(&self, precision: Precision, of_term: f64) -> Vec<f64> {
        let Precision { epsilon, smallest, own } = precision;
        let bound = |n: usize| {
            let terms = self.terms[n];
            let rounding = (of_term * terms + 8.0) * epsilon * self.magnitudes[n];
            if terms == 0.0 { 0.0 } else { self.errors[n] + rounding + terms * smallest * own }
        };
        (0..self.errors.len()).map(bound).collect()
    }
}

/// Rounded terms of a plain sum, and of a context, in pairs.
const SUM: f64 = 1.5;
const CONTEXT: f64 = 3.0;

/// The sums of a problem.
struct All<'a> {
    problem: &'a Problem,
    precision: Precision,
    context: Sums,
    dq: Sums,
    dk: Sums,
    dv: Sums,
    score_params: Sums,
    position_params: Sums,
    key_sums: Sums,
    distances: Sums,
    out: Bounds,
}

/// The allowed differences of `problem` in this precision.
pub(crate) fn bounds(problem: &Problem, precision: Precision) -> Bounds {
    problem.with_call::<f64, _>(|call| {
        let d = call.dims;
        let (q_rows, kv_rows) = (call.q_rows(), call.kv_rows());
        let rows = d.n_heads * call.n_queries();
        let when = |wanted: bool, len: usize| if wanted { len } else { 0 };
        let wanted = problem.wanted;
        let out = Bounds {
            context: Vec::new(),
            lse: vec![0.0; rows],
            weights: vec![0.0; problem.n_weights()],
            dq: Vec::new(),
            dk: Vec::new(),
            dv: Vec::new(),
            dscore_params: Vec::new(),
            dposition_params: Vec::new(),
            key_sums: Vec::new(),
            entropy: vec![0.0; when(wanted.entropy, rows)],
            log_prob: vec![0.0; when(wanted.choices, rows)],
            distances: Vec::new(),
            weights_again: vec![0.0; problem.n_weights()],
            candidates: vec![Vec::new(); when(wanted.choices, rows)],
            rows: 0,
            ambiguous: 0,
        };
        let mut all = All {
            problem,
            precision,
            context: Sums::new(q_rows * d.n_heads * d.d_v),
            dq: Sums::new(q_rows * d.n_heads * d.d_k),
            dk: Sums::new(kv_rows * d.n_kv_heads * d.d_k),
            dv: Sums::new(kv_rows * d.n_kv_heads * d.d_v),
            score_params: Sums::new(problem.score_params.len()),
            position_params: Sums::new(problem.position_params.len()),
            key_sums: Sums::new(when(wanted.key_sums, d.n_heads * call.n_keys())),
            distances: Sums::new(d.n_heads * wanted.distances.map_or(0, |radius| 2 * radius + 1)),
            out,
        };
        for item in 0..call.items.len() {
            all.item(call, item);
        }
        all.finish(call)
    })
}

/// Turned rows `[rows, heads, d_k]` of an item and the errors of that.
struct Turned {
    rows: Vec<f64>,
    errors: Vec<f64>,
    heads: usize,
    d_k: usize,
}

impl Turned {
    fn side(&self, row: usize, head: usize) -> Side<'_> {
        let range = row_at(row, head, self.heads, self.d_k);
        Side { x: &self.rows[range.clone()], error: &self.errors[range] }
    }
}

impl All<'_> {
    fn turned<'r>(
        &self,
        call: &Call<'_, f64>,
        row: impl Fn(usize, usize) -> &'r [f64],
        first: usize,
        (len, heads): (usize, usize),
    ) -> Turned {
        let d_k = call.dims.d_k;
        let (mut rows, mut errors) = (Vec::new(), Vec::new());
        for i in 0..len {
            for head in 0..heads {
                let start = rows.len();
                rows.extend_from_slice(row(i, head));
                errors.extend(std::iter::repeat_n(0.0, d_k));
                let (mut x, mut e) = (rows[start..].to_vec(), vec![0.0; d_k]);
                for x in &mut x {
                    *x = x.abs();
                }
                position::turn(self.problem, &mut x, &mut e, self.precision.epsilon, true);
                errors[start..].copy_from_slice(&e);
                if call.position.turns() {
                    call.position.turn(first + i, &mut rows[start..]);
                }
            }
        }
        Turned { rows, errors, heads, d_k }
    }

    fn item(&mut self, call: &Call<'_, f64>, index: usize) {
        let (problem, item, d) = (self.problem, call.items[index], call.dims);
        let query = |i: usize, head| &problem.q[row_at(item.q_start + i, head, d.n_heads, d.d_k)];
        let key = |j: usize, head| {
            if call.score.has_own_keys() {
                call.score.own_key(head, j)
            } else {
                &problem.k[row_at(item.kv_start + j, head, d.n_kv_heads, d.d_k)]
            }
        };
        let q = self.turned(call, query, item.q_offset, (item.q_len, d.n_heads));
        let k = self.turned(call, key, 0, (item.kv_len, d.n_kv_heads));
        let mut dk = Sums::new(k.rows.len());
        for head in 0..d.n_heads {
            for i in 0..item.q_len {
                self.query(call, call.at(index, head), i, &q, &k, &mut dk);
            }
        }
        // The keys' gradients are turned back and go to the caller's keys or to the score's own.
        let (mut errors, mut magnitudes) = (dk.finish(self.precision, SUM), dk.magnitudes.clone());
        for (errors, magnitudes) in
            errors.chunks_exact_mut(d.d_k).zip(magnitudes.chunks_exact_mut(d.d_k))
        {
            position::turn(problem, magnitudes, errors, self.precision.epsilon, false);
        }
        for n in 0..errors.len() {
            let (row, x) = (n / d.d_k, n % d.d_k);
            let (j, kv_head) = (row / d.n_kv_heads, row % d.n_kv_heads);
            if dk.terms[n] == 0.0 && !call.position.turns() {
                continue;
            }
            if call.score.has_own_keys() {
                let place = score::own_key(problem, kv_head, j) + x;
                self.score_params.add(place, magnitudes[n], errors[n]);
            } else {
                let place = row_at(item.kv_start + j, kv_head, d.n_kv_heads, d.d_k).start + x;
                self.dk.add(place, magnitudes[n], errors[n]);
            }
        }
    }

    /// Adds what one query allows to differ.
    fn query(
        &mut self,
        call: &Call<'_, f64>,
        at: At,
        i: usize,
        q: &Turned,
        k: &Turned,
        dk: &mut Sums,
    ) {
        let (d, item, problem) = (call.dims, call.items[at.item], self.problem);
        let (head, kv_head, n_queries) = (at.head, d.kv_head(at.head), call.n_queries());
        let seen: Vec<usize> = (0..item.kv_len).filter(|j| call.scope.allows(at, i, *j)).collect();
        if seen.is_empty() {
            // lse = −∞ and zeros, exactly.
            return;
        }
        let epsilon = self.precision.epsilon;
        self.out.rows += 1;

        // Scores and what position adds.
        let query = q.side(i, head);
        let mut row = Row::default();
        let mut slopes: Vec<Slopes> = Vec::with_capacity(seen.len());
        let mut of_position = Vec::with_capacity(seen.len());
        let mut ambiguous = false;
        for &j in &seen {
            let key = k.side(j, kv_head);
            let slope = score::slopes(problem, head, query, key, epsilon);
            let position = position::of_pair(call, problem, at, (i, j), query, epsilon);
            let s = call.score.pair(head, query.x, key.x);
            assert!(
                (s - slope.s).abs() <= 1e-9 * (1.0 + slope.magnitude),
                "{problem}: the formula"
            );
            ambiguous |= slope.jumps;
            row.keys.push(j);
            row.scores.push(s + position.bias);
            row.magnitudes.push(slope.magnitude + position.bias_magnitude);
            let rounding = 2.0 * epsilon * (s.abs() + position.bias_magnitude);
            let add = if call.position.biases() { position.bias_error + rounding } else { 0.0 };
            row.errors.push(slope.error + add);
            slopes.push(slope);
            of_position.push(position);
        }

        // Shares, then weights.
        let place = regard_attn::RowAt { item: at.item, head, query: i };
        let shares = weighing::shares(problem, call, place, &row, self.precision);
        ambiguous |= shares.ambiguous;
        let offsets = (call.query_offsets()[at.item], call.key_offsets()[at.item]);
        let at_row = head * n_queries + offsets.0 + i;
        self.out.lse[at_row] = shares.lse_error;
        let first = call.weight_offsets()[at.item] + (head * item.q_len + i) * item.kv_len;
        let q_row = row_at(item.q_start + i, head, d.n_heads, d.d_v);
        let dc = &problem.d_context[q_row.clone()];
        let stream = call.dropout.map(|dropout| (dropout, dropout.row(at.item, head, i)));
        let look = |array: &Option<Vec<f64>>, n: usize| array.as_ref().map_or(0.0, |d| d[n]);
        let (d_entropy, d_log_prob) =
            (look(&problem.looks.entropy, at_row), look(&problem.looks.log_prob, at_row));
        // ∂L/∂p_j, its magnitude and its error.
        let mut upstream = weighing::Upstream::default();
        for (n, &j) in seen.iter().enumerate() {
            let (of, w) = (&of_position[n], of_position[n].factor);
            let p = shares.p[n];
            let size = p.abs();
            let lost = 4.0 * self.precision.smallest * self.precision.own;
            let error = |e: f64| {
                w.abs() * e + of.factor_error * (size + e) + 2.0 * epsilon * (w * p).abs() + lost
            };
            let (forward, again) = (error(shares.error[n]), error(shares.error_again[n]));
            let worst = forward.max(again);
            let a = (w * p).abs();
            self.out.weights[first + j] = forward;
            self.out.weights_again[first + j] = again;
            if problem.wanted.key_sums {
                self.key_sums.add(head * call.n_keys() + offsets.1 + j, a, again);
            }
            if let Some(radius) = problem.wanted.distances {
                let bin = regard_attn::summary::distance_bin(item.q_offset + i, j, radius);
                self.distances.add(head * (2 * radius + 1) + bin, a, again);
            }
            // The context and the values' gradients.
            let f: f64 = stream.map_or(1.0, |(dropout, row)| dropout.factor(row, j));
            let kept = f * a;
            let kept_error = |e: f64| f * (e + 2.0 * epsilon * a);
            let v_row = row_at(item.kv_start + j, kv_head, d.n_kv_heads, d.d_v);
            let v = &problem.v[v_row.clone()];
            let mut dot = 0.0;
            let mut dot_magnitude = 0.0;
            for x in 0..d.d_v {
                let value = v[x].abs() + of.values.get(x).copied().unwrap_or(0.0);
                self.context.add(q_row.start + x, kept * value, kept_error(forward) * value);
                self.dv.add(v_row.start + x, kept * dc[x].abs(), kept_error(worst) * dc[x].abs());
                dot_magnitude += value * dc[x].abs();
                dot += v[x] * dc[x];
            }
            for (table, x_of) in &of.value_params {
                for x in 0..d.d_v {
                    let g = dc[x].abs();
                    self.position_params.add(
                        table + x,
                        kept * g * x_of,
                        kept_error(worst) * g * x_of,
                    );
                }
            }
            if call.position.has_values() {
                dot += call.position.value_dot(at, i, j, dc);
            }
            // ∂L/∂a_j
            let looks = [
                look(&problem.looks.weights, first + j),
                look(&problem.looks.key_sums, head * call.n_keys() + offsets.1 + j),
            ];
            let da = f * dot + looks[0] + looks[1];
            let da_magnitude = f * dot_magnitude + looks[0].abs() + looks[1].abs();
            let da_error = f * (d.d_v as f64 + 6.0) * epsilon * dot_magnitude
                + 4.0 * epsilon * da_magnitude
                + lost;
            let share_error = shares.error[n].max(shares.error_again[n]);
            for &(param, slope, error) in &of.factor_params {
                let g = (
                    size * da_magnitude,
                    size * da_error + share_error * (da_magnitude + da_error),
                );
                self.position_params.add_product(param, g, (slope, error));
            }
            // ∂L/∂p_j
            let mut dp = w * da;
            let mut magnitude = w.abs() * da_magnitude;
            let mut error = w.abs() * da_error + of.factor_error * (da_magnitude + da_error);
            if d_entropy != 0.0 && p > 0.0 && !problem.normaliser.picks() {
                let ln = shares.ln[n];
                dp -= d_entropy * (ln + 1.0);
                magnitude += d_entropy.abs() * (ln.abs() + 1.0);
                let off = shares.ln_error[n] + 3.0 * epsilon * (ln.abs() + 1.0);
                error += d_entropy.abs() * off;
            }
            error += 2.0 * epsilon * magnitude + lost;
            upstream.push(dp, magnitude, error);
        }
        upstream.d_entropy = d_entropy;
        upstream.d_log_prob = d_log_prob;
        upstream.d_v = d.d_v;
        if problem.wanted.entropy {
            self.out.entropy[at_row] = shares.entropy_error;
        }
        if problem.wanted.choices {
            self.out.log_prob[at_row] = shares.log_prob_error;
            self.out.candidates[at_row].clone_from(&shares.candidates);
        }

        // ∂L/∂s_j and what follows.
        let ds = weighing::slopes(problem, call, &shares, &upstream, self.precision);
        ambiguous |= ds.ambiguous;
        self.out.ambiguous += usize::from(ambiguous);
        let q_row = row_at(item.q_start + i, head, d.n_heads, d.d_k).start;
        for (n, &j) in seen.iter().enumerate() {
            let (of, slope) = (&of_position[n], &slopes[n]);
            let mut g = (ds.slopes[n].abs(), ds.errors[n]);
            if g == (0.0, 0.0) {
                continue;
            }
            g.1 += 4.0 * self.precision.smallest * self.precision.own;
            let key = row_at(j, kv_head, d.n_kv_heads, d.d_k).start;
            for x in 0..d.d_k {
                self.dq.add_product(q_row + x, g, slope.by_q[x]);
                dk.add_product(key + x, g, slope.by_k[x]);
            }
            for (x, by_q) in of.bias_by_q.iter().enumerate() {
                self.dq.add_product(q_row + x, g, *by_q);
            }
            for &(param, slope, error) in &slope.params {
                self.score_params.add_product(param, g, (slope, error));
            }
            for &(param, slope, error) in &of.bias_params {
                self.position_params.add_product(param, g, (slope, error));
            }
        }
    }

    fn finish(mut self, call: &Call<'_, f64>) -> Bounds {
        let (d, precision) = (call.dims, self.precision);
        let mut out = self.out;
        out.context = self.context.finish(precision, CONTEXT);
        out.dq = self.dq.finish(precision, SUM);
        for (errors, magnitudes) in
            out.dq.chunks_exact_mut(d.d_k).zip(self.dq.magnitudes.chunks_exact_mut(d.d_k))
        {
            position::turn(self.problem, magnitudes, errors, precision.epsilon, false);
        }
        // Each key of an item is one term, of which the roundings are counted.
        out.dk = self.dk.errors;
        out.dv = self.dv.finish(precision, SUM);
        out.dscore_params = self.score_params.finish(precision, SUM);
        out.dposition_params = self.position_params.finish(precision, SUM);
        out.key_sums = self.key_sums.finish(precision, SUM);
        out.distances = self.distances.finish(precision, SUM);
        let n_queries = call.n_queries().max(1) as f64;
        for (bound, magnitude) in out.distances.iter_mut().zip(&self.distances.magnitudes) {
            *bound = (*bound + 2.0 * precision.epsilon * magnitude) / n_queries;
        }
        out
    }
}

impl Bounds {
    /// In the order of [`Outcome::arrays`](super::Outcome::arrays).
    pub(crate) fn arrays(&self) -> [&[f64]; 12] {
        [
            &self.context,
            &self.lse,
            &self.weights,
            &self.dq,
            &self.dk,
            &self.dv,
            &self.dscore_params,
            &self.dposition_params,
            &self.key_sums,
            &self.entropy,
            &self.log_prob,
            &self.distances,
        ]
    }
}
