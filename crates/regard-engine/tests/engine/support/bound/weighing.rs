//! Normalisers: how far shares may be off, and the derivative by the scores.
//!
//! With S_j the magnitude of a score and e_j its error:
//!
//! **Softmax** of z = t·s (t = 1/τ). The error of z_j − top, where the computed top is taken off on both sides of the quotient, is
//! d_j = t e_j + 3ε t S_j + 3ε|z_j − top|: the factor, and the subtraction once for the weight and once for a rescaling, which
//! passes from one top to another below the final one. The log-sum-exp is off by at most
//! λ = ln Σ_j p_j e^{d_j} + ε(n + 4m + 8 + |lse|), with n terms in m tiles, each tile rescaling (two units of exp,
//! a product, a sum) what came before. A share is exp(z_j − lse), so its relative error is
//! e^{δ_j} − 1, δ_j = d_j + λ + ε(2|ln p_j| + 8). Forward divides by its own sum, so a share is off by no more than all
//! others may weigh, Σ_{l≠j} p_l e^{δ_l}, or 1, and ε(n + 4m + 10); backward does not, and may be off by more.
//!
//! **Sparsemax and entmax-1.5** of z = s or s/2. τ moves by no more than the largest error among keys that may get a weight, E, and by
//! rounding: with the n sorted z in [−1, 0], a running sum or mean is off by ε(n/4 + 2); for entmax the sum of squared deviations
//! S has n + n^{3/2} more roundings, which move τ by their half over 2 Σ√a (τ = M − √((1 − S)/n), and n√((1 − S)/n) = Σ√a).
//! So z_j − τ is off by r_j = e_j + E + 2ε + that (halves of e_j and E for entmax); shares by r_j, or 2√a_j r_j + r_j² + 2ε a_j.
//! A key with z_j − τ < −r_j has the weight 0 on both sides.
//!
//! **Sigmoid**: min(a, 1 − a)(e^{e_j} − 1) + 6ε a. **Identity**: e_j. **Pick**: 0, but where noisy scores s_j + g_j lie within their errors,
//! e_j + 2ε(|s_j| + |g_j|), of the largest one, each of those keys may have the weight 1 or 0.
//!
//! Derivatives, from magnitudes B_j and errors e(B_j) of ∂L/∂p_j, M = Σ p_l B_l:
//!
//! ```text
//! softmax      ∂L/∂s_j = t p_j (∂L/∂p_j − Σ p_l ∂L/∂p_l)
//!              error     t [e(p_j)(B_j + M) + p_j(e(B_j) + e(M)) + 5ε p_j (B_j + M)]
//! sparsemax    ∂L/∂p_j − mean over the support      e(B_j) + mean e(B) + (n + 4) ε (B_j + mean B)
//! entmax       √a_j (∂L/∂p_j − Σ√a ∂L/∂p / Σ√a)     as the softmax, with √a and r_j for p_j and e(p_j)
//! sigmoid      a_j(1 − a_j) ∂L/∂a_j                 e(a_j) B_j + a_j(1 − a_j) e(B_j) + 5ε a_j B_j
//! pick         l([j = c] − π_j) − h π_j(ln π_j + H)  |l| e(π_j) + |h|[e(π_j)(|ln π_j| + H) + π_j(e(ln π_j) + e(H))] + roundings
//! ```
//!
//! e(M) = Σ (e(p_l) B_l + p_l e(B_l)) + (2n + d_v + 8) ε M, which covers the sum by keys as well as c·∂L/∂c.
//! Sparsemax's derivative jumps where a key enters the support: that key's by B_j + max B, all others' by its share of the mean.

use regard_attn::normaliser::gumbel;
use regard_attn::{Call, RowAt, call::row_stream};

use super::super::Problem;
use super::super::parts::{NormaliserKind, SHIFT};
use super::Precision;

/// The scores of a query at its allowed keys, with position's bias.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) keys: Vec<usize>,
    pub(super) scores: Vec<f64>,
    pub(super) magnitudes: Vec<f64>,
    pub(super) errors: Vec<f64>,
}

