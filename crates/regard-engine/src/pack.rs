//! Rows of the inputs, copied into the layouts that the kernels read.

use std::ops::Range;

use regard_attn::score::Block;
use regard_attn::{Position, Rows};
use regard_tensor::{Buffer, Real, simd};

use crate::cover::Cover;
use crate::support::Support;
use regard_tensor::kernels::product::{COLUMNS, Left, Panels, Product};
use regard_tensor::kernels::softmax::sum_in_halves;
use regard_tensor::kernels::{few, transpose};

/// Rows that are asked for ahead of their use: a processor does not guess where the next row of a head lies.
pub(crate) const AHEAD: usize = 16;

/// The rows of one head of one item.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a, T> {
    rows: Rows<'a, T>,
    start: usize,
    head: usize,
    width: usize,
}

impl<'a, T> Source<'a, T> {
    /// Row i is row `start + i` of `head`.
    pub(crate) fn new(rows: Rows<'a, T>, start: usize, head: usize, width: usize) -> Self {
        Self { rows, start, head, width }
    }

    /// Rows that follow each other.
    pub(crate) fn dense(data: &'a [T], width: usize) -> Self {
        Self::new(Rows { data, row_stride: width, head_stride: 0 }, 0, 0, width)
    }

    #[inline(always)]
    pub(crate) fn row(&self, i: usize) -> &'a [T] {
        self.rows.row(self.start + i, self.head, self.width)
    }

    /// Row i if there is one.
    #[inline(always)]
    fn there(&self, i: usize) -> Option<&'a [T]> {
        let Rows { data, row_stride, head_stride } = self.rows;
        let first = (self.start + i) * row_stride + self.head * head_stride;
        data.get(first..first + self.width)
    }

    /// Asks for rows that will be read soon, but not next.
    pub(crate) fn prefetch_near(&self, rows: Range<usize>) {
        for row in rows.map_while(|i| self.there(i)) {
            simd::prefetch_near(row);
        }
    }

    /// Asks for row i ahead of its use, whether it is there or not.
    #[inline(always)]
    pub(crate) fn prefetch(&self, i: usize) {
        let Rows { data, row_stride, head_stride } = self.rows;
        let first = (self.start + i).wrapping_mul(row_stride);
        let first = first.wrapping_add(self.head * head_stride);
        simd::prefetch_at(data, first, self.width);
    }

    /// The elements from row `i` on, and how many of them lie from one row to the next.
    pub(crate) fn from(&self, i: usize) -> (&'a [T], usize) {
        let Rows { data, row_stride, head_stride } = self.rows;
        (&data[(self.start + i) * row_stride + self.head * head_stride..], row_stride)
    }
}

/// Makes a buffer hold at least `len` elements; what they are is arbitrary.
pub(crate) fn grow<T: Real>(buffer: &mut Buffer<T>, len: usize) {
    if buffer.len() < len {
        *buffer = Buffer::stale(len);
    }
}

/// `width` rounded up to whole blocks of columns of a product.
pub(crate) fn padded_width(width: usize) -> usize {
    width.next_multiple_of(COLUMNS)
}

#[inline(always)]
pub(crate) fn all_finite<T: Real>(row: &[T]) -> bool {
    let mut odd = Odd::NONE;
    let (pieces, rest) = row.as_chunks::<COLUMNS>();
    for piece in pieces {
        odd.look(piece);
    }
    odd.look_at_few(rest);
    !odd.found()
}

/// Whether a NaN or an infinity was among what was looked at: 0 times such a number is NaN.
struct Odd<T> {
    pieces: [T; COLUMNS],
    /// Of what is less than a piece: beside the lanes, which would be taken apart for it.
    few: T,
}

impl<T: Real> Odd<T> {
    const NONE: Self = Self { pieces: [T::ZERO; COLUMNS], few: T::ZERO };

    #[inline(always)]
    fn look(&mut self, piece: &[T; COLUMNS]) {
        for l in 0..COLUMNS {
            self.pieces[l] += piece[l] * T::ZERO;
        }
    }

    /// Looks at less than a piece.
    #[inline(always)]
    fn look_at_few(&mut self, rest: &[T]) {
        for x in rest {
            self.few += *x * T::ZERO;
        }
    }

    /// Not inlined: where the compiler sees how the lanes are joined in the end, it keeps them in the odd shapes
    /// of that sum all along, and takes half of the row number by number.
    #[inline(never)]
    #[allow(clippy::eq_op, reason = "the test for NaN of a generic number")]
    fn found(&self) -> bool {
        let sum = sum_in_halves(self.pieces) + self.few;
        sum != sum
    }
}

