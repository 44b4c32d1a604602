//! Laws of attention: what must not change when something is changed that cannot matter.

use proptest::prelude::*;
use regard_attn::normaliser::Softmax;
use regard_attn::position::{
    Chain, DenseBias, Gaussian, NoPosition, Position, Rotary, RotaryLayout,
};
use regard_attn::reference::{Gradients, Reference, backward, forward};
use regard_attn::scope::{Alignment, And, Causal, Full, Lengths, PredictedCentre, Window};
use regard_attn::score::{Dot, ScaledDot};
use regard_attn::{Call, Dims, Item, Scope, Upstream};
use regard_testkit::{Bound, assert_close, random_vec};

use crate::parts::{
    Fit, POSITIONS, SCORES, n_params, normalisers, position, position_params, scopes, score,
};
use crate::problem::{self, DIMS, ITEMS, Inputs, dense};

#[test]
fn rows_of_weights_sum_to_one_and_forbidden_ones_are_zero() {
    for name in SCORES {
        let inputs = Inputs::new(name);
        let score = score(name, &inputs.params, DIMS.d_k);
        for scope in scopes() {
            let call = problem::call(&*score, &*scope, &NoPosition, None);
            let out = forward(&call, inputs.q(), inputs.k(), inputs.v()).unwrap();
            let mut first = 0;
            for (n, item) in ITEMS.iter().enumerate() {
                for head in 0..DIMS.n_heads {
                    for i in 0..item.q_len {
                        let row = &out.weights[first..first + item.kv_len];
                        first += item.kv_len;
                        let allows = |j: &usize| scope.allows(call.at(n, head), i, *j);
                        let allowed = (0..item.kv_len).filter(allows).count();
                        let positive = row.iter().filter(|a| **a > 0.0).count();
                        assert_eq!(positive, allowed);
                        let sum: f64 = row.iter().sum();
                        assert!(allowed == 0 || (sum - 1.0).abs() < 8.0 * f64::EPSILON);
                    }
                }
            }
            assert_eq!(first, out.weights.len());
        }
    }
}

/// Self-attention of one item over dense arrays `[len, heads, width]`.
struct SelfAttention {
    dims: Dims,
    len: usize,
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
}

impl SelfAttention {
    fn new(seed: u64, len: usize, dims: Dims) -> Self {
        let Dims { n_heads, n_kv_heads, d_k, d_v } = dims;
        Self {
            dims,
            len,
            q: random_vec(seed, len * n_heads * d_k),
            k: random_vec(seed + 1, len * n_kv_heads * d_k),
            v: random_vec(seed + 2, len * n_kv_heads * d_v),
        }
    }

    fn call<'a>(
        &self,
        scope: &'a dyn Scope,
        items: &'a [Item],
        score: &'a ScaledDot,
    ) -> Call<'a, f64> {
        Call { scope, items, dims: self.dims, ..problem::call(score, scope, &NoPosition, None) }
    }

    fn run(&self, scope: &dyn Scope) -> (Reference<f64>, Gradients<f64>) {
        self.run_items(scope, &Item::packed(&[self.len]))
    }

    fn run_items(&self, scope: &dyn Scope, items: &[Item]) -> (Reference<f64>, Gradients<f64>) {
        self.run_at(scope, items, &NoPosition)
    }

    fn run_at(
        &self,
        scope: &dyn Scope,
        items: &[Item],
        position: &dyn Position<f64>,
    ) -> (Reference<f64>, Gradients<f64>) {
        let score = ScaledDot::new(self.dims.d_k);
        let call = Call { position, ..self.call(scope, items, &score) };
        let Dims { n_heads, n_kv_heads, d_k, d_v } = self.dims;
        let (q, k, v) = (
            dense(&self.q, n_heads, d_k),
            dense(&self.k, n_kv_heads, d_k),
            dense(&self.v, n_kv_heads, d_v),
        );
        let out = forward(&call, q, k, v).unwrap();
        let d_context = random_vec(31, out.context.len());
        let g = backward(&call, q, k, v, &d_context, Upstream::NONE).unwrap();
        (out, g)
    }

    /// The first `len` rows alone.
    fn prefix(&self, len: usize) -> Self {
        let cut = |x: &[f64]| x[..x.len() / self.len * len].to_vec();
        Self { dims: self.dims, len, q: cut(&self.q), k: cut(&self.k), v: cut(&self.v) }
    }
}

