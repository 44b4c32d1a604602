//! A right factor in panels.

use rayon::prelude::*;

use super::super::product::{COLUMNS, Panels};
use super::super::transpose;
use super::{GROUP, Mat};
use crate::{Buffer, Real};

/// Elements below which packing stays on the calling thread.
const PACK_SERIAL: usize = 1 << 15;
/// A right factor in the order in which products read it, for many products with one matrix.
#[derive(Debug)]
pub struct Packed<T: Real> {
    /// Panel p holds columns 16·p to 16·p + 15, row after row; the last is filled up with zeros.
    data: Buffer<T>,
    pub(super) depth: usize,
    pub(super) cols: usize,
}

impl<T: Real> Packed<T> {
    /// Copies B, k × n. Cost k·n, on several threads where that pays.
    pub fn new(b: Mat<'_, T>) -> Self {
        let (depth, cols) = (b.rows, b.cols);
        let mut data = Buffer::stale(depth * cols.next_multiple_of(COLUMNS));
        if !data.is_empty() {
            let pack = |(g, out): (usize, &mut [T])| pack_panels(b, g * GROUP * COLUMNS, out);
            if data.len() < PACK_SERIAL {
                pack((0, &mut data));
            } else {
                let _call = crate::parallel::call();
                data.par_chunks_mut(GROUP * depth * COLUMNS).enumerate().for_each(pack);
            }
        }
        Self { data, depth, cols }
    }

    /// Panels from `first` on, of the rows of one piece of the depth.
    pub(super) fn panels(
        &self,
        first: usize,
        count: usize,
        from: usize,
        depth: usize,
    ) -> Panels<'_, T> {
        let stride = self.depth * COLUMNS;
        let data = &self.data[first * stride + from * COLUMNS..];
        Panels { data, stride, step: COLUMNS, depth, count }
    }
}

/// The panels of B from column `first` on, as many as `out` has room for.
pub(super) fn pack_panels<T: Real>(b: Mat<'_, T>, first: usize, out: &mut [T]) {
    let panel = b.rows * COLUMNS;
    if b.col_stride == 1 {
        // Row by row, as they lie in memory.
        for k in 0..b.rows {
            let row = &b.data[k * b.row_stride + first..k * b.row_stride + b.cols];
            let (whole, rest) = row.as_chunks::<COLUMNS>();
            let mut places = out.chunks_exact_mut(panel).map(|out| &mut out[k * COLUMNS..]);
            for (piece, out) in whole.iter().zip(&mut places) {
                out[..COLUMNS].copy_from_slice(piece);
            }
            if let Some(out) = places.next() {
                out[..rest.len()].copy_from_slice(rest);
                out[rest.len()..COLUMNS].fill(T::ZERO);
            }
        }
        return;
    }
    for (p, out) in out.chunks_exact_mut(panel).enumerate() {
        let first = first + p * COLUMNS;
        let width = COLUMNS.min(b.cols - first);
        if width == COLUMNS && b.row_stride == 1 {
            let column = |l: usize| &b.data[(first + l) * b.col_stride..][..b.rows];
            transpose::sixteen(&std::array::from_fn(column), out);
            continue;
        }
        for (k, out) in out.chunks_exact_mut(COLUMNS).enumerate() {
            for (l, out) in out.iter_mut().enumerate() {
                let at = k * b.row_stride + (first + l) * b.col_stride;
                *out = if l < width { b.data[at] } else { T::ZERO };
            }
        }
    }
}
