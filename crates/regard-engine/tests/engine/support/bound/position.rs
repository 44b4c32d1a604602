//! Positions: what a pair gets, how far that may be off, and its slopes.
//!
//! | position | value | error | slopes |
//! |---|---|---|---|
//! | relative bias, dense bias | b | 0 | 1 |
//! | ALiBi | b, from f64 | ε\|b\| | none |
//! | Shaw, 2-D relative | c q·r | (d + 5) ε B and \|c\| Σ\|r\| t, B = \|c\| Σ\|q\|\|r\| | \|c\|\|r\|, 3ε; by r: \|c\|\|q\|, \|c\| t + 3ε |
//! | quadratic | −α(y(y − 2Δy) + x(x − 2Δx)) | 8 ε B, B = \|α\|(y² + 2\|yΔy\| + x² + 2\|xΔx\|) | B/\|α\|, 2\|αy\|, 2\|αx\|; 8ε |
//! | Gaussian | w = exp(−z²/2), z = (j − p)/σ | w(e^{ε(2z² + 4)} − 1) + 2μ | w\|z\|/σ, wz²/σ; e(w)/w and 8ε |
//!
//! The relative error of z is ε, so that z²/2 is off by 2ε z²; exp adds two units. In a chain, biases and their errors are
//! added (with 2ε of each for the additions), and factors multiplied: Π w_m has the error Σ_m e(w_m) Π_{l≠m} (w_l + e(w_l)) and 2ε each.

use regard_attn::position::{Alibi, Grid, RelativeBias, RotaryLayout};
use regard_attn::{At, Call};

use super::super::Problem;
use super::super::parts::PositionKind;
use super::score::Side;

/// What a position gives to a pair; of slopes the magnitude and the error.
#[derive(Debug, Default)]
pub(super) struct OfPair {
    pub(super) bias: f64,
    pub(super) bias_magnitude: f64,
    pub(super) bias_error: f64,
    pub(super) bias_by_q: Vec<(f64, f64)>,
    pub(super) bias_params: Vec<(usize, f64, f64)>,
    pub(super) factor: f64,
    pub(super) factor_error: f64,
    pub(super) factor_params: Vec<(usize, f64, f64)>,
    /// Σ|value_ij|, d_v long or empty.
    pub(super) values: Vec<f64>,
    /// Where the vectors in it begin among the parameters, and the factor on them.
    pub(super) value_params: Vec<(usize, f64)>,
}

/// Magnitudes and errors of a row that is turned, or of its gradient that is turned back.
pub(super) fn turn(
    problem: &Problem,
    magnitudes: &mut [f64],
    errors: &mut [f64],
    epsilon: f64,
    forwards: bool,
) {
    let mut members = problem.position.members(problem.dims, &problem.items);
    if !forwards {
        members.reverse();
    }
    for (member, _) in members {
        let PositionKind::Rotary { layout, .. } = member else { continue };
        let pairs = magnitudes.len() / 2;
        for n in 0..pairs {
            let (a, b) = match layout {
                RotaryLayout::Interleaved => (2 * n, 2 * n + 1),
                RotaryLayout::Half => (n, n + pairs),
            };
            let magnitude = magnitudes[a] + magnitudes[b];
            let error = errors[a] + errors[b] + 4.0 * epsilon * magnitude;
            (magnitudes[a], magnitudes[b]) = (magnitude, magnitude);
            (errors[a], errors[b]) = (error, error);
        }
    }
}

