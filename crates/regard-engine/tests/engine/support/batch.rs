//! The same items in other batches: alone, padded, cut.

use regard_attn::scope::{Alignment, EdgeRows};
use regard_attn::{Dims, Item};

use super::parts::{PositionKind, ScopeKind, ScoreKind};
use super::{Looks, Problem};

/// Rows `first..first + len` of an array of rows of this width.
fn cut(array: &[f64], width: usize, first: usize, len: usize) -> Vec<f64> {
    if len == 0 { Vec::new() } else { array[first * width..(first + len) * width].to_vec() }
}

/// Columns `first..first + len` of each of `lines` lines.
fn columns(array: &[f64], lines: usize, first: usize, len: usize) -> Vec<f64> {
    let width = array.len() / lines;
    (0..lines).flat_map(|n| array[n * width + first..][..len].to_vec()).collect()
}

/// Each line of `len` entries with `pad` zeros behind it.
fn lengthen(array: &[f64], len: usize, pad: usize) -> Vec<f64> {
    if len == 0 {
        return Vec::new();
    }
    let line = |line: &[f64]| [line, &vec![0.0; pad]].concat();
    array.chunks_exact(len).flat_map(line).collect()
}

impl Problem {
    /// Where item `index` begins among all queries and among all keys, and its weights among all weights.
    pub(crate) fn starts(&self, index: usize) -> (usize, usize, usize) {
        let before = &self.items[..index];
        (
            before.iter().map(|item| item.q_len).sum(),
            before.iter().map(|item| item.kv_len).sum(),
            before.iter().map(|item| self.dims.n_heads * item.q_len * item.kv_len).sum(),
        )
    }

    /// One item alone.
    pub(crate) fn only(&self, index: usize) -> Self {
        let (item, d) = (self.items[index], self.dims);
        let Item { q_start, q_len, kv_start, kv_len, q_offset } = item;
        let (query, key, weight) = self.starts(index);
        let of_queries = |look: &Vec<f64>| columns(look, d.n_heads, query, q_len);
        let n_weights = d.n_heads * q_len * kv_len;
        let looks = Looks {
            weights: self.looks.weights.as_ref().map(|look| look[weight..][..n_weights].to_vec()),
            key_sums: self
                .looks
                .key_sums
                .as_ref()
                .map(|look| columns(look, d.n_heads, key, kv_len)),
            entropy: self.looks.entropy.as_ref().map(of_queries),
            log_prob: self.looks.log_prob.as_ref().map(of_queries),
        };
        let mut position_params = Vec::new();
        let position = self.position.map(self, &mut position_params, &|kind, params| match kind {
            PositionKind::Gaussian => {
                let mut own = params[query..query + q_len].to_vec();
                own.push(params[params.len() - 1]);
                (kind.clone(), own)
            }
            PositionKind::DenseBias([items, heads, queries, keys]) if *items > 1 => {
                let one = heads * queries * keys;
                let own = params[index * one..(index + 1) * one].to_vec();
                (PositionKind::DenseBias([1, *heads, *queries, *keys]), own)
            }
            _ => (kind.clone(), params.to_vec()),
        });
        Self {
            items: vec![Item { q_start: 0, q_len, kv_start: 0, kv_len, q_offset }],
            q: cut(&self.q, d.n_heads * d.d_k, q_start, q_len),
            k: cut(&self.k, d.n_kv_heads * d.d_k, kv_start, kv_len),
            v: cut(&self.v, d.n_kv_heads * d.d_v, kv_start, kv_len),
            d_context: cut(&self.d_context, d.n_heads * d.d_v, q_start, q_len),
            scope: self.scope.only(index),
            position,
            position_params,
            looks,
            ..self.clone()
        }
    }

