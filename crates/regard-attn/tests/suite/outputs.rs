//! Summaries of the weights against the whole of them.

use regard_attn::normaliser::{Sampled, Softmax};
use regard_attn::position::{Gaussian, NoPosition};
use regard_attn::reference::{Reference, forward, summarise};
use regard_attn::scope::{Full, Lengths};
use regard_attn::score::Dot;
use regard_attn::summary::Top;
use regard_attn::{Call, Item, Streaming, Summary, Wanted};
use regard_tensor::Key;
use regard_testkit::{Bound, assert_close};

use crate::parts::{normalisers, positions, scopes};
use crate::problem::{self, DIMS, ITEMS, Inputs, LATER};

const RADIUS: usize = 2;
const TOP: usize = 3;

/// Everything that can be said with this normaliser.
fn all_of(call: &Call<'_, f64>) -> Wanted {
    Wanted {
        key_sums: true,
        top: TOP,
        entropy: call.normaliser.rows_sum_to_one(),
        choices: matches!(call.normaliser.streaming(), Streaming::Pick { .. }),
        distances: Some(RADIUS),
    }
}

/// One row of weights: its place in arrays of `[n_heads, n_queries]`, its head, its item, its query
/// and its weights.
struct Row<'a> {
    place: usize,
    head: usize,
    item: usize,
    query: usize,
    weights: &'a [f64],
}

fn rows<'a>(call: &Call<'_, f64>, weights: &'a [f64]) -> Vec<Row<'a>> {
    let (queries, n_queries) = (call.query_offsets(), call.n_queries());
    let mut rest = weights;
    let mut rows = Vec::new();
    for (item, Item { q_len, kv_len, .. }) in call.items.iter().enumerate() {
        for head in 0..call.dims.n_heads {
            for query in 0..*q_len {
                let (weights, after) = rest.split_at(*kv_len);
                rest = after;
                let place = head * n_queries + queries[item] + query;
                rows.push(Row { place, head, item, query, weights });
            }
        }
    }
    assert!(rest.is_empty());
    rows
}

/// The summaries that need no more than the weights, from all of them.
fn of_weights(call: &Call<'_, f64>, weights: &[f64]) -> Summary<f64> {
    let (keys, n_keys, n_queries) = (call.key_offsets(), call.n_keys(), call.n_queries());
    let mut out = Summary::zeros(call, all_of(call));
    for Row { place, head, item, query, weights } in rows(call, weights) {
        let mut order: Vec<usize> = (0..weights.len()).filter(|j| weights[*j] > 0.0).collect();
        // A stable sort leaves the first of equal weights first.
        order.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
        for (top, key) in out.top[place * TOP..(place + 1) * TOP].iter_mut().zip(order) {
            *top = Top { key, weight: weights[key] };
        }
        let position = (call.items[item].q_offset + query) as i64;
        for (j, weight) in weights.iter().enumerate() {
            out.key_sums[head * n_keys + keys[item] + j] += weight;
            let radius = RADIUS as i64;
            let bin = (j as i64 - position).clamp(-radius, radius) + radius;
            out.distances[head * (2 * RADIUS + 1) + bin as usize] += weight / n_queries as f64;
        }
    }
    out
}

/// −Σ p ln p of each row of probabilities, in the order of places.
fn entropies(call: &Call<'_, f64>, probabilities: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; DIMS.n_heads * call.n_queries()];
    for row in rows(call, probabilities) {
        let some = row.weights.iter().filter(|p| **p > 0.0);
        out[row.place] = some.map(|p| -p * p.ln()).sum();
    }
    out
}

fn run(call: &Call<'_, f64>, inputs: &Inputs) -> (Reference<f64>, Summary<f64>) {
    let out = forward(call, inputs.q(), inputs.k(), inputs.v()).unwrap();
    (out, summarise(call, inputs.q(), inputs.k(), all_of(call)).unwrap())
}

/// Sums of at most 16 numbers up to one (scores and weights of the problem), and a few roundings.
fn bound() -> Bound {
    Bound::f64(64, 2.0)
}

