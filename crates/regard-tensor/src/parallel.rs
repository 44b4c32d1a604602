//! Splitting work into pieces whose borders never depend on the number of threads.
//!
//! Every piece is computed by one thread from start to end, and sums over pieces are taken in
//! order of the pieces. So one thread and eight give the same bits.

use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rayon::{Yield, prelude::*};

/// Work below this many scalar operations is done on the calling thread: waking another costs
/// some microseconds.
pub const SMALL: usize = 1 << 15;

/// How long a thread looks out for the next parallel call, from the last one on, before it sleeps.
///
/// Waking a thread takes tens of microseconds, on virtual machines more than many a call does; this covers
/// the pauses between the calls of a step and between the steps of a program that computes all the time.
const LINGER: Duration = Duration::from_millis(1);

/// How long it does so at most, whatever happens: beneath it on the thread's stack may stand a call that waits.
const LINGER_AT_MOST: Duration = Duration::from_millis(20);

/// Parallel calls that run, and those begun so far.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
static BEGUN: AtomicUsize = AtomicUsize::new(0);
/// Threads that look out for the next call, or are about to.
static LINGERING: AtomicUsize = AtomicUsize::new(0);

/// A parallel call, for as long as it lives: after the last one the other threads stay awake for a millisecond, since
/// the next one often follows at once. For code that calls rayon by itself.
#[must_use]
pub fn call() -> impl Drop {
    BEGUN.fetch_add(1, Ordering::Relaxed);
    RUNNING.fetch_add(1, Ordering::Relaxed);
    Running
}

struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        if RUNNING.fetch_sub(1, Ordering::Relaxed) == 1 {
            keep_awake();
        }
    }
}

/// Lets all threads but this one linger, unless some do.
fn keep_awake() {
    let me = rayon::current_thread_index();
    let others = rayon::current_num_threads() - usize::from(me.is_some());
    if others == 0
        || rayon::current_num_threads() > processors()
        || LINGERING.compare_exchange(0, others, Ordering::Relaxed, Ordering::Relaxed).is_err()
    {
        return;
    }
    rayon::spawn_broadcast(move |context| {
        if Some(context.index()) != me {
            linger();
            LINGERING.fetch_sub(1, Ordering::Relaxed);
        }
    });
}

/// Processors of this machine: more threads than that would only take them from each other.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(1, NonZero::get))
}

/// Does what there is to do until nothing was begun for a while; returns whether it did.
///
/// Where a call runs it returns at once: a thread that waits for its own part of one may have picked this up.
fn linger() -> bool {
    if RUNNING.load(Ordering::Relaxed) > 0 {
        return false;
    }
    let start = Instant::now();
    let (mut seen, mut since) = (BEGUN.load(Ordering::Relaxed), start);
    while since.elapsed() < LINGER && start.elapsed() < LINGER_AT_MOST {
        let done = rayon::yield_now() == Some(Yield::Executed);
        let begun = BEGUN.load(Ordering::Relaxed);
        if done || begun != seen {
            (seen, since) = (begun, Instant::now());
        } else {
            std::thread::yield_now();
        }
    }
    true
}

/// Calls `f(i, piece)` for consecutive pieces of `chunk` elements (the last may be shorter).
///
/// `work` is the number of scalar operations of the whole; small work stays on this thread.
///
/// # Panics
/// If `chunk` is 0 and there are elements.
pub fn chunks<T: Send>(
    data: &mut [T],
    chunk: usize,
    work: usize,
    f: impl Fn(usize, &mut [T]) + Sync + Send,
) {
    if work < SMALL || data.len() <= chunk {
        data.chunks_mut(chunk.max(1)).enumerate().for_each(|(i, piece)| f(i, piece));
    } else {
        let _call = call();
        data.par_chunks_mut(chunk).enumerate().for_each(|(i, piece)| f(i, piece));
    }
}

