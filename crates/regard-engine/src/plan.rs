//! How a call is cut into tasks and tiles.
//!
//! A unit is one item and one key head, with all query heads that use it: its keys and values are
//! packed once. A tile is [`QUERIES`] × [`KEYS`] scores; tiles begin at the item's start, so that
//! an item is cut the same way alone, in a padded and in a packed batch.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use regard_attn::{Call, Item, Rows};
use regard_tensor::{Real, parallel};

use crate::fault::{self, Fault};
use crate::kernel::LANES;
use crate::pack::Source;

/// Queries of a tile.
pub(crate) const QUERIES: usize = 64;

/// Keys of a tile. A tile of scores is 16 KiB in f32: half of the smallest first-level cache.
pub(crate) const KEYS: usize = 64;

/// Multiply-adds below which work stays on the calling thread, some ten microseconds: waking
/// another thread costs about as much.
const SERIAL: usize = 1 << 18;

/// Multiply-adds that a thread takes at a time, at least.
const GRAIN: usize = 1 << 17;

/// The inputs of a call.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a, T: Real> {
    pub(crate) call: &'a Call<'a, T>,
    pub(crate) q: Rows<'a, T>,
    pub(crate) k: Rows<'a, T>,
    pub(crate) v: Rows<'a, T>,
}

/// One item and one key head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unit {
    pub(crate) item: usize,
    pub(crate) kv_head: usize,
}

impl<'a, T: Real> Inputs<'a, T> {
    pub(crate) fn item(&self, unit: Unit) -> Item {
        self.call.items[unit.item]
    }

    /// Number of units.
    pub(crate) fn units(&self) -> usize {
        self.call.items.len() * self.call.dims.n_kv_heads
    }

    pub(crate) fn unit(&self, n: usize) -> Unit {
        let heads = self.call.dims.n_kv_heads;
        Unit { item: n / heads, kv_head: n % heads }
    }

    /// The query heads of a unit.
    pub(crate) fn heads(&self, unit: Unit) -> Range<usize> {
        let group = self.call.dims.n_heads / self.call.dims.n_kv_heads;
        unit.kv_head * group..(unit.kv_head + 1) * group
    }

    /// Multiply-adds of one product of scores and one of contexts, if every pair is allowed.
    pub(crate) fn work(&self, unit: Unit) -> usize {
        let (item, dims) = (self.item(unit), self.call.dims);
        item.q_len * item.kv_len * (dims.d_k + dims.d_v) * self.heads(unit).len()
    }

    /// The queries of a head.
    pub(crate) fn queries(&self, unit: Unit, head: usize) -> Source<'a, T> {
        let start = self.item(unit).q_start;
        Source::new(self.q, start, head, self.call.dims.d_k)
    }

    /// The keys of a unit.
    pub(crate) fn keys(&self, unit: Unit) -> Source<'a, T> {
        let start = self.item(unit).kv_start;
        let wrong = fault::is(Fault::WrongKeyHead);
        let heads = self.call.dims.n_kv_heads;
        let head = if wrong { (unit.kv_head + 1) % heads } else { unit.kv_head };
        Source::new(self.k, start, head, self.call.dims.d_k)
    }

    /// The values of a unit.
    pub(crate) fn values(&self, unit: Unit) -> Source<'a, T> {
        let start = self.item(unit).kv_start;
        Source::new(self.v, start, unit.kv_head, self.call.dims.d_v)
    }
}

/// Cuts `range` at the multiples of `size`. The first piece begins at the multiple of [`LANES`] before
/// the range, so that every key keeps its lane.
pub(crate) fn tiles(range: Range<usize>, size: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = range.start / LANES * LANES;
    let end = if range.is_empty() { start } else { range.end };
    std::iter::from_fn(move || {
        let tile = start..end.min((start / size + 1) * size);
        start = tile.end;
        (!tile.is_empty()).then_some(tile)
    })
}

/// What of a region is taken, in a cache line of its own.
#[repr(align(128))]
struct Taken(AtomicUsize);

/// The results of `f(scratch, n)` for n in 0..count, in order; computed by several threads where
/// `work` (multiply-adds of the whole) is worth it. On the calling thread `scratch` is used,
/// elsewhere what `new` makes, once for each thread that takes part.
///
/// Each thread has a region of its own, call after call, whose rows its cache may still hold; then it helps the others.
pub(crate) fn run<S: Send, R: Send>(
    scratch: &mut S,
    count: usize,
    work: usize,
    new: impl Fn() -> S + Sync + Send,
    f: impl Fn(&mut S, usize) -> R + Sync + Send,
) -> Vec<R> {
    let threads = rayon::current_num_threads();
    if work < SERIAL || count <= 1 || threads == 1 {
        return (0..count).map(|n| f(scratch, n)).collect();
    }
    let _call = parallel::call();
    let at_once = (GRAIN * count / work).max(1);
    let tasks = threads.min(count.div_ceil(at_once));
    let border = |region: usize| count * region / tasks;
    let taken: Vec<_> = (0..tasks).map(|region| Taken(AtomicUsize::new(border(region)))).collect();
    // Takes some, and some more, until all are taken.
    let take = |scratch: &mut S| {
        let own = rayon::current_thread_index().unwrap_or(0);
        let mut done = Vec::new();
        for region in (0..tasks).map(|n| (own + n) % tasks) {
            let end = border(region + 1);
            loop {
                let first = taken[region].0.fetch_add(at_once, Ordering::Relaxed);
                if first >= end {
                    break;
                }
                let part = first..end.min(first + at_once);
                done.push((first, part.map(|n| f(scratch, n)).collect::<Vec<R>>()));
            }
        }
        done
    };
    let is_left = |region: usize| taken[region].0.load(Ordering::Relaxed) < border(region + 1);
    // A thread that comes too late makes nothing.
    let other = |_| if (0..tasks).any(is_left) { take(&mut new()) } else { Vec::new() };
    let (mut done, of_others) = rayon::join(
        || take(scratch),
        || (1..tasks).into_par_iter().with_max_len(1).map(other).collect::<Vec<_>>(),
    );
    done.extend(of_others.into_iter().flatten());
    done.sort_unstable_by_key(|(first, _)| *first);
    done.into_iter().flat_map(|(_, part)| part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whichever_threads_take_part() {
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            for (count, work) in [(0, 0), (1, SERIAL), (7, SERIAL), (100, SERIAL), (100, 1 << 40)] {
                let once = AtomicUsize::new(0);
                let f = |seen: &mut usize, n: usize| {
                    *seen += 1;
                    once.fetch_add(1, Ordering::Relaxed);
                    n * n
                };
                let done = pool.install(|| run(&mut 0, count, work, || 0, f));
                assert_eq!(done, (0..count).map(|n| n * n).collect::<Vec<_>>());
                assert_eq!(once.into_inner(), count, "{threads} threads, {work}");
            }
        }
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "a list of one tile")]
    fn tiles_begin_at_borders_and_cover_the_range() {
        let cut = |range| tiles(range, 64).collect::<Vec<_>>();
        assert_eq!(cut(0..129), [0..64, 64..128, 128..129]);
        assert_eq!(cut(65..128), [64..128]);
        assert_eq!(cut(83..130), [80..128, 128..130]);
        assert!(cut(0..0).is_empty() && cut(13..13).is_empty());
        #[allow(clippy::reversed_empty_ranges, reason = "a scope may answer so")]
        let backwards = cut(20..3);
        assert!(backwards.is_empty());
    }
}