/// Columns that a row is written by at a time, four cache lines, all read before any is written: line by line, packed
/// documents of 128 keys took 1.13 × as long.
pub(crate) const WRITTEN: usize = 4 * COLUMNS;

/// Copies a row, in pieces of a length that the compiler knows: a call for each short row takes longer than the row.
#[inline(always)]
pub(crate) fn copy_row<T: Real>(row: &[T], out: &mut [T]) {
    scale_row(row, None, out);
}

/// As [`copy_row`], times a factor.
#[inline(always)]
pub(crate) fn scale_row<T: Real>(row: &[T], factor: Option<T>, out: &mut [T]) {
    let rest = pieces::<T, WRITTEN>(row, factor, out);
    let rest = pieces::<T, COLUMNS>(rest.0, factor, rest.1);
    let rest = pieces::<T, 8>(rest.0, factor, rest.1);
    pieces::<T, 1>(rest.0, factor, rest.1);
}

/// The whole pieces of a row; returns the rest.
#[inline(always)]
fn pieces<'a, T: Real, const N: usize>(
    row: &'a [T],
    factor: Option<T>,
    out: &'a mut [T],
) -> (&'a [T], &'a mut [T]) {
    let (pieces, rest) = row.as_chunks::<N>();
    let (out_pieces, out_rest) = out[..row.len()].as_chunks_mut::<N>();
    for (out, piece) in out_pieces.iter_mut().zip(pieces) {
        let Some(factor) = factor else {
            *out = *piece;
            continue;
        };
        let mut piece = *piece;
        for x in &mut piece {
            *x *= factor;
        }
        *out = piece;
    }
    (rest, out_rest)
}

/// Copies rows to rows `stride` apart, of which the rest becomes zero; returns whether all are finite.
pub(crate) fn copy<T: Real>(
    source: Source<'_, T>,
    rows: Range<usize>,
    out: &mut [T],
    stride: usize,
) -> bool {
    simd::vectorise(
        #[inline(always)]
        move || {
            let mut odd = Odd::NONE;
            for (i, out) in rows.zip(out.chunks_exact_mut(stride)) {
                source.prefetch(i + AHEAD);
                let row = source.row(i);
                // Pieces of a length that the compiler knows.
                let (pieces, rest) = row.as_chunks::<COLUMNS>();
                let (out, last) = out.split_at_mut(pieces.len() * COLUMNS);
                let (fours, ones) = pieces.as_chunks::<{ WRITTEN / COLUMNS }>();
                let (out_fours, out_ones) = out.as_chunks_mut::<WRITTEN>();
                for (out, four) in out_fours.iter_mut().zip(fours) {
                    let four = *four;
                    out.copy_from_slice(four.as_flattened());
                    for piece in &four {
                        odd.look(piece);
                    }
                }
                for (out, piece) in out_ones.chunks_exact_mut(COLUMNS).zip(ones) {
                    out.copy_from_slice(piece);
                    odd.look(piece);
                }
                if !last.is_empty() {
                    odd.look_at_few(rest);
                    last[..rest.len()].copy_from_slice(rest);
                    last[rest.len()..].fill(T::ZERO);
                }
            }
            !odd.found()
        },
    )
}

/// Turns rows, `width` wide and `stride` apart, to positions from `first` on, if the position turns.
pub(crate) fn turn<T: Real>(
    position: &dyn Position<T>,
    first: usize,
    rows: &mut [T],
    width: usize,
    stride: usize,
) {
    if position.turns() {
        for (i, row) in rows.chunks_exact_mut(stride).enumerate() {
            position.turn(first + i, &mut row[..width]);
        }
    }
}

/// Rows packed as the right factor of products with their transpose: depth = width, one column a
/// row.
#[derive(Debug)]
pub(crate) struct Across<T: Real> {
    data: Buffer<T>,
    /// A row of zeros.
    zeros: Buffer<T>,
    width: usize,
}

impl<T: Real> Across<T> {
    pub(crate) fn new() -> Self {
        Self { data: Buffer::stale(0), zeros: Buffer::stale(0), width: 0 }
    }

