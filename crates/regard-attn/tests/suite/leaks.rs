//! Nothing that a scope forbids leaks, be it NaN or ∞, forwards or backwards.

use regard_attn::position::NoPosition;
use regard_attn::reference::{Gradients, Reference, backward, forward};
use regard_attn::scope::{Alignment, Causal, Window};
use regard_attn::score::Dot;
use regard_attn::{At, Call, Scope, Upstream};
use regard_testkit::random_vec;

use crate::parts::{SCORES, normalisers, positions, scopes, score};
use crate::problem::{self, DIMS, ITEMS, Inputs};

const NAN: f64 = f64::NAN;

fn run(call: &Call<'_, f64>, inputs: &Inputs) -> (Reference<f64>, Gradients<f64>) {
    let (q, k, v) = (inputs.q(), inputs.k(), inputs.v());
    let out = forward(call, q, k, v).unwrap();
    let (d_context, d_weights) =
        (random_vec(21, out.context.len()), random_vec(22, out.weights.len()));
    let d_key_sums = random_vec(23, call.dims.n_heads * call.n_keys());
    let d_entropy = random_vec(24, out.lse.len());
    let upstream = Upstream {
        weights: Some(&d_weights),
        key_sums: Some(&d_key_sums),
        entropy: call.normaliser.rows_sum_to_one().then_some(&d_entropy),
        log_prob: None,
    };
    let g = backward(call, q, k, v, &d_context, upstream).unwrap();
    (out, g)
}

/// For every key of every item: whether no query may see it.
fn unseen(scope: &dyn Scope) -> impl Iterator<Item = usize> {
    let mut rows = Vec::new();
    for (n, item) in ITEMS.iter().enumerate() {
        let at = At { item: n, head: 0, q_len: item.q_len, kv_len: item.kv_len, q_offset: 0 };
        let unseen = (0..item.kv_len).filter(|j| (0..item.q_len).all(|i| !scope.allows(at, i, *j)));
        rows.extend(unseen.map(|j| item.kv_start + j));
    }
    rows.into_iter()
}

#[test]
fn what_no_query_may_see_leaks_nowhere() {
    let mut tried = 0;
    for name in SCORES {
        let clean = Inputs::new(name);
        let score = score(name, &clean.params, DIMS.d_k);
        for scope in scopes() {
            for position in positions() {
                let call = problem::call(&*score, &*scope, &*position, None);
                let want = run(&call, &clean);
                for bad in [NAN, f64::INFINITY, f64::NEG_INFINITY] {
                    let mut dirty = clean.clone();
                    for row in unseen(&*scope) {
                        dirty.k[row * DIMS.d_k..(row + 1) * DIMS.d_k].fill(bad);
                        dirty.v[row * DIMS.d_v..(row + 1) * DIMS.d_v].fill(bad);
                        tried += 1;
                    }
                    assert_eq!(run(&call, &dirty), want, "{name} × {scope:?} × {position:?}");
                }
            }
        }
    }
    assert!(tried > 100);
}

#[test]
fn no_normaliser_lets_anything_leak() {
    let clean = Inputs::new("dot");
    for normaliser in normalisers() {
        for scope in scopes() {
            let call = problem::call(&Dot, &*scope, &NoPosition, None);
            let call = Call { normaliser: &*normaliser, ..call };
            let mut dirty = clean.clone();
            for row in unseen(&*scope) {
                dirty.k[row * DIMS.d_k..(row + 1) * DIMS.d_k].fill(NAN);
                dirty.v[row * DIMS.d_v..(row + 1) * DIMS.d_v].fill(NAN);
            }
            let (want, got) = (run(&call, &clean), run(&call, &dirty));
            assert_eq!(got, want, "{normaliser:?} × {scope:?}");
        }
    }
}

#[test]
fn what_one_query_may_not_see_does_not_reach_it() {
    // Key 2 of the first item is NaN; only its last query sees it, and nothing is asked of that.
    let scope = Causal { alignment: Alignment::TopLeft };
    for name in SCORES {
        let clean = Inputs::new(name);
        let mut dirty = clean.clone();
        let row = ITEMS[0].kv_start + 2;
        dirty.k[row * DIMS.d_k..(row + 1) * DIMS.d_k].fill(NAN);
        dirty.v[row * DIMS.d_v..(row + 1) * DIMS.d_v].fill(NAN);
        let score = score(name, &clean.params, DIMS.d_k);
        let call = problem::call(&*score, &scope, &NoPosition, None);
        let of = |inputs: &Inputs| forward(&call, inputs.q(), inputs.k(), inputs.v()).unwrap();
        let (clean, dirty) = (of(&clean), of(&dirty));
        let width = DIMS.n_heads * DIMS.d_v;
        assert_eq!(clean.context[..2 * width], dirty.context[..2 * width]);
        assert!(dirty.context[2 * width..3 * width].iter().all(|c| c.is_nan()));
        assert_eq!(clean.context[3 * width..], dirty.context[3 * width..]);
        // The forbidden weights stay 0, also beside a NaN.
        assert!(dirty.weights[13..15].iter().all(|a| *a == 0.0));
    }
}

#[test]
fn gradients_at_forbidden_weights_are_not_read() {
    let inputs = Inputs::new("dot");
    let scope = Window { left: 1, right: 0 };
    let call = problem::call(&Dot, &scope, &NoPosition, None);
    let (q, k, v) = (inputs.q(), inputs.k(), inputs.v());
    let out = forward(&call, q, k, v).unwrap();
    let d_context = random_vec(1, out.context.len());
    let clean = random_vec(2, out.weights.len());
    let dirty: Vec<f64> =
        clean.iter().zip(&out.weights).map(|(d, a)| if *a == 0.0 { NAN } else { *d }).collect();
    assert!(dirty.iter().any(|d| d.is_nan()));
    let of =
        |d_weights| backward(&call, q, k, v, &d_context, Upstream::weights(d_weights)).unwrap();
    assert_eq!(of(&clean), of(&dirty));
}