    /// Every item with `pad` rows of padding behind its queries and keys, which the scope hides; the loss looks
    /// at nothing of them. `None` where the scope counts from the end.
    pub(crate) fn padded(&self, pad: usize) -> Option<Self> {
        let d = self.dims;
        let (mut q, mut kv) = (0, 0);
        let place = |item: &Item| {
            let (q_len, kv_len) = (item.q_len + pad, item.kv_len + pad);
            let padded = Item { q_start: q, q_len, kv_start: kv, kv_len, ..*item };
            (q, kv) = (q + q_len, kv + kv_len);
            padded
        };
        let items: Vec<Item> = self.items.iter().map(place).collect();
        let lengths: Vec<usize> = self.items.iter().map(|item| item.kv_len).collect();
        let scope = self.scope.padded(&self.items, pad)?;
        // Padding holds ones; the gradients of its contexts are zero.
        let rows = |array: &[f64], width: usize, of_queries: bool, fill: f64| -> Vec<f64> {
            let item = |item: &Item| {
                let (start, len) = if of_queries {
                    (item.q_start, item.q_len)
                } else {
                    (item.kv_start, item.kv_len)
                };
                [cut(array, width, start, len), vec![fill; pad * width]].concat()
            };
            self.items.iter().flat_map(item).collect()
        };
        let of_queries = |look: &Vec<f64>| {
            let mut out = Vec::new();
            for head in look.chunks_exact(self.n_queries().max(1)) {
                for (index, item) in self.items.iter().enumerate() {
                    out.extend_from_slice(&head[self.starts(index).0..][..item.q_len]);
                    out.extend(vec![0.0; pad]);
                }
            }
            out
        };
        // Of no queries there are no lines to lengthen.
        if self.n_queries() == 0 || self.n_keys() == 0 {
            return None;
        }
        let weights = |look: &Vec<f64>| {
            let mut out = Vec::new();
            for (index, item) in self.items.iter().enumerate() {
                let one = item.q_len * item.kv_len;
                for head in 0..d.n_heads {
                    let head = &look[self.starts(index).2 + head * one..][..one];
                    out.extend(lengthen(head, item.kv_len, pad));
                    let lines = if item.kv_len == 0 { item.q_len + pad } else { pad };
                    out.extend(vec![0.0; lines * (item.kv_len + pad)]);
                }
            }
            out
        };
        let key_sums = |look: &Vec<f64>| {
            let mut out = Vec::new();
            for head in look.chunks_exact(self.n_keys()) {
                for (index, item) in self.items.iter().enumerate() {
                    out.extend_from_slice(&head[self.starts(index).1..][..item.kv_len]);
                    out.extend(vec![0.0; pad]);
                }
            }
            out
        };
        let mut position_params = Vec::new();
        let position = self.position.map(self, &mut position_params, &|kind, params| match kind {
            PositionKind::Gaussian => {
                let mut own = Vec::new();
                for (index, item) in self.items.iter().enumerate() {
                    own.extend_from_slice(&params[self.starts(index).0..][..item.q_len]);
                    own.extend(vec![0.0; pad]);
                }
                own.push(params[params.len() - 1]);
                (kind.clone(), own)
            }
            PositionKind::DenseBias([n_items, heads, queries, keys]) => {
                let lines = lengthen(params, *keys, if *keys == 1 { 0 } else { pad });
                let keys = if *keys == 1 { 1 } else { keys + pad };
                let of_head = queries * keys;
                let more = if *queries == 1 { 0 } else { pad * keys };
                let params = lengthen(&lines, of_head, more);
                let queries = if *queries == 1 { 1 } else { queries + pad };
                (PositionKind::DenseBias([*n_items, *heads, queries, keys]), params)
            }
            _ => (kind.clone(), params.to_vec()),
        });
        let (score, score_params) = self.score.padded(&self.score_params, d, pad);
        Some(Self {
            score,
            score_params,
            q: rows(&self.q, d.n_heads * d.d_k, true, 1.0),
            k: rows(&self.k, d.n_kv_heads * d.d_k, false, 1.0),
            v: rows(&self.v, d.n_kv_heads * d.d_v, false, 1.0),
            d_context: rows(&self.d_context, d.n_heads * d.d_v, true, 0.0),
            items,
            scope: ScopeKind::And(vec![scope, ScopeKind::Lengths(lengths)]),
            position,
            position_params,
            looks: Looks {
                weights: self.looks.weights.as_ref().map(weights),
                key_sums: self.looks.key_sums.as_ref().map(key_sums),
                entropy: self.looks.entropy.as_ref().map(of_queries),
                log_prob: self.looks.log_prob.as_ref().map(of_queries),
            },
            ..self.clone()
        })
    }

    /// Of a problem with one item that begins at row 0 and position 0: queries `first..first + q_len` against the first
    /// `kv_len` keys. The scope and what the loss looks at stay.
    pub(crate) fn part(&self, first: usize, q_len: usize, kv_len: usize) -> Self {
        let d = self.dims;
        let mut position_params = Vec::new();
        let position = self.position.map(self, &mut position_params, &|kind, params| match kind {
            PositionKind::Gaussian => {
                let mut own = params[first..first + q_len].to_vec();
                own.push(params[params.len() - 1]);
                (kind.clone(), own)
            }
            PositionKind::DenseBias([items, heads, queries, keys]) if *queries > 1 => {
                let of_head = |head: &[f64]| head[first * keys..(first + q_len) * keys].to_vec();
                let own = params.chunks_exact(queries * keys).flat_map(of_head).collect();
                (PositionKind::DenseBias([*items, *heads, q_len, *keys]), own)
            }
            _ => (kind.clone(), params.to_vec()),
        });
        Self {
            items: vec![Item { q_start: 0, q_len, kv_start: 0, kv_len, q_offset: first }],
            q: cut(&self.q, d.n_heads * d.d_k, first, q_len),
            k: cut(&self.k, d.n_kv_heads * d.d_k, 0, kv_len),
            v: cut(&self.v, d.n_kv_heads * d.d_v, 0, kv_len),
            d_context: cut(&self.d_context, d.n_heads * d.d_v, first, q_len),
            position,
            position_params,
            ..self.clone()
        }
    }
}

