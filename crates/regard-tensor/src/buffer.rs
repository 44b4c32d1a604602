//! Aligned memory that goes back to a pool when dropped.
//!
//! Training allocates the same sizes at every step; taking them fresh from the system costs
//! page faults that rival the arithmetic. A [`Buffer`] is taken from a process-wide pool, by
//! size class, and returned to it on drop. Memory is zeroed when it first comes from the
//! system, so what a recycled buffer holds is arbitrary but always initialised. Blocks that nobody asks for any more go
//! back to the system when the pool has become a quarter larger than what was ever in use at once.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use memmap2::MmapMut;

use crate::memory;

/// A cache line, and the widest SIMD register.
pub const ALIGNMENT: usize = 64;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for u32 {}
}

/// Types a [`Buffer`] can hold, numbers without padding: every bit pattern, all zeros among them, is a value.
pub trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The bytes of elements, in the order of this machine.
    fn bytes(elements: &[Self]) -> &[u8] {
        // SAFETY: elements are plain numbers without gaps, and any byte is a u8.
        unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
    }

    /// The bytes of elements, to be written in the order of this machine.
    fn bytes_mut(elements: &mut [Self]) -> &mut [u8] {
        let (start, n) = (elements.as_mut_ptr().cast(), size_of_val(elements));
        // SAFETY: as above, every pattern of bits is an element, and `elements` stays borrowed.
        unsafe { std::slice::from_raw_parts_mut(start, n) }
    }
}
impl Element for f32 {}
impl Element for f64 {}
impl Element for u32 {}

/// How much more than was ever in use at once the pool may hold, idle blocks included: batches of different
/// sizes need blocks of different classes, and those of one are no use to another.
const SPARE: (usize, usize) = (5, 4);
/// Idle memory that is never worth giving back.
const KEPT: usize = 64 << 20;

/// Idle blocks of one size class, and when one was last asked for.
#[derive(Default)]
struct Class {
    /// Bytes of a block.
    size: usize,
    idle: Vec<Block>,
    asked: u64,
}

/// What is idle, by size class, and how much there is.
#[derive(Default)]
struct Pool {
    /// By [`class_index`].
    classes: Vec<Class>,
    idle: usize,
    used: usize,
    most_used: usize,
    requests: u64,
}

impl Pool {
    fn class(&mut self, size: usize) -> &mut Class {
        let index = class_index(size);
        if self.classes.len() <= index {
            self.classes.resize_with(index + 1, Class::default);
        }
        let class = &mut self.classes[index];
        class.size = size;
        class
    }

    /// A block of a class, if one is idle. Else some idle blocks of other classes, those longest not asked for,
    /// are given back to the system where the pool would become too large.
    fn take(&mut self, class: usize) -> Option<Block> {
        self.requests += 1;
        self.used += class;
        self.most_used = self.most_used.max(self.used);
        let asked = self.requests;
        let own = self.class(class);
        own.asked = asked;
        if let Some(block) = own.idle.pop() {
            self.idle -= class;
            return Some(block);
        }
        let limit = (self.most_used / SPARE.1 * SPARE.0).max(self.used + KEPT);
        while self.idle > 0 && self.used + self.idle > limit {
            let oldest = self.classes.iter_mut().filter(|class| !class.idle.is_empty());
            let Some(oldest) = oldest.min_by_key(|class| class.asked) else { break };
            if let Some(block) = oldest.idle.pop() {
                self.idle -= oldest.size;
                block.free(oldest.size);
            }
        }
        None
    }

    fn put(&mut self, class: usize, block: Block) {
        self.used -= class;
        self.idle += class;
        self.class(class).idle.push(block);
    }

    /// Gives every idle block back to the system.
    fn trim(&mut self) {
        for class in &mut self.classes {
            let size = class.size;
            class.idle.drain(..).for_each(|block| block.free(size));
        }
        self.idle = 0;
    }
}

