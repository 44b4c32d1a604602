//! One attention problem, given to the engine and to the reference.

#![allow(dead_code, reason = "every test binary uses a part of it")]

pub(crate) mod batch;
pub(crate) mod bound;
pub(crate) mod draw;
pub(crate) mod net;
pub(crate) mod parts;

use std::fmt;

use regard_attn::position::RotaryLayout;
use regard_attn::reference::{self, Reference};
use regard_attn::scope::{EdgeRows, SelfLoops};
use regard_attn::{Call, Dims, Dropout, Item, Rows, RowsMut, Summary, Upstream, Wanted};
use regard_engine::{GradArrays, Gradients, Place};
use regard_tensor::Real;
use regard_testkit::random_vec_f32;

use draw::Draw;
use parts::{NormaliserKind, PositionKind, ScopeKind, ScoreKind};

/// Some scores, normalisers and a position for tests that go through chosen combinations.
pub(crate) const SCORES: [ScoreKind; 3] =
    [ScoreKind::Dot, ScoreKind::ScaledDot, ScoreKind::Additive];
pub(crate) const NORMALISERS: [NormaliserKind; 3] =
    [NormaliserKind::Softmax, NormaliserKind::WholeSoftmax, NormaliserKind::Quarter];
pub(crate) const ROTARY: PositionKind =
    PositionKind::Rotary { base: 100.0, layout: RotaryLayout::Half, kept: 0 };

/// What the loss looks at beside the contexts: upstream gradients.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Looks {
    pub(crate) weights: Option<Vec<f64>>,
    pub(crate) key_sums: Option<Vec<f64>>,
    pub(crate) entropy: Option<Vec<f64>>,
    pub(crate) log_prob: Option<Vec<f64>>,
}

/// How an array of rows lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Layout {
    /// `[heads, rows, width]` in place of `[rows, heads, width]`.
    pub(crate) heads_first: bool,
    /// Unused elements behind every row and behind every line of rows.
    pub(crate) gap: usize,
}

/// How the gradients lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) enum GradLayout {
    #[default]
    Separate,
    /// Keys' and values' in one array, side by side.
    KeyValue,
    /// All in one array: side by side where there are as many rows of queries as of keys, else one behind the
    /// other.
    Fused,
}

/// A call with its arrays, dense: `[rows, heads, width]`. Rows of no item hold NaN.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Problem {
    /// What it was drawn from.
    pub(crate) seed: Option<u64>,
    pub(crate) score: ScoreKind,
    pub(crate) normaliser: NormaliserKind,
    pub(crate) scope: ScopeKind,
    pub(crate) position: PositionKind,
    pub(crate) dropout: Option<Dropout>,
    pub(crate) dims: Dims,
    pub(crate) items: Vec<Item>,
    pub(crate) q: Vec<f64>,
    pub(crate) k: Vec<f64>,
    pub(crate) v: Vec<f64>,
    pub(crate) d_context: Vec<f64>,
    pub(crate) score_params: Vec<f64>,
    pub(crate) position_params: Vec<f64>,
    pub(crate) looks: Looks,
    pub(crate) wanted: Wanted,
    /// Of queries, keys, values and contexts.
    pub(crate) layouts: [Layout; 4],
    pub(crate) grad_layout: GradLayout,
    /// Whether gradients are added to zeros, or overwrite what stands there.
    pub(crate) add_gradients: bool,
}

/// Everything that comes out, dense, in f64. Contexts are numbered as the queries.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) context: Vec<f64>,
    pub(crate) lse: Vec<f64>,
    pub(crate) weights: Vec<f64>,
    pub(crate) dq: Vec<f64>,
    pub(crate) dk: Vec<f64>,
    pub(crate) dv: Vec<f64>,
    pub(crate) dscore_params: Vec<f64>,
    pub(crate) dposition_params: Vec<f64>,
    pub(crate) summary: Summary<f64>,
}