const ONE_HEAD: Dims = Dims { n_heads: 1, n_kv_heads: 1, d_k: 3, d_v: 2 };

#[test]
fn causal_attention_of_a_prefix_is_the_prefix_of_attention() {
    let whole = SelfAttention::new(1, 11, Dims { n_heads: 2, n_kv_heads: 2, d_k: 3, d_v: 5 });
    let (want, _) = whole.run(&Causal::square());
    for len in 0..=11 {
        let (out, _) = whole.prefix(len).run(&Causal::square());
        assert_eq!(out.context[..], want.context[..len * 10]);
    }
    // One new query against the keys so far, as a decoder does it.
    let last = Item { q_start: 10, q_len: 1, kv_start: 0, kv_len: 11, q_offset: 0 };
    let (out, _) = whole.run_items(&Causal { alignment: Alignment::BottomRight }, &[last]);
    assert_eq!(out.context[..], want.context[100..]);
}

#[test]
fn a_window_as_wide_as_the_sequence_is_full_and_one_behind_it_is_causal() {
    let x = SelfAttention::new(1, 9, ONE_HEAD);
    assert_eq!(x.run(&Window { left: 8, right: 8 }), x.run(&Full));
    assert_eq!(x.run(&Window { left: usize::MAX, right: 0 }), x.run(&Causal::square()));
    // The narrowest window is each token's own value.
    assert_eq!(x.run(&Window { left: 0, right: 0 }).0.context, x.v);
}

/// One item of eleven tokens, two heads of an even width.
const LINE: Fit<'static> =
    Fit { dims: Dims { n_heads: 2, n_kv_heads: 2, d_k: 4, d_v: 3 }, q_lens: &[11], kv_lens: &[11] };

#[test]
fn a_window_as_wide_as_the_sequence_is_full_with_every_position() {
    let (x, items) = (SelfAttention::new(1, 11, LINE.dims), Item::packed(&[11]));
    let wide = Window { left: 10, right: 10 };
    for name in POSITIONS {
        let params = position_params(name, LINE);
        let position = position(name, &params, LINE);
        let full = x.run_at(&Full, &items, &*position);
        assert_eq!(x.run_at(&wide, &items, &*position), full, "{name}");
        // Only the widest is: the ends of the narrower one see a key less.
        let narrow = Window { left: 9, right: 10 };
        assert_ne!(x.run_at(&narrow, &items, &*position), full, "{name}");
    }
}

#[test]
fn cached_steps_are_the_full_pass_with_every_position() {
    let (x, whole) = (SelfAttention::new(1, 11, LINE.dims), Item::packed(&[11]));
    let width = LINE.dims.n_heads * LINE.dims.d_v;
    let causal = Causal { alignment: Alignment::TopLeft };
    for name in POSITIONS {
        let params = position_params(name, LINE);
        let full = {
            let position = position(name, &params, LINE);
            x.run_at(&causal, &whole, &*position).0
        };
        // One token at a time, or several after the first few.
        for chunks in [&[1; 11][..], &[4, 1, 3, 3], &[11]] {
            let mut start = 0;
            for &q_len in chunks {
                let end = start + q_len;
                let step =
                    [Item { q_start: start, q_len, kv_start: 0, kv_len: end, q_offset: start }];
                // What counts queries from the item's start, whatever their position, is cut.
                let cut: Vec<f64>;
                let given;
                let gaussian;
                let of_distance = position(name, &params, LINE);
                let position: &dyn Position<f64> = match name {
                    "gaussian" => {
                        cut = [&params[start..end], &params[11..]].concat();
                        gaussian = Gaussian::new(&cut, &[q_len]);
                        &gaussian
                    }
                    "dense_bias" => {
                        // [heads, 12, 11]
                        let rows =
                            |head: usize| &params[(head * 12 + start) * 11..(head * 12 + end) * 11];
                        cut = [rows(0), rows(1)].concat();
                        given = DenseBias { data: &cut, sizes: [1, 2, q_len, 11] };
                        &given
                    }
                    "dense_bias:queries" => {
                        cut = [&params[start..end], &params[11 + start..11 + end]].concat();
                        given = DenseBias { data: &cut, sizes: [1, 2, q_len, 1] };
                        &given
                    }
                    // Chains of a Gaussian, whose links are tried alone.
                    "chain" | "chain:factors" => continue,
                    _ => &*of_distance,
                };
                let (out, _) = x.run_at(&causal, &step, position);
                assert_eq!(out.context[..], full.context[start * width..end * width], "{name}");
                // An offset that is forgotten shows where distances count.
                let forgotten = [Item { q_offset: 0, ..step[0] }];
                let scope = Causal { alignment: Alignment::BottomRight };
                let (out, _) = x.run_at(&scope, &forgotten, position);
                let same = out.context[..] == full.context[start * width..end * width];
                let relative = matches!(
                    name.split(':').next().unwrap(),
                    "rotary" | "relative_bias" | "alibi" | "shaw" | "relative_2d" | "quadratic"
                );
                // Before that, clipped distances may agree.
                assert!(start < 4 || same != relative, "{name}, from {start}");
                start = end;
            }
        }
    }
}

