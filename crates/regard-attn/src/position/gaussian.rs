//! Weights that fall with the square of the distance from a predicted centre.

use std::ops::Range;

use regard_tensor::{Real, simd};

use super::Position;
use crate::catalogue::{Entry, Kind, LUONG, example};
use crate::{At, AttnError, Dims, Item, TileAt};

pub(crate) const ENTRY: Entry = Entry {
    name: "gaussian",
    kind: Kind::Position,
    title: "Gaussian on the weights (local-p)",
    formula: "a_ij ← a_ij · exp(−(j − p_i)² / 2σ²)",
    parts: None,
    paper: Some(LUONG),
    taxonomy: None,
    shapes: "centres p [n_queries], in key indices from 0, and σ → one factor a pair",
    cost: "one exp a pair; n_queries + 1 parameters",
    mistakes: &[
        "weights normalised again after the factor",
        "the rounded centre of the window in place of p_i itself: then it cannot learn",
        "centres counted from 1, as in the paper, against keys counted from 0",
        "σ learned where the paper fixes it at half the window's radius",
    ],
    example: example!(Gaussian::new(&[0.0f32, 1.3, 2.9, 5.0], &[3])),
};

/// Weights times `exp(−(j − p_i)² / 2σ²)`, with a centre p_i that a model predicts for each query.
///
/// Luong et al. 2015, equation 10 (<https://arxiv.org/abs/1508.04025>): local-p, together with the
/// scope [`PredictedCentre`](crate::scope::PredictedCentre), whose radius D gives σ = D/2 there.
/// The weights are not normalised again, so that they sum to less than one. The parameters are the
/// centres, one for each query in the order of [`Call::query_offsets`](crate::Call::query_offsets),
/// and then σ; all heads share them.
///
/// Derivatives, with w the factor and z = (j − p)/σ: ∂w/∂p = w z/σ, ∂w/∂σ = w z²/σ. Factors that
/// are 0, by underflow, have none.
///
/// ```
/// use regard_attn::position::{Gaussian, Position};
/// use regard_attn::At;
///
/// let gaussian = Gaussian::new(&[3.6f64, 1.0], &[1]); // one query, centre 3.6, σ = 1
/// let at = At { item: 0, head: 0, q_len: 1, kv_len: 10, q_offset: 0 };
/// let factors = [1, 2, 3, 4, 5].map(|key| gaussian.weight(at, 0, key));
/// let want = [0.034047, 0.278037, 0.835270, 0.923116, 0.375311];
/// assert!(factors.iter().zip(want).all(|(w, want)| (w - want).abs() < 1e-6));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Gaussian<'a, T> {
    params: &'a [T],
    /// For each item, where its centres begin; one more entry holds the total.
    starts: Vec<usize>,
}

impl<'a, T: Real> Gaussian<'a, T> {
    /// The centres of all queries and then σ, for items with so many queries.
    pub fn new(params: &'a [T], q_lens: &[usize]) -> Self {
        let mut starts = vec![0usize];
        for (n, len) in q_lens.iter().enumerate() {
            starts.push(starts[n].saturating_add(*len));
        }
        Self { params, starts }
    }

    /// Where the centres of some queries of an item stand.
    fn places(&self, at: At, queries: &Range<usize>) -> Range<usize> {
        let start = self.starts[at.item];
        start + queries.start..start + queries.end
    }

    fn centre(&self, at: At, query: usize) -> T {
        self.params[self.starts[at.item] + query]
    }

    fn sigma(&self) -> T {
        self.params[self.params.len() - 1]
    }
}

/// z = (j − p)/σ and the factor.
#[inline(always)]
fn factor<T: Real>(key: usize, centre: T, sigma: T) -> (T, T) {
    let z = (T::from_usize(key) - centre) / sigma;
    (z, (T::from_f64(-0.5) * z * z).exp())
}

/// g·(∂w/∂p, ∂w/∂σ)
#[inline(always)]
fn slopes<T: Real>(key: usize, centre: T, sigma: T, g: T) -> (T, T) {
    let (z, w) = factor(key, centre, sigma);
    // z² may be infinite where w is 0.
    let by_centre = if w == T::ZERO { T::ZERO } else { g * w * z / sigma };
    (by_centre, if w == T::ZERO { T::ZERO } else { by_centre * z })
}

