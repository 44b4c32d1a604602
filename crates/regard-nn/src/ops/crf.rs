//! Linear-chain conditional random field.

use regard_tensor::{Real, ShapeError, Tensor, parallel};

use crate::{NnError, Ragged, Tape, Var};

/// The parameters of a chain over C tags.
#[derive(Debug, Clone, Copy)]
pub struct Crf {
    /// Score of tag c after tag b at `[b, c]`: `[C, C]`.
    pub transitions: Var,
    /// Score of starting in a tag: `[C]`.
    pub start: Var,
    /// Score of ending in a tag: `[C]`.
    pub end: Var,
}

/// log Σ exp of numbers that are not all −∞.
fn log_sum_exp<T: Real>(xs: impl Iterator<Item = T> + Clone) -> T {
    let top = xs.clone().fold(T::NEG_INFINITY, |a, b| if b > a { b } else { a });
    top + xs.map(|x| (x - top).exp()).sum::<T>().ln()
}

/// Forward (α) or backward (β) log scores of every tag at every step of one item.
fn chain<T: Real>(e: &[T], trans: &[T], first: &[T], c: usize, reverse: bool) -> Vec<T> {
    let n = e.len() / c;
    let mut out = vec![T::ZERO; n * c];
    for step in 0..n {
        let t = if reverse { n - 1 - step } else { step };
        for tag in 0..c {
            out[t * c + tag] = if step == 0 {
                first[tag] + if reverse { T::ZERO } else { e[t * c + tag] }
            } else if reverse {
                // β_t(b) = log Σ_c exp(T_bc + e_{t+1}(c) + β_{t+1}(c))
                let next = (t + 1) * c;
                log_sum_exp((0..c).map(|to| trans[tag * c + to] + e[next + to] + out[next + to]))
            } else {
                // α_t(c) = e_t(c) + log Σ_b exp(α_{t−1}(b) + T_bc)
                let last = (t - 1) * c;
                e[t * c + tag]
                    + log_sum_exp((0..c).map(|from| out[last + from] + trans[from * c + tag]))
            };
        }
    }
    out
}

/// Loss of one item and its gradients: emissions, transitions, start, end.
struct Item<T> {
    loss: T,
    de: Vec<T>,
    dtrans: Vec<T>,
    dstart: Vec<T>,
    dend: Vec<T>,
}

fn item<T: Real>(e: &[T], tags: &[u32], trans: &[T], start: &[T], end: &[T]) -> Item<T> {
    let c = start.len();
    let n = tags.len();
    let zeros = |len: usize| vec![T::ZERO; len];
    let (mut de, mut dtrans, mut dstart, mut dend) =
        (zeros(n * c), zeros(c * c), zeros(c), zeros(c));
    if n == 0 {
        return Item { loss: T::ZERO, de, dtrans, dstart, dend };
    }
    let alpha = chain(e, trans, start, c, false);
    let beta = chain(e, trans, end, c, true);
    let last = (n - 1) * c;
    let log_z = log_sum_exp((0..c).map(|tag| alpha[last + tag] + end[tag]));
    // Expected counts: ∂ log Z.
    for t in 0..n {
        for tag in 0..c {
            de[t * c + tag] = (alpha[t * c + tag] + beta[t * c + tag] - log_z).exp();
            if t > 0 {
                for from in 0..c {
                    let pair = alpha[(t - 1) * c + from]
                        + trans[from * c + tag]
                        + e[t * c + tag]
                        + beta[t * c + tag];
                    dtrans[from * c + tag] += (pair - log_z).exp();
                }
            }
        }
    }
    dstart.copy_from_slice(&de[..c]);
    dend.copy_from_slice(&de[last..]);
    // Minus the counts of the gold path, and its score.
    let mut score = start[tags[0] as usize] + end[tags[n - 1] as usize];
    dstart[tags[0] as usize] -= T::ONE;
    dend[tags[n - 1] as usize] -= T::ONE;
    for (t, tag) in tags.iter().enumerate() {
        let tag = *tag as usize;
        score += e[t * c + tag];
        de[t * c + tag] -= T::ONE;
        if t > 0 {
            let pair = tags[t - 1] as usize * c + tag;
            score += trans[pair];
            dtrans[pair] -= T::ONE;
        }
    }
    Item { loss: log_z - score, de, dtrans, dstart, dend }
}

