//! Choosing the instruction set at run time.
//!
//! Kernels are written once, as plain loops over fixed-width lanes; [`vectorise`] compiles the
//! loop again for AVX2 and for AVX-512 and picks the best copy that the processor can run. Element-wise
//! kernels use no fused multiply-add, so they give the same bits at every level.
//! The environment variable `REGARD_SIMD` (`plain`, `avx2` or `avx512`) names the highest level to
//! use.

use std::sync::OnceLock;

/// An instruction set that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Whatever the compilation target guarantees.
    Plain,
    /// AVX2 and FMA, 256-bit lanes.
    Avx2,
    /// AVX-512 (F, BW, DQ and VL), 512-bit lanes.
    Avx512,
}

impl Level {
    /// The name that `REGARD_SIMD` takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

/// The level in use: the best that the processor has, but not above `REGARD_SIMD`; what that variable
/// holds beside the names of levels is not looked at.
///
/// Read once, at the first call.
#[inline(always)]
pub fn level() -> Level {
    // Kernels ask before every loop, so that a call would show.
    static LEVEL: OnceLock<Level> = OnceLock::new();
    match LEVEL.get() {
        Some(level) => *level,
        None => *LEVEL.get_or_init(find_level),
    }
}

#[cold]
fn find_level() -> Level {
    let highest = match std::env::var("REGARD_SIMD").as_deref() {
        Ok("plain") => Level::Plain,
        Ok("avx2") => Level::Avx2,
        _ => Level::Avx512,
    };
    best().min(highest)
}

/// What `REGARD_SIMD` holds, if that is the name of no level: a program may want to say so.
pub fn unknown_name() -> Option<String> {
    let name = std::env::var_os("REGARD_SIMD")?.to_string_lossy().into_owned();
    let levels = [Level::Plain, Level::Avx2, Level::Avx512];
    (!name.is_empty() && levels.iter().all(|level| level.name() != name)).then_some(name)
}

/// The best level that the processor has.
#[cfg(target_arch = "x86_64")]
fn best() -> Level {
    use std::arch::is_x86_feature_detected as has;
    if !(has!("avx2") && has!("fma")) {
        Level::Plain
    } else if has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
        Level::Avx512
    } else {
        Level::Avx2
    }
}

/// The best level that the processor has.
#[cfg(not(target_arch = "x86_64"))]
fn best() -> Level {
    Level::Plain
}

/// Asks the processor to bring a row into the cache ahead of its use. A hint: nothing else changes.
#[inline(always)]
pub fn prefetch<T>(row: &[T]) {
    #[cfg(target_arch = "x86_64")]
    prefetch_to::<{ std::arch::x86_64::_MM_HINT_T0 }, T>(row);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = row;
}

/// As [`prefetch`], for `len` elements from place `first` of an array on, of which none needs to be there.
#[inline(always)]
pub fn prefetch_at<T>(array: &[T], first: usize, len: usize) {
    #[cfg(target_arch = "x86_64")]
    lines_to::<{ std::arch::x86_64::_MM_HINT_T0 }>(
        array.as_ptr().wrapping_add(first).cast(),
        len * size_of::<T>(),
    );
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (array, first, len);
}

/// As [`prefetch`], but into the second-level cache: for rows whose distance lets few of them lie in the first at a time.
#[inline(always)]
pub fn prefetch_near<T>(row: &[T]) {
    #[cfg(target_arch = "x86_64")]
    prefetch_to::<{ std::arch::x86_64::_MM_HINT_T1 }, T>(row);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = row;
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch_to<const HINT: i32, T>(row: &[T]) {
    lines_to::<HINT>(row.as_ptr().cast(), size_of_val(row));
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn lines_to<const HINT: i32>(start: *const i8, bytes: usize) {
    const LINE: usize = 64;
    for at in (0..bytes).step_by(LINE) {
        // SAFETY: every x86-64 has the instruction, which reads nothing, wherever it points.
        unsafe { std::arch::x86_64::_mm_prefetch::<HINT>(start.wrapping_add(at)) };
    }
}

/// A kernel that needs to know at compile time whether fused multiply-add is there.
pub trait Kernel {
    /// What the kernel returns.
    type Output;
    /// Runs the kernel; `FMA` says whether [`fma`] is one instruction.
    ///
    /// Implementations are `#[inline(always)]`, or the copy for AVX2 would call plain code.
    fn run<const FMA: bool>(self) -> Self::Output;
}

/// `a·b + c`: fused where `FMA`, two roundings otherwise (never a library call).
#[inline(always)]
pub fn fma<T: crate::Real, const FMA: bool>(a: T, b: T, c: T) -> T {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn closure_avx2<R>(f: impl FnOnce() -> R) -> R {
    f()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn kernel_avx2<K: Kernel>(k: K) -> K::Output {
    k.run::<true>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
fn closure_avx512<R>(f: impl FnOnce() -> R) -> R {
    f()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
fn kernel_avx512<K: Kernel>(k: K) -> K::Output {
    k.run::<true>()
}

/// Runs a loop compiled for the best level present.
///
/// Give it a `move` closure over plain slices and numbers: through captured references the compiler
/// must assume that the loop overwrites its own bounds, and stays scalar.
#[inline(always)]
pub fn vectorise<R>(f: impl FnOnce() -> R) -> R {
    match level() {
        // SAFETY: `level` returned Avx2, so the processor has AVX2 and FMA.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { closure_avx2(f) },
        // SAFETY: `level` returned Avx512, so the processor has all of its features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { closure_avx512(f) },
        _ => f(),
    }
}

/// Runs a [`Kernel`] compiled for the best level present below AVX-512, for kernels that are shaped for
/// sixteen registers.
#[inline(always)]
pub fn run_narrow<K: Kernel>(k: K) -> K::Output {
    match level() {
        // SAFETY: what has AVX-512 here has AVX2 and FMA, too.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => unsafe { kernel_avx2(k) },
        _ => k.run::<false>(),
    }
}

/// Runs a [`Kernel`] compiled for the best level present.
#[inline(always)]
pub fn run<K: Kernel>(k: K) -> K::Output {
    match level() {
        // SAFETY: `level` returned Avx2, so the processor has AVX2 and FMA.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { kernel_avx2(k) },
        // SAFETY: `level` returned Avx512, so the processor has all of its features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { kernel_avx512(k) },
        _ => k.run::<false>(),
    }
}