impl Outcome {
    pub(crate) fn arrays(&self) -> [(&'static str, &[f64]); 12] {
        [
            ("context", &self.context),
            ("lse", &self.lse),
            ("weights", &self.weights),
            ("dq", &self.dq),
            ("dk", &self.dk),
            ("dv", &self.dv),
            ("dscore_params", &self.dscore_params),
            ("dposition_params", &self.dposition_params),
            ("key_sums", &self.summary.key_sums),
            ("entropy", &self.summary.entropy),
            ("log_prob", &self.summary.log_prob),
            ("distances", &self.summary.distances),
        ]
    }
}

/// Equal to the last bit (+0 equals −0), NaN nowhere.
#[track_caller]
pub(crate) fn assert_same(got: &Outcome, want: &Outcome, what: &str) {
    for ((name, got), (_, want)) in got.arrays().iter().zip(want.arrays()) {
        assert_same_bits(got, want, &format!("{what}: {name}"));
    }
    assert!(got.summary.top == want.summary.top, "{what}: top");
    assert!(got.summary.chosen == want.summary.chosen, "{what}: chosen");
}

#[track_caller]
pub(crate) fn assert_same_bits(got: &[f64], want: &[f64], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    if let Some(n) = (0..got.len()).find(|n| got[*n] != want[*n]) {
        panic!("{what}: entry {n} is {} and not {}", got[n], want[n]);
    }
}

/// Row `row` of `head` in `[rows, heads, width]`.
pub(crate) fn at(row: usize, head: usize, heads: usize, width: usize) -> std::ops::Range<usize> {
    (row * heads + head) * width..(row * heads + head + 1) * width
}

/// `n` numbers that f32 holds exactly, so that both precisions see the same inputs.
pub(crate) fn numbers(seed: u64, n: usize) -> Vec<f64> {
    random_vec_f32(seed, n).into_iter().map(f64::from).collect()
}

fn cast<T: Real>(x: &[f64]) -> Vec<T> {
    x.iter().map(|x| T::from_f64(*x)).collect()
}

fn widen<T: Real>(x: &[T]) -> Vec<f64> {
    x.iter().map(|x| x.to_f64()).collect()
}

pub(crate) fn rows<T>(data: &[T], heads: usize, width: usize) -> Rows<'_, T> {
    Rows { data, row_stride: heads * width, head_stride: width }
}

pub(crate) fn rows_mut<T>(data: &mut [T], heads: usize, width: usize) -> RowsMut<'_, T> {
    RowsMut { data, row_stride: heads * width, head_stride: width }
}

/// Which rows belong to an item, given where the items start and how long they are.
fn mark(rows: usize, items: impl Iterator<Item = (usize, usize)>) -> Vec<bool> {
    let mut of_item = vec![false; rows];
    for (start, len) in items.filter(|(_, len)| *len > 0) {
        of_item[start..start + len].fill(true);
    }
    of_item
}

/// What no one may write over.
const SENTINEL: f64 = 1234.5;

impl Layout {
    /// The place of `[rows, heads, width]` and the elements up to its end.
    fn place(self, rows: usize, heads: usize, width: usize) -> (Place, usize) {
        let one = width + self.gap;
        let (row_stride, head_stride) = if self.heads_first {
            (one, rows * one + self.gap)
        } else {
            (heads * one + self.gap, one)
        };
        let end = heads * rows * one + self.gap * rows.max(heads);
        (Place { offset: 0, row_stride, head_stride }, end)
    }
}

/// Writes a dense array to its place in another.
fn put<T: Real>(dense: &[f64], heads: usize, width: usize, place: Place, out: &mut [T]) {
    for (n, from) in dense.chunks_exact(width).enumerate() {
        let (row, head) = (n / heads, n % heads);
        let start = place.offset + row * place.row_stride + head * place.head_stride;
        for (out, x) in out[start..start + width].iter_mut().zip(from) {
            *out = T::from_f64(*x);
        }
    }
}

/// Takes a dense array of `len` elements from its place and leaves the sentinel there.
fn take<T: Real>(
    array: &mut [T],
    len: usize,
    heads: usize,
    width: usize,
    place: Place,
) -> Vec<f64> {
    let mut dense = Vec::with_capacity(len);
    for n in 0..len / width {
        let (row, head) = (n / heads, n % heads);
        let start = place.offset + row * place.row_stride + head * place.head_stride;
        dense.extend(widen(&array[start..start + width]));
        array[start..start + width].fill(T::from_f64(SENTINEL));
    }
    dense
}

