//! Graph attention network whose ranking of neighbours depends on the node that looks.
//!
//! ```text
//! e_ij = a·LeakyReLU(W_l h_i + W_r h_j)        α_i = softmax over j ∈ N(i) of e_ij        h'_i = Σ_j α_ij W_r h_j
//! ```
//!
//! Brody et al. 2022, equation 7 (<https://arxiv.org/abs/2105.14491>), with q_i = W_l h_i and
//! k_j = v_j = W_r h_j. Self-loops are the graph's choice: the paper's look-up task has none.
//!
//! Departures: the dropout on the inputs and the non-linearity after the sum are made outside.

use regard_tensor::Real;

use super::{SELF, graph_v2};
use crate::catalogue::{Entry, Kind, Parts, example};
use crate::normaliser::Softmax;
use crate::position::NoPosition;
use crate::scope::{Csr, Graph, SelfLoops};
use crate::score::{Gatv2, gatv2};
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "graph_attention_v2",
    kind: Kind::Mechanism,
    title: "graph attention network with dynamic attention (GATv2)",
    formula: "h'_i = Σ_j α_ij W_r h_j, α_i = softmax over j ∈ N(i) of a·LeakyReLU(W_l h_i + W_r h_j)",
    parts: Some(Parts {
        score: &["gatv2"],
        normaliser: &["softmax"],
        scope: &["graph"],
        position: &["none"],
    }),
    paper: gatv2::ENTRY.paper,
    taxonomy: Some(SELF),
    shapes: "nodes h [N, F] → W_l h, W_r h [N, H, F'], a [H, F'] → h' [N, H, F']",
    cost: "O(N·F·F' + E·F') time for E edges; memory O(N·F' + E)",
    mistakes: &[
        "the LeakyReLU after the product with a, which is GAT again",
        "values of another matrix than the keys",
        "self-loops added where the task has none",
    ],
    example: example!(graph_v2::new::<f32>(
        &Gatv2 { a: &[0.1; 8 * 8], slope: 0.2 },
        &Graph {
            graphs: &[Csr { offsets: &[0, 1, 3, 4], columns: &[1, 0, 2, 1] }],
            self_loops: SelfLoops::AsGiven,
        },
        Dims { n_heads: 8, n_kv_heads: 8, d_k: 8, d_v: 8 },
        &Item::packed(&[3]),
    )),
};

/// Joins GATv2 × softmax × graph × none.
pub fn new<'a, T: Real>(
    score: &'a Gatv2<'a, T>,
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
    use crate::mechanisms;
    use crate::score::Gat;

    // Nodes 0 and 1 look at nodes 2 and 3, which look at nothing.
    const GRAPH: Graph<'_> = Graph {
        graphs: &[Csr { offsets: &[0, 2, 4, 4, 4], columns: &[2, 3, 2, 3] }],
        self_loops: SelfLoops::AsGiven,
    };

    #[test]
    fn each_node_ranks_its_neighbours_for_itself() {
        // s = −|q + k| by the sum of two LeakyReLUs of slope 0 (a = −1): the key nearest to −q wins.
        let (dims, items) = (one_head(2, 1), Item::packed(&[4]));
        let score = Gatv2 { a: &[-1.0, -1.0], slope: 0.0 };
        let q = [1.0, -1.0, -1.0, 1.0, 0.0, 0.0, 0.0, 0.0];
        let k = [0.0, 0.0, 0.0, 0.0, -1.0, 1.0, 1.0, -1.0];
        let out = run(&new(&score, &GRAPH, dims, &items), &q, &k, &[0.0, 0.0, 1.0, 2.0]);
        // Scores 0 and −2: the one node prefers node 2, the other node 3.
        let (near, far) = (1.0 / (1.0 + (-2f64).exp()), 1.0 / (1.0 + 2f64.exp()));
        same(&out.weights[..8], &[0.0, 0.0, near, far, 0.0, 0.0, far, near]);
        same(&out.context[2..], &[0.0, 0.0]); // no neighbours: nothing
        // GAT cannot: whatever a, the same node has the larger weight for both.
        for a in [[1.0, 0.5, -1.0, 0.3], [-2.0, 1.0, 0.7, 0.1]] {
            let score = Gat { a: &a, slope: 0.2 };
            let call = mechanisms::graph::new(&score, &GRAPH, dims, &items);
            let weights = run(&call, &q, &k, &[0.0; 4]).weights;
            assert_eq!(weights[2] > weights[3], weights[6] > weights[7]);
        }
    }
}
