//! Single parts against PyTorch, entmax and torch_geometric: `scripts/golden/parts.json`.

use std::collections::BTreeSet;

use regard_attn::normaliser::{Entmax15, Sigmoid, Softmax, Sparsemax, Temperature};
use regard_attn::position::{
    Alibi, DenseBias, Gaussian, Grid, NoPosition, Position, Quadratic, Relative2d, RelativeBias,
    Shaw,
};
use regard_attn::scope::{
    Alignment, Causal, EdgeRows, Full, Graph, PredictedCentre, Scope, SelfLoops,
};
use regard_attn::score::{Block, BlockMut, Dot, Gat, Gatv2, Location, Scaled, ScaledDot, Softcap};
use regard_attn::{Call, Dims, Item, Normaliser, Rows, Score, Upstream, reference};
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

        // Entries stay below 4 and norms above 1/20. A score sums up to d² products of three of
        // them; a gradient sums its pairs, each such a sum or divided by a norm.
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
            items: &[Item { q_start: 0, q_len, kv_start: 0, kv_len, q_offset: 0 }],
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
        let g =
            reference::backward(&call, q, k, k, &d_context, Upstream::weights(&d_weights)).unwrap();
        let d_k: Vec<f64> = g.dk.iter().zip(&g.dv).map(|(k, v)| k + v).collect();
        // Entries up to 4: scores up to 2·d·16, gradients of scores up to d·16, in q_len·kv_len
        // pairs.
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

#[test]
fn buckets_of_distances() {
    let golden = Golden::load("parts");
    let mut tried = 0;
    for case in golden.cases().iter().filter(|case| case.has_attr("buckets")) {
        let bias = RelativeBias::<f64> {
            table: &[],
            n_buckets: case.size("n_buckets"),
            max_distance: case.size("max_distance"),
            bidirectional: case.flag("bidirectional"),
        };
        let distances = case.numbers("distances");
        let got: Vec<usize> = distances.iter().map(|d| bias.bucket(*d as i64)).collect();
        assert_eq!(got, case.sizes("buckets"), "{}", case.name());
        tried += 1;
    }
    assert_eq!(tried, 6);
}

/// The rows of an array `[heads, len, width]`.
fn by_head(data: &[f64], len: usize, width: usize) -> Rows<'_, f64> {
    Rows { data, row_stride: width, head_stride: len * width }
}

/// `[len, heads, width]` as `[heads, len, width]`.
fn heads_first(x: &[f64], heads: usize, width: usize) -> Vec<f64> {
    let rows = |head| x.chunks_exact(width).skip(head).step_by(heads);
    (0..heads).flat_map(rows).flatten().copied().collect()
}

/// Arrays of a case one behind the other, those that it lacks left out.
fn joined(case: &Case, names: &[&str]) -> Vec<f64> {
    let arrays = names.iter().filter_map(|name| case.optional_array(name));
    arrays.flat_map(|(_, data)| data).collect()
}

/// Holds a call of one item to what a case says of contexts, weights and all gradients. `params`
/// are those of the position, or of the score where that is what the case is about; scores are at
/// most `largest`.
fn check_call(case: &Case, call: &Call<'_, f64>, largest: f64, params: &[&str]) {
    let Dims { n_heads: heads, d_k, d_v, .. } = call.dims;
    let Item { q_len, kv_len, .. } = call.items[0];
    let of = |name: &str| case.optional_array(name).map(|(_, data)| data);
    let (q, v) = (case.array("q").1, case.array("v").1);
    // Where the score has keys of its own, these would show.
    let k = of("k").unwrap_or_else(|| vec![f64::NAN; heads * kv_len * d_k]);
    let rows = (by_head(&q, q_len, d_k), by_head(&k, kv_len, d_k), by_head(&v, kv_len, d_v));
    let out = reference::forward(call, rows.0, rows.1, rows.2).unwrap();
    // Upstream gradients are `[heads, q_len, d_v]` there and `[q_len, heads, d_v]` here.
    let d_context = heads_first(&case.array("d_context").1, q_len, d_v);
    let d_weights = case.array("d_weights").1;
    let upstream = Upstream::weights(&d_weights);
    let g = reference::backward(call, rows.0, rows.1, rows.2, &d_context, upstream).unwrap();

    // A weight is off by the roundings of its score, of which those of d_k products and of the
    // exponential; values, upstream gradients and vectors are below 4.
    let terms = 16 * (d_k + kv_len);
    let on_weights = Bound::f64(terms, largest);
    same(case, "weights", &out.weights, on_weights);
    let context = heads_first(&out.context, heads, d_v);
    same(case, "context", &context, Bound::f64(terms, 8.0 * kv_len as f64 * largest));
    // Gradients of scores up to d_v·4·8 and their factors up to `largest`, over all pairs.
    let scale = (32 * d_v * q_len * kv_len) as f64 * largest * largest;
    let bound = Bound::f64(terms, scale);
    same(case, "d_q", &heads_first(&g.dq, heads, d_k), bound);
    same(case, "d_v", &heads_first(&g.dv, heads, d_v), bound);
    if of("k").is_some() {
        same(case, "d_k", &heads_first(&g.dk, heads, d_k), bound);
    } else {
        assert!(g.dk.iter().all(|d| *d == 0.0));
    }
    let got = [g.dscore_params, g.dposition_params].concat();
    let names: Vec<String> = params.iter().map(|name| format!("d_{name}")).collect();
    let names: Vec<&str> = names.iter().map(|name| &name[..]).collect();
    let want = joined(case, &names);
    if let Err(message) = close_each(&got, &want, |_| bound) {
        panic!("{}, gradients of {params:?}: {message}", case.name());
    }
}