fn assert_only_sentinels<T: Real>(what: &str, array: &[T]) {
    let written = array.iter().position(|x| *x != T::from_f64(SENTINEL));
    assert!(written.is_none(), "{what}: element {written:?}, between the rows, was written");
}

impl Problem {
    /// Plain softmax attention by this score, with d_k = 5 and d_v = 3.
    pub(crate) fn new(
        score: ScoreKind,
        n_heads: usize,
        n_kv_heads: usize,
        items: Vec<Item>,
    ) -> Self {
        let dims = Dims { n_heads, n_kv_heads, d_k: 5, d_v: 3 };
        Self::with_dims(score, dims, items)
    }

    pub(crate) fn with_dims(score: ScoreKind, dims: Dims, items: Vec<Item>) -> Self {
        let mut problem = Self {
            seed: None,
            score,
            normaliser: NormaliserKind::Softmax,
            scope: ScopeKind::Full,
            position: PositionKind::None,
            dropout: None,
            dims,
            items,
            q: Vec::new(),
            k: Vec::new(),
            v: Vec::new(),
            d_context: Vec::new(),
            score_params: Vec::new(),
            position_params: Vec::new(),
            looks: Looks::default(),
            wanted: Wanted::default(),
            layouts: [Layout::default(); 4],
            grad_layout: GradLayout::default(),
            add_gradients: true,
        };
        problem.fill(&mut Draw::new(7), [1.0; 2]);
        problem.set_position(PositionKind::None);
        problem
    }

    /// Two items whose queries see few, scattered keys: what the engine takes row by row.
    pub(crate) fn sparse(score: ScoreKind, dims: Dims, seed: u64) -> Self {
        let items = Self::packed(&[(33, 150), (71, 71)]);
        let mut draw = Draw::new(seed);
        let graphs = items.iter().map(|item| {
            let mut edges = Vec::new();
            for i in (0..item.q_len).filter(|i| i % 10 != 4) {
                // The last key, so that it counts as one that can be seen.
                let seen =
                    |draw: &mut Draw, j| draw.chance(0.04) || (i == 0 && j + 1 == item.kv_len);
                edges.extend((0..item.kv_len).filter(|j| seen(&mut draw, *j)).map(|j| (i, j)));
            }
            EdgeRows::new(item.q_len, &edges).expect("edges of the item, each once")
        });
        let graphs = graphs.collect();
        let mut problem = Self::with_dims(score, dims, items);
        problem.scope = ScopeKind::Graph(graphs, SelfLoops::AsGiven);
        problem
    }

    /// Draws arrays and the parameters of the score. Entries of q and k are up to `sizes`.
    pub(crate) fn fill(&mut self, draw: &mut Draw, sizes: [f64; 2]) {
        let Dims { n_heads, n_kv_heads, d_k, d_v } = self.dims;
        let (q_rows, kv_rows) = (self.q_rows(), self.kv_rows());
        self.q = draw.numbers(q_rows * n_heads * d_k, sizes[0]);
        self.k = draw.numbers(kv_rows * n_kv_heads * d_k, sizes[1]);
        self.v = draw.numbers(kv_rows * n_kv_heads * d_v, 1.0);
        self.d_context = draw.numbers(q_rows * n_heads * d_v, 1.0);
        self.score_params = draw.score_params(&self.score, self.dims);
        let queries = mark(q_rows, self.items.iter().map(|item| (item.q_start, item.q_len)));
        let keys = mark(kv_rows, self.items.iter().map(|item| (item.kv_start, item.kv_len)));
        let (queries, keys) = (&queries, &keys);
        for (array, width, of_item) in [
            (&mut self.q, n_heads * d_k, queries),
            (&mut self.k, n_kv_heads * d_k, keys),
            (&mut self.v, n_kv_heads * d_v, keys),
            (&mut self.d_context, n_heads * d_v, queries),
        ] {
            for (row, of_item) in array.chunks_exact_mut(width).zip(of_item) {
                if !of_item {
                    row.fill(f64::NAN);
                }
            }
        }
    }

