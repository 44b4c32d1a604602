//! Random problems.

use proptest::prelude::*;
use regard_attn::scope::{Alignment, Window};
use regard_attn::{Dims, Dropout, Item};
use regard_tensor::Key;
use regard_testkit::edge_sizes_within;

use super::{Allowed, Kind, Problem, Weighing};

/// Problems of every combination of parts, with lengths around the borders of tiles and lanes.
pub(crate) fn problems() -> impl Strategy<Value = Problem> {
    let kind = prop_oneof![Just(Kind::Dot), Just(Kind::ScaledDot), Just(Kind::Additive)];
    let normaliser = prop_oneof![
        3 => Just(Weighing::Softmax),
        1 => Just(Weighing::WholeSoftmax),
        1 => Just(Weighing::Quarter)
    ];
    let length = || edge_sizes_within(0, 130);
    let items = prop::collection::vec((length(), length(), any::<bool>(), 0..3usize), 0..4);
    let heads = prop_oneof![Just((1, 1)), Just((2, 2)), Just((3, 1)), Just((4, 2))];
    let widths = (1..10usize, 1..20usize);
    let scope = (
        any::<bool>(),
        prop::option::of(prop_oneof![Just(Alignment::TopLeft), Just(Alignment::BottomRight)]),
        prop::option::of((0..70usize, 0..70usize)),
        any::<bool>(),
    );
    let rest = (any::<bool>(), prop::option::of(0.0..0.9), any::<bool>(), any::<u32>());
    (kind, normaliser, items, heads, widths, scope, rest).prop_map(
        |(kind, normaliser, lengths, heads, widths, scope, rest)| {
            let (rotary, dropout, watch_weights, seed) = rest;
            let d_k = if rotary { widths.0 * 2 } else { widths.0 };
            let dims = Dims { n_heads: heads.0, n_kv_heads: heads.1, d_k, d_v: widths.1 };
            // Every item may have a gap before it; self-attention has as many queries as keys.
            let (mut q, mut kv) = (0, 0);
            let items = lengths.iter().map(|&(q_len, kv_len, square, gap)| {
                let q_len = if square { kv_len } else { q_len };
                let item =
                    Item { q_start: q + gap, q_len, kv_start: kv + gap, kv_len, q_offset: 0 };
                (q, kv) = (item.q_start + q_len, item.kv_start + kv_len);
                item
            });
            let mut problem = Problem::with_dims(kind, dims, items.collect());
            problem.normaliser = normaliser;
            problem.rotary = rotary;
            problem.dropout = dropout.map(|rate| Dropout { rate, key: Key::new(u64::from(seed)) });
            problem.allowed = Allowed {
                lengths: scope.0.then(|| {
                    let length = |item: &Item| seed as usize % (item.kv_len + 1);
                    problem.items.iter().map(length).collect()
                }),
                causal: scope.1,
                without_hints: scope.3,
                window: scope.2.map(|(left, right)| Window { left, right }),
            };
            if watch_weights {
                problem.watch_weights();
            }
            problem
        },
    )
}