    /// Packs rows 0..len.
    pub(crate) fn pack(&mut self, source: Source<'_, T>, len: usize) {
        let (lanes, width) = (COLUMNS, source.width);
        grow(&mut self.data, width * len.next_multiple_of(lanes));
        self.width = width;
        if self.zeros.len() < width {
            self.zeros = Buffer::zeroed(width);
        }
        for (p, panel) in self.data.chunks_exact_mut(width * lanes).enumerate() {
            if p * lanes >= len {
                break;
            }
            let count = lanes.min(len - p * lanes);
            (0..lanes).for_each(|l| source.prefetch((p + 1) * lanes + l));
            // Rows of zeros fill up the last panel.
            let rows: [&[T]; COLUMNS] = std::array::from_fn(|l| {
                if l < count { source.row(p * lanes + l) } else { &self.zeros[..width] }
            });
            transpose::sixteen(&rows, panel);
        }
    }

    /// The columns of rows `rows`, which start at a multiple of the block's columns.
    pub(crate) fn panels(&self, rows: &Range<usize>) -> Panels<'_, T> {
        let lanes = COLUMNS;
        Panels {
            data: &self.data[rows.start * self.width..],
            stride: self.width * lanes,
            step: lanes,
            depth: self.width,
            count: rows.len().div_ceil(lanes),
        }
    }
}

/// A copy of rows, [`padded_width`] apart: the left factor of products with other rows, and the right
/// factor of weighted sums of these.
///
/// A product multiplies every weight of a tile with every row, also the weight 0 of a forbidden
/// pair; 0 times a NaN or an infinity would be NaN. So there is a second copy where rows hold such a
/// number, in which they are zero, and [`Along::add_weighted`] adds them pair by pair, where the weight is
/// not 0. A pair of weight 0 thus takes nothing of a row, whatever it holds, and finite rows are
/// summed the same way whatever else is in the tile.
#[derive(Debug)]
pub(crate) struct Along<T: Real> {
    data: Buffer<T>,
    len: usize,
    width: usize,
    /// The copy with zeros, where `odd` is not empty.
    finite: Buffer<T>,
    /// The rows that are not all finite, in order.
    odd: Vec<usize>,
}

impl<T: Real> Along<T> {
    pub(crate) fn new() -> Self {
        let (data, finite) = (Buffer::stale(0), Buffer::stale(0));
        Self { data, len: 0, width: 0, finite, odd: Vec::new() }
    }

    /// Takes rows `rows` of the source.
    pub(crate) fn pack(&mut self, source: Source<'_, T>, rows: Range<usize>) {
        let data = self.start(rows.len(), source.width);
        if !copy(source, rows, data, padded_width(source.width)) {
            self.find_odd();
        }
    }

    /// Takes rows `rows` of the source, turned to positions from `first` on.
    pub(crate) fn pack_turned(
        &mut self,
        source: Source<'_, T>,
        rows: Range<usize>,
        position: &dyn Position<T>,
        first: usize,
    ) {
        if !position.turns() {
            return self.pack(source, rows);
        }
        let (width, stride) = (source.width, padded_width(source.width));
        let data = self.start(rows.len(), width);
        copy(source, rows, data, stride);
        turn(position, first, data, width, stride);
        if !all_finite(data) {
            self.find_odd();
        }
    }

    /// Room for `len` rows.
    fn start(&mut self, len: usize, width: usize) -> &mut [T] {
        let size = len * padded_width(width);
        grow(&mut self.data, size);
        self.odd.clear();
        (self.len, self.width) = (len, width);
        &mut self.data[..size]
    }

    #[cold]
    fn find_odd(&mut self) {
        let stride = padded_width(self.width);
        let size = self.len * stride;
        grow(&mut self.finite, size);
        self.finite[..size].copy_from_slice(&self.data[..size]);
        for (r, row) in self.finite[..size].chunks_exact_mut(stride).enumerate() {
            if !all_finite(row) {
                self.odd.push(r);
                row.fill(T::ZERO);
            }
        }
    }

