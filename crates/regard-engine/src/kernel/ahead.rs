//! Reading ahead: while one unit is computed, the rows of the next are fetched into the second-level cache.
//!
//! Rows of one head lie apart in memory, a stretch of a few cache lines in each row of all heads, which the processor does
//! not guess. A product asks for some lines after each of its blocks; nothing else depends on it.

use std::cell::RefCell;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Lines that one block of a product asks for.
const AT_ONCE: usize = 16;
/// Bytes that are fetched at most: a quarter of a second-level cache of 2 MiB.
const MOST: usize = 512 << 10;

/// Rows of memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Region {
    pub(crate) start: *const u8,
    /// Bytes between rows, and of a row.
    pub(crate) stride: usize,
    pub(crate) width: usize,
    pub(crate) rows: usize,
}

struct Queue {
    regions: Vec<Region>,
    row: usize,
    /// Bytes of the row that were asked for.
    column: usize,
}

thread_local! {
    static QUEUE: RefCell<Queue> =
        const { RefCell::new(Queue { regions: Vec::new(), row: 0, column: 0 }) };
}

/// Has these regions fetched from now on, in place of what was still waiting; none if they are too large to
/// stay in the cache.
pub(crate) fn fetch(regions: impl Iterator<Item = Region>) {
    QUEUE.with_borrow_mut(|queue| {
        queue.regions.clear();
        queue.regions.extend(regions);
        (queue.row, queue.column) = (0, 0);
        if queue.regions.iter().map(|r| r.width * r.rows).sum::<usize>() > MOST {
            queue.regions.clear();
        }
    });
}

/// Asks for the next lines.
#[inline]
pub(crate) fn step() {
    QUEUE.with_borrow_mut(|queue| {
        for _ in 0..AT_ONCE {
            let Some(region) = queue.regions.last().copied() else {
                return;
            };
            prefetch(region.start.wrapping_add(queue.row * region.stride + queue.column));
            queue.column += LINE;
            if queue.column >= region.width {
                (queue.row, queue.column) = (queue.row + 1, 0);
            }
            if queue.row >= region.rows {
                queue.row = 0;
                queue.regions.pop();
            }
        }
    });
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    // SAFETY: a prefetch reads nothing; it is a hint, and any address will do.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) };
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch(_: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> usize {
        QUEUE.with_borrow(|queue| queue.regions.len())
    }

    #[test]
    fn regions_are_walked_to_their_end() {
        let data = [0u8; 4096];
        let region = |width| Region { start: data.as_ptr(), stride: 512, width, rows: 5 };
        fetch([region(256), region(100), region(0)].into_iter());
        let mut steps = 0;
        while waiting() > 0 {
            step();
            steps += 1;
        }
        // 5 rows of 4 lines, of 2 and of one each.
        assert_eq!(steps, 35usize.div_ceil(AT_ONCE));
        step();
        fetch(std::iter::once(Region { rows: usize::MAX >> 10, ..region(512) }));
        assert_eq!(waiting(), 0);
    }
}
