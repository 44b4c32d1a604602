//! Single parts against PyTorch, entmax and torch_geometric: `scripts/golden/parts.json`.

use std::collections::BTreeSet;

use regard_attn::normaliser::{Entmax15, Sigmoid, Softmax, Sparsemax, Temperature};
use regard_attn::position::NoPosition;
use regard_attn::scope::{EdgeRows, Graph, SelfLoops};
use regard_attn::score::{Block, BlockMut, Dot, Gat, Gatv2, Scaled, Softcap};
use regard_attn::{Call, Dims, Item, Normaliser, Score, reference};
use regard_testkit::{Bound, Case, Golden, close_each};

use crate::problem::dense;

/// The score of a case, with its slope or cap.
fn score<'a>(case: &Case, params: &'a [f64], d: usize) -> Box<dyn Score<f64> + 'a> {
    let slope = || case.scalar("slope");
    match case.text("score") {
        "gat" => Box::new(Gat { a: params, slope: slope() }),
        "gatv2" => Box::new(Gatv2 { a: params, slope: slope() }),
        "softcap" => {
            let inner = Scaled { inner: Dot, factor: 1.0 / (d as f64).sqrt() };
            Box::new(Softcap { inner, cap: case.scalar("cap") })
        }
        name => crate::parts::score(name, params, d),
    }
}

/// Panics unless every entry is within the bound, and names the case and the array.
fn same(case: &Case, name: &str, got: &[f64], bound: Bound) {
    if let Err(message) = close_each(got, &case.array(name).1, |_| bound) {
        panic!("{}, {name}: {message}", case.name());
    }
}

#[test]
fn scores_and_their_gradients() {
    let golden = Golden::load("parts");
    let mut tried = BTreeSet::new();
    for case in golden.cases().iter().filter(|case| case.has_attr("score")) {
        let ((shape, q), (k_shape, k)) = (case.array("q"), case.array("k"));
        let ([heads, q_len, d], kv_len) = (shape[..].try_into().unwrap(), k_shape[1]);
        let params = case.optional_array("params").map(|(_, params)| params).unwrap_or_default();
        let score = score(case, &params, d);
        let (_, ds) = case.array("d_s");

        let (mut pairs, mut tiles) = (Vec::new(), vec![0.0; ds.len()]);
        let gradients = || (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; params.len()]);
        let (mut by_pairs, mut by_tiles) = (gradients(), gradients());
        for head in 0..heads {
            let (of_q, of_k) = (head * q_len * d, head * kv_len * d);
            for i in 0..q_len {
                for j in 0..kv_len {
                    let (i, j) = (of_q + i * d, of_k + j * d);
                    let (q, k) = (&q[i..i + d], &k[j..j + d]);
                    let g = ds[pairs.len()];
                    pairs.push(score.pair(head, q, k));
                    let (dq, dk, dparams) = &mut by_pairs;
                    let (dq, dk) = (&mut dq[i..i + d], &mut dk[j..j + d]);
                    score.pair_backward(head, q, k, g, dq, dk, dparams);
                }
            }
            let block = |data, rows| Block { data, rows, width: d, stride: d };
            let (q, k) = (block(&q[of_q..], q_len), block(&k[of_k..], kv_len));
            let first = head * q_len * kv_len;
            score.tile(head, q, k, &mut tiles[first..], kv_len);
            let (dq, dk, dparams) = &mut by_tiles;
            let block_mut = |data, rows| BlockMut { data, rows, width: d, stride: d };
            let mut dq = block_mut(&mut dq[of_q..], q_len);
            let mut dk = block_mut(&mut dk[of_k..], kv_len);
            score.tile_backward(head, q, k, &ds[first..], kv_len, &mut dq, &mut dk, dparams);
        }

        // Entries stay below 4 and norms above 1/20. A score sums up to d² products of three of them;
        // a gradient sums its pairs, each such a sum or divided by a norm.
        let terms = 16 * (d + q_len + kv_len);
        let scale = (64 * d * d) as f64;
        same(case, "s", &pairs, Bound::f64(terms, scale));
        same(case, "s", &tiles, Bound::f64(terms, scale));
        for (dq, dk, dparams) in [by_pairs, by_tiles] {
            let bound = Bound::f64(terms, scale * (q_len * kv_len) as f64);
            same(case, "d_q", &dq, bound);
            same(case, "d_k", &dk, bound);
            if !params.is_empty() {
                same(case, "d_params", &dparams, bound);
            }
        }
        tried.insert(case.text("score").to_owned());
    }
    assert_eq!(tried.len(), 7);
}