pub(super) fn of_pair(
    call: &Call<'_, f64>,
    problem: &Problem,
    at: At,
    (i, j): (usize, usize),
    q: Side<'_>,
    epsilon: f64,
) -> OfPair {
    let mut out = OfPair { factor: 1.0, ..OfPair::default() };
    let mut factors: Vec<Factor> = Vec::new();
    for (member, first) in problem.position.members(problem.dims, &problem.items) {
        let params = &problem.position_params[first..];
        let mut bias = Bias { out: &mut out, q, first, epsilon };
        let distance = j as i64 - (at.q_offset + i) as i64;
        match member {
            PositionKind::None
            | PositionKind::Sinusoidal
            | PositionKind::Learned { .. }
            | PositionKind::Rotary { .. }
            | PositionKind::Chain(_) => {}
            PositionKind::RelativeBias { n_buckets, max_distance, bidirectional } => {
                let table = RelativeBias {
                    table: &[0.0f64][..0],
                    n_buckets: *n_buckets,
                    max_distance: *max_distance,
                    bidirectional: *bidirectional,
                };
                let place = table.bucket(distance) * problem.dims.n_heads + at.head;
                bias.table(place, params[place]);
            }
            PositionKind::DenseBias([items, heads, queries, keys]) => {
                let index = |n: usize, size: usize| if size == 1 { 0 } else { n };
                let row = (index(at.item, *items) * heads + index(at.head, *heads)) * queries;
                let place = (row + index(i, *queries)) * keys + index(j, *keys);
                bias.table(place, params[place]);
            }
            PositionKind::Alibi(slopes) => {
                let paper = Alibi::new(problem.dims.n_heads);
                let slopes = slopes.as_deref().unwrap_or(paper.slopes());
                let b = (slopes[at.head] * distance as f64).abs();
                bias.add(b, epsilon * b);
            }
            PositionKind::Shaw { radius, scale, keys_per_head, values_per_head } => {
                let (d_k, d_v) = (problem.dims.d_k, problem.dims.d_v);
                let (n, place) = (2 * radius + 1, clipped(distance, *radius));
                let start = (if *keys_per_head { at.head * n } else { 0 } + place) * d_k;
                bias.product(scale.abs(), 0..d_k, start, &params[start..start + d_k]);
                if let Some(per_head) = values_per_head {
                    let behind = member.tables(problem.dims).0;
                    let table = if *per_head { at.head * n } else { 0 };
                    let start = behind + (table + place) * d_v;
                    out.values.resize(d_v, 0.0);
                    for (sum, r) in out.values.iter_mut().zip(&params[start..]) {
                        *sum += r.abs();
                    }
                    out.value_params.push((first + start, 1.0));
                }
            }
            PositionKind::Relative2d { radius, grid, scale, per_head } => {
                let (y, x) = grid.distance(at.q_offset + i, j);
                let (half, n) = (problem.dims.d_k / 2, 2 * radius + 1);
                let behind = member.tables(problem.dims).0;
                for (part, (distance, behind)) in [(y, 0), (x, behind)].into_iter().enumerate() {
                    let table = if per_head[part] { at.head * n } else { 0 };
                    let start = behind + (table + clipped(distance, *radius)) * half;
                    let of_q = part * half..(part + 1) * half;
                    bias.product(scale.abs(), of_q, start, &params[start..start + half]);
                }
            }
            PositionKind::Quadratic(grid) => bias.quadratic(*grid, at, (i, j), params),
            PositionKind::Gaussian => {
                let n_params = member.n_params(problem.dims, &problem.items);
                let before: usize = problem.items[..at.item].iter().map(|item| item.q_len).sum();
                let (centre, sigma) = (params[before + i], params[n_params - 1]);
                let z = (j as f64 - centre) / sigma;
                factors.push(Factor {
                    z,
                    sigma,
                    w: (-0.5 * z * z).exp(),
                    places: [first + before + i, first + n_params - 1],
                });
            }
        }
    }
    if call.position.biases() {
        out.bias = call.position.bias(at, i, j, q.x);
    }
    weigh(&mut out, &factors, epsilon);
    out
}

/// The place of a distance in a table.
fn clipped(distance: i64, radius: usize) -> usize {
    (distance.clamp(-(radius as i64), radius as i64) + radius as i64) as usize
}

/// A bias that is added to what others give.
struct Bias<'a> {
    out: &'a mut OfPair,
    q: Side<'a>,
    /// The member's first parameter.
    first: usize,
    epsilon: f64,
}

