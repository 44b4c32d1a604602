//! Where gradients go: three arrays, or parts of one array that lie side by side.

use std::ops::Range;

use regard_attn::{AttnError, Dims, RowsMut};
use regard_tensor::Real;

use crate::pack::copy_row;
use crate::rows::{Extent, Place, Shared, SharedRows};

/// The arrays that take the gradients of queries, keys and values; rows are numbered as the inputs
/// are.
#[derive(Debug)]
pub enum GradArrays<'a, T> {
    /// Three arrays.
    Separate {
        /// ∂L/∂q, rows of width d_k.
        dq: RowsMut<'a, T>,
        /// ∂L/∂k, rows of width d_k.
        dk: RowsMut<'a, T>,
        /// ∂L/∂v, rows of width d_v.
        dv: RowsMut<'a, T>,
    },
    /// One array for keys and values, as one projection gives them for cross-attention.
    KeyValue {
        /// ∂L/∂q, rows of width d_k.
        dq: RowsMut<'a, T>,
        /// The array of the other two.
        data: &'a mut [T],
        /// ∂L/∂k, rows of width d_k.
        dk: Place,
        /// ∂L/∂v, rows of width d_v.
        dv: Place,
    },
    /// One array for all three, as one projection gives them for self-attention: with
    /// `[rows, 3·d_model]`, offsets 0, d_model and 2·d_model.
    Fused {
        /// The array.
        data: &'a mut [T],
        /// ∂L/∂q, rows of width d_k.
        dq: Place,
        /// ∂L/∂k, rows of width d_k.
        dk: Place,
        /// ∂L/∂v, rows of width d_v.
        dv: Place,
    },
}

/// Where [`backward`](crate::backward()) puts its gradients.
#[derive(Debug)]
pub struct Gradients<'a, T> {
    /// Gradients of queries, keys and values.
    pub arrays: GradArrays<'a, T>,
    /// Whether what stands in the rows of items is added to, or is overwritten, whatever it holds. Rows of no item stay as they
    /// are. Gradients of parameters are always added to.
    pub add: bool,
    /// Gradient of the score's parameters, [`Score::n_params`](regard_attn::Score::n_params) long.
    pub dscore_params: &'a mut [T],
    /// Gradient of the position's parameters, [`Position::n_params`](regard_attn::Position::n_params)
    /// long.
    pub dposition_params: &'a mut [T],
}

/// The rows of gradients, none of which overlaps another.
#[derive(Debug)]
pub(crate) struct Targets<'a, T> {
    dq: SharedRows<'a, T>,
    dk: SharedRows<'a, T>,
    dv: SharedRows<'a, T>,
    /// Whether rows are added to.
    pub(crate) add: bool,
}

impl<'a, T: Real> Targets<'a, T> {
    /// # Errors
    /// Names the array that is too small or overlaps another.
    pub(crate) fn new(
        arrays: GradArrays<'a, T>,
        add: bool,
        d: Dims,
        query_rows: &[Range<usize>],
        key_rows: &[Range<usize>],
    ) -> Result<Self, AttnError> {
        let of_q = Extent { items: query_rows, heads: d.n_heads, width: d.d_k };
        let of_k = Extent { items: key_rows, heads: d.n_kv_heads, width: d.d_k };
        let of_v = Extent { width: d.d_v, ..of_k };
        let targets = match arrays {
            GradArrays::Separate { dq, dk, dv } => {
                return Ok(Self {
                    dq: SharedRows::alone("dq", dq, of_q)?,
                    dk: SharedRows::alone("dk", dk, of_k)?,
                    dv: SharedRows::alone("dv", dv, of_v)?,
                    add,
                });
            }
            GradArrays::KeyValue { dq, data, dk, dv } => {
                let data = Shared::new(data);
                Self {
                    dq: SharedRows::alone("dq", dq, of_q)?,
                    dk: SharedRows::new("dk", data, dk, of_k)?,
                    dv: SharedRows::new("dv", data, dv, of_v)?,
                    add,
                }
            }
            GradArrays::Fused { data, dq, dk, dv } => {
                let data = Shared::new(data);
                let dq = SharedRows::new("dq", data, dq, of_q)?;
                let dk = SharedRows::new("dk", data, dk, of_k)?;
                let dv = SharedRows::new("dv", data, dv, of_v)?;
                apart("dk", &dk, "dq", &dq)?;
                apart("dv", &dv, "dq", &dq)?;
                Self { dq, dk, dv, add }
            }
        };
        apart("dv", &targets.dv, "dk", &targets.dk)?;
        Ok(targets)
    }

    /// Takes ∂L/∂q of one row of one query head.
    ///
    /// # Safety
    /// No one else has this row of this head at the same time.
    #[inline(always)]
    pub(crate) unsafe fn take_query(&self, row: usize, head: usize, dq: &[T]) {
        // SAFETY: the caller's promise.
        unsafe { take(&self.dq, row, head, dq, self.add) };
    }

    /// ∂L/∂k of one row of one key head.
    ///
    /// # Safety
    /// No one else has this row of this head.
    #[allow(clippy::mut_from_ref, reason = "the caller sees to it that rows are taken once")]
    #[inline(always)]
    pub(crate) unsafe fn key(&self, row: usize, head: usize) -> &mut [T] {
        // SAFETY: the caller's promise.
        unsafe { self.dk.row(row, head) }
    }

    /// ∂L/∂v of one row of one key head.
    ///
    /// # Safety
    /// No one else has this row of this head.
    #[allow(clippy::mut_from_ref, reason = "the caller sees to it that rows are taken once")]
    #[inline(always)]
    pub(crate) unsafe fn value(&self, row: usize, head: usize) -> &mut [T] {
        // SAFETY: the caller's promise.
        unsafe { self.dv.row(row, head) }
    }

    /// Takes ∂L/∂k and ∂L/∂v of one row of one key head.
    ///
    /// # Safety
    /// No one else has this row of this head at the same time.
    #[inline(always)]
    pub(crate) unsafe fn take_key(&self, row: usize, head: usize, dk: &[T], dv: &[T]) {
        // SAFETY: the caller's promise; `new` checked that the two arrays are apart.
        unsafe {
            take(&self.dk, row, head, dk, self.add);
            take(&self.dv, row, head, dv, self.add);
        }
    }
}

fn apart<T>(
    argument: &'static str,
    a: &SharedRows<'_, T>,
    other: &'static str,
    b: &SharedRows<'_, T>,
) -> Result<(), AttnError> {
    AttnError::size(
        a.apart_from(b),
        argument,
        format_args!("apart from `{other}`: behind it, or beside it in rows of the same length"),
        format_args!("{:?} and {:?}", a.place(), b.place()),
    )
}

/// Adds to a row, or writes it: `x`, and zeros behind.
///
/// # Safety
/// No one else has this row of this head.
#[inline(always)]
unsafe fn take<T: Real>(rows: &SharedRows<'_, T>, row: usize, head: usize, x: &[T], add: bool) {
    // SAFETY: the caller's promise.
    let out = unsafe { rows.row(row, head) };
    if add {
        for (out, x) in out.iter_mut().zip(x) {
            *out += *x;
        }
    } else {
        let (written, rest) = out.split_at_mut(x.len());
        copy_row(x, written);
        rest.fill(T::ZERO);
    }
}