    /// Rows `rows` as they were given.
    pub(crate) fn rows(&self, rows: &Range<usize>) -> Block<'_, T> {
        let stride = padded_width(self.width);
        let data = &self.data[rows.start * stride..rows.end * stride];
        Block { data, rows: rows.len(), width: self.width, stride }
    }

    /// All rows as they were given.
    pub(crate) fn all(&self) -> Block<'_, T> {
        self.rows(&(0..self.len))
    }

    /// Whether no row holds NaN or an infinity.
    pub(crate) fn all_finite(&self) -> bool {
        self.odd.is_empty()
    }

    /// All rows, [`padded_width`] apart, as a source.
    pub(crate) fn source(&self) -> Source<'_, T> {
        let row_stride = padded_width(self.width);
        let rows = Rows { data: &self.data[..self.len * row_stride], row_stride, head_stride: 0 };
        Source::new(rows, 0, 0, self.width)
    }

    /// `c_i += α·Σ_j a_ij b_j` over the rows `rows` of b.
    ///
    /// Row j of b is column `j − rows.start` of `left`. Rows of `c` are `stride` apart.
    pub(crate) fn add_weighted(
        &self,
        c: &mut [T],
        stride: usize,
        m: usize,
        left: Left<'_, T>,
        alpha: T,
        rows: &Range<usize>,
    ) {
        let step = padded_width(self.width);
        let data = if self.odd.is_empty() { &self.data } else { &self.finite };
        let right = Panels {
            data: &data[rows.start * step..rows.end * step],
            stride: COLUMNS,
            step,
            depth: rows.len(),
            count: step / COLUMNS,
        };
        Product { c: &mut *c, stride, rows: m, left, right, alpha }.add();
        for j in &self.odd {
            if !rows.contains(j) {
                continue;
            }
            let row = &self.data[j * step..j * step + self.width];
            for i in 0..m {
                let weight = left.at(i, j - rows.start);
                if weight != T::ZERO {
                    for (c, b) in c[i * stride..].iter_mut().zip(row) {
                        *c += alpha * weight * *b;
                    }
                }
            }
        }
    }

    /// The rows `rows` as they were given, whole panels wide.
    pub(crate) fn panels_of(&self, rows: &Range<usize>) -> Block<'_, T> {
        Block { width: padded_width(self.width), ..self.rows(rows) }
    }

    /// `c_j += α·Σ_i a_ij b_i` over all rows of b, for the keys j of a tile of weights that is `cover`ed;
    /// outside its parts the weights are 0.
    pub(crate) fn add_weighted_by_key(
        &self,
        c: &mut [T],
        stride: usize,
        cover: Cover,
        weights: &[T],
        weights_stride: usize,
        alpha: T,
    ) {
        for part in cover.parts_by_key() {
            let data = &weights[part.first(weights_stride)..];
            let left = Left::Columns { data, stride: weights_stride };
            let c = &mut c[part.columns.start * stride..];
            self.add_weighted(c, stride, part.columns.len(), left, alpha, &part.rows);
        }
    }
}

/// The values of one unit: packed, or where they lie.
#[derive(Debug)]
pub(crate) struct Values<'a, T: Real> {
    packed: Along<T>,
    given: Option<Source<'a, T>>,
}

impl<'a, T: Real> Values<'a, T> {
    pub(crate) fn new() -> Self {
        Self { packed: Along::new(), given: None }
    }

    /// Takes `len` values for so many queries. For a few, whole panels of values are read where they lie.
    pub(crate) fn take(&mut self, source: Source<'a, T>, len: usize, queries: usize) {
        let few = queries <= few::MOST && source.width.is_multiple_of(COLUMNS);
        self.given = few.then_some(source);
        if !few {
            self.packed.pack(source, 0..len);
        }
    }