#[test]
fn a_chain_is_its_links_in_any_order() {
    let (x, items) = (SelfAttention::new(1, 11, LINE.dims), Item::packed(&[11]));
    let names = ["shaw", "gaussian", "relative_bias", "rotary", "alibi"];
    let params = names.map(|name| position_params(name, LINE));
    let links: Vec<_> =
        names.iter().zip(&params).map(|(name, p)| position(name, p, LINE)).collect();
    let order = |order: [usize; 5]| {
        let links = order.map(|n| &*links[n]);
        let (out, g) = x.run_at(&Causal::square(), &items, &Chain(&links));
        let mut parts = vec![Vec::new(); 5];
        let mut rest = &g.dposition_params[..];
        for n in order {
            let (own, after) = rest.split_at(params[n].len());
            parts[n] = own.to_vec();
            rest = after;
        }
        (out.context, g.dq, parts.concat())
    };
    let (a, b) = (order([0, 1, 2, 3, 4]), order([4, 3, 2, 1, 0]));
    // Biases of size four and less, of 11 keys, summed in another order.
    let bound = Bound::f64(8 * 11 + 32, 16.0);
    assert_close(&a.0, &b.0, bound);
    assert_close(&a.1, &b.1, bound);
    assert_close(&a.2, &b.2, Bound::f64(8 * 121 + 32, 16.0));
    // A chain of one is its link, and one of none is no position.
    for (name, link) in names.iter().zip(&links) {
        let alone = x.run_at(&Full, &items, &**link);
        assert_eq!(x.run_at(&Full, &items, &Chain(&[&**link])), alone, "{name}");
    }
    assert_eq!(x.run_at(&Full, &items, &Chain(&[])), x.run(&Full));
}

#[test]
fn local_attention_with_a_wide_window_and_a_flat_gaussian_is_global() {
    let (len, items) = (9, Item::packed(&[9]));
    let x = SelfAttention::new(1, len, ONE_HEAD);
    let centres: Vec<f64> = random_vec(5, len).iter().map(|c| 4.0 + 4.0 * c).collect();
    let scope = PredictedCentre { centres: &[&centres], radius: 9 };
    // 1 − exp(−8²/2σ²) is below the smallest step from 1.
    let params = [&centres[..], &[1e9]].concat();
    let flat = Gaussian::new(&params, &[len]);
    let (local, local_g) = x.run_at(&scope, &items, &flat);
    let (global, global_g) = x.run(&Full);
    assert_eq!(local, global);
    assert_eq!((local_g.dq, local_g.dk, local_g.dv), (global_g.dq, global_g.dk, global_g.dv));
    // Centres hardly matter: each key's slope is (j − p)/σ².
    assert!(local_g.dposition_params[..len].iter().all(|d| d.abs() < 1e-15));
    // A narrow one is not.
    let params = [&centres[..], &[2.0]].concat();
    assert_ne!(x.run_at(&scope, &items, &Gaussian::new(&params, &[len])).0.context, global.context);
}

#[test]
fn one_head_with_identity_projections_is_the_formula() {
    // softmax(x xᵀ / √d) x, by hand.
    let (len, d) = (7, 3);
    let x = random_vec(8, len * d);
    let row = |i: usize| &x[i * d..(i + 1) * d];
    let mut want = Vec::new();
    for i in 0..len {
        let products = (0..len).map(|j| row(i).iter().zip(row(j)).map(|(a, b)| a * b).sum::<f64>());
        let powers: Vec<f64> = products.map(|s| (s / (d as f64).sqrt()).exp()).collect();
        let total: f64 = powers.iter().sum();
        want.extend((0..d).map(|c| (0..len).map(|j| powers[j] / total * row(j)[c]).sum::<f64>()));
    }
    let dims = Dims { n_heads: 1, n_kv_heads: 1, d_k: d, d_v: d };
    let self_attention = SelfAttention { dims, len, q: x.clone(), k: x.clone(), v: x.clone() };
    let (out, _) = self_attention.run(&Full);
    assert_close(&out.context, &want, Bound::f64(4 * (len + d) + 16, 2.0));
}

