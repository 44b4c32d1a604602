//! Mechanisms: what papers join from the four kinds of part.
//!
//! A mechanism here begins where the projections end: q_i = W^q x_i, k_j = W^k x_j and
//! v_j = W^v x_j are made outside (a layer's business), a [`Call`](crate::Call) joins the parts.
//! Each file says which parts and from which paper; the [`catalogue`](crate::catalogue) lists them.

pub mod causal;
pub mod multi_head;
pub mod self_attention;
pub mod truncated;
