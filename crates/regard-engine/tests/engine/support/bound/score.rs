//! Scores: how far a score may be off, and its slopes.
//!
//! With the errors t of the turned query and key (0 where nothing turns), to first order e(s) = Σ |∂s/∂q|·t_q + |∂s/∂k|·t_k
//! and what rounds:
//!
//! | score | rounding of s | slopes: magnitude, error |
//! |---|---|---|
//! | c q·k (dot, scaled, location) | (d + 5) ε S, S = \|c\| Σ\|q\|\|k\| | \|c\|\|k\|, \|c\| t_k + 3ε |
//! | qᵀWk | (2d + 5) ε S, S = Σ\|q\|\|W\|\|k\| | Σ\|W\|\|k\|, (d + 4)ε and Σ\|W\|t_k; by W: \|q\|\|k\| |
//! | Σ v tanh(q + k) | (d + 4) ε S + Σ\|v\|(5ε\|t\| + (1 − t²) ε\|x\|), S = Σ\|v\|\|t\| | \|v\|(1 − t²), \|v\|(13ε + 2(t_q + t_k + ε\|x\|)) |
//! | LeakyReLU(a·q + a'·k) | l (d + 4) ε X, X = Σ\|a\|\|q\| + Σ\|a'\|\|k\|, l = max(1, \|slope\|) | δ\|a\|, 3ε |
//! | Σ a LeakyReLU(q + k) | (d + 5) ε S, S = l Σ\|a\|\|x\| | δ\|a\|, 3ε |
//! | cosine | (2d + 8) ε C, C = Σ\|q\|\|k\|/(‖q‖‖k‖) ≤ 1 | \|k\|/(‖q‖‖k‖) + C\|q\|/‖q‖², (3d + 12)ε and 4 t/(‖q‖·norm) |
//! | 1/(1 + r) | (d/2 + 3) ε r s² + 3ε s | \|q − k\|/(r(1 + r)²), (d + 10)ε and 3 t/(r(1 + r)²) |
//!
//! tanh is within 4 units and its argument x = q + k is rounded; 1 − t² is off by 2\|t\| e(t) ≤ 10ε and roundings of numbers up to 1.
//! A norm is off by (d/2 + 2)ε. Around another score s': c s' has c e(s') + 2ε\|c s'\|; cap·tanh(s'/cap)
//! has (1 − t² + e'/cap)(e' + 2ε\|s'\|) + 6ε\|s\|, and its slope 1 − t² is off by 2\|t\|((1 − t²)(e' + 2ε\|s'\|)/cap + 5ε\|t\|) + 3ε and (e'/cap)².
//!
//! Jumps: a LeakyReLU whose argument is nearer to 0 than its error takes the larger slope and \|1 − slope\| as an
//! error more; a distance below four times the errors of its vectors may have any direction. Where q and k are
//! equal to the last bit and turned alike, r is 0 on both sides.

use super::super::Problem;
use super::super::parts::ScoreKind;

/// A turned query or key and the error of each entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) x: &'a [f64],
    pub(super) error: &'a [f64],
}

impl Side<'_> {
    fn norm(&self) -> f64 {
        self.x.iter().map(|x| x * x).sum::<f64>().sqrt()
    }

    fn error_norm(&self) -> f64 {
        self.error.iter().map(|x| x * x).sum::<f64>().sqrt()
    }
}

/// A score and its slopes; of each the magnitude and the error.
#[derive(Debug, Default)]
pub(super) struct Slopes {
    pub(super) s: f64,
    pub(super) magnitude: f64,
    pub(super) error: f64,
    pub(super) by_q: Vec<(f64, f64)>,
    pub(super) by_k: Vec<(f64, f64)>,
    /// By parameters: which, magnitude, error.
    pub(super) params: Vec<(usize, f64, f64)>,
    pub(super) jumps: bool,
}

pub(super) fn slopes(
    problem: &Problem,
    head: usize,
    q: Side<'_>,
    k: Side<'_>,
    epsilon: f64,
) -> Slopes {
    of(problem, &problem.score, head, q, k, epsilon)
}

/// Where the score's own key stands among its parameters.
pub(super) fn own_key(problem: &Problem, kv_head: usize, key: usize) -> usize {
    let ScoreKind::Location { max_len, per_head } = problem.score.leaf() else {
        unreachable!("no keys of its own")
    };
    let table = if *per_head { kv_head * max_len } else { 0 };
    (table + key) * problem.dims.d_k
}