#[test]
fn outside_the_window_nothing_matters() {
    let (len, left, right) = (12, 3, 1);
    let x = SelfAttention::new(1, len, ONE_HEAD);
    let scope = Window { left, right };
    let (want, _) = x.run(&scope);
    for j in 0..len {
        let mut other = SelfAttention { q: x.q.clone(), k: x.k.clone(), v: x.v.clone(), ..x };
        other.k[j * 3] += 0.5;
        other.v[j * 2] += 0.5;
        let (out, _) = other.run(&scope);
        for i in 0..len {
            let same = out.context[i * 2..i * 2 + 2] == want.context[i * 2..i * 2 + 2];
            assert_eq!(same, !(j + left >= i && j <= i + right), "query {i}, key {j}");
        }
    }
}

#[test]
fn heads_are_attentions_of_their_own() {
    let Dims { n_heads, d_k, d_v, .. } = problem::DIMS;
    for name in SCORES {
        // A table of places serves one key head; here each head has its own.
        let tables = if name == "location" { n_heads } else { 1 };
        let params = random_vec(4, tables * n_params(name, n_heads, d_k));
        let len = 5;
        let dims = Dims { n_kv_heads: n_heads, ..problem::DIMS };
        let x = SelfAttention::new(1, len, dims);
        let items = Item::packed(&[len]);
        let both = score(name, &params, d_k);
        let call = Call { dims, items: &items, ..problem::call(&*both, &Full, &NoPosition, None) };
        let views =
            (dense(&x.q, n_heads, d_k), dense(&x.k, n_heads, d_k), dense(&x.v, n_heads, d_v));
        let want = forward(&call, views.0, views.1, views.2).unwrap();
        for head in 0..n_heads {
            // A head alone: the same array, begun later.
            let per_head = params.len() / n_heads;
            let one = score(name, &params[head * per_head..(head + 1) * per_head], d_k);
            let dims = Dims { n_heads: 1, n_kv_heads: 1, ..dims };
            let call =
                Call { dims, items: &items, ..problem::call(&*one, &Full, &NoPosition, None) };
            let (mut q, mut k, mut v) = views;
            (q.data, k.data, v.data) =
                (&q.data[head * d_k..], &k.data[head * d_k..], &v.data[head * d_v..]);
            let out = forward(&call, q, k, v).unwrap();
            for i in 0..len {
                let at = (i * n_heads + head) * d_v;
                assert_eq!(out.context[i * d_v..(i + 1) * d_v], want.context[at..at + d_v]);
            }
            assert_eq!(out.lse[..], want.lse[head * len..(head + 1) * len]);
        }
    }
}

#[test]
fn grouped_queries_are_repeated_keys() {
    let (len, d_k, d_v) = (5, 3, 2);
    let grouped = SelfAttention::new(1, len, Dims { n_heads: 4, n_kv_heads: 2, d_k, d_v });
    let repeat = |x: &[f64], width: usize| -> Vec<f64> {
        x.chunks_exact(width).flat_map(|row| [row, row].concat()).collect()
    };
    let repeated = SelfAttention {
        dims: Dims { n_heads: 4, n_kv_heads: 4, d_k, d_v },
        len,
        q: grouped.q.clone(),
        k: repeat(&grouped.k, d_k),
        v: repeat(&grouped.v, d_v),
    };
    let ((a, da), (b, db)) = (grouped.run(&Full), repeated.run(&Full));
    assert_eq!((a, da.dq), (b, db.dq));
    let summed = |x: &[f64], width: usize| -> Vec<f64> {
        let pairs = x.chunks_exact(2 * width);
        pairs.flat_map(|p| (0..width).map(|c| p[c] + p[width + c]).collect::<Vec<_>>()).collect()
    };
    // Only the order of the sums differs: 2·len terms, of size below 4.
    assert_close(&da.dk, &summed(&db.dk, d_k), Bound::f64(2 * len, 4.0));
    assert_close(&da.dv, &summed(&db.dv, d_v), Bound::f64(2 * len, 4.0));
}

