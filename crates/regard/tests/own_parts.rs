//! The parts of the examples hold to what built-in parts hold to.
//!
//! Each example's score, scope or position, as it stands there, is run by the engine and by the
//! reference, forwards and backwards, in f32 and f64; its derivatives are compared with finite
//! differences; NaN behind its scope must not leak; tiles and hints must agree with the truth.

use regard::attn::normaliser::Softmax;
use regard::attn::position::NoPosition;
use regard::attn::reference;
use regard::attn::scope::{And, Given, Window};
use regard::attn::score::{Block, BlockMut, ScaledDot, Score};
use regard::attn::{At, Call, Coverage, Dims, Item, Position, Rows, Scope, Upstream};
use regard::tensor::Real;
use regard_testkit::{Bound, assert_close, check_gradients_of, random_vec};

#[allow(dead_code, reason = "its `main` is not called here")]
#[path = "../examples/own_position.rs"]
mod own_position;
#[allow(dead_code, reason = "its `main` is not called here")]
#[path = "../examples/own_scope.rs"]
mod own_scope;
#[allow(dead_code, reason = "its `main` is not called here")]
#[path = "../examples/own_score.rs"]
mod own_score;
mod support;

use own_position::LogDistance;
use own_scope::Dilated;
use own_score::{Gated, TiledGated};
use support::{Inputs, Magnitudes, assert_near, by_engine, by_reference, round};

/// Which example's part is in the call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Own {
    Score,
    TiledScore,
    Scope,
    Position,
}

const OWN: [Own; 4] = [Own::Score, Own::TiledScore, Own::Scope, Own::Position];

const DIMS: Dims = Dims { n_heads: 4, n_kv_heads: 2, d_k: 5, d_v: 3 };

/// Two items that cross two edges of tiles, and one within a tile, further on than its keys begin.
const ITEMS: [Item; 3] = [
    Item { q_start: 0, q_len: 71, kv_start: 0, kv_len: 131, q_offset: 0 },
    Item { q_start: 71, q_len: 130, kv_start: 131, kv_len: 67, q_offset: 1 },
    Item { q_start: 201, q_len: 3, kv_start: 198, kv_len: 11, q_offset: 6 },
];

/// For finite differences.
const SMALL: [Item; 2] = [
    Item { q_start: 0, q_len: 3, kv_start: 0, kv_len: 5, q_offset: 1 },
    Item { q_start: 3, q_len: 2, kv_start: 5, kv_len: 3, q_offset: 0 },
];

/// In place of an example's scope: keys at the end stay unseen.
const WINDOW: Window = Window { left: 40, right: 3 };

impl Own {
    /// Its parameters, within ±1.
    fn params(self) -> Vec<f64> {
        let n = match self {
            Self::Score | Self::TiledScore => DIMS.n_heads * DIMS.d_k,
            Self::Scope => 0,
            Self::Position => DIMS.n_heads,
        };
        random_vec(5, n).into_iter().map(|x| f64::from(x as f32)).collect()
    }

    fn magnitudes(self) -> Magnitudes {
        let d_k = DIMS.d_k as f64;
        // |w q k| ≤ 1; |q k| / √d_k; ln(1 + distance) beside it.
        let (score, by_row, by_param) = match self {
            Self::Score | Self::TiledScore => (d_k, 1.0, 1.0),
            Self::Scope => (d_k.sqrt(), 1.0, 0.0),
            Self::Position => (d_k.sqrt() + 131f64.ln(), 1.0, 131f64.ln()),
        };
        Magnitudes { score, by_row, by_param, steepness: 1.0 }
    }

