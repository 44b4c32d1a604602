//! The variants and shapes, by the names and definitions of `scripts/bench/attention_torch.py`.

use std::ops::Range;

use regard_attn::normaliser::{Entmax15, Softmax, Sparsemax};
use regard_attn::position::{Alibi, NoPosition, RelativeBias, Rotary, RotaryLayout};
use regard_attn::scope::{Causal, Csr, Documents, Full, Given, Graph, SelfLoops, Window};
use regard_attn::score::{Additive, Gat, ScaledDot};
use regard_attn::{Call, Dims, Dropout, Item, Normaliser, Position, Scope, Score};
use regard_tensor::Key;

/// Names of the variants, in the order of the report.
pub const VARIANTS: [&str; 19] = [
    "plain",
    "causal",
    "window_32",
    "dropout",
    "weights_summary",
    "relative_bias",
    "alibi",
    "rotary",
    "d_v_32",
    "gqa_8_2",
    "lengths_half",
    "documents",
    "mask_blocks",
    "sparsemax",
    "entmax15",
    "additive",
    "graph",
    "decode_1",
    "decode_16",
];

/// Edges into each node of the graph.
const EDGES: usize = 10;

/// Documents in an item.
const DOCUMENTS: usize = 8;

/// One variant at one shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// One of [`VARIANTS`].
    pub variant: &'static str,
    /// `long`, `short`, `small_16`, `small_25`, `small_64`, or `own`.
    pub shape: &'static str,
    /// Items.
    pub batch: usize,
    /// Queries of an item, with padding.
    pub q_len: usize,
    /// Keys of an item, with padding.
    pub kv_len: usize,
    /// Heads and widths.
    pub dims: Dims,
}

/// Sizes of the shapes that variants share: items, heads, length, width.
const SHAPES: [(&str, [usize; 4]); 5] = [
    ("long", [2, 8, 4096, 64]),
    ("short", [32, 8, 128, 64]),
    ("small_16", [32, 8, 16, 16]),
    ("small_25", [32, 4, 25, 32]),
    ("small_64", [8, 16, 64, 32]),
];

/// The cases of `variant` at `shape`: a name of a shape, `small` for three of them, `own` for the shapes
/// of their own, `all`.
pub fn cases(variant: &'static str, shape: &str) -> Vec<Case> {
    let own = match variant {
        "additive" => Some([1, 8, 256, 256, 256]),
        "graph" => Some([1, 8, 100_000, 100_000, 8]),
        "decode_1" => Some([1, 8, 1, 4096, 64]),
        "decode_16" => Some([16, 8, 1, 4096, 64]),
        _ => None,
    };
    let case = |shape, [batch, n_heads, q_len, kv_len, d]: [usize; 5]| {
        let mut dims = Dims { n_heads, n_kv_heads: n_heads, d_k: d, d_v: d };
        if variant == "d_v_32" {
            dims.d_v = 32;
        }
        if variant == "gqa_8_2" {
            dims.n_kv_heads = 2;
        }
        Case { variant, shape, batch, q_len, kv_len, dims }
    };
    let wanted = |name: &str| {
        shape == "all" || shape == name || (shape == "small" && name.starts_with("small_"))
    };
    if let Some(sizes) = own {
        return if wanted("own") { vec![case("own", sizes)] } else { vec![] };
    }
    let shapes = SHAPES.into_iter().filter(|(name, _)| wanted(name));
    let fits = |[_, n_heads, _, d]: [usize; 4]| match variant {
        "d_v_32" => d != 32,
        "gqa_8_2" => n_heads == 8,
        _ => true,
    };
    shapes
        .filter(|(_, sizes)| fits(*sizes))
        .map(|(name, [batch, heads, len, d])| case(name, [batch, heads, len, len, d]))
        .collect()
}