#[test]
fn an_item_alone_is_the_item_in_its_batch() {
    let whole = SelfAttention::new(1, 12, ONE_HEAD);
    let (left, right) = (2, 1);
    // Padded to 4 rows each, with 4, 1 and 3 real ones.
    let (batch, _) = {
        let items: Vec<Item> = [0, 4, 8]
            .map(|s| Item { q_start: s, q_len: 4, kv_start: s, kv_len: 4, q_offset: 0 })
            .to_vec();
        let lengths = Lengths { kv: &[4, 1, 3] };
        whole.run_items(&And(&[&Window { left, right }, &lengths]), &items)
    };
    for (n, len) in [4, 1, 3].into_iter().enumerate() {
        let item = Item { q_start: 4 * n, q_len: len, kv_start: 4 * n, kv_len: len, q_offset: 0 };
        let (alone, _) = whole.run_items(&Window { left, right }, &[item]);
        assert_eq!(alone.context[..], batch.context[8 * n..8 * n + 2 * len]);
        assert_eq!(alone.lse[..], batch.lse[4 * n..4 * n + len]);
    }
}

#[test]
fn the_layout_of_the_arrays_does_not_matter() {
    let dims = Dims { n_heads: 2, n_kv_heads: 2, d_k: 4, d_v: 4 };
    let x = SelfAttention::new(1, 5, dims);
    let (want, want_g) = x.run(&Full);
    // [heads, len, width]
    let by_head = |x: &[f64]| -> Vec<f64> {
        (0..2)
            .flat_map(|h| (0..5).flat_map(move |i| (0..4).map(move |c| (i * 2 + h) * 4 + c)))
            .map(|n| x[n])
            .collect()
    };
    let (q, k, v) = (by_head(&x.q), by_head(&x.k), by_head(&x.v));
    let rows = |data| regard_attn::Rows { data, row_stride: 4, head_stride: 20 };
    let (score, items) = (ScaledDot::new(4), Item::packed(&[5]));
    let call = x.call(&Full, &items, &score);
    let out = forward(&call, rows(&q), rows(&k), rows(&v)).unwrap();
    assert_eq!(out, want);
    let d_context = random_vec(31, out.context.len());
    let g = backward(&call, rows(&q), rows(&k), rows(&v), &d_context, Upstream::NONE).unwrap();
    assert_eq!(g, want_g);
}

