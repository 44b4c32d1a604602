//! How much memory the program holds, counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);
static TOTAL: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with what is taken from it counted. A program that is to be measured makes it
/// its `#[global_allocator]`; without that only the large blocks of [`crate::buffer`] are counted, which are
/// taken from the system past every allocator.
#[derive(Debug)]
pub struct Counting;

pub(crate) fn taken(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(live, Ordering::Relaxed);
    COUNT.fetch_add(1, Ordering::Relaxed);
    TOTAL.fetch_add(bytes, Ordering::Relaxed);
}

pub(crate) fn given_back(bytes: usize) {
    LIVE.fetch_sub(bytes, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        given_back(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // Both blocks may live at once while the contents move.
        taken(new_size);
        given_back(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

/// Bytes held now.
pub fn live_bytes() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// The most bytes held at once while `f` ran, above what was held before it; and what `f` returned.
/// What other threads take meanwhile counts, too.
pub fn peak_of<R>(f: impl FnOnce() -> R) -> (usize, R) {
    let before = live_bytes();
    PEAK.store(before, Ordering::Relaxed);
    let result = f();
    (PEAK.load(Ordering::Relaxed).saturating_sub(before), result)
}

/// What was taken from the allocator since the program began, however soon it was given back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Number of blocks; a block that grows counts once more.
    pub blocks: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// What was taken until now.
pub fn taken_so_far() -> Taken {
    Taken { blocks: COUNT.load(Ordering::Relaxed), bytes: TOTAL.load(Ordering::Relaxed) }
}

/// Memory that the system lends the process, in pages that it has touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// Bytes now.
    pub now_bytes: usize,
    /// The most since the process began, or since [`forget_resident_peak`].
    pub peak_bytes: usize,
}

/// The resident memory of this process; `None` where the system does not tell (it is read from Linux's
/// `/proc/self/status`).
pub fn resident() -> Option<Resident> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    };
    Some(Resident { now_bytes: bytes("VmRSS:")?, peak_bytes: bytes("VmHWM:")? })
}

/// Lets the peak of [`resident`] begin anew; without effect where the system cannot.
pub fn forget_resident_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_has_a_peak() {
        let block = vec![1u8; 32 << 20];
        std::hint::black_box(&block);
        if let Some(Resident { now_bytes, peak_bytes }) = resident() {
            assert!(now_bytes >= block.len() && peak_bytes >= block.len());
        }
    }
}