impl<T: Real> Tape<'_, T> {
    /// Mean over items of `−log p(tags | emissions)`, with
    /// `p ∝ exp(start[y_1] + Σ_t e_t[y_t] + Σ_t T[y_{t−1}, y_t] + end[y_n])`.
    ///
    /// emissions `[total, C]`; `tags` one a row. The gradient is expected minus gold counts, by the
    /// forward-backward recursion. An item without rows counts with loss 0.
    /// Source: Lafferty, McCallum, Pereira 2001. Cost total·C².
    ///
    /// # Errors
    /// Shapes that do not fit, or a tag outside 0..C.
    pub fn crf(
        &mut self,
        emissions: Var,
        items: &Ragged,
        tags: &[u32],
        crf: Crf,
    ) -> Result<Var, NnError> {
        let ev = self.value(emissions).clone();
        let c = ev.cols();
        ShapeError::expect("crf", "emissions", &[items.total(), c], ev.shape())?;
        ShapeError::expect("crf", "tags", &[items.total()], &[tags.len()])?;
        let (tv, sv, nv) = (
            self.value(crf.transitions).clone(),
            self.value(crf.start).clone(),
            self.value(crf.end).clone(),
        );
        ShapeError::expect("crf", "transitions", &[c, c], tv.shape())?;
        ShapeError::expect("crf", "start", &[c], sv.shape())?;
        ShapeError::expect("crf", "end", &[c], nv.shape())?;
        if let Some(at) = tags.iter().position(|t| *t as usize >= c) {
            let index = tags[at] as usize;
            let (operation, what) = ("crf", "tag");
            return Err(NnError::Index { operation, what, index, at, limit: c });
        }
        let work = items.total() * c * c * 20;
        let parts = parallel::map(items.items(), work, |b| {
            let rows = items.rows(b);
            let e = &ev.data()[rows.start * c..rows.end * c];
            item(e, &tags[rows], tv.data(), sv.data(), nv.data())
        });
        let share = T::ONE / T::from_usize(items.items().max(1));
        let loss = parts.iter().map(|p| p.loss).sum::<T>() * share;
        let loss = Tensor::from_slice(&[1], &[loss])?;
        let inputs = [emissions, crf.transitions, crf.start, crf.end];
        Ok(self.record(loss, &inputs, move |dy, grads| {
            let scale = dy.data()[0] * share;
            let add = |sums: &mut [T], part: &[T]| {
                sums.iter_mut().zip(part).for_each(|(s, p)| *s += *p * scale);
            };
            if grads.wants(emissions) {
                let mut de = grads.sum(emissions);
                for part in &parts {
                    let (now, rest) = de.split_at_mut(part.de.len());
                    add(now, &part.de);
                    de = rest;
                }
            }
            for part in parts {
                for (var, part) in [
                    (crf.transitions, &part.dtrans),
                    (crf.start, &part.dstart),
                    (crf.end, &part.dend),
                ] {
                    if grads.wants(var) {
                        add(grads.sum(var), part);
                    }
                }
            }
        }))
    }
}

/// The best path of one item, `argmax_y start[y_1] + Σ e_t[y_t] + Σ T[y_{t−1}, y_t] + end[y_n]`
/// (Viterbi 1967); the smaller tag wins a tie. emissions `[n, C]` row-major.
///
/// ```
/// use regard_nn::ops::viterbi;
/// // Tag 1 looks better at the second word, but 0 → 1 is costly.
/// let path = viterbi(&[1.0f64, 0.0, 0.0, 0.5], &[0.0, -2.0, 0.0, 0.0], &[0.0; 2], &[0.0; 2]);
/// assert_eq!(path, [0, 0]);
/// ```
pub fn viterbi<T: Real>(emissions: &[T], transitions: &[T], start: &[T], end: &[T]) -> Vec<u32> {
    let c = start.len();
    let n = emissions.len().checked_div(c).unwrap_or(0);
    if n == 0 {
        return Vec::new();
    }
    let best = |xs: &mut dyn Iterator<Item = T>| {
        let mut top = (0, T::NEG_INFINITY);
        for (i, x) in xs.enumerate() {
            if x > top.1 {
                top = (i, x);
            }
        }
        top
    };
    let mut score: Vec<T> = start.iter().zip(emissions).map(|(s, e)| *s + *e).collect();
    let mut from = vec![0u32; n * c];
    for t in 1..n {
        let mut next = vec![T::ZERO; c];
        for tag in 0..c {
            let (tag_before, top) = best(&mut (0..c).map(|b| score[b] + transitions[b * c + tag]));
            next[tag] = top + emissions[t * c + tag];
            from[t * c + tag] = tag_before as u32;
        }
        score = next;
    }
    let mut tag = best(&mut score.iter().zip(end).map(|(s, e)| *s + *e)).0 as u32;
    let mut path = vec![tag; n];
    for t in (1..n).rev() {
        tag = from[t * c + tag as usize];
        path[t - 1] = tag;
    }
    path
}