fn of(
    problem: &Problem,
    kind: &ScoreKind,
    head: usize,
    q: Side<'_>,
    k: Side<'_>,
    epsilon: f64,
) -> Slopes {
    let d = q.x.len();
    let size = d as f64;
    let params = &problem.score_params;
    match kind {
        ScoreKind::Dot | ScoreKind::Location { .. } => product(1.0, q, k, epsilon),
        ScoreKind::ScaledDot => product(1.0 / size.sqrt(), q, k, epsilon),
        ScoreKind::General => {
            general(head, &params[head * d * d..(head + 1) * d * d], q, k, epsilon)
        }
        ScoreKind::Additive => additive(head, &params[head * d..(head + 1) * d], q, k, epsilon),
        ScoreKind::Gat { slope } => {
            gat(head, &params[head * 2 * d..(head + 1) * 2 * d], *slope, q, k, epsilon)
        }
        ScoreKind::Gatv2 { slope } => {
            gatv2(head, &params[head * d..(head + 1) * d], *slope, q, k, epsilon)
        }
        ScoreKind::Cosine => cosine(q, k, epsilon),
        ScoreKind::Distance => distance(q, k, epsilon),
        ScoreKind::Scaled(inner, factor) => {
            let inner = of(problem, inner, head, q, k, epsilon);
            inner.times(*factor, factor.abs(), 0.0, epsilon)
        }
        ScoreKind::HeadScale(of_head) => {
            let place = of_head.n_params(problem.dims) + head;
            let factor = params[place];
            let inner = of(problem, of_head, head, q, k, epsilon);
            let own = (place, inner.s.abs(), inner.error);
            let mut out = inner.times(factor, factor.abs(), 0.0, epsilon);
            out.params.push(own);
            out
        }
        ScoreKind::Softcap(inner, cap) => {
            let inner = of(problem, inner, head, q, k, epsilon);
            let t = (inner.s / cap).tanh();
            let slope = 1.0 - t * t;
            let off = inner.error + 2.0 * epsilon * inner.s.abs();
            let error = (slope + off / cap).min(1.0) * off + 6.0 * epsilon * (cap * t).abs();
            let of_tanh = slope * off / cap + 5.0 * epsilon * t.abs();
            let slope_error = 2.0 * t.abs() * of_tanh + 3.0 * epsilon + (off / cap) * (off / cap);
            let mut out = inner.times(1.0, slope, slope_error.min(1.0), epsilon);
            (out.s, out.error, out.magnitude) = (cap * t, error, (cap * t).abs());
            out
        }
    }
}

impl Slopes {
    /// `factor·s`, where the slopes are multiplied by a number of this magnitude and error.
    fn times(mut self, factor: f64, magnitude: f64, error: f64, epsilon: f64) -> Self {
        self.s *= factor;
        self.magnitude *= factor.abs();
        self.error = self.error * factor.abs() + 2.0 * epsilon * self.s.abs();
        let slope = |(m, e): (f64, f64)| {
            (m * magnitude, e * (magnitude + error) + m * error + 2.0 * epsilon * m * magnitude)
        };
        for by in self.by_q.iter_mut().chain(&mut self.by_k) {
            *by = slope(*by);
        }
        for param in &mut self.params {
            (param.1, param.2) = slope((param.1, param.2));
        }
        self
    }
}

/// c q·k
fn product(c: f64, q: Side<'_>, k: Side<'_>, epsilon: f64) -> Slopes {
    let mut out = Slopes::default();
    let c_abs = c.abs();
    let slope = |x: f64, t: f64| (c_abs * x.abs(), c_abs * t + 3.0 * epsilon * c_abs * x.abs());
    let mut turned = 0.0;
    for x in 0..q.x.len() {
        out.s += c * q.x[x] * k.x[x];
        out.magnitude += c_abs * (q.x[x] * k.x[x]).abs();
        turned += c_abs * (q.error[x] * k.x[x].abs() + q.x[x].abs() * k.error[x]);
        out.by_q.push(slope(k.x[x], k.error[x]));
        out.by_k.push(slope(q.x[x], q.error[x]));
    }
    out.error = (q.x.len() as f64 + 5.0) * epsilon * out.magnitude + turned;
    out
}