/// From this size on a block is a mapping of its own, in huge pages where the system has them: a page costs a
/// fault when it is first touched, which for small pages takes longer than filling them.
const MAPPED: usize = HUGE_PAGE;
const HUGE_PAGE: usize = 2 << 20;

/// A block of zeroed memory from the system; freed only by the pool.
#[derive(Debug)]
enum Block {
    Heap(NonNull<u8>),
    Mapped(MmapMut),
}
// SAFETY: a block is plain memory with one owner.
unsafe impl Send for Block {}

impl Block {
    /// Takes a block of a class from the system.
    fn new(class: usize) -> Self {
        FROM_SYSTEM.fetch_add(1, Ordering::Relaxed);
        if class < MAPPED {
            // SAFETY: a size class is never zero.
            let raw = unsafe { alloc_zeroed(layout(class)) };
            return Self::Heap(
                NonNull::new(raw).unwrap_or_else(|| handle_alloc_error(layout(class))),
            );
        }
        // Mappings of whole huge pages begin at one.
        let length = class.next_multiple_of(HUGE_PAGE);
        let Ok(map) = MmapMut::map_anon(length) else { handle_alloc_error(layout(class)) };
        // The last one, if the class ends in it, stays in small pages: touched, it would be taken whole.
        #[cfg(target_os = "linux")]
        let _ = map.advise_range(memmap2::Advice::HugePage, 0, class / HUGE_PAGE * HUGE_PAGE);
        memory::taken(class);
        Self::Mapped(map)
    }

    fn start(&mut self) -> NonNull<u8> {
        match self {
            Self::Heap(start) => *start,
            Self::Mapped(map) => NonNull::from(&mut map[..]).cast(),
        }
    }

    /// Gives the block back to the system.
    fn free(self, class: usize) {
        match self {
            // SAFETY: the block was allocated in `new` with this class and alignment.
            Self::Heap(start) => unsafe { dealloc(start.as_ptr(), layout(class)) },
            Self::Mapped(_) => memory::given_back(class),
        }
    }
}

static POOL: LazyLock<Mutex<Pool>> = LazyLock::new(|| Mutex::new(Pool::default()));
static FROM_SYSTEM: AtomicUsize = AtomicUsize::new(0);

fn pool() -> std::sync::MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rounds up to one of four sizes per power of two, so that batches of about the same size
/// share blocks and at most a fifth of a block is idle.
fn size_class(bytes: usize) -> usize {
    let bytes = bytes.max(256);
    let step = (bytes.next_power_of_two() / 8).max(ALIGNMENT);
    bytes.div_ceil(step) * step
}

/// The place of a size class among all of them, four for each power of two.
fn class_index(class: usize) -> usize {
    let power = class.next_power_of_two();
    4 * power.trailing_zeros() as usize + 8 * class / power - 5
}

/// How many blocks were taken from the system since the process began. It stops growing once
/// a training loop is warm.
pub fn blocks_from_system() -> usize {
    FROM_SYSTEM.load(Ordering::Relaxed)
}

/// Gives every idle block back to the system.
pub fn trim_pool() {
    pool().trim();
}

fn layout(class: usize) -> Layout {
    Layout::from_size_align(class, ALIGNMENT).expect("a size class is a valid layout")
}

/// `len` elements in 64-byte aligned, pooled memory.
#[derive(Debug)]
pub struct Buffer<T: Element> {
    ptr: NonNull<T>,
    len: usize,
    class: usize,
    /// What `ptr` points into; none where nothing is held, taken when the buffer is dropped.
    block: Option<Block>,
}

// SAFETY: a buffer owns its memory, and T is Send and Sync.
unsafe impl<T: Element> Send for Buffer<T> {}
// SAFETY: as above; shared access only reads.
unsafe impl<T: Element> Sync for Buffer<T> {}