/// The shares of a row, and how far they may be off.
#[derive(Debug, Default)]
pub(super) struct Shares {
    pub(super) p: Vec<f64>,
    /// As forward computes them, and as they are computed again.
    pub(super) error: Vec<f64>,
    pub(super) error_again: Vec<f64>,
    /// ln p_j and its error; of the softmax where a key is chosen.
    pub(super) ln: Vec<f64>,
    pub(super) ln_error: Vec<f64>,
    pub(super) lse_error: f64,
    pub(super) entropy: f64,
    pub(super) entropy_error: f64,
    pub(super) log_prob_error: f64,
    /// Keys that may be chosen.
    pub(super) candidates: Vec<usize>,
    /// For sparsemax and entmax: the errors r_j.
    margins: Vec<f64>,
    /// For sparsemax: keys that may or may not belong to the support.
    unsure: Vec<bool>,
    pub(super) ambiguous: bool,
}

/// The softmax of a row.
#[derive(Debug)]
struct Soft {
    ln: Vec<f64>,
    delta: Vec<f64>,
    lse: f64,
    lse_error: f64,
}

/// exp of what may be too large for a number.
fn exp(x: f64) -> f64 {
    x.min(300.0).exp()
}

/// p(e^δ − 1), where p = e^ln may be too small for a number.
fn relative(ln: f64, delta: f64) -> f64 {
    if delta < 1.0 { ln.exp() * delta.exp_m1() } else { exp(ln + delta) }
}

fn soft(row: &Row, t: f64, tiles: f64, epsilon: f64) -> Soft {
    let n = row.scores.len();
    let z: Vec<f64> = row.scores.iter().map(|s| t * s).collect();
    let top = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let lse = top + z.iter().map(|z| (z - top).exp()).sum::<f64>().ln();
    let ln: Vec<f64> = z.iter().map(|z| z - lse).collect();
    let d =
        |j: usize| t * row.errors[j] + 3.0 * epsilon * (t * row.magnitudes[j] + (z[j] - top).abs());
    let seen = |j: &usize| z[*j] != f64::NEG_INFINITY;
    // ln Σ p e^d, without overflow.
    let largest = (0..n).filter(seen).map(|j| ln[j] + d(j)).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = (0..n).filter(seen).map(|j| (ln[j] + d(j) - largest).exp()).sum();
    let moved = (largest + total.ln()).max(0.0);
    let lse_error = moved + epsilon * (n as f64 + 4.0 * tiles + 8.0 + lse.abs());
    let delta = |j: usize| {
        if seen(&j) { d(j) + lse_error + epsilon * (2.0 * ln[j].abs() + 8.0) } else { 0.0 }
    };
    let delta = (0..n).map(delta).collect();
    Soft { ln, delta, lse, lse_error }
}

/// How far −p ln p may be off.
fn off_p_ln_p(p: f64, error: f64) -> f64 {
    if error < 0.5 * p {
        return error * (p.ln().abs() + 2.0);
    }
    let most = (p + error).min(1.0);
    if most < 0.36 { most * most.ln().abs() } else { 0.37 + (most - 1.0).max(0.0) }
}

/// Sets the entropy and its error, of shares p.
fn entropy(out: &mut Shares, p: &[f64], error: &[f64], epsilon: f64) {
    let (mut sum, mut off) = (0.0, 0.0);
    for (p, e) in p.iter().zip(error) {
        let term = if *p > 0.0 { (p * p.ln()).abs() } else { 0.0 };
        sum += term;
        if *e > 0.0 {
            off += off_p_ln_p(*p, *e);
        }
    }
    out.entropy = sum;
    out.entropy_error = off + (1.5 * p.len() as f64 + 10.0) * epsilon * sum;
}