#[test]
fn summaries_are_those_of_the_weights() {
    let inputs = Inputs::new("scaled_dot");
    for items in [&ITEMS, &LATER] {
        for normaliser in normalisers() {
            for scope in scopes() {
                for position in positions() {
                    let call = Call {
                        normaliser: &*normaliser,
                        items,
                        ..problem::call(&Dot, &*scope, &*position, None)
                    };
                    let (out, said) = run(&call, &inputs);
                    let want = of_weights(&call, &out.weights);
                    assert_eq!(said.top, want.top, "{normaliser:?} × {scope:?} × {position:?}");
                    // The identity's weights are scores, here up to four products and biases up to
                    // 60.
                    let bound = match normaliser.name() {
                        "identity" => Bound::f64(64, 60.0),
                        _ => bound(),
                    };
                    assert_close(&said.key_sums, &want.key_sums, bound);
                    assert_close(&said.distances, &want.distances, bound);
                    if said.entropy.is_empty() {
                        continue;
                    }
                    // Of what the normaliser gives, or chooses from: a softmax without factors of a
                    // position.
                    let picks = !said.chosen.is_empty();
                    let soft = Call { normaliser: &Softmax, ..call };
                    let of = if picks { soft } else { call };
                    if !position.weighs() {
                        let (out, _) = run(&of, &inputs);
                        let want = entropies(&call, &out.weights);
                        assert_close(&said.entropy, &want, Bound::f64(256, 2.0));
                    }
                    if picks && !position.weighs() {
                        let probabilities = run(&soft, &inputs).0.weights;
                        let chances = rows(&call, &probabilities);
                        for (row, chance) in rows(&call, &out.weights).iter().zip(chances) {
                            let chosen = row.weights.iter().position(|a| *a == 1.0);
                            let (got, log_prob) =
                                (said.chosen[row.place], said.log_prob[row.place]);
                            assert_eq!(got, chosen.unwrap_or(Top::<f64>::NO_KEY));
                            let want = chosen.map_or(0.0, |j| chance.weights[j].ln());
                            // ln of a weight that is off by 64 roundings, and down to e^{−60}.
                            assert_close(&[log_prob], &[want], Bound::f64(64, 60.0));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_factor_of_the_position_changes_the_sums_but_not_the_entropy_and_the_choice() {
    let inputs = Inputs::new("dot");
    // No centre stands on a key, where the factor would be one.
    let params = [0.5, 1.5, 0.3, 1.1, 0.25, 0.5, 0.75, 1.2];
    let gaussian = Gaussian::new(&params, &[3, 4]);
    let plain = Call {
        normaliser: &Sampled { key: Key::new(2) },
        ..problem::call(&Dot, &Full, &NoPosition, None)
    };
    let local = Call { position: &gaussian, ..plain };
    let ((_, a), (_, b)) = (run(&plain, &inputs), run(&local, &inputs));
    assert_eq!((&a.entropy, &a.chosen, &a.log_prob), (&b.entropy, &b.chosen, &b.log_prob));
    assert!(a.key_sums.iter().zip(&b.key_sums).all(|(a, b)| a >= b));
    assert_ne!(a.key_sums, b.key_sums);
    // The largest weight is that of the choice, times the factor.
    for (place, top) in b.top.iter().step_by(TOP).enumerate() {
        assert!(top.key == b.chosen[place] && top.weight < 1.0);
    }
}

#[test]
fn what_is_not_wanted_is_empty_and_the_rest_is_the_same() {
    let inputs = Inputs::new("dot");
    let sampled = Sampled { key: Key::new(2) };
    let call = Call { normaliser: &sampled, ..problem::call(&Dot, &Full, &NoPosition, None) };
    let (_, all) = run(&call, &inputs);
    let of = |wanted| summarise(&call, inputs.q(), inputs.k(), wanted).unwrap();
    let none = Wanted::default();
    let nothing = of(none);
    assert_eq!(nothing, Summary::zeros(&call, none));
    assert!(nothing.key_sums.is_empty() && nothing.top.is_empty() && nothing.entropy.is_empty());
    assert!(nothing.chosen.is_empty() && nothing.log_prob.is_empty());
    assert!(nothing.distances.is_empty());
    let key_sums = of(Wanted { key_sums: true, ..none });
    assert_eq!(key_sums, Summary { key_sums: all.key_sums, ..nothing.clone() });
    let top = of(Wanted { top: TOP, ..none });
    assert_eq!(top, Summary { top: all.top, ..nothing.clone() });
    let entropy = of(Wanted { entropy: true, ..none });
    assert_eq!(entropy, Summary { entropy: all.entropy, ..nothing.clone() });
    let (chosen, log_prob) = (all.chosen, all.log_prob);
    let choices = of(Wanted { choices: true, ..none });
    assert_eq!(choices, Summary { chosen, log_prob, ..nothing.clone() });
    let distances = of(Wanted { distances: Some(RADIUS), ..none });
    assert_eq!(distances, Summary { distances: all.distances, ..nothing });
}

#[test]
fn a_query_with_nothing_allowed_says_nothing() {
    let inputs = Inputs::new("dot");
    let scope = Lengths { kv: &[5, 0] };
    for normaliser in normalisers() {
        let call =
            Call { normaliser: &*normaliser, ..problem::call(&Dot, &scope, &NoPosition, None) };
        let (_, said) = run(&call, &inputs);
        let n_queries = call.n_queries();
        let (second_query, second_key) = (call.query_offsets()[1], call.key_offsets()[1]);
        for head in 0..DIMS.n_heads {
            let places = head * n_queries + second_query..(head + 1) * n_queries;
            let keys = head * call.n_keys() + second_key..(head + 1) * call.n_keys();
            assert!(said.key_sums[keys].iter().all(|sum| *sum == 0.0));
            let top = &said.top[places.start * TOP..places.end * TOP];
            assert!(top.iter().all(|top| *top == Top::NONE));
            if !said.entropy.is_empty() {
                assert!(said.entropy[places.clone()].iter().all(|h| *h == 0.0));
            }
            if !said.chosen.is_empty() {
                assert!(said.chosen[places.clone()].iter().all(|c| *c == Top::<f64>::NO_KEY));
                assert!(said.log_prob[places].iter().all(|l| *l == 0.0));
            }
        }
    }
}

#[test]
fn equal_weights_come_in_the_order_of_their_keys() {
    // Keys of equal scores in pairs.
    let (q, k) = ([1.0f64], [0.0, 1.0, 0.0, 1.0, -1.0]);
    let rows = |data| regard_attn::Rows { data, row_stride: 1, head_stride: 1 };
    let call = Call {
        dims: regard_attn::Dims { n_heads: 1, n_kv_heads: 1, d_k: 1, d_v: 1 },
        items: &[Item { q_start: 0, q_len: 1, kv_start: 0, kv_len: 5, q_offset: 0 }],
        ..problem::call(&Dot, &Full, &NoPosition, None)
    };
    for top in [0, 1, 3, 5, 7] {
        let wanted = Wanted { top, ..Wanted::default() };
        let said = summarise(&call, rows(&q), rows(&k), wanted).unwrap();
        let keys: Vec<usize> = said.top.iter().map(|top| top.key).collect();
        let mut want = vec![1, 3, 0, 2, 4];
        want.resize(top.max(5), Top::<f64>::NO_KEY);
        assert_eq!(keys, want[..top]);
    }
}

#[test]
fn nothing_forbidden_leaks_into_a_summary() {
    let clean = Inputs::new("dot");
    let mut dirty = clean.clone();
    // Key 4 of the first item and both of the second are forbidden.
    for row in [ITEMS[0].kv_start + 4, ITEMS[1].kv_start, ITEMS[1].kv_start + 1] {
        dirty.k[row * DIMS.d_k..(row + 1) * DIMS.d_k].fill(f64::NAN);
    }
    let scope = Lengths { kv: &[4, 0] };
    for normaliser in normalisers() {
        let call =
            Call { normaliser: &*normaliser, ..problem::call(&Dot, &scope, &NoPosition, None) };
        let of = |inputs: &Inputs| summarise(&call, inputs.q(), inputs.k(), all_of(&call)).unwrap();
        assert_eq!(of(&clean), of(&dirty), "{normaliser:?}");
    }
}