impl<T: Element> Buffer<T> {
    /// A buffer whose contents are arbitrary values left by an earlier use.
    pub fn stale(len: usize) -> Self {
        Self::taken(len).0
    }

    /// A buffer, and whether its block comes fresh from the system.
    fn taken(len: usize) -> (Self, bool) {
        if len == 0 {
            // Nothing to take: what will grow begins so, in every task of every call.
            let ptr = NonNull::new(std::ptr::without_provenance_mut(ALIGNMENT));
            return (
                Self { ptr: ptr.unwrap_or(NonNull::dangling()), len, class: 0, block: None },
                true,
            );
        }
        let class = size_class(len * size_of::<T>());
        let recycled = pool().take(class);
        let is_fresh = recycled.is_none();
        let mut block = recycled.unwrap_or_else(|| Block::new(class));
        (Self { ptr: block.start().cast(), len, class, block: Some(block) }, is_fresh)
    }

    /// A buffer of zeros.
    pub fn zeroed(len: usize) -> Self {
        let (buffer, is_zero) = Self::taken(len);
        if !is_zero {
            // SAFETY: the memory is ours, and all-zero bits are a value of T.
            unsafe { std::ptr::write_bytes(buffer.ptr.as_ptr(), 0, buffer.len) };
        }
        buffer
    }

    /// A copy of a slice.
    pub fn copy_of(slice: &[T]) -> Self {
        let mut buffer = Self::stale(slice.len());
        buffer.copy_from_slice(slice);
        buffer
    }
}

impl<T: Element> Drop for Buffer<T> {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            pool().put(self.class, block);
        }
    }
}

impl<T: Element> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        Self::copy_of(self)
    }
}

impl<T: Element> Deref for Buffer<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `len` initialised elements lie at `ptr`, owned by us.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl<T: Element> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_the_request_and_waste_little() {
        for bytes in [0, 1, 255, 256, 257, 1000, 4096, 5000, 1 << 20, (1 << 20) + 1] {
            let class = size_class(bytes);
            assert!(class >= bytes && class.is_multiple_of(ALIGNMENT));
            assert!(bytes < 512 || class <= bytes + bytes / 4);
        }
        let mut classes: Vec<usize> = (0..100_000).map(size_class).collect();
        classes.dedup();
        assert!(classes.is_sorted());
        let mut places: Vec<usize> = classes.iter().map(|class| class_index(*class)).collect();
        places.dedup();
        assert!(places.is_sorted() && places.len() == classes.len());
    }

    #[test]
    fn idle_blocks_of_other_sizes_are_given_back() {
        let mut pool = Pool::default();
        let size = |n: usize| size_class((KEPT / 4) + n * (KEPT / 8));
        for n in 0..40 {
            // One block in use at a time, of ever other sizes.
            let class = size(n);
            let block = pool.take(class).unwrap_or_else(|| Block::new(class));
            assert_eq!(pool.used, class);
            assert!(pool.used + pool.idle <= (pool.most_used * 5 / 4).max(pool.used + KEPT));
            pool.put(class, block);
        }
        // Blocks that are asked for again and again stay.
        let class = size(39);
        for _ in 0..3 {
            let block = pool.take(class).expect("the last one is still there");
            pool.put(class, block);
        }
        pool.trim();
    }

    #[test]
    fn buffers_are_aligned_zeroed_and_recycled() {
        for len in [0usize, 1, 3, 17, 1000] {
            let buffer = Buffer::<f32>::zeroed(len);
            assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
            assert!(buffer.iter().all(|x| *x == 0.0));
        }
        // A size that no other test uses, so that the block cannot be taken in between.
        let first = Buffer::<f64>::copy_of(&vec![7.0; 123_457]);
        let place = first.as_ptr() as usize;
        drop(first);
        let again = Buffer::<f64>::zeroed(123_450);
        assert_eq!(again.as_ptr() as usize, place);
        assert!(again.iter().all(|x| *x == 0.0));
    }
}