pub(super) fn shares(
    problem: &Problem,
    call: &Call<'_, f64>,
    at: RowAt,
    row: &Row,
    precision: Precision,
) -> Shares {
    let n = row.scores.len();
    let epsilon = precision.epsilon;
    let mut out = Shares {
        p: vec![0.0; n],
        error: vec![0.0; n],
        error_again: vec![0.0; n],
        ln: vec![0.0; n],
        ln_error: vec![0.0; n],
        margins: vec![0.0; n],
        unsure: vec![false; n],
        ..Shares::default()
    };
    if row.scores.iter().all(|s| *s == f64::NEG_INFINITY) {
        // The bias forbids all.
        return out;
    }
    let kv_len = problem.items[at.item].kv_len;
    let mut full = vec![f64::NEG_INFINITY; kv_len];
    for (key, s) in row.keys.iter().zip(&row.scores) {
        full[*key] = *s;
    }
    call.normaliser.row_at(at, &mut full);
    for (p, key) in out.p.iter_mut().zip(&row.keys) {
        *p = full[*key];
    }
    let seen = |j: &usize| row.scores[*j] != f64::NEG_INFINITY;
    let tiles = (n as f64).min(kv_len as f64 / 64.0 + 2.0);
    match problem.normaliser {
        NormaliserKind::Softmax | NormaliserKind::WholeSoftmax => {
            let by_rows = problem.normaliser == NormaliserKind::WholeSoftmax;
            softmax(&mut out, row, 1.0, tiles, by_rows, precision);
        }
        NormaliserKind::Temperature(tau) => {
            let by_rows = !(1e-6..=1e6).contains(&tau);
            softmax(&mut out, row, 1.0 / tau, tiles, by_rows, precision);
        }
        NormaliserKind::Sparsemax => sparse(&mut out, row, 1.0, precision),
        NormaliserKind::Entmax15 => sparse(&mut out, row, 0.5, precision),
        NormaliserKind::Sigmoid => {
            for j in (0..n).filter(seen) {
                let p = out.p[j];
                let moved = p.min(1.0 - p) * row.errors[j].min(300.0).exp_m1();
                out.error[j] = moved.min(1.0) + 6.0 * epsilon * p + 2.0 * precision.smallest;
            }
        }
        NormaliserKind::Identity => {
            for j in (0..n).filter(seen) {
                out.error[j] = row.errors[j];
            }
        }
        NormaliserKind::Quarter => {
            for j in (0..n).filter(seen) {
                let size = row.scores[j].abs() / 4.0 + SHIFT;
                out.error[j] = row.errors[j] / 4.0 + 2.0 * epsilon * size;
            }
        }
        NormaliserKind::Hard | NormaliserKind::Sampled(_) => {
            pick(&mut out, problem, at, row, tiles, precision);
        }
    }
    if problem.normaliser.sums_to_one() && !problem.normaliser.picks() {
        let worst: Vec<f64> =
            out.error.iter().zip(&out.error_again).map(|(a, b)| a.max(*b)).collect();
        let p = std::mem::take(&mut out.p);
        entropy(&mut out, &p, &worst, epsilon);
        out.p = p;
    }
    if !matches!(
        problem.normaliser,
        NormaliserKind::Softmax | NormaliserKind::Temperature(_) | NormaliserKind::WholeSoftmax
    ) {
        out.error_again.clone_from(&out.error);
    }
    out
}

fn softmax(out: &mut Shares, row: &Row, t: f64, tiles: f64, by_rows: bool, precision: Precision) {
    let (epsilon, n) = (precision.epsilon, row.scores.len());
    let Soft { ln, delta, lse_error, .. } = soft(row, t, tiles, epsilon);
    let most: Vec<f64> = ln.iter().zip(&delta).map(|(ln, delta)| exp(ln + delta)).collect();
    let all: f64 = most.iter().sum();
    for j in 0..n {
        if row.scores[j] == f64::NEG_INFINITY {
            continue;
        }
        let again = relative(ln[j], delta[j]);
        // The others, without the cancellation of all − most_j.
        let others = if most[j] > 0.5 * all {
            most.iter().enumerate().filter(|(l, _)| *l != j).map(|(_, most)| most).sum()
        } else {
            all - most[j]
        };
        let of_sum = epsilon * (n as f64 + 4.0 * tiles + 10.0);
        out.error[j] = again.min(others.min(1.0) + of_sum) + 2.0 * precision.smallest;
        out.error_again[j] = if by_rows { out.error[j] } else { again + 2.0 * precision.smallest };
        out.ambiguous |= out.error[j] > 0.25;
    }
    out.ln = ln;
    out.ln_error = delta;
    out.lse_error = lse_error;
}