    fn with_call<T: Real, R>(
        self,
        params: &[T],
        items: &[Item],
        f: impl FnOnce(&Call<'_, T>) -> R,
    ) -> R {
        let gated = Gated { w: params };
        let (tiled, log) = (TiledGated(gated), LogDistance { w: params });
        let (dot, dilated) = (ScaledDot::new(DIMS.d_k), Dilated { step: 3, reach: 15 });
        // Every seventh key is hidden from all, in the midst of those that are seen.
        let mask = |item: &Item| -> Vec<bool> {
            (0..item.q_len * item.kv_len).map(|n| n % item.kv_len % 7 != 3).collect()
        };
        let masks: Vec<Vec<bool>> = items.iter().map(mask).collect();
        let masks: Vec<&[bool]> = masks.iter().map(|mask| &mask[..]).collect();
        let given = Given { allowed: &masks };
        let scopes: [&dyn Scope; 2] =
            [if self == Self::Scope { &dilated } else { &WINDOW }, &given];
        let mut call = Call {
            score: &dot as &dyn Score<T>,
            normaliser: &Softmax,
            scope: &And(&scopes),
            position: &NoPosition as &dyn Position<T>,
            dropout: None,
            dims: DIMS,
            items,
        };
        match self {
            Self::Score => call.score = &gated,
            Self::TiledScore => call.score = &tiled,
            Self::Scope => {}
            Self::Position => call.position = &log,
        }
        f(&call)
    }
}

#[test]
fn the_engine_agrees_with_the_reference() {
    for own in OWN {
        let params = own.params();
        own.with_call::<f64, _>(&params, &ITEMS, |call| {
            let x = Inputs::new(call);
            let want = by_reference(call, &x);
            assert_near(call, &by_engine(call, &x), &want, own.magnitudes());
            let in_f32: Vec<f32> = round(&params);
            let got = own.with_call(&in_f32, &ITEMS, |call| by_engine(call, &x.round::<f32>()));
            assert_near(call, &got, &want, own.magnitudes());
        });
    }
}

#[test]
fn derivatives_are_those_of_the_formula() {
    for own in OWN {
        let params = own.params();
        let (x, d) = own.with_call(&params, &SMALL, |call| {
            let x = Inputs::new(call);
            (x.clone(), by_reference(call, &x))
        });
        // L = Σ d_context·context
        let loss = |arguments: &[(&str, Vec<f64>)]| {
            let [q, k, v, params] = [0, 1, 2, 3].map(|n| &arguments[n].1);
            own.with_call(params, &SMALL, |call| {
                let rows = |data, heads, width| Rows {
                    data,
                    row_stride: heads * width,
                    head_stride: width,
                };
                let (q, k, v) = (
                    rows(&q[..], DIMS.n_heads, DIMS.d_k),
                    rows(&k[..], DIMS.n_kv_heads, DIMS.d_k),
                    rows(&v[..], DIMS.n_kv_heads, DIMS.d_v),
                );
                let out = reference::forward(call, q, k, v).unwrap();
                out.context.iter().zip(&x.d_context).map(|(c, d)| c * d).sum()
            })
        };
        let mut arguments =
            [("q", x.q.clone()), ("k", x.k.clone()), ("v", x.v.clone()), ("params", params)];
        let dparams = [d.dscore, d.dposition].concat();
        check_gradients_of(&mut arguments, loss, &[d.dq, d.dk, d.dv, dparams]);
    }
}

#[test]
fn what_no_query_sees_may_be_anything() {
    for own in OWN {
        let params = own.params();
        let (exact, want, unseen) = own.with_call(&params, &ITEMS, |call| {
            let mut unseen = Vec::new();
            for (n, item) in call.items.iter().enumerate() {
                let seen = |j| (0..item.q_len).any(|i| call.scope.allows(call.at(n, 0), i, j));
                unseen.extend((0..item.kv_len).filter(|j| !seen(*j)).map(|j| item.kv_start + j));
            }
            let x = Inputs::new(call);
            (x.clone(), by_reference(call, &x), unseen)
        });
        assert!(unseen.len() > 20, "{own:?} must hide some keys from all");
        let mut x: Inputs<f32> = exact.round();
        let engine = |x: &Inputs<f32>| {
            own.with_call(&round::<f32>(&params), &ITEMS, |call| by_engine(call, x))
        };
        let clean = engine(&x);
        let (k, v) = (DIMS.n_kv_heads * DIMS.d_k, DIMS.n_kv_heads * DIMS.d_v);
        for key in unseen {
            x.k[key * k..(key + 1) * k].fill(f32::NAN);
            x.v[key * v..(key + 1) * v].fill(f32::INFINITY);
        }
        let broken = engine(&x);
        own.with_call(&params, &ITEMS, |call| {
            assert_near(call, &broken, &want, own.magnitudes());
        });
        // A tile that holds NaN is differentiated pair by pair: the same sums, but for a tile that has
        // an order of its own in another one.
        if own != Own::TiledScore {
            assert_eq!(broken, clean, "{own:?}");
        }
    }
}

#[test]
fn tiles_are_their_pairs() {
    const ROWS: usize = 7;
    const KEYS: usize = ROWS + 2;
    const STRIDE: usize = KEYS + 3;
    let (width, params) = (DIMS.d_k, Own::Score.params());
    let (plain, tiled) = (Gated { w: &params }, TiledGated(Gated { w: &params }));
    let (q, k) = (random_vec(1, ROWS * width), random_vec(2, KEYS * width));
    let block = |data, rows| Block { data, rows, width, stride: width };
    let (q, k) = (block(&q, ROWS), block(&k, KEYS));
    let mut g = random_vec(3, ROWS * STRIDE);
    g.iter_mut().skip(2).step_by(STRIDE).for_each(|g| *g = 0.0); // key 2 is forbidden
    let mut broken = k.data.to_vec();
    broken[2 * width..3 * width].fill(f64::NAN);
    for head in 0..DIMS.n_heads {
        let mut out = vec![0.0; ROWS * STRIDE];
        tiled.tile(head, q, k, &mut out, STRIDE);
        for i in 0..ROWS {
            for j in 0..KEYS {
                assert_eq!(out[i * STRIDE + j], plain.pair(head, q.row(i), k.row(j)));
            }
        }
        let backward = |score: &dyn Score<f64>, k: Block<'_, f64>| {
            let (mut dq, mut dk) = (vec![0.0; q.data.len()], vec![0.0; k.data.len()]);
            let mut dw = vec![0.0; params.len()];
            let mut of_q = BlockMut { data: &mut dq, rows: ROWS, width, stride: width };
            let mut of_k = BlockMut { data: &mut dk, rows: KEYS, width, stride: width };
            score.tile_backward(head, q, k, &g, STRIDE, &mut of_q, &mut of_k, &mut dw);
            (dq, dk, dw)
        };
        // Sums of at most 7·9 products of numbers within ±1, of some four factors each.
        let bound = Bound::f64(4 * ROWS * KEYS, (ROWS * KEYS) as f64);
        let (got, want) = (backward(&tiled, k), backward(&plain, k));
        assert_close(&got.0, &want.0, bound);
        assert_close(&got.1, &want.1, bound);
        assert_close(&got.2, &want.2, bound);
        // What stands at a forbidden key has no influence.
        for (score, clean) in [(&tiled as &dyn Score<f64>, got), (&plain, want)] {
            assert_eq!(backward(score, block(&broken, KEYS)), clean);
        }
    }
}