    /// Rows of queries, as [`Call::q_rows`].
    pub(crate) fn q_rows(&self) -> usize {
        let used = self.items.iter().filter(|item| item.q_len > 0);
        used.map(|item| item.q_start + item.q_len).max().unwrap_or(0)
    }

    /// Rows of keys, as [`Call::kv_rows`].
    pub(crate) fn kv_rows(&self) -> usize {
        let used = self.items.iter().filter(|item| item.kv_len > 0);
        used.map(|item| item.kv_start + item.kv_len).max().unwrap_or(0)
    }

    /// Takes another position and draws its parameters.
    pub(crate) fn set_position(&mut self, position: PositionKind) {
        self.position_params = Draw::new(8).position_params(&position, self.dims, &self.items);
        self.position = position;
    }

    /// Items of these (q_len, kv_len), one behind the other.
    pub(crate) fn packed(lengths: &[(usize, usize)]) -> Vec<Item> {
        let (mut q_start, mut kv_start) = (0, 0);
        let item = |&(q_len, kv_len): &(usize, usize)| {
            let item = Item { q_start, q_len, kv_start, kv_len, q_offset: 0 };
            q_start += q_len;
            kv_start += kv_len;
            item
        };
        lengths.iter().map(item).collect()
    }

    pub(crate) fn n_queries(&self) -> usize {
        self.items.iter().map(|item| item.q_len).sum()
    }

    pub(crate) fn n_keys(&self) -> usize {
        self.items.iter().map(|item| item.kv_len).sum()
    }

    pub(crate) fn n_weights(&self) -> usize {
        self.items.iter().map(|i| self.dims.n_heads * i.q_len * i.kv_len).sum()
    }

    /// Lets the loss look at the weights, too.
    pub(crate) fn watch_weights(&mut self) {
        self.looks.weights = Some(numbers(6, self.n_weights()));
    }

    /// Whether the queries and keys of some item lie across two borders of tiles or more, be it of queries or
    /// of keys. Tiles are 64 keys wide and up to 96 queries high; the larger number is taken.
    pub(crate) fn crosses_two_edges(&self) -> bool {
        let edges = |len: usize, tile: usize| len.div_ceil(tile).saturating_sub(1);
        self.items.iter().any(|item| {
            item.q_len > 0 && item.kv_len > 0 && edges(item.q_len, 96) + edges(item.kv_len, 64) >= 2
        })
    }