/// qᵀ W k
fn general(head: usize, w: &[f64], q: Side<'_>, k: Side<'_>, epsilon: f64) -> Slopes {
    let d = q.x.len();
    let mut out = Slopes::default();
    let mut by = [vec![(0.0, 0.0); d], vec![(0.0, 0.0); d]];
    let mut turned = 0.0;
    for c in 0..d {
        for e in 0..d {
            let (q_c, k_e, w) = (q.x[c], k.x[e], w[c * d + e]);
            out.s += q_c * w * k_e;
            out.magnitude += (q_c * w * k_e).abs();
            turned += w.abs() * (q.error[c] * k_e.abs() + q_c.abs() * k.error[e]);
            by[0][c].0 += (w * k_e).abs();
            by[0][c].1 += w.abs() * k.error[e];
            by[1][e].0 += (w * q_c).abs();
            by[1][e].1 += w.abs() * q.error[c];
            let t = q.error[c] * k_e.abs() + q_c.abs() * k.error[e];
            let m = (q_c * k_e).abs();
            out.params.push((head * d * d + c * d + e, m, t + 3.0 * epsilon * m));
        }
    }
    for (magnitude, error) in by.iter_mut().flatten() {
        *error += (d as f64 + 4.0) * epsilon * *magnitude;
    }
    out.error = (2.0 * d as f64 + 5.0) * epsilon * out.magnitude + turned;
    [out.by_q, out.by_k] = by;
    out
}

/// Σ v tanh(q + k)
fn additive(head: usize, v: &[f64], q: Side<'_>, k: Side<'_>, epsilon: f64) -> Slopes {
    let d = q.x.len();
    let mut out = Slopes::default();
    for c in 0..d {
        let (x, moved) = (q.x[c] + k.x[c], q.error[c] + k.error[c]);
        let t = x.tanh();
        let slope = 1.0 - t * t;
        let off = moved + epsilon * x.abs();
        let of_tanh = 5.0 * epsilon * t.abs() + slope * off;
        out.s += v[c] * t;
        out.magnitude += (v[c] * t).abs();
        out.error += v[c].abs() * of_tanh;
        let by = (v[c].abs() * slope, v[c].abs() * (13.0 * epsilon + 2.0 * off));
        out.by_q.push(by);
        out.by_k.push(by);
        out.params.push((head * d + c, t.abs(), of_tanh));
    }
    out.error += (d as f64 + 4.0) * epsilon * out.magnitude;
    out
}

/// LeakyReLU: magnitude and error of the slope, and whether x is too near to 0.
fn leaky(x: f64, off: f64, slope: f64) -> (f64, f64, bool) {
    if x.abs() <= off && off > 0.0 && slope != 1.0 {
        (slope.abs().max(1.0), (1.0 - slope).abs(), true)
    } else {
        (if x > 0.0 { 1.0 } else { slope.abs() }, 0.0, false)
    }
}

/// LeakyReLU(a·q + a'·k)
fn gat(head: usize, a: &[f64], slope: f64, q: Side<'_>, k: Side<'_>, epsilon: f64) -> Slopes {
    let d = q.x.len();
    let (by_q, by_k) = a.split_at(d);
    let (mut x, mut magnitude, mut turned) = (0.0, 0.0, 0.0);
    for c in 0..d {
        x += by_q[c] * q.x[c] + by_k[c] * k.x[c];
        magnitude += (by_q[c] * q.x[c]).abs() + (by_k[c] * k.x[c]).abs();
        turned += by_q[c].abs() * q.error[c] + by_k[c].abs() * k.error[c];
    }
    let off = (d as f64 + 4.0) * epsilon * magnitude + turned;
    let steep = slope.abs().max(1.0);
    let (of_slope, jump, jumps) = leaky(x, off, slope);
    let by = |a: f64, t: f64| {
        let m = of_slope * a.abs();
        (m, of_slope * t + 3.0 * epsilon * m + jump * a.abs())
    };
    let s = if x > 0.0 { x } else { slope * x };
    let mut out = Slopes { s, magnitude: steep * magnitude, jumps, ..Slopes::default() };
    out.error = steep * off + epsilon * s.abs();
    for c in 0..d {
        out.by_q.push(by(by_q[c], 0.0));
        out.by_k.push(by(by_k[c], 0.0));
        for (place, x, t) in [(c, q.x[c], q.error[c]), (d + c, k.x[c], k.error[c])] {
            let (m, e) = by(x, t);
            out.params.push((head * 2 * d + place, m, e));
        }
    }
    out
}