#[test]
fn large_scores_pick_the_best_key() {
    // Scores of ±40 000: without the maximum taken off, exp overflows.
    let (q, k, v) = ([200.0f32; 2], [200.0f32, -200.0], [1.0f32, 2.0]);
    let rows = |data| regard_attn::Rows { data, row_stride: 1, head_stride: 1 };
    let items = Item::packed(&[2]);
    let call = Call::<f32> {
        score: &Dot,
        normaliser: &Softmax,
        scope: &Full,
        position: &NoPosition,
        dropout: None,
        dims: Dims { n_heads: 1, n_kv_heads: 1, d_k: 1, d_v: 1 },
        items: &items,
    };
    let out = forward(&call, rows(&q), rows(&k), rows(&v)).unwrap();
    assert_eq!((out.context, out.lse), (vec![1.0, 1.0], vec![40000.0; 2]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Without position, the order of the keys is nothing but the order of a sum.
    #[test]
    fn permuted_keys_change_nothing_beyond_rounding(len in 1usize..17, seed in 0u64..1000) {
        let x = SelfAttention::new(seed, len, ONE_HEAD);
        let mut order: Vec<usize> = (0..len).collect();
        regard_tensor::Key::new(seed).shuffle(&mut order);
        let permuted = |x: &[f64], width: usize| -> Vec<f64> {
            order.iter().flat_map(|j| x[j * width..(j + 1) * width].to_vec()).collect()
        };
        let y = SelfAttention { q: x.q.clone(), k: permuted(&x.k, 3), v: permuted(&x.v, 2), ..x };
        let ((a, da), (b, db)) = (x.run(&Full), y.run(&Full));
        let bound = Bound::f64(8 * len + 16, 4.0);
        assert_close(&a.context, &b.context, bound);
        assert_close(&da.dq, &db.dq, bound);
        assert_close(&permuted(&da.dk, 3), &db.dk, bound);
        assert_close(&permuted(&da.dv, 2), &db.dv, bound);
    }

    /// The same with every score and normaliser that draws nothing, and a bias that the keys keep.
    #[test]
    fn permuted_keys_change_nothing_whatever_the_parts(len in 1usize..7, seed in 0u64..1000) {
        let dims = Dims { n_heads: 2, n_kv_heads: 2, d_k: 3, d_v: 2 };
        let x = SelfAttention::new(seed, len, dims);
        let mut order: Vec<usize> = (0..len).collect();
        regard_tensor::Key::new(seed).shuffle(&mut order);
        let permuted = |x: &[f64], width: usize| -> Vec<f64> {
            order.iter().flat_map(|j| x[j * width..(j + 1) * width].to_vec()).collect()
        };
        let (k, v) = (permuted(&x.k, 6), permuted(&x.v, 4));
        let bias = random_vec(seed + 9, len);
        let of_keys = permuted(&bias, 1);
        let items = Item::packed(&[len]);
        for name in SCORES.into_iter().filter(|name| *name != "location") {
            let params = random_vec(4, n_params(name, 2, 3));
            let score = score(name, &params, 3);
            for normaliser in normalisers().iter().filter(|n| n.name() != "sampled") {
                let run = |k: &[f64], v: &[f64], bias: &[f64]| {
                    let position = DenseBias { data: bias, sizes: [1, 1, 1, len] };
                    let call = Call {
                        normaliser: &**normaliser,
                        dims,
                        items: &items,
                        ..problem::call(&*score, &Full, &position, None)
                    };
                    let (q, k, v) = (dense(&x.q, 2, 3), dense(k, 2, 3), dense(v, 2, 2));
                    let out = forward(&call, q, k, v).unwrap();
                    let d_context = random_vec(31, out.context.len());
                    let g = backward(&call, q, k, v, &d_context, Upstream::NONE).unwrap();
                    (out, g)
                };
                let ((a, da), (b, db)) = (run(&x.k, &x.v, &bias), run(&k, &v, &of_keys));
                // Scores up to 9 + 1, and as weights of the identity; their gradients with factors
                // up to 3.
                let bound = Bound::f64(8 * len + 64, 40.0);
                assert_close(&a.context, &b.context, bound);
                assert_close(&da.dq, &db.dq, bound);
                assert_close(&permuted(&da.dk, 6), &db.dk, bound);
                assert_close(&permuted(&da.dv, 4), &db.dv, bound);
                assert_close(&permuted(&da.dposition_params, 1), &db.dposition_params, bound);
            }
        }
    }

    /// With rotary position, only distances count: moving all tokens on changes nothing.
    #[test]
    fn rotary_attention_ignores_a_common_shift(shift in 0usize..40, len in 1usize..7) {
        let dims = Dims { n_heads: 1, n_kv_heads: 1, d_k: 4, d_v: 2 };
        let x = SelfAttention::new(1, len, dims);
        let rotary = Rotary::new(10000.0, RotaryLayout::Interleaved);
        let score = ScaledDot::new(4);
        // Empty rows in front move the others on; they are forbidden as keys.
        let shifted = |x: &[f64], row: usize| [vec![0.0; shift * row], x.to_vec()].concat();
        let (q, k, v) = (shifted(&x.q, 4), shifted(&x.k, 4), shifted(&x.v, 2));
        let total = shift + len;
        let run = |scope: &dyn Scope, n: usize, q: &[f64], k: &[f64], v: &[f64]| {
            let items = Item::packed(&[n]);
            let call = Call {
                dims, items: &items, ..problem::call(&score, scope, &rotary, None)
            };
            forward(&call, dense(q, 1, 4), dense(k, 1, 4), dense(v, 1, 2)).unwrap().context
        };
        let near = Window { left: len - 1, right: len - 1 };
        let want = run(&Full, len, &x.q, &x.k, &x.v);
        let got = run(&And(&[&near, &NotBefore(shift)]), total, &q, &k, &v);
        assert_close(&got[shift * 2..], &want, Bound::f64(8 * total + 64, 4.0));
    }
}

/// A scope of a user's own: nothing but `allows`.
#[derive(Debug)]
struct NotBefore(usize);

impl Scope for NotBefore {
    fn name(&self) -> &'static str {
        "not_before"
    }

    fn allows(&self, _: regard_attn::At, _: usize, key: usize) -> bool {
        key >= self.0
    }
}