    /// The catalogue's names of all parts.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let mut names = self.score.names(self.dims);
        names.push(self.normaliser.name());
        names.extend(self.scope.names());
        names.extend(self.position.names(self.dims, &self.items));
        names
    }

    /// Calls `f` with the call that the problem describes.
    pub(crate) fn with_call<T: Real, R>(&self, f: impl FnOnce(&Call<'_, T>) -> R) -> R {
        let (of_score, of_position) =
            (cast::<T>(&self.score_params), cast::<T>(&self.position_params));
        let (dropout, dims, items) = (self.dropout, self.dims, &self.items[..]);
        let (mut f, mut result) = (Some(f), None);
        self.score.with(&of_score, dims, &mut |score| {
            self.normaliser.with(&mut |normaliser| {
                self.scope.with(&mut |scope| {
                    self.position.with(&of_position, dims, items, &mut |position| {
                        let call =
                            Call { score, normaliser, scope, position, dropout, dims, items };
                        result = f.take().map(|f| f(&call));
                    });
                });
            });
        });
        result.expect("each part calls once")
    }

    /// Calls `f(weight, key, query, allowed)` for every pair: its index among the weights, its rows in the
    /// arrays of keys and of queries, whether the scope allows it.
    pub(crate) fn each_pair(&self, mut f: impl FnMut(usize, usize, usize, bool)) {
        let mut n = 0;
        self.with_call::<f64, _>(|call| {
            for (index, item) in call.items.iter().enumerate() {
                for head in 0..call.dims.n_heads {
                    let at = call.at(index, head);
                    for i in 0..at.q_len {
                        for j in 0..at.kv_len {
                            let allowed = call.scope.allows(at, i, j);
                            f(n, item.kv_start + j, item.q_start + i, allowed);
                            n += 1;
                        }
                    }
                }
            }
        });
    }

    /// What the engine computes in the precision `T`.
    pub(crate) fn engine<T: Real>(&self) -> Outcome {
        let Dims { n_heads, n_kv_heads, d_k, d_v } = self.dims;
        let (q_rows, kv_rows) = (self.q_rows(), self.kv_rows());
        let [of_q, of_k, of_v, of_c] = self.layouts;
        let (q_place, q_len) = of_q.place(q_rows, n_heads, d_k);
        let (k_place, k_len) = of_k.place(kv_rows, n_kv_heads, d_k);
        let (v_place, v_len) = of_v.place(kv_rows, n_kv_heads, d_v);
        let (c_place, c_len) = of_c.place(q_rows, n_heads, d_v);
        // Between the rows of the inputs stands what must not be read.
        let junk = |len: usize| vec![T::from_f64(f64::NAN); len];
        let (mut q, mut k, mut v) = (junk(q_len), junk(k_len), junk(v_len));
        let mut dc = junk(c_len);
        put(&self.q, n_heads, d_k, q_place, &mut q);
        put(&self.k, n_kv_heads, d_k, k_place, &mut k);
        put(&self.v, n_kv_heads, d_v, v_place, &mut v);
        put(&self.d_context, n_heads, d_v, c_place, &mut dc);
        let view = |data, place: Place| Rows {
            data,
            row_stride: place.row_stride,
            head_stride: place.head_stride,
        };
        let (q, k, v) = (view(&q[..], q_place), view(&k[..], k_place), view(&v[..], v_place));

        let sentinel = T::from_f64(SENTINEL);
        let mut context = vec![sentinel; c_len];
        let [d_weights, d_key_sums, d_entropy, d_log_prob] =
            [&self.looks.weights, &self.looks.key_sums, &self.looks.entropy, &self.looks.log_prob]
                .map(|look| look.as_deref().map(cast::<T>));
        let upstream = Upstream {
            weights: d_weights.as_deref(),
            key_sums: d_key_sums.as_deref(),
            entropy: d_entropy.as_deref(),
            log_prob: d_log_prob.as_deref(),
        };
        let [(dq, q_end), (dk, k_end), (dv, v_end)] = self.grad_places();
        // Which array holds which gradient, and how long the arrays are.
        let (holder, ends) = match self.grad_layout {
            GradLayout::Separate => ([0, 1, 2], [q_end, k_end, v_end]),
            GradLayout::KeyValue => ([0, 1, 1], [q_end, v_end, 0]),
            GradLayout::Fused => ([0, 0, 0], [v_end, 0, 0]),
        };
        let mut arrays = ends.map(|end| vec![sentinel; end]);
        let operands = [
            (self.q.len(), n_heads, d_k, dq),
            (self.k.len(), n_kv_heads, d_k, dk),
            (self.v.len(), n_kv_heads, d_v, dv),
        ];
        if self.add_gradients {
            for (holder, (len, heads, width, place)) in holder.into_iter().zip(operands) {
                put(&vec![0.0; len], heads, width, place, &mut arrays[holder]);
            }
        }
        let mut dscore_params = vec![T::ZERO; self.score_params.len()];
        let mut dposition_params = vec![T::ZERO; self.position_params.len()];
        let (out, summary) = self.with_call(|call| {
            let Place { row_stride, head_stride, .. } = c_place;
            let c = RowsMut { data: &mut context, row_stride, head_stride };
            let out = regard_engine::forward(call, q, k, v, c, true).unwrap();
            let of = |data, place: Place| RowsMut {
                data,
                row_stride: place.row_stride,
                head_stride: place.head_stride,
            };
            let [first, second, third] = &mut arrays;
            let arrays = match self.grad_layout {
                GradLayout::Separate => GradArrays::Separate {
                    dq: of(first, dq),
                    dk: of(second, dk),
                    dv: of(third, dv),
                },
                GradLayout::KeyValue => {
                    GradArrays::KeyValue { dq: of(first, dq), data: second, dk, dv }
                }
                GradLayout::Fused => GradArrays::Fused { data: first, dq, dk, dv },
            };
            let grads = Gradients {
                arrays,
                add: self.add_gradients,
                dscore_params: &mut dscore_params,
                dposition_params: &mut dposition_params,
            };
            let (c, dc) = (view(&context[..], c_place), view(&dc[..], c_place));
            regard_engine::backward(call, q, k, v, c, &out.lse, dc, upstream, grads).unwrap();
            let summary = regard_engine::summarise(call, q, k, &out.lse, self.wanted).unwrap();
            (out, summary)
        });
        let mut taken = take(&mut context, self.d_context.len(), n_heads, d_v, c_place);
        let of_queries = || self.items.iter().map(|item| (item.q_start, item.q_len));
        let of_keys = || self.items.iter().map(|item| (item.kv_start, item.kv_len));
        let (q_rows, kv_rows) = (self.q_rows(), self.kv_rows());
        clear_strangers(&mut taken, n_heads * d_v, mark(q_rows, of_queries()));
        assert_only_sentinels("context", &context);
        let mut n = 0;
        let [mut dq, mut dk, mut dv] = operands.map(|(len, heads, width, place)| {
            n += 1;
            take(&mut arrays[holder[n - 1]], len, heads, width, place)
        });
        for array in &arrays {
            assert_only_sentinels("gradients", array);
        }
        if !self.add_gradients {
            clear_strangers(&mut dq, n_heads * d_k, mark(q_rows, of_queries()));
            clear_strangers(&mut dk, n_kv_heads * d_k, mark(kv_rows, of_keys()));
            clear_strangers(&mut dv, n_kv_heads * d_v, mark(kv_rows, of_keys()));
        }
        Outcome {
            context: taken,
            lse: widen(&out.lse),
            weights: widen(&out.weights.unwrap()),
            dq,
            dk,
            dv,
            dscore_params: widen(&dscore_params),
            dposition_params: widen(&dposition_params),
            summary: widen_summary(summary),
        }
    }

    /// Where the gradients of q, k and v begin in their arrays, and the arrays' lengths up to their end.
    fn grad_places(&self) -> [(Place, usize); 3] {
        let Dims { n_heads, n_kv_heads, d_k, d_v } = self.dims;
        let (q_rows, kv_rows) = (self.q_rows(), self.kv_rows());
        let [of_q, of_k, of_v, _] = self.layouts;
        let (q, k, v) = (n_heads * d_k, n_kv_heads * d_k, n_kv_heads * d_v);
        let line = |offset, row_stride, head_stride| Place { offset, row_stride, head_stride };
        match self.grad_layout {
            GradLayout::Separate => [
                of_q.place(q_rows, n_heads, d_k),
                of_k.place(kv_rows, n_kv_heads, d_k),
                of_v.place(kv_rows, n_kv_heads, d_v),
            ],
            GradLayout::KeyValue => {
                let stride = k + v + of_k.gap;
                let len = kv_rows * stride;
                let of_q = of_q.place(q_rows, n_heads, d_k);
                [of_q, (line(0, stride, d_k), len), (line(k, stride, d_v), len)]
            }
            GradLayout::Fused if q_rows == kv_rows => {
                let stride = q + k + v + of_k.gap;
                let len = kv_rows * stride;
                [(0, d_k), (q, d_k), (q + k, d_v)].map(|(at, d)| (line(at, stride, d), len))
            }
            GradLayout::Fused => {
                let ends = [
                    of_q.place(q_rows, n_heads, d_k),
                    of_k.place(kv_rows, n_kv_heads, d_k),
                    of_v.place(kv_rows, n_kv_heads, d_v),
                ];
                let mut offset = 0;
                ends.map(|(place, len)| {
                    let place = Place { offset, ..place };
                    offset += len;
                    (place, offset)
                })
            }
        }
    }

    /// What the reference computes in f64, and its forward pass as it is.
    pub(crate) fn reference(&self) -> (Outcome, Reference<f64>) {
        let Dims { n_heads, n_kv_heads, d_k, d_v } = self.dims;
        let (q, k) = (rows(&self.q, n_heads, d_k), rows(&self.k, n_kv_heads, d_k));
        let v = rows(&self.v, n_kv_heads, d_v);
        self.with_call(|call| {
            let out = reference::forward(call, q, k, v).unwrap();
            // The reference numbers contexts query by query, the engine as the rows of q.
            let width = n_heads * d_v;
            let mut context = vec![0.0; self.d_context.len()];
            let mut d_context = vec![0.0; out.context.len()];
            for (item, first) in self.items.iter().zip(call.query_offsets()) {
                for i in 0..item.q_len {
                    let (row, query) = ((item.q_start + i) * width, (first + i) * width);
                    context[row..row + width].copy_from_slice(&out.context[query..query + width]);
                    d_context[query..query + width]
                        .copy_from_slice(&self.d_context[row..row + width]);
                }
            }
            let upstream = Upstream {
                weights: self.looks.weights.as_deref(),
                key_sums: self.looks.key_sums.as_deref(),
                entropy: self.looks.entropy.as_deref(),
                log_prob: self.looks.log_prob.as_deref(),
            };
            let grads = reference::backward(call, q, k, v, &d_context, upstream).unwrap();
            let outcome = Outcome {
                context,
                lse: out.lse.clone(),
                weights: out.weights.clone(),
                dq: grads.dq,
                dk: grads.dk,
                dv: grads.dv,
                dscore_params: grads.dscore_params,
                dposition_params: grads.dposition_params,
                summary: reference::summarise(call, q, k, self.wanted).unwrap(),
            };
            (outcome, out)
        })
    }
}