impl ScoreKind {
    /// With so many places more in each table of places, and with its parameters.
    fn padded(&self, params: &[f64], dims: Dims, pad: usize) -> (Self, Vec<f64>) {
        let inside = |inner: &Self| {
            let (inner, params) = inner.padded(params, dims, pad);
            (Box::new(inner), params)
        };
        match self {
            Self::Location { max_len, per_head } => {
                let tables = lengthen(params, max_len * dims.d_k, pad * dims.d_k);
                (Self::Location { max_len: max_len + pad, per_head: *per_head }, tables)
            }
            Self::Softcap(inner, cap) => {
                let (inner, params) = inside(inner);
                (Self::Softcap(inner, *cap), params)
            }
            Self::Scaled(inner, factor) => {
                let (inner, params) = inside(inner);
                (Self::Scaled(inner, *factor), params)
            }
            Self::HeadScale(inner) => {
                let (of_inner, factors) = params.split_at(inner.n_params(dims));
                let (inner, mut longer) = inner.padded(of_inner, dims, pad);
                longer.extend_from_slice(factors);
                (Self::HeadScale(Box::new(inner)), longer)
            }
            _ => (self.clone(), params.to_vec()),
        }
    }
}

impl ScopeKind {
    /// For one item alone.
    fn only(&self, index: usize) -> Self {
        let of = |members: &[Self]| members.iter().map(|one| one.only(index)).collect();
        match self {
            Self::Lengths(kv) => Self::Lengths(vec![kv[index]]),
            Self::PredictedCentre { centres, radius } => {
                Self::PredictedCentre { centres: vec![centres[index].clone()], radius: *radius }
            }
            Self::Documents(lengths) => Self::Documents(vec![lengths[index].clone()]),
            Self::Graph(graphs, self_loops) if graphs.len() > 1 => {
                Self::Graph(vec![graphs[index].clone()], *self_loops)
            }
            Self::Given(masks) if masks.len() > 1 => Self::Given(vec![masks[index].clone()]),
            Self::And(members) => Self::And(of(members)),
            Self::Or(members) => Self::Or(of(members)),
            Self::WithoutHints(inner) => Self::WithoutHints(Box::new(inner.only(index))),
            _ => self.clone(),
        }
    }

    /// For items with padding, which sees and is seen as it may.
    fn padded(&self, items: &[Item], pad: usize) -> Option<Self> {
        let of = |members: &[Self]| -> Option<Vec<Self>> {
            members.iter().map(|one| one.padded(items, pad)).collect()
        };
        Some(match self {
            Self::Causal(Alignment::BottomRight) => return None,
            Self::Causal(_) => Self::Causal(Alignment::TopLeft),
            Self::PredictedCentre { centres, radius } => {
                let longer = |centres: &Vec<f64>| [&centres[..], &vec![0.0; pad]].concat();
                Self::PredictedCentre {
                    centres: centres.iter().map(longer).collect(),
                    radius: *radius,
                }
            }
            Self::Documents(lengths) => {
                let longer = |lengths: &Vec<usize>| [&lengths[..], &[pad]].concat();
                Self::Documents(lengths.iter().map(longer).collect())
            }
            Self::Graph(graphs, self_loops) => {
                let longer = |(graph, item): (&EdgeRows, &Item)| {
                    let csr = graph.csr();
                    let edges =
                        (0..item.q_len).flat_map(|i| csr.row(i).iter().map(move |j| (i, *j)));
                    let edges: Vec<_> = edges.collect();
                    EdgeRows::new(item.q_len + pad, &edges).expect("edges as before")
                };
                Self::Graph(graphs.iter().zip(items).map(longer).collect(), *self_loops)
            }
            Self::Given(masks) => {
                let longer = |(mask, item): (&Vec<bool>, &Item)| {
                    let mut longer = Vec::new();
                    for i in 0..item.q_len {
                        longer.extend_from_slice(&mask[i * item.kv_len..(i + 1) * item.kv_len]);
                        longer.extend(vec![true; pad]);
                    }
                    longer.extend(vec![true; pad * (item.kv_len + pad)]);
                    longer
                };
                Self::Given(masks.iter().zip(items).map(longer).collect())
            }
            Self::And(members) => Self::And(of(members)?),
            Self::Or(members) => Self::Or(of(members)?),
            Self::WithoutHints(inner) => Self::WithoutHints(Box::new(inner.padded(items, pad)?)),
            _ => self.clone(),
        })
    }

    /// The width that lengths are multiples of.
    pub(crate) fn width(&self) -> usize {
        match self {
            Self::Window2d(window) => window.width,
            _ => self.inner().iter().map(Self::width).max().unwrap_or(1),
        }
    }
}

/// What becomes of a position and its parameters.
type Change<'a> = dyn Fn(&PositionKind, &[f64]) -> (PositionKind, Vec<f64>) + 'a;

impl PositionKind {
    /// The position with each member, and its part of the parameters, changed by `f`.
    fn map(&self, problem: &Problem, params: &mut Vec<f64>, f: &Change<'_>) -> Self {
        let mut members = Vec::new();
        for (member, first) in self.members(problem.dims, &problem.items) {
            let n = member.n_params(problem.dims, &problem.items);
            let (kind, own) = f(member, &problem.position_params[first..first + n]);
            params.extend(own);
            members.push(kind);
        }
        if let Self::Chain(_) = self { Self::Chain(members) } else { members.remove(0) }
    }
}