#[test]
fn positions_and_their_gradients() {
    let golden = Golden::load("parts");
    let mut tried = BTreeSet::new();
    for case in golden.cases().iter().filter(|case| case.has_attr("position")) {
        let ((shape, _), (v_shape, v)) = (case.array("q"), case.array("v"));
        let [heads, q_len, d_k] = shape[..].try_into().unwrap();
        let (kv_len, d_v) = (v_shape[1], v.len() / v_shape[0] / v_shape[1]);
        let names = ["params", "keys_table", "values_table", "rows_table", "columns_table"];
        let params = joined(case, &[&names[..], &["centres", "sigma"]].concat());
        let len = |name| case.optional_array(name).map_or(0, |(_, data)| data.len());
        let scale = 1.0 / (d_k as f64).sqrt();
        let grid = || Grid::padded(case.size("width"), case.size("pad"));
        let mut largest = 16.0 * d_k as f64;
        let position: Box<dyn Position<f64> + '_> = match case.text("position") {
            "relative_bias" => Box::new(RelativeBias {
                table: &params,
                n_buckets: case.size("n_buckets"),
                max_distance: case.size("max_distance"),
                bidirectional: case.flag("bidirectional"),
            }),
            "alibi" => {
                let alibi = Alibi::new(heads);
                let slopes = case.numbers("slopes");
                // Powers of two, but for a unit in the last place of the exponential.
                close_each(alibi.slopes(), &slopes, |_| Bound::f64(1, 1.0)).unwrap();
                Box::new(alibi)
            }
            "shaw" => {
                let (keys, values) = params.split_at(len("keys_table"));
                largest *= 2.0;
                Box::new(Shaw { keys, values, radius: case.size("radius"), scale })
            }
            "relative_2d" => {
                let (rows, columns) = params.split_at(len("rows_table"));
                let radius = case.size("radius");
                largest *= 2.0;
                Box::new(Relative2d { rows, columns, radius, grid: grid(), scale })
            }
            "quadratic" => {
                // α below 1.2, distances up to 4 and shifts up to 1.2.
                largest += 1.2 * (4.0 * 4.0 * 2.0 + 2.0 * 1.2 * 8.0);
                Box::new(Quadratic { params: &params, grid: grid() })
            }
            "gaussian" => Box::new(Gaussian::new(&params, &[q_len])),
            "dense_bias" => {
                let sizes = case.sizes("sizes")[..].try_into().unwrap();
                Box::new(DenseBias { data: &params, sizes })
            }
            name => panic!("position {name}"),
        };
        let centres = &[&params[..params.len().saturating_sub(1)]][..];
        let scope: Box<dyn Scope + '_> = if case.has_attr("window") {
            Box::new(PredictedCentre { centres, radius: case.size("window") })
        } else if case.has_attr("causal") {
            Box::new(Causal { alignment: Alignment::TopLeft })
        } else {
            Box::new(Full)
        };
        let q_offset = if case.has_attr("q_offset") { case.size("q_offset") } else { 0 };
        let call = Call {
            score: &ScaledDot::new(d_k),
            normaliser: &Softmax,
            scope: &*scope,
            position: &*position,
            dropout: None,
            dims: Dims { n_heads: heads, n_kv_heads: heads, d_k, d_v },
            items: &[Item { q_start: 0, q_len, kv_start: 0, kv_len, q_offset }],
        };
        check_call(case, &call, largest, &[&names[..], &["centres", "sigma"]].concat());
        tried.insert(case.name().to_owned());
    }
    assert_eq!(tried.len(), 15);
}

#[test]
fn location_and_its_gradients() {
    let golden = Golden::load("parts");
    let mut tried = 0;
    for case in golden.cases().iter().filter(|case| case.has_attr("location")) {
        let ((shape, _), (v_shape, _)) = (case.array("q"), case.array("v"));
        let [heads, q_len, d_k] = shape[..].try_into().unwrap();
        let (_, table) = case.array("params");
        let call = Call {
            score: &Location { table: &table, max_len: case.size("location"), d_k },
            normaliser: &Softmax,
            scope: &Full,
            position: &NoPosition,
            dropout: None,
            dims: Dims { n_heads: heads, n_kv_heads: heads, d_k, d_v: v_shape[2] },
            items: &[Item { q_start: 0, q_len, kv_start: 0, kv_len: v_shape[1], q_offset: 0 }],
        };
        check_call(case, &call, 16.0 * d_k as f64, &["params"]);
        tried += 1;
    }
    assert_eq!(tried, 2);
}
