//! Tables of one vector for each distance, clipped.

use std::ops::Range;

use regard_tensor::{Real, kernels::reduce, simd};

use crate::AttnError;

/// r_δ for δ = −radius..radius, at the places 0..2·radius + 1; what lies farther takes the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clipped<'a, T> {
    /// `[2·radius + 1, width]` for all heads, or one such table for each head.
    pub(super) data: &'a [T],
    pub(super) radius: usize,
    pub(super) width: usize,
}

/// The places of a stretch of distances, one after the other: from `from` on, `len` of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    from: i64,
    len: usize,
    radius: i64,
    /// The place of the first distance.
    first: usize,
}

impl Stretch {
    /// How many places the stretch touches, which stand side by side.
    pub(super) fn n_places(self) -> usize {
        match self.len {
            0 => 0,
            len => place(self.from + len as i64 - 1, self.radius) - self.first + 1,
        }
    }

    /// For each distance its place, counted from the first one that the stretch touches.
    pub(super) fn places(self) -> impl Iterator<Item = usize> {
        (0..self.len).map(move |n| place(self.from + n as i64, self.radius) - self.first)
    }

    /// The sum of the entries of `row`, one a distance, that share a place.
    pub(super) fn sum<T: Real>(self, row: &[T], sums: &mut Vec<T>) {
        sums.clear();
        sums.resize(self.n_places(), T::ZERO);
        for (place, x) in self.places().zip(row) {
            sums[place] += *x;
        }
    }
}

#[inline(always)]
fn place(distance: i64, radius: i64) -> usize {
    (distance.clamp(-radius, radius) + radius) as usize
}

impl<'a, T: Real> Clipped<'a, T> {
    fn radius(&self) -> i64 {
        self.radius as i64
    }

    /// # Errors
    /// The table has another length; `width` is the width's name.
    pub(super) fn check(
        &self,
        argument: &'static str,
        width: &'static str,
        n_heads: usize,
        or_none: bool,
    ) -> Result<(), AttnError> {
        let len = self.data.len();
        if or_none && len == 0 {
            return Ok(());
        }
        let places = self.radius.checked_mul(2).and_then(|n| n.checked_add(1));
        let one = places.and_then(|places| places.checked_mul(self.width));
        let fits = one.is_some_and(|one| len == one || one.checked_mul(n_heads) == Some(len));
        let none = if or_none { "empty, or " } else { "" };
        let (radius, w) = (self.radius, self.width);
        let expected = format_args!(
            "{none}(2·radius + 1) × {width} = (2·{radius} + 1) × {w} elements, or so many for each of \
             the {n_heads} heads"
        );
        AttnError::size(fits, argument, expected, len)
    }

    /// The place of one distance.
    pub(super) fn place(&self, distance: i64) -> usize {
        place(distance, self.radius())
    }

    /// The places of the distances from `from` on.
    pub(super) fn stretch(&self, from: i64, len: usize) -> Stretch {
        let radius = self.radius();
        Stretch { from, len, radius, first: place(from, radius) }
    }

    /// Where the vectors of `places` stand.
    fn range(&self, head: usize, places: Range<usize>) -> Range<usize> {
        let one = (2 * self.radius + 1) * self.width;
        let table = if self.data.len() == one { 0 } else { head * one };
        table + places.start * self.width..table + places.end * self.width
    }

    /// Where the vector at `place` stands.
    pub(super) fn at(&self, head: usize, place: usize) -> Range<usize> {
        self.range(head, place..place + 1)
    }

    /// The vector at `place`.
    pub(super) fn row(&self, head: usize, place: usize) -> &'a [T] {
        &self.data[self.at(head, place)]
    }

    /// x·r at every place that a stretch touches.
    pub(super) fn dots(&self, head: usize, stretch: Stretch, x: &[T], out: &mut Vec<T>) {
        let (width, n) = (self.width, stretch.n_places());
        let rows = &self.data[self.range(head, stretch.first..stretch.first + n)];
        out.clear();
        out.resize(n, T::ZERO);
        let out = &mut out[..];
        simd::vectorise(
            #[inline(always)]
            move || {
                for (out, row) in out.iter_mut().zip(rows.chunks_exact(width)) {
                    *out = reduce::dot(x, row);
                }
            },
        );
    }

    /// `out += Σ weight·r` over the places that a stretch touches.
    pub(super) fn add_sum(&self, head: usize, stretch: Stretch, weights: &[T], out: &mut [T]) {
        let width = self.width;
        let rows = &self.data[self.range(head, stretch.first..stretch.first + weights.len())];
        simd::vectorise(
            #[inline(always)]
            move || {
                for (weight, row) in weights.iter().zip(rows.chunks_exact(width)) {
                    if *weight != T::ZERO {
                        add_scaled(out, *weight, row);
                    }
                }
            },
        );
    }

    /// ∂r += weight·x at each place that a stretch touches, in the gradient of the table.
    pub(super) fn add_to_each(
        &self,
        head: usize,
        stretch: Stretch,
        weights: &[T],
        x: &[T],
        dtable: &mut [T],
    ) {
        let width = self.width;
        let rows = &mut dtable[self.range(head, stretch.first..stretch.first + weights.len())];
        simd::vectorise(
            #[inline(always)]
            move || {
                for (weight, row) in weights.iter().zip(rows.chunks_exact_mut(width)) {
                    if *weight != T::ZERO {
                        add_scaled(row, *weight, x);
                    }
                }
            },
        );
    }
}

/// `out += a·x`
#[inline(always)]
pub(super) fn add_scaled<T: Real>(out: &mut [T], a: T, x: &[T]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out += a * *x;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_touch_the_places_of_their_distances() {
        for radius in 0..4usize {
            let table = Clipped::<f64> { data: &[], radius, width: 1 };
            for from in -9..9 {
                for len in 0..12 {
                    let stretch = table.stretch(from, len);
                    let want: Vec<usize> =
                        (from..).take(len).map(|distance| table.place(distance)).collect();
                    let got: Vec<usize> = stretch.places().map(|n| n + stretch.first).collect();
                    assert_eq!(got, want);
                    let distinct = want.last().map_or(0, |last| last - want[0] + 1);
                    assert_eq!(stretch.n_places(), distinct);
                }
            }
        }
    }
}
