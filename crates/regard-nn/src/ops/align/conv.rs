//! Location-aware keys: what the weights of the time before add to each key.
//!
//! ```text
//! f_j = F * a_before at j: f_jr = Σ_δ F_rδ a_before(j + δ − radius)        k'_j = k_j + U f_j
//! ```
//!
//! Chorowski et al. 2015, eq. 8 and 9 (<https://arxiv.org/abs/1506.07503>): with the additive score
//! e_j = wᵀ tanh(W s + V h_j + U f_j + b).

use regard_tensor::{Real, Tensor};

/// The features `[len, filters]` and the keys `[len, d_k]` with their share. `before` is as long as the
/// keys, or empty where it is zero.
pub(super) fn keys<T: Real>(
    keys: &[T],
    before: &[T],
    filters: &Tensor<T>,
    project: &Tensor<T>,
) -> (Vec<T>, Vec<T>) {
    let (r, width, d_k) = (filters.dim(0), filters.dim(1), project.dim(0));
    let len = keys.len().checked_div(d_k).unwrap_or(0);
    let mut features = vec![T::ZERO; len * r];
    let mut out = keys.to_vec();
    if before.is_empty() {
        return (features, out);
    }
    for (j, (f, k)) in features.chunks_exact_mut(r).zip(out.chunks_exact_mut(d_k)).enumerate() {
        for (f, filter) in f.iter_mut().zip(filters.data().chunks_exact(width)) {
            for (weight, a) in taps(j, width / 2, before).map(|(tap, at)| (filter[tap], before[at]))
            {
                *f += weight * a;
            }
        }
        for (k, u) in k.iter_mut().zip(project.data().chunks_exact(r)) {
            for (u, f) in u.iter().zip(&*f) {
                *k += *u * *f;
            }
        }
    }
    (features, out)
}

/// The derivative of [`keys`] by all but the plain keys, whose gradient is that of the result.
pub(super) fn keys_backward<T: Real>(
    d_keys: &[T],
    features: &[T],
    before: &[T],
    (filters, project): (&Tensor<T>, &Tensor<T>),
    d_filters: &mut [T],
    d_project: &mut [T],
    d_before: &mut [T],
) {
    let (r, width, d_k) = (filters.dim(0), filters.dim(1), project.dim(0));
    if before.is_empty() {
        return;
    }
    let mut df = vec![T::ZERO; r];
    for (j, (dk, f)) in d_keys.chunks_exact(d_k).zip(features.chunks_exact(r)).enumerate() {
        df.fill(T::ZERO);
        let rows = project.data().chunks_exact(r).zip(d_project.chunks_exact_mut(r));
        for (g, (u, du)) in dk.iter().zip(rows) {
            for i in 0..r {
                df[i] += *g * u[i];
                du[i] += *g * f[i];
            }
        }
        for (i, g) in df.iter().enumerate() {
            for (tap, at) in taps(j, width / 2, before) {
                d_filters[i * width + tap] += *g * before[at];
                // Weights that were given, not computed, take no gradient.
                if let Some(d) = d_before.get_mut(at) {
                    *d += *g * filters.data()[i * width + tap];
                }
            }
        }
    }
}

/// The taps of a filter at key j that fall on a weight, and on which.
fn taps<T>(j: usize, radius: usize, before: &[T]) -> impl Iterator<Item = (usize, usize)> {
    let len = before.len();
    (0..=2 * radius).filter_map(move |tap| {
        let at = (j + tap).checked_sub(radius)?;
        (at < len).then_some((tap, at))
    })
}