#[test]
fn hints_of_the_scope_say_no_less_than_the_truth() {
    for (step, reach) in [(1, 0), (1, 4), (3, 2), (5, 1), (2, usize::MAX)] {
        let scope = Dilated { step, reach };
        for (q_len, kv_len, q_offset) in [(9, 9, 0), (4, 13, 9), (13, 4, 0), (3, 5, 40)] {
            let at = At { item: 0, head: 0, q_len, kv_len, q_offset };
            let allowed = |i, j| scope.allows(at, i, j);
            for i in 0..q_len {
                for j in 0..kv_len {
                    let far = (q_offset + i).abs_diff(j);
                    let want = far % step == 0 && far <= step.saturating_mul(reach);
                    assert_eq!(allowed(i, j), want);
                    if want {
                        let (keys, queries) =
                            (scope.keys(at, i..i + 1), scope.queries(at, j..j + 1));
                        assert!(keys.contains(&j) && queries.contains(&i), "{scope:?} {i} {j}");
                    }
                }
            }
            // Of many queries and keys: still nothing is left out, and the ranges lie inside.
            let (keys, queries) = (scope.keys(at, 0..q_len), scope.queries(at, 0..kv_len));
            assert!(keys.start <= keys.end && keys.end <= kv_len);
            assert!(queries.start <= queries.end && queries.end <= q_len);
            assert_eq!(scope.tile(at, 0..q_len, 0..kv_len), Coverage::Partial);
        }
    }
}

#[test]
fn faults_are_named() {
    let message = |call: &Call<'_, f64>| {
        let x = [0.0; 2000];
        let rows =
            |heads, width| Rows { data: &x[..], row_stride: heads * width, head_stride: width };
        let (q, k, v) = (rows(4, 5), rows(2, 5), rows(2, 3));
        reference::backward(call, q, k, v, &[0.0; 60], Upstream::NONE).unwrap_err().to_string()
    };
    for (own, want) in [
        (Own::Score, "attention: `w` must be n_heads × d_k = 4 × 5 elements, got 3"),
        (Own::TiledScore, "attention: `w` must be n_heads × d_k = 4 × 5 elements, got 3"),
        (Own::Position, "attention: `w` must be one for each of the 4 heads, got 3"),
    ] {
        assert_eq!(own.with_call(&[0.0; 3], &SMALL, message), want);
    }
    Own::Scope.with_call(&[], &SMALL, |call| {
        let call = Call { scope: &And(&[&Dilated { step: 0, reach: 1 }]), ..*call };
        assert_eq!(message(&call), "attention: `step` must be at least 1, got 0");
    });
}