/// Calls `f(i, a, b)` for matching pieces of two arrays, `chunk_a` and `chunk_b` elements long.
///
/// # Panics
/// If a chunk length is 0 and there are elements.
pub fn chunks2<A: Send, B: Send>(
    a: &mut [A],
    chunk_a: usize,
    b: &mut [B],
    chunk_b: usize,
    work: usize,
    f: impl Fn(usize, &mut [A], &mut [B]) + Sync + Send,
) {
    let (ca, cb) = (chunk_a.max(1), chunk_b.max(1));
    if work < SMALL || a.len() <= ca {
        let pieces = a.chunks_mut(ca).zip(b.chunks_mut(cb));
        pieces.enumerate().for_each(|(i, (x, y))| f(i, x, y));
    } else {
        let _call = call();
        let pieces = a.par_chunks_mut(ca).zip(b.par_chunks_mut(cb));
        pieces.enumerate().for_each(|(i, (x, y))| f(i, x, y));
    }
}

/// As [`chunks2`], for three arrays.
///
/// # Panics
/// If a chunk length is 0 and there are elements.
pub fn chunks3<T: Send>(
    (a, b, c): (&mut [T], &mut [T], &mut [T]),
    chunks: [usize; 3],
    work: usize,
    f: impl Fn(usize, (&mut [T], &mut [T], &mut [T])) + Sync + Send,
) {
    let [ca, cb, cc] = chunks.map(|chunk| chunk.max(1));
    if work < SMALL || a.len() <= ca {
        let pieces = a.chunks_mut(ca).zip(b.chunks_mut(cb)).zip(c.chunks_mut(cc));
        pieces.enumerate().for_each(|(i, ((a, b), c))| f(i, (a, b, c)));
    } else {
        let _call = call();
        let pieces = a.par_chunks_mut(ca).zip(b.par_chunks_mut(cb));
        let pieces = pieces.zip(c.par_chunks_mut(cc));
        pieces.enumerate().for_each(|(i, ((a, b), c))| f(i, (a, b, c)));
    }
}

/// Calls `f(i)` for i in 0..n and returns the results in order.
pub fn map<R: Send>(n: usize, work: usize, f: impl Fn(usize) -> R + Sync + Send) -> Vec<R> {
    if work < SMALL || n <= 1 {
        (0..n).map(f).collect()
    } else {
        let _call = call();
        (0..n).into_par_iter().map(f).collect()
    }
}

/// Runs two closures, on two threads where there are two.
pub fn join<A: Send, B: Send>(
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B + Send,
) -> (A, B) {
    let _call = call();
    rayon::join(a, b)
}

/// As [`join`] where `work`, in scalar operations, is worth it; else one after the other.
pub fn join_if<A: Send, B: Send>(
    work: usize,
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B + Send,
) -> (A, B) {
    if work < SMALL { (a(), b()) } else { join(a, b) }
}

/// Runs a whole program's work on one of the threads that parallel work is spread over.
///
/// From any other thread each parallel call has to wake one of them and to sleep until it is done, which
/// costs some ten microseconds; from one of them a call begins at once.
pub fn within<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    rayon::scope(|_| f())
}

/// How many rows of `cols` elements make a piece of about 16 KiB of `f32`.
pub fn rows_per_chunk(cols: usize) -> usize {
    (4096 / cols.max(1)).max(1)
}

/// Sets the number of threads for the whole process; 0 stands for one for each core. Results do
/// not depend on it.
///
/// # Errors
/// The threads cannot be started, or are running already: this must come before any other work.
pub fn set_threads(n: usize) -> Result<(), impl std::error::Error + Send + Sync + 'static> {
    rayon::ThreadPoolBuilder::new().num_threads(n).build_global()
}

/// Number of threads that parallel work is spread over.
pub fn threads() -> usize {
    rayon::current_num_threads()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_sleep_again_and_a_call_that_runs_is_not_held_up() {
        let sums = map(100, SMALL, |n| (0..1000).map(|x| x * n).sum::<usize>());
        assert_eq!(sums[3], 3 * 999 * 500);
        {
            let _call = call();
            assert!(!linger());
        }
        // Other tests begin calls, too; each lingers for a millisecond after its last.
        let all_slept = || {
            (0..1000).any(|_| {
                std::thread::sleep(LINGER);
                LINGERING.load(Ordering::Relaxed) == 0
            })
        };
        assert!(all_slept());
    }

    #[test]
    fn many_callers_from_outside_get_their_results() {
        let work = |seed: usize| {
            for _ in 0..50 {
                let out = map(64, SMALL, |n| n * seed);
                assert_eq!(out[63], 63 * seed);
            }
        };
        std::thread::scope(|scope| {
            for seed in 1..5 {
                scope.spawn(move || work(seed));
            }
        });
    }
}
