//! Choosing the instruction set at run time.
//!
//! Kernels are written once, as plain loops over fixed-width lanes; [`vectorise`] compiles the
//! loop a second time for AVX2 and picks that copy where the processor has it. Element-wise
//! kernels use no fused multiply-add, so they give the same bits at every level.
//! The environment variable `REGARD_SIMD=plain` forces the fallback.

use std::sync::OnceLock;

/// An instruction set that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Whatever the compilation target guarantees.
    Plain,
    /// AVX2 and FMA, 256-bit lanes.
    Avx2,
}

/// The level in use: the best that the processor has, unless `REGARD_SIMD=plain`.
///
/// Read once, at the first call.
pub fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        if std::env::var_os("REGARD_SIMD").is_some_and(|v| v == "plain") {
            return Level::Plain;
        }
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
        {
            return Level::Avx2;
        }
        Level::Plain
    })
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
        _ => f(),
    }
}

/// Runs a [`Kernel`] compiled for the best level present.
#[inline(always)]
pub fn run<K: Kernel>(k: K) -> K::Output {
    match level() {
        // SAFETY: `level` returned Avx2, so the processor has AVX2 and FMA.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { kernel_avx2(k) },
        _ => k.run::<false>(),
    }
}