/// Σ a LeakyReLU(q + k)
fn gatv2(head: usize, a: &[f64], slope: f64, q: Side<'_>, k: Side<'_>, epsilon: f64) -> Slopes {
    let d = q.x.len();
    let steep = slope.abs().max(1.0);
    let mut out = Slopes::default();
    for c in 0..d {
        let (x, moved) = (q.x[c] + k.x[c], q.error[c] + k.error[c]);
        let value = if x > 0.0 { x } else { slope * x };
        // Rounding keeps the sign of a sum.
        let (of_slope, jump, jumps) = leaky(x, moved, slope);
        out.jumps |= jumps;
        out.s += a[c] * value;
        out.magnitude += a[c].abs() * steep * x.abs();
        out.error += a[c].abs() * steep * moved;
        let by = a[c].abs() * of_slope;
        let by = (by, 3.0 * epsilon * by + a[c].abs() * jump);
        out.by_q.push(by);
        out.by_k.push(by);
        let off = steep * (moved + 3.0 * epsilon * x.abs());
        out.params.push((head * d + c, value.abs(), off));
    }
    out.error += (d as f64 + 5.0) * epsilon * out.magnitude;
    out
}

/// q·k / (‖q‖‖k‖)
fn cosine(q: Side<'_>, k: Side<'_>, epsilon: f64) -> Slopes {
    let (d, norm_q, norm_k) = (q.x.len(), q.norm(), k.norm());
    if norm_q <= 1e-8 || norm_k <= 1e-8 {
        let none = vec![(0.0, 0.0); d];
        return Slopes { by_q: none.clone(), by_k: none, ..Slopes::default() };
    }
    let norms = norm_q * norm_k;
    let mut out = Slopes::default();
    for c in 0..d {
        out.s += q.x[c] * k.x[c] / norms;
        out.magnitude += (q.x[c] * k.x[c]).abs() / norms;
    }
    let relative = q.error_norm() / norm_q + k.error_norm() / norm_k;
    let cosine = out.magnitude;
    let by = |x: f64, other: f64, norm: f64| {
        let m = other.abs() / norms + cosine * x.abs() / (norm * norm);
        (m, (3.0 * d as f64 + 12.0) * epsilon * m + 4.0 * relative / norm)
    };
    for c in 0..d {
        out.by_q.push(by(q.x[c], k.x[c], norm_q));
        out.by_k.push(by(k.x[c], q.x[c], norm_k));
        out.error += out.by_q[c].0 * q.error[c] + out.by_k[c].0 * k.error[c];
    }
    out.error += (2.0 * d as f64 + 8.0) * epsilon * cosine;
    out
}

/// 1 / (1 + ‖q − k‖)
fn distance(q: Side<'_>, k: Side<'_>, epsilon: f64) -> Slopes {
    let d = q.x.len();
    let difference: Vec<f64> = q.x.iter().zip(k.x).map(|(q, k)| q - k).collect();
    let r = difference.iter().map(|x| x * x).sum::<f64>().sqrt();
    let s = 1.0 / (1.0 + r);
    // Turned alike, or not at all, equal vectors stay equal.
    let moved = if r == 0.0 { 0.0 } else { q.error_norm() + k.error_norm() };
    let off = (d as f64 / 2.0 + 3.0) * epsilon * r + moved;
    let mut out = Slopes { s, magnitude: s, ..Slopes::default() };
    out.error = off * s * s + 3.0 * epsilon * s;
    out.jumps = r > 0.0 && r <= 4.0 * moved;
    let by = |x: f64| {
        if r == 0.0 {
            (0.0, 0.0)
        } else if out.jumps {
            (s * s, 2.0 * s * s)
        } else {
            let m = x.abs() * s * s / r;
            (m, (d as f64 + 10.0) * epsilon * m + 3.0 * moved * s * s / r)
        }
    };
    let slopes: Vec<_> = difference.iter().map(|x| by(*x)).collect();
    (out.by_q, out.by_k) = (slopes.clone(), slopes);
    out
}