/// x / 2³¹ of the generator x ← (1103515245·x + 12345) mod 2³¹, after x₀ = 42.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> f64 {
        self.0 = (1_103_515_245 * self.0 + 12_345) % (1 << 31);
        self.0 as f64 / (1u64 << 31) as f64
    }
}

/// The mask `[len, len]` of allowed blocks.
fn mask_of_blocks(len: usize) -> Vec<bool> {
    let side = if len >= 1024 { 64 } else { 16 };
    let n = len.div_ceil(side);
    let mut draws = Draws(42);
    // The draw comes first: the diagonal takes one, too.
    let mut block = |b: usize| {
        let drawn = draws.next() < 0.1;
        drawn || b / n == b % n
    };
    let blocks: Vec<bool> = (0..n * n).map(&mut block).collect();
    (0..len * len).map(|p| blocks[p / len / side * n + p % len / side]).collect()
}

/// Offsets and columns of a graph with [`EDGES`] edges into each node.
fn random_graph(nodes: usize) -> (Vec<usize>, Vec<usize>) {
    let mut draws = Draws(42);
    let (mut offsets, mut columns) = (vec![0], Vec::with_capacity(nodes * EDGES));
    for node in 0..nodes {
        let mut sources: Vec<usize> = Vec::with_capacity(EDGES);
        while sources.len() < EDGES.min(nodes) {
            let source = (draws.next() * nodes as f64) as usize;
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        sources.sort_unstable();
        columns.extend(sources);
        offsets.push(EDGES * (node + 1));
    }
    (offsets, columns)
}

impl Case {
    /// The items: packed behind each other; half of each is padding for `lengths_half`.
    fn items(&self) -> Vec<Item> {
        let Self { q_len, kv_len, .. } = *self;
        let of = |len: usize| if self.variant == "lengths_half" { (len / 2).max(1) } else { len };
        let item = |n| Item {
            q_start: n * q_len,
            q_len: of(q_len),
            kv_start: n * kv_len,
            kv_len: of(kv_len),
            q_offset: kv_len - q_len,
        };
        (0..self.batch).map(item).collect()
    }

    /// Number of parameters of the score and of the position.
    pub(crate) fn n_params(&self) -> (usize, usize) {
        let Dims { n_heads, d_k, .. } = self.dims;
        match self.variant {
            "additive" => (n_heads * d_k, 0),
            "graph" => (n_heads * 2 * d_k, 0),
            "relative_bias" => (0, 4 * self.kv_len * n_heads),
            _ => (0, 0),
        }
    }

    /// Calls `f` with the call of this case.
    pub(crate) fn with_call<R>(
        &self,
        score_params: &[f32],
        position_params: &[f32],
        f: impl FnOnce(&Call<'_, f32>) -> R,
    ) -> R {
        let (dims, items) = (self.dims, self.items());
        let scaled = ScaledDot::new(dims.d_k);
        let additive = Additive { v: score_params };
        let gat = Gat { a: score_params, slope: 0.2 };
        let score: &dyn Score<f32> = match self.variant {
            "additive" => &additive,
            "graph" => &gat,
            _ => &scaled,
        };
        let normaliser: &dyn Normaliser<f32> = match self.variant {
            "sparsemax" => &Sparsemax,
            "entmax15" => &Entmax15,
            _ => &Softmax,
        };
        let alibi = Alibi::new(dims.n_heads);
        // A bucket for every distance.
        let bias = RelativeBias {
            table: position_params,
            n_buckets: 4 * self.kv_len,
            max_distance: 4 * self.kv_len,
            bidirectional: true,
        };
        let rotary = Rotary::new(10_000.0, RotaryLayout::Interleaved);
        let rotary =
            rotary.with_table(dims.d_k, if self.variant == "rotary" { self.kv_len } else { 0 });
        let position: &dyn Position<f32> = match self.variant {
            "alibi" => &alibi,
            "relative_bias" => &bias,
            "rotary" => &rotary,
            _ => &NoPosition,
        };
        let key = Key::new(3);
        let dropout = (self.variant == "dropout").then_some(Dropout { rate: 0.1, key });
        let call = |scope: &dyn Scope| {
            f(&Call { score, normaliser, scope, position, dropout, dims, items: &items })
        };
        match self.variant {
            "causal" => call(&Causal::square()),
            "window_32" => call(&Window { left: 32, right: 32 }),
            "documents" => {
                let bound = |n: usize| n * self.q_len / DOCUMENTS;
                let lengths: Vec<usize> = (0..DOCUMENTS)
                    .map(|n| bound(n + 1) - bound(n))
                    .filter(|len| *len > 0)
                    .collect();
                call(&Documents::from_lengths(&vec![&lengths[..]; self.batch]))
            }
            "mask_blocks" => call(&Given { allowed: &[&mask_of_blocks(self.q_len)] }),
            "graph" => {
                let (offsets, columns) = random_graph(self.q_len);
                let csr = Csr { offsets: &offsets, columns: &columns };
                call(&Graph { graphs: &[csr], self_loops: SelfLoops::AsGiven })
            }
            _ => call(&Full),
        }
    }

    /// Allowed pairs over all items and heads.
    pub(crate) fn pairs(&self, call: &Call<'_, f32>) -> usize {
        if self.variant == "graph" {
            return self.q_len * EDGES * self.dims.n_heads;
        }
        let of_item = |n: usize| {
            let at = call.at(n, 0);
            let count = |queries: Range<usize>, keys: Range<usize>| match call.scope.tile(
                at,
                queries.clone(),
                keys.clone(),
            ) {
                regard_attn::Coverage::Skip => 0,
                regard_attn::Coverage::Whole => queries.len() * keys.len(),
                regard_attn::Coverage::Partial => queries
                    .map(|i| keys.clone().filter(|j| call.scope.allows(at, i, *j)).count())
                    .sum(),
            };
            let mut pairs = 0;
            for i in (0..at.q_len).step_by(64) {
                for j in (0..at.kv_len).step_by(64) {
                    pairs += count(i..at.q_len.min(i + 64), j..at.kv_len.min(j + 64));
                }
            }
            pairs
        };
        (0..call.items.len()).map(of_item).sum::<usize>() * self.dims.n_heads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(variant: &'static str, shape: &str) -> usize {
        let case = cases(variant, shape)[0];
        let (score, position) = case.n_params();
        case.with_call(&vec![0.0; score], &vec![0.0; position], |call| case.pairs(call))
    }

    #[test]
    fn pairs_are_counted_by_what_is_allowed() {
        assert_eq!(pairs("plain", "small_16"), 32 * 8 * 16 * 16);
        assert_eq!(pairs("causal", "small_16"), 32 * 8 * 17 * 8);
        assert_eq!(pairs("lengths_half", "small_16"), 32 * 8 * 8 * 8);
        assert_eq!(pairs("documents", "short"), 32 * 8 * 128 * 16);
        assert_eq!(pairs("window_32", "small_64"), 8 * 16 * (64 * 65 - 32 * 33));
        assert_eq!(pairs("decode_16", "own"), 16 * 8 * 4096);
        let blocks = mask_of_blocks(128).iter().filter(|allowed| **allowed).count();
        assert!((8 * 256..20 * 256).contains(&blocks) && blocks.is_multiple_of(256));
    }

    #[test]
    fn every_variant_has_a_case_and_shapes_are_chosen_by_name() {
        for variant in VARIANTS {
            assert!(!cases(variant, "all").is_empty(), "{variant}");
        }
        assert_eq!(cases("plain", "small").len(), 3);
        assert_eq!(cases("d_v_32", "small").len(), 1);
        assert_eq!(cases("gqa_8_2", "all").len(), 3);
        assert!(cases("graph", "long").is_empty() && cases("plain", "own").is_empty());
    }
}