/// Sparsemax (`half` = 1) and entmax-1.5 (`half` = 1/2).
fn sparse(out: &mut Shares, row: &Row, half: f64, precision: Precision) {
    let (epsilon, n) = (precision.epsilon, row.scores.len());
    let is_entmax = half < 1.0;
    let root = |p: f64| if is_entmax { p.sqrt() } else { p };
    let top = row.scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let z: Vec<f64> = row.scores.iter().map(|s| half * (s - top)).collect();
    // τ, from the largest weight, that of the largest z = 0.
    let largest = out.p.iter().copied().fold(0.0, f64::max);
    let tau = -root(largest);
    let support = out.p.iter().filter(|p| **p > 0.0).count() as f64;
    let roots: f64 = out.p.iter().map(|p| root(*p)).sum();
    let rounding = |n: f64| {
        let of_squares = if is_entmax { (n + n * n.sqrt()) / (4.0 * roots) } else { 0.0 };
        epsilon * (n / 4.0 + 4.0 + of_squares)
    };
    let seen = |j: &usize| row.scores[*j] != f64::NEG_INFINITY;
    let of_keys = |keys: &[usize]| keys.iter().map(|j| half * row.errors[*j]).fold(0.0, f64::max);
    let near = |most: f64, rounding: f64| -> Vec<usize> {
        let reach = |j: &usize| half * row.errors[*j] + most + rounding;
        (0..n).filter(seen).filter(|j| z[*j] - tau >= -reach(j)).collect()
    };
    // First with the largest error of all, then with that of keys that may count.
    let all: Vec<usize> = (0..n).filter(seen).collect();
    let first = near(of_keys(&all), rounding(support));
    let count = first.len() as f64;
    let most = of_keys(&first);
    for &j in &near(most, rounding(count)) {
        let r = half * row.errors[j] + most + rounding(count) + epsilon * z[j].abs();
        let p = out.p[j];
        out.margins[j] = r;
        out.error[j] = if is_entmax { 2.0 * p.sqrt() * r + r * r + 2.0 * epsilon * p } else { r };
        out.unsure[j] = (z[j] - tau).abs() <= r;
        out.ambiguous |= !is_entmax && out.unsure[j];
    }
    // The smallest weight above 0 is a difference of numbers up to 1.
    let lowest = 2.0 * precision.own.ln().abs() + 10.0;
    for j in 0..n {
        let (p, e) = (out.p[j], out.error[j]);
        if p > 0.0 {
            out.ln[j] = p.ln();
            out.ln_error[j] = if e < 0.5 * p { 2.0 * e / p } else { lowest };
        }
    }
}

fn pick(
    out: &mut Shares,
    problem: &Problem,
    at: RowAt,
    row: &Row,
    tiles: f64,
    precision: Precision,
) {
    let (epsilon, n) = (precision.epsilon, row.scores.len());
    let stream = match problem.normaliser {
        NormaliserKind::Sampled(key) => Some(row_stream(key, at)),
        _ => None,
    };
    let noise = |j: usize| stream.map_or(0.0, |stream| gumbel(stream, row.keys[j]));
    let noisy: Vec<f64> = (0..n).map(|j| row.scores[j] + noise(j)).collect();
    let off = |j: usize| {
        let rounded = stream.map_or(0.0, |_| row.scores[j].abs() + noise(j).abs());
        row.errors[j] + 2.0 * epsilon * rounded
    };
    let chosen = out.p.iter().position(|p| *p == 1.0).expect("a row with an allowed key");
    let least = noisy[chosen] - off(chosen);
    let may: Vec<usize> = (0..n).filter(|j| noisy[*j] + off(*j) >= least).collect();
    if may.len() > 1 {
        out.ambiguous = true;
        for j in &may {
            out.error[*j] = 1.0;
        }
    }
    let Soft { ln, delta, lse, lse_error } = soft(row, 1.0, tiles, epsilon);
    let of = |j: usize| {
        let moved = (row.scores[j] - row.scores[chosen]).abs();
        row.errors[j] + lse_error + 2.0 * epsilon * (row.scores[j].abs() + lse.abs()) + moved
    };
    out.log_prob_error = may.iter().map(|j| of(*j)).fold(0.0, f64::max);
    out.candidates = may.iter().map(|j| row.keys[*j]).collect();
    out.lse_error = lse_error;
    let p: Vec<f64> = ln.iter().map(|ln| ln.exp()).collect();
    let error: Vec<f64> = pi_errors(&ln, &delta, precision);
    entropy(out, &p, &error, epsilon);
    (out.ln, out.ln_error) = (ln, delta);
}

