//! Several documents in one row, none of which sees another.
//!
//! ```text
//! c_i = Σ_j a_ij v_j        a_i = softmax over j of the document of i (and j ≤ i) of q_i·k_j / √d_k
//! ```
//!
//! Krell et al. 2021, §3.2 (<https://arxiv.org/abs/2107.02027>): training on full rows without
//! documents that disturb one another.
//!
//! Departures: none. Where nothing else needs one long row, the documents may as well be the items
//! of a call, which costs the same.

use regard_tensor::Real;

use super::{SELF, packed};
use crate::catalogue::{Entry, Kind, Parts, example};
use crate::normaliser::Softmax;
use crate::position::{Position, Rotary, RotaryLayout};
use crate::scope::{Documents, Scope, documents};
use crate::score::ScaledDot;
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "packed_self_attention",
    kind: Kind::Mechanism,
    title: "self-attention of packed documents",
    formula: "c_i = Σ_j a_ij v_j, a_i = softmax over document(j) = document(i) of q_i·k_j / √d_k",
    parts: Some(Parts {
        score: &["scaled_dot"],
        normaliser: &["softmax"],
        scope: &["documents", "and"],
        position: &["none", "rotary", "alibi", "relative_bias", "shaw"],
    }),
    paper: documents::ENTRY.paper,
    taxonomy: Some(SELF),
    shapes: "x [L, d_model] → q, k [L, H, d_k], v [L, H, d_v], lengths of the documents → c [L, H, d_v]",
    cost: "O(Σ length²·H·d_k) time over the documents; memory O(L·d_model)",
    mistakes: &[
        "absolute positions that count from the start of the row: distances do not care",
        "targets that reach into the next document",
        "a mask of L × L in place of the lengths",
    ],
    example: example!(packed::new::<f32>(
        &ScaledDot::new(16),
        &Documents::from_lengths(&[&[3, 4], &[5]]),
        &Rotary::new(10000.0, RotaryLayout::Half),
        Dims { n_heads: 4, n_kv_heads: 4, d_k: 16, d_v: 16 },
        &Item::packed(&[7, 5]),
    )),
};

/// Joins scaled dot × softmax × `scope` (documents, or documents and causal) × `position`.
pub fn new<'a, T: Real>(
    score: &'a ScaledDot,
    scope: &'a dyn Scope,
    position: &'a dyn Position<T>,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call { score, normaliser: &Softmax, scope, position, dropout: None, dims, items }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{one_head, run, same};
    use super::*;
    use crate::position::NoPosition;
    use crate::scope::{And, Causal};

    #[test]
    fn two_documents_in_a_row() {
        let (documents, causal) = (Documents::from_lengths(&[&[2, 3]]), Causal::square());
        let (score, items) = (ScaledDot::new(1), Item::packed(&[5]));
        let means = |scope: &dyn Scope| {
            let call = new(&score, scope, &NoPosition, one_head(1, 1), &items);
            run(&call, &[0.0; 5], &[0.0; 5], &[2.0, 4.0, 6.0, 12.0, 24.0]).context
        };
        same(&means(&documents), &[3.0, 3.0, 14.0, 14.0, 14.0]);
        same(&means(&And(&[&documents, &causal])), &[2.0, 3.0, 6.0, 9.0, 14.0]);
    }
}