impl<T: Real> Position<T> for Gaussian<'_, T> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn check(&self, _: Dims, items: &[Item]) -> Result<(), AttnError> {
        let (n, given) = (items.len(), self.starts.len() - 1);
        let expected = format_args!("one for each of the {n} items");
        AttnError::size(given == n, "q_lens", expected, given)?;
        for (i, (item, starts)) in items.iter().zip(self.starts.windows(2)).enumerate() {
            let expected = format_args!("the q_len {} of item {i}", item.q_len);
            let given = starts[1] - starts[0];
            AttnError::size(given == item.q_len, "q_lens", expected, given)?;
        }
        let (total, given) = (self.starts[n], self.params.len());
        let expected = format_args!("{total} centres and σ");
        AttnError::size(given == total.saturating_add(1), "params", expected, given)?;
        if let Some(query) = self.params[..total].iter().position(|centre| !centre.is_finite()) {
            let actual = format_args!("{} for query {query} of all", self.params[query]);
            AttnError::size(false, "centres", "finite", actual)?;
        }
        let sigma = self.sigma();
        if sigma.is_finite() && sigma > T::ZERO {
            return Ok(());
        }
        Err(AttnError::Option {
            option: "sigma",
            expected: "finite and above 0".into(),
            actual: sigma.to_string(),
        })
    }

    fn n_params(&self) -> usize {
        self.params.len()
    }

    fn weighs(&self) -> bool {
        true
    }

    fn weight(&self, at: At, query: usize, key: usize) -> T {
        factor(key, self.centre(at, query), self.sigma()).1
    }

    fn weight_backward(&self, at: At, query: usize, key: usize, g: T, dparams: &mut [T]) {
        let (centre, sigma) = slopes(key, self.centre(at, query), self.sigma(), g);
        dparams[self.starts[at.item] + query] += centre;
        dparams[self.params.len() - 1] += sigma;
    }

    fn weight_tile(&self, tile: &TileAt, weights: &mut [T], stride: usize) {
        let (sigma, keys) = (self.sigma(), tile.keys.clone());
        let centres = &self.params[self.places(tile.at, &tile.queries)];
        for (i, centre) in centres.iter().enumerate() {
            let row = &mut weights[i * stride..][..keys.len()];
            let (centre, first) = (*centre, keys.start);
            simd::vectorise(
                #[inline(always)]
                move || {
                    for (j, a) in row.iter_mut().enumerate() {
                        *a *= factor(first + j, centre, sigma).1;
                    }
                },
            );
        }
    }

    fn weight_tile_backward(&self, tile: &TileAt, g: &[T], stride: usize, dparams: &mut [T]) {
        let (sigma, keys) = (self.sigma(), tile.keys.clone());
        let places = self.places(tile.at, &tile.queries);
        let mut dsigma = T::ZERO;
        for (i, place) in places.enumerate() {
            let row = &g[i * stride..][..keys.len()];
            let (centre, first) = (self.params[place], keys.start);
            let sums = simd::vectorise(
                #[inline(always)]
                move || {
                    let mut sums = (T::ZERO, T::ZERO);
                    for (j, g) in row.iter().enumerate() {
                        let (by_centre, by_sigma) = slopes(first + j, centre, sigma, *g);
                        sums = (sums.0 + by_centre, sums.1 + by_sigma);
                    }
                    sums
                },
            );
            dparams[place] += sums.0;
            dsigma += sums.1;
        }
        dparams[self.params.len() - 1] += dsigma;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: At = At { item: 0, head: 0, q_len: 1, kv_len: 9, q_offset: 0 };

    #[test]
    fn the_narrowest_and_the_widest_are_finite() {
        for sigma in [f32::MIN_POSITIVE, 1e-20, 1e20, f32::MAX] {
            let params = [2.0f32, sigma];
            let gaussian = Gaussian::new(&params, &[1]);
            for key in [0, 2, 1 << 40] {
                let mut dparams = [0.0; 2];
                gaussian.weight_backward(AT, 0, key, 1.0, &mut dparams);
                let w = gaussian.weight(AT, 0, key);
                assert!((0.0..=1.0).contains(&w) && dparams.iter().all(|d| d.is_finite()));
                assert!(key != 2 || w == 1.0);
            }
        }
    }

    #[test]
    fn a_wide_one_is_flat() {
        let params = [4.0, 1e9];
        let gaussian = Gaussian::new(&params, &[1]);
        assert!((0..9).all(|key| gaussian.weight(AT, 0, key) == 1.0f64));
    }
}