/// e(π_j) of the softmax that a key is chosen from.
fn pi_errors(ln: &[f64], delta: &[f64], precision: Precision) -> Vec<f64> {
    let error = |(ln, delta): (&f64, &f64)| {
        if *ln == f64::NEG_INFINITY {
            0.0
        } else {
            relative(*ln, *delta) + 2.0 * precision.smallest
        }
    };
    ln.iter().zip(delta).map(error).collect()
}

/// ∂L/∂p_j, and what else the loss looks at.
#[derive(Debug, Default)]
pub(super) struct Upstream {
    slopes: Vec<f64>,
    magnitudes: Vec<f64>,
    errors: Vec<f64>,
    pub(super) d_entropy: f64,
    pub(super) d_log_prob: f64,
    pub(super) d_v: usize,
}

impl Upstream {
    pub(super) fn push(&mut self, slope: f64, magnitude: f64, error: f64) {
        self.slopes.push(slope);
        self.magnitudes.push(magnitude);
        self.errors.push(error);
    }
}

/// ∂L/∂s_j and how far it may be off.
#[derive(Debug, Default)]
pub(super) struct Gradient {
    pub(super) slopes: Vec<f64>,
    pub(super) errors: Vec<f64>,
    pub(super) ambiguous: bool,
}

pub(super) fn slopes(
    problem: &Problem,
    call: &Call<'_, f64>,
    shares: &Shares,
    upstream: &Upstream,
    precision: Precision,
) -> Gradient {
    let epsilon = precision.epsilon;
    let Upstream { slopes: d, magnitudes: b, errors: e, .. } = upstream;
    let n = d.len();
    let mut out = Gradient { slopes: d.clone(), errors: vec![0.0; n], ambiguous: false };
    match problem.normaliser {
        NormaliserKind::Softmax | NormaliserKind::WholeSoftmax | NormaliserKind::Temperature(_) => {
            let t = match problem.normaliser {
                NormaliserKind::Temperature(tau) => 1.0 / tau,
                _ => 1.0,
            };
            let p = &shares.p;
            let worst: Vec<f64> =
                shares.error.iter().zip(&shares.error_again).map(|(a, b)| a.max(*b)).collect();
            let weighted = weighted(p, &worst, upstream, epsilon);
            for j in 0..n {
                let (size, off) = (b[j] + weighted.magnitude, e[j] + weighted.error);
                out.slopes[j] = t * p[j] * (d[j] - weighted.sum);
                out.errors[j] =
                    t * (worst[j] * (size + off) + p[j] * off + 5.0 * epsilon * p[j] * size);
            }
        }
        NormaliserKind::Entmax15 => {
            call.normaliser.row_backward(&shares.p, &mut out.slopes);
            let r: Vec<f64> = shares.p.iter().map(|p| p.sqrt()).collect();
            let weighted = weighted(&r, &shares.margins, upstream, epsilon);
            let (total, moved): (f64, f64) = (r.iter().sum(), shares.margins.iter().sum());
            if total == 0.0 {
                return out;
            }
            let mean = weighted.magnitude / total;
            let off_mean = weighted.error / total + mean * moved / total;
            // r |ln a| where a key may leave the support: r ln r² is small there.
            let near = |x: f64| if x > 0.0 { (2.0 * x * x.ln()).abs() } else { 0.0 };
            for j in 0..n {
                let (size, off) = (b[j] + mean, e[j] + off_mean);
                let margin = shares.margins[j];
                out.errors[j] = margin * (size + off) + r[j] * off + 6.0 * epsilon * r[j] * size;
                if shares.unsure[j] {
                    let most = near((r[j] + margin).min(0.36)) + near(r[j]) + r[j] + margin;
                    out.errors[j] += upstream.d_entropy.abs() * most;
                }
            }
        }
        NormaliserKind::Sparsemax => {
            call.normaliser.row_backward(&shares.p, &mut out.slopes);
            let lowest = 2.0 * precision.own.ln().abs() + 11.0;
            let of_entropy = upstream.d_entropy.abs() * lowest;
            let inside = |j: &usize| shares.p[*j] > 0.0;
            let unsure = |j: &usize| shares.unsure[*j];
            let support = (0..n).filter(inside).count() as f64;
            let may = |j: &usize| inside(j) || unsure(j);
            let size = |j: usize| b[j] + if unsure(&j) { of_entropy } else { 0.0 };
            let largest = (0..n).filter(may).map(size).fold(0.0, f64::max);
            let sure = (0..n).filter(|j| inside(j) && !unsure(j)).count() as f64;
            let mean = (0..n).filter(inside).map(|j| b[j]).sum::<f64>() / support.max(1.0);
            let off_mean = (0..n).filter(inside).map(|j| e[j]).sum::<f64>() / support.max(1.0);
            let doubtful = (0..n).filter(unsure).map(|j| size(j) + largest).sum::<f64>();
            let jump = if doubtful > 0.0 { doubtful / sure.max(1.0) } else { 0.0 };
            for j in (0..n).filter(may) {
                let own = if unsure(&j) { size(j) + largest } else { 0.0 };
                out.errors[j] =
                    e[j] + off_mean + (support + 4.0) * epsilon * (b[j] + mean) + jump + own;
            }
        }
        NormaliserKind::Sigmoid => {
            for j in 0..n {
                let (p, off) = (shares.p[j], shares.error[j]);
                out.slopes[j] = p * (1.0 - p) * d[j];
                out.errors[j] =
                    off * (b[j] + e[j]) + p * (1.0 - p) * e[j] + 5.0 * epsilon * p * b[j];
            }
        }
        NormaliserKind::Identity => out.errors.clone_from(e),
        NormaliserKind::Quarter => {
            for j in 0..n {
                out.slopes[j] = d[j] / 4.0;
                out.errors[j] = e[j] / 4.0 + epsilon * b[j];
            }
        }
        NormaliserKind::Hard | NormaliserKind::Sampled(_) => {
            let (h, l) = (upstream.d_entropy.abs(), upstream.d_log_prob.abs());
            let off = pi_errors(&shares.ln, &shares.ln_error, precision);
            for j in 0..n {
                let ln = shares.ln[j];
                if ln == f64::NEG_INFINITY || (shares.candidates.is_empty()) {
                    (out.slopes[j], out.errors[j]) = (0.0, 0.0);
                    continue;
                }
                let (pi, hit) = (ln.exp(), shares.p[j]);
                let size = ln.abs() + shares.entropy;
                out.slopes[j] = upstream.d_log_prob * (hit - pi)
                    - upstream.d_entropy * pi * (ln + shares.entropy);
                out.errors[j] = l * (off[j] + shares.error[j] + 3.0 * epsilon * (hit + pi))
                    + h * (off[j] * size
                        + (pi + off[j]) * (shares.ln_error[j] + shares.entropy_error)
                        + 5.0 * epsilon * pi * (size + 1.0));
            }
        }
    }
    out
}

/// Σ x_l ∂L/∂p_l, its magnitude and its error.
struct Weighted {
    sum: f64,
    magnitude: f64,
    error: f64,
}

fn weighted(x: &[f64], off: &[f64], upstream: &Upstream, epsilon: f64) -> Weighted {
    let Upstream { slopes: d, magnitudes: b, errors: e, d_v, .. } = upstream;
    let mut out = Weighted { sum: 0.0, magnitude: 0.0, error: 0.0 };
    for l in 0..x.len() {
        out.sum += x[l] * d[l];
        out.magnitude += x[l] * b[l];
        out.error += off[l] * (b[l] + e[l]) + x[l] * e[l];
    }
    let n = x.len() as f64;
    out.error += (2.0 * n + *d_v as f64 + 8.0) * epsilon * out.magnitude;
    out
}