fn widen_summary<T: Real>(summary: Summary<T>) -> Summary<f64> {
    use regard_attn::summary::Top;
    let top = |top: &Top<T>| Top { key: top.key, weight: top.weight.to_f64() };
    Summary {
        key_sums: widen(&summary.key_sums),
        top: summary.top.iter().map(top).collect(),
        entropy: widen(&summary.entropy),
        chosen: summary.chosen,
        log_prob: widen(&summary.log_prob),
        distances: widen(&summary.distances),
    }
}

impl fmt::Display for Problem {
    /// One line: the seed, the parts, the sizes.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(seed) = self.seed {
            write!(out, "seed {seed}: ")?;
        }
        let Dims { n_heads, n_kv_heads, d_k, d_v } = self.dims;
        write!(out, "{} × {}", self.score.names(self.dims).join("("), self.normaliser.name())?;
        if let NormaliserKind::Temperature(tau) = self.normaliser {
            write!(out, "({tau:e})")?;
        }
        write!(out, " × {}", self.scope.names().join(" "))?;
        write!(out, " × {}", self.position.names(self.dims, &self.items).join(" "))?;
        write!(out, "; heads {n_heads}/{n_kv_heads}, d {d_k}/{d_v}, items")?;
        for item in self.items.iter().take(5) {
            write!(out, " {}×{}+{}", item.q_len, item.kv_len, item.q_offset)?;
        }
        if self.items.len() > 5 {
            write!(out, " … ({} in all)", self.items.len())?;
        }
        if let Some(dropout) = self.dropout {
            write!(out, "; dropout {:.2}", dropout.rate)?;
        }
        for (name, look) in [
            ("weights", &self.looks.weights),
            ("key sums", &self.looks.key_sums),
            ("entropy", &self.looks.entropy),
            ("log-probability", &self.looks.log_prob),
        ] {
            if look.is_some() {
                write!(out, "; looks at {name}")?;
            }
        }
        Ok(())
    }
}

/// Checks that rows of no item were not written, and clears them.
fn clear_strangers(rows: &mut [f64], width: usize, of_items: Vec<bool>) {
    for (row, of_item) in rows.chunks_exact_mut(width).zip(of_items) {
        if !of_item {
            assert!(row.iter().all(|x| *x == SENTINEL), "a row of no item was written");
            row.fill(0.0);
        }
    }
}
