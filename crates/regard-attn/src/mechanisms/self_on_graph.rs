//! Self-attention along the edges of a graph.
//!
//! ```text
//! h'_i = Σ_{j ∈ N(i)} a_ij v_j        a_i = softmax over j ∈ N(i) of q_i·k_j / √d_k
//! ```
//!
//! Dwivedi and Bresson 2020 (<https://arxiv.org/abs/2012.09699>): the Transformer's attention with
//! the neighbours as scope. On a graph with all edges it is multi-head self-attention.
//!
//! Departures: their positions, eigenvectors of the graph's Laplacian, and features of edges are
//! made outside.

use regard_tensor::Real;

use super::{SELF, self_on_graph};
use crate::catalogue::{Entry, Kind, Paper, Parts, example};
use crate::normaliser::Softmax;
use crate::position::NoPosition;
use crate::scope::{Csr, Graph, SelfLoops};
use crate::score::ScaledDot;
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "graph_self_attention",
    kind: Kind::Mechanism,
    title: "self-attention along the edges of a graph",
    formula: "h'_i = Σ_j a_ij v_j, a_i = softmax over j ∈ N(i) of q_i·k_j / √d_k",
    parts: Some(Parts {
        score: &["scaled_dot"],
        normaliser: &["softmax"],
        scope: &["graph"],
        position: &["none"],
    }),
    paper: Some(Paper {
        author: "Dwivedi and Bresson",
        year: 2020,
        title: "A Generalization of Transformer Networks to Graphs",
        link: "https://arxiv.org/abs/2012.09699",
    }),
    taxonomy: Some(SELF),
    shapes: "nodes h [N, F] → q, k [N, H, d_k], v [N, H, d_v] → h' [N, H, d_v]",
    cost: "O(E·d) time for E edges; memory O(N·d + E)",
    mistakes: &[
        "a missing edge as a score of 0, as some lecture notes have it: it is −∞",
        "an array of N × N scores of which nearly all are forbidden",
        "nodes without edges: they get nothing, not an average of all",
    ],
    example: example!(self_on_graph::new::<f32>(
        &ScaledDot::new(8),
        &Graph {
            graphs: &[Csr { offsets: &[0, 1, 3, 4], columns: &[1, 0, 2, 1] }],
            self_loops: SelfLoops::Added,
        },
        Dims { n_heads: 8, n_kv_heads: 8, d_k: 8, d_v: 8 },
        &Item::packed(&[3]),
    )),
};

/// Joins scaled dot × softmax × graph × none.
pub fn new<'a, T: Real>(
    score: &'a ScaledDot,
    graph: &'a Graph<'a>,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call {
        score,
        normaliser: &Softmax,
        scope: graph,
        position: &NoPosition,
        dropout: None,
        dims,
        items,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{one_head, run, same};
    use super::*;

    #[test]
    fn a_missing_edge_is_not_a_score_of_zero() {
        // A directed path 0 ← 1 ← 2 with negative scores everywhere: 0 would be the largest.
        let path = Csr { offsets: &[0, 1, 2, 2], columns: &[1, 2] };
        let graph = Graph { graphs: &[path], self_loops: SelfLoops::Added };
        let (score, items) = (ScaledDot::new(1), Item::packed(&[3]));
        let call = new(&score, &graph, one_head(1, 1), &items);
        let out = run(&call, &[-1.0; 3], &[0.0, 3f64.ln(), 9f64.ln()], &[4.0, 8.0, 16.0]);
        same(&out.weights, &[0.75, 0.25, 0.0, 0.0, 0.75, 0.25, 0.0, 0.0, 1.0]);
        same(&out.context, &[5.0, 10.0, 16.0]);
    }
}