impl Bias<'_> {
    fn add(&mut self, magnitude: f64, error: f64) {
        // −∞ forbids the pair, without any error.
        if magnitude.is_finite() {
            self.out.bias_magnitude += magnitude;
            self.out.bias_error += error + 2.0 * self.epsilon * magnitude;
        }
    }

    /// A number of a table.
    fn table(&mut self, place: usize, value: f64) {
        self.add(value.abs(), 0.0);
        self.out.bias_params.push((self.first + place, 1.0, 0.0));
    }

    /// c q·r with some entries of q and the table's vector at `start`.
    fn product(&mut self, c: f64, of_q: std::ops::Range<usize>, start: usize, r: &[f64]) {
        let (epsilon, d) = (self.epsilon, self.q.x.len());
        let (mut magnitude, mut turned) = (0.0, 0.0);
        self.out.bias_by_q.resize(d, (0.0, 0.0));
        for (n, (x, r)) in of_q.zip(r).enumerate() {
            let (q, t, r) = (self.q.x[x].abs(), self.q.error[x], r.abs());
            magnitude += c * q * r;
            turned += c * t * r;
            let by_q = &mut self.out.bias_by_q[x];
            *by_q = (by_q.0 + c * r, by_q.1 + 3.0 * epsilon * c * r);
            let place = self.first + start + n;
            self.out.bias_params.push((place, c * q, c * t + 3.0 * epsilon * c * q));
        }
        self.add(magnitude, (d as f64 + 5.0) * epsilon * magnitude + turned);
    }

    fn quadratic(&mut self, grid: Grid, at: At, (i, j): (usize, usize), params: &[f64]) {
        let [alpha, down, right] = [0, 1, 2].map(|n| params[3 * at.head + n].abs());
        let (y, x) = grid.distance(at.q_offset + i, j);
        let (y, x) = (y.unsigned_abs() as f64, x.unsigned_abs() as f64);
        let bracket = y * (y + 2.0 * down) + x * (x + 2.0 * right);
        self.add(alpha * bracket, 8.0 * self.epsilon * alpha * bracket);
        for (n, slope) in [bracket, 2.0 * alpha * y, 2.0 * alpha * x].into_iter().enumerate() {
            let place = self.first + 3 * at.head + n;
            self.out.bias_params.push((place, slope, 8.0 * self.epsilon * slope));
        }
    }
}

/// A Gaussian's factor on a pair.
struct Factor {
    z: f64,
    sigma: f64,
    w: f64,
    /// Of the centre and of σ among the parameters.
    places: [usize; 2],
}

fn weigh(out: &mut OfPair, factors: &[Factor], epsilon: f64) {
    // The smallest normal number of f32 stands for both precisions.
    let smallest = f64::from(f32::MIN_POSITIVE);
    let error = |f: &Factor| f.w * (epsilon * (2.0 * f.z * f.z + 4.0)).exp_m1() + 2.0 * smallest;
    let product = |others: &mut dyn Iterator<Item = &Factor>| {
        others.fold((1.0, 0.0), |(w, e), f| {
            let (own, off) = (f.w, error(f));
            (w * own, e * (own + off) + w * off + 2.0 * epsilon * w * own)
        })
    };
    (out.factor, out.factor_error) = product(&mut factors.iter());
    for (n, factor) in factors.iter().enumerate() {
        let others = &mut factors.iter().enumerate().filter(|(m, _)| *m != n).map(|(_, f)| f);
        let (w, e) = product(others);
        let (z, sigma) = (factor.z.abs(), factor.sigma);
        for (place, by) in factor.places.into_iter().zip([z / sigma, z * z / sigma]) {
            let (own, off) = (factor.w * by, error(factor) * by + 8.0 * epsilon * factor.w * by);
            out.factor_params.push((place, own * w, off * (w + e) + own * e));
        }
    }
}