    /// Where values are read as they lie.
    pub(crate) fn given(&self) -> Option<Source<'a, T>> {
        self.given
    }

    /// As [`Values::add_weighted`], with the weights of a sparse tile.
    pub(crate) fn add_supported(
        &self,
        c: &mut [T],
        c_stride: usize,
        support: &Support,
        weights: (&[T], usize),
        rows: &Range<usize>,
    ) {
        let b = match self.given {
            None => self.packed.panels_of(rows),
            Some(given) => {
                let (data, stride) = given.from(rows.start);
                Block { data, rows: rows.len(), width: given.width, stride }
            }
        };
        support.add(c, c_stride, weights, T::ONE, b);
    }

    /// As [`Along::add_weighted`], with α = 1.
    ///
    /// Values that are read where they lie are not looked at for NaN and infinities, which would read them twice: a product
    /// with one of them shows it. Then the tile is done again with care.
    pub(crate) fn add_weighted(
        &self,
        c: &mut [T],
        stride: usize,
        m: usize,
        left: Left<'_, T>,
        rows: &Range<usize>,
    ) {
        let Some(given) = self.given else {
            return self.packed.add_weighted(c, stride, m, left, T::ONE, rows);
        };
        let (data, step) = given.from(rows.start);
        let count = given.width / COLUMNS;
        let right = Panels { data, stride: COLUMNS, step, depth: rows.len(), count };
        let c = &mut c[..m.saturating_sub(1) * stride + given.width];
        let before = c.to_vec();
        Product { c: &mut *c, stride, rows: m, left, right, alpha: T::ONE }.add();
        if !all_finite(c) {
            c.copy_from_slice(&before);
            let mut packed = Along::new();
            packed.pack(given, rows.clone());
            packed.add_weighted(c, stride, m, left, T::ONE, &(0..rows.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regard_testkit::random_vec;

    #[test]
    fn products_of_packed_rows_are_those_of_the_rows() {
        for (m, n, d) in [(1, 1, 1), (7, 13, 5), (6, 64, 16), (17, 65, 9), (3, 130, 31)] {
            let (a, b) = (random_vec(1, m * d), random_vec(2, n * d));
            let mut across = Across::new();
            across.pack(Source::dense(&b, d), n);
            let stride = padded_width(n);
            let mut c = vec![0.0; m * stride];
            let right = across.panels(&(0..n));
            let left = Left::Rows { data: &a, stride: d };
            Product { c: &mut c, stride, rows: m, left, right, alpha: 2.0 }.add();
            for i in 0..m {
                for j in 0..n {
                    let want: f64 = (0..d).map(|x| 2.0 * a[i * d + x] * b[j * d + x]).sum();
                    assert!((c[i * stride + j] - want).abs() < 1e-14 * d as f64);
                }
                assert!(c[i * stride + n..(i + 1) * stride].iter().all(|x| *x == 0.0));
            }
            // C·B, tile by tile, by rows and by columns of C.
            let mut along = Along::new();
            along.pack(Source::dense(&b, d), 0..n);
            let width = padded_width(d);
            let transposed: Vec<f64> = (0..n * m).map(|x| c[(x % m) * stride + x / m]).collect();
            let (mut by_rows, mut by_columns) = (vec![0.0; m * width], vec![0.0; m * width]);
            for start in (0..n).step_by(64) {
                let tile = start..n.min(start + 64);
                let left = Left::Rows { data: &c[start..], stride };
                along.add_weighted(&mut by_rows, width, m, left, 1.0, &tile);
                let left = Left::Columns { data: &transposed[start * m..], stride: m };
                along.add_weighted(&mut by_columns, width, m, left, 1.0, &tile);
            }
            assert_eq!(by_rows, by_columns);
            for i in 0..m {
                for x in 0..d {
                    let want: f64 = (0..n).map(|j| c[i * stride + j] * b[j * d + x]).sum();
                    assert!((by_rows[i * width + x] - want).abs() < 1e-13 * (n * d) as f64);
                }
            }
        }
    }

    #[test]
    fn a_weight_of_zero_takes_nothing_and_changes_no_bit() {
        let mut b = random_vec(3, 5 * 3);
        let weights = [0.5, 0.0, 0.25, 0.0, 0.125];
        let sum = |b: &[f64]| {
            let mut along = Along::new();
            along.pack(Source::dense(b, 3), 0..5);
            let mut c = vec![0.0; COLUMNS];
            for tile in [0..4, 4..5] {
                let left = Left::Rows { data: &weights[tile.start..], stride: 5 };
                along.add_weighted(&mut c, COLUMNS, 1, left, 1.0, &tile);
            }
            c
        };
        let want = sum(&b);
        (b[3], b[10]) = (f64::NAN, f64::INFINITY);
        assert_eq!(sum(&b), want);
        // One that is looked at shows, in its own column.
        b[6] = f64::NAN;
        let got = sum(&b);
        assert!(got[0].is_nan() && got[1].is_finite() && got[2].is_finite());
    }

    #[test]
    fn values_read_where_they_lie_pass_over_what_has_no_weight() {
        let (m, n, d, stride) = (3, 64, 32, 64);
        for (odd, weight) in [(f64::NAN, 0.0), (f64::INFINITY, 0.0), (f64::NEG_INFINITY, 0.5)] {
            let mut data = random_vec(3, n * d);
            let mut weights = random_vec(4, m * stride);
            data[7 * d + 5] = odd;
            (0..m).for_each(|i| weights[i * stride + 7] = weight);
            let source = Source::dense(&data, d);
            let context = |queries: usize| {
                let mut values = Values::new();
                values.take(source, n, queries);
                assert_eq!(values.given.is_some(), queries <= few::MOST);
                let mut c = random_vec(5, m * d);
                let left = Left::Rows { data: &weights, stride };
                values.add_weighted(&mut c, d, m, left, &(0..n));
                c.iter().map(|c| c.to_bits()).collect::<Vec<_>>()
            };
            assert_eq!(context(m), context(64), "{odd}, {weight}");
            let finite = context(m).iter().all(|c| f64::from_bits(*c).is_finite());
            assert_eq!(finite, weight == 0.0);
        }
    }
}