#[test]
fn normalisers_and_their_gradients() {
    let golden = Golden::load("parts");
    let mut tried = 0;
    for case in golden.cases().iter().filter(|case| case.has_attr("normaliser")) {
        let temperature;
        let normaliser: &dyn Normaliser<f64> = match case.text("normaliser") {
            "sparsemax" => &Sparsemax,
            "entmax15" => &Entmax15,
            "sigmoid" => &Sigmoid,
            "temperature" => {
                temperature = Temperature::new(case.scalar("tau")).unwrap();
                &temperature
            }
            name => panic!("normaliser {name}"),
        };
        let (shape, scores) = case.array("s");
        let keys = shape[1];
        let (mut weights, mut gradient) = (Vec::new(), Vec::new());
        for (scores, upstream) in scores.chunks(keys).zip(case.array("d_a").1.chunks(keys)) {
            // Forbidden keys between the others change nothing.
            let mut row: Vec<f64> = scores.iter().flat_map(|s| [f64::NEG_INFINITY, *s]).collect();
            let mut back: Vec<f64> = upstream.iter().flat_map(|d| [f64::NAN, *d]).collect();
            normaliser.row(&mut row);
            normaliser.row_backward(&row, &mut back);
            assert!(row.iter().chain(&back).step_by(2).all(|x| *x == 0.0));
            weights.extend(row.iter().skip(1).step_by(2));
            gradient.extend(back.iter().skip(1).step_by(2));
        }
        if case.has_attr("support") {
            assert_eq!(weights.iter().filter(|a| **a > 0.0).count(), case.size("support"));
        }
        // Scores up to 12, so 12/τ in an exponent; upstream gradients up to 4, of which at most two
        // meet in a gradient.
        same(case, "a", &weights, Bound::f64(16 * keys, 20.0));
        same(case, "d_s", &gradient, Bound::f64(16 * keys, 20.0 * 8.0));
        tried += 1;
    }
    assert_eq!(tried, 8);
}

#[test]
fn attention_over_the_edges_of_a_graph() {
    let golden = Golden::load("parts");
    let mut tried = 0;
    for case in golden.cases().iter().filter(|case| case.has_attr("graph")) {
        let ((shape, q), (k_shape, k)) = (case.array("q"), case.array("k"));
        let ([q_len, heads, d], kv_len) = (shape[..].try_into().unwrap(), k_shape[0]);
        let (_, params) = case.array("params");
        let slope = case.scalar("slope");
        let score: &dyn Score<f64> = match case.text("graph") {
            "gat" => &Gat { a: &params, slope },
            _ => &Gatv2 { a: &params, slope },
        };
        let edges = |queries, keys| -> Vec<(usize, usize)> {
            case.sizes(queries).into_iter().zip(case.sizes(keys)).collect()
        };
        let given = edges("queries", "keys");
        // With self-loops added the library has edges of its own.
        let (self_loops, weighed) = match case.text("self_loops") {
            "as given" => (SelfLoops::AsGiven, given.clone()),
            _ => (SelfLoops::Added, edges("weights_queries", "weights_keys")),
        };
        let rows = EdgeRows::new(q_len, &given).unwrap();
        let call = Call {
            score,
            normaliser: &Softmax,
            scope: &Graph { graphs: &[rows.csr()], self_loops },
            position: &NoPosition,
            dropout: None,
            dims: Dims { n_heads: heads, n_kv_heads: heads, d_k: d, d_v: d },
            items: &[Item { q_start: 0, q_len, kv_start: 0, kv_len }],
        };
        let (q_rows, k_rows) = (dense(&q, heads, d), dense(&k, heads, d));
        let out = reference::forward(&call, q_rows, k_rows, k_rows).unwrap();

        // [edges, heads] against [heads, q_len, kv_len].
        let place = |head: usize, (i, j): (usize, usize)| (head * q_len + i) * kv_len + j;
        let each = || weighed.iter().flat_map(|edge| (0..heads).map(move |head| (head, *edge)));
        let weights: Vec<f64> = each().map(|(head, edge)| out.weights[place(head, edge)]).collect();
        let mut d_weights = vec![0.0; out.weights.len()];
        for ((head, edge), d) in each().zip(case.array("d_weights").1) {
            d_weights[place(head, edge)] = d;
        }
        let positive = out.weights.iter().filter(|a| **a > 0.0).count();
        assert_eq!(positive, weighed.len() * heads);

        let d_context = case.array("d_context").1;
        let (q, k) = (q_rows, k_rows);
        let g = reference::backward(&call, q, k, k, &d_context, Some(&d_weights)).unwrap();
        let d_k: Vec<f64> = g.dk.iter().zip(&g.dv).map(|(k, v)| k + v).collect();
        // Entries up to 4: scores up to 2·d·16, gradients of scores up to d·16, in q_len·kv_len pairs.
        let terms = 16 * (d + q_len + kv_len);
        let scale = (32 * d) as f64;
        same(case, "context", &out.context, Bound::f64(terms, 4.0 * scale));
        same(case, "weights", &weights, Bound::f64(terms, scale));
        let bound = Bound::f64(terms, 4.0 * scale * scale * kv_len as f64);
        same(case, "d_q", &g.dq, bound);
        same(case, "d_k", &d_k, bound);
        same(case, "d_params", &g.dscore_params, bound);
        tried += 1;
    }
    assert_eq!(tried, 4);
}
