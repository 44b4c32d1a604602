//! Graph attention network: a node looks at its neighbours and at itself.
//!
//! ```text
//! e_ij = LeakyReLU(a₁·W h_i + a₂·W h_j)        α_i = softmax over j ∈ N(i) ∪ {i} of e_ij        h'_i = Σ_j α_ij W h_j
//! ```
//!
//! Veličković et al. 2018, §2.1 (<https://arxiv.org/abs/1710.10903>), with q_i = k_i = v_i = W h_i.
//! Row i of the graph lists the nodes whose messages i takes. Heads are joined or averaged outside.
//!
//! Departures: the dropout on the inputs and the non-linearity after the sum are made outside.

use regard_tensor::Real;

use super::{SELF, graph};
use crate::catalogue::{Entry, Kind, Parts, example};
use crate::normaliser::Softmax;
use crate::position::NoPosition;
use crate::scope::{Csr, Graph, SelfLoops};
use crate::score::{Gat, gat};
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "graph_attention",
    kind: Kind::Mechanism,
    title: "graph attention network (GAT)",
    formula: "h'_i = Σ_j α_ij W h_j, α_i = softmax over j ∈ N(i) ∪ {i} of LeakyReLU(a₁·W h_i + a₂·W h_j)",
    parts: Some(Parts {
        score: &["gat"],
        normaliser: &["softmax"],
        scope: &["graph"],
        position: &["none"],
    }),
    paper: gat::ENTRY.paper,
    taxonomy: Some(SELF),
    shapes: "nodes h [N, F] → W h [N, H, F'], a [H, 2·F'] → h' [N, H, F']",
    cost: "O(N·F·F' + E·F') time for E edges; memory O(N·F' + E)",
    mistakes: &[
        "a missing edge as a score of 0: it is −∞",
        "self-loops forgotten",
        "the softmax over the nodes that i sends to, in place of those that it hears",
        "the same ranking of neighbours for all nodes taken for a fault: it is a limit of the score, which GATv2 lifts",
    ],
    example: example!(graph::new::<f32>(
        &Gat { a: &[0.1; 8 * 2 * 8], slope: 0.2 },
        &Graph {
            graphs: &[Csr { offsets: &[0, 1, 3, 4], columns: &[1, 0, 2, 1] }],
            self_loops: SelfLoops::Added,
        },
        Dims { n_heads: 8, n_kv_heads: 8, d_k: 8, d_v: 8 },
        &Item::packed(&[3]),
    )),
};

/// Joins GAT × softmax × graph × none.
pub fn new<'a, T: Real>(
    score: &'a Gat<'a, T>,
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
    fn a_path_of_three_nodes() {
        // Edges 0–1 and 1–2 in both directions. a₁ = 0 and a₂ = 1: the score is LeakyReLU of the key.
        let path = Csr { offsets: &[0, 1, 3, 4], columns: &[1, 0, 2, 1] };
        let graph = Graph { graphs: &[path], self_loops: SelfLoops::Added };
        let score = Gat { a: &[0.0, 1.0], slope: 0.2 };
        let items = Item::packed(&[3]);
        let call = new(&score, &graph, one_head(1, 1), &items);
        // Scores 0, ln 2 and −ln 2 after the slope.
        let nodes = [0.0, 2f64.ln(), -5.0 * 2f64.ln()];
        let out = run(&call, &nodes, &nodes, &[6.0, 12.0, 24.0]);
        let (s, t, u) = (1.0 / 3.0, 2.0 / 7.0, 1.0 / 7.0);
        same(&out.weights, &[s, 2.0 * s, 0.0, t, 2.0 * t, u, 0.0, 0.8, 0.2]);
        same(&out.context, &[10.0, 12.0, 14.4]);
    }
}
