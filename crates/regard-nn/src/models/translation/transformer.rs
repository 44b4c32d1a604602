//! Attention alone.
//!
//! ```text
//! encoder   x = E_x·√d + PE        x ← x + SelfAttention(x)      x ← x + FFN(x)
//! decoder   y = E_y·√d + PE        y ← y + causal SelfAttention  y ← y + CrossAttention(y, x)    y ← y + FFN(y)
//! FFN(x) = max(0, x W_1 + b_1) W_2 + b_2        p = softmax(y Eᵀ + b), E the target's table where tied
//! ```
//!
//! Vaswani et al. 2017 (<https://arxiv.org/abs/1706.03762>); layer norms after each sub-layer as in the
//! paper, or before it and once more at the end. Dropout on the sum of vectors and positions, on every
//! sub-layer's output and inside the FFN. Departures: the output layer has a bias; positions may be learned or rotary.

use regard_attn::Item;
use regard_tensor::{Real, Tensor};

use super::decoding::{Step, chosen_of};
use super::{AlignmentMap, AttentionKind, Sequences, Tie, TransformerConfig};
use crate::layers::{
    AttentionConfig, DecoderLayerWeights, KvCache, LayerNorm, Linear, Norm, ScopeConfig, ScoreKind,
    TransformerDecoderLayer, TransformerLayer, TransformerLayerConfig,
};
use crate::models::at_least_one;
use crate::models::transformer::Positions;
use crate::ops::{Activation, Seen};
use crate::{Init, NnError, PackedParams, ParamId, ParamSpecs, Ragged, Tape, Var};

/// See the [module](self).
#[derive(Debug, Clone)]
pub struct TranslationTransformer {
    config: TransformerConfig,
    source: ParamId,
    target: ParamId,
    positions: [Positions; 2],
    encoder: Vec<TransformerLayer>,
    decoder: Vec<TransformerDecoderLayer>,
    /// Norms behind the last layers, where norms stand before the sub-layers.
    last: Option<[LayerNorm; 2]>,
    output: Output,
}

#[derive(Debug, Clone)]
enum Output {
    /// The target's table and a bias.
    Tied(ParamId),
    Own(Linear),
}

/// What a decoder keeps between steps.
#[derive(Debug, Clone)]
pub(super) struct TransformerState<T: Real> {
    /// The source that each row writes for.
    pub(super) source: Vec<usize>,
    sources: Ragged,
    /// Keys and values of the sources, one array a layer.
    memory: Vec<Tensor<T>>,
    caches: Vec<KvCache<T>>,
}

impl<T: Real> TransformerState<T> {
    /// Which rows look at which source: neighbours at the same one together, so that its keys are read once
    /// for all of them.
    fn pairs(&self) -> Vec<Item> {
        let mut first = 0;
        let runs = self.source.chunk_by(|a, b| a == b);
        let item = |run: &[usize]| {
            let keys = self.sources.rows(run[0]);
            let (q_start, q_len) = (first, run.len());
            first += q_len;
            Item { q_start, q_len, kv_start: keys.start, kv_len: keys.len(), q_offset: 0 }
        };
        runs.map(item).collect()
    }

    pub(super) fn select(&mut self, rows: &[usize]) {
        self.source = chosen_of(&self.source, rows);
        for cache in &mut self.caches {
            cache.select(rows);
        }
    }
}

impl TranslationTransformer {
    pub(super) fn new(
        specs: &mut ParamSpecs,
        (source_vocab, target_vocab): (usize, usize),
        config: TransformerConfig,
    ) -> Result<Self, NnError> {
        let d = config.d_model;
        at_least_one(&[
            ("d_model", d),
            ("d_ff", config.d_ff),
            ("encoder_layers", config.encoder_layers),
            ("decoder_layers", config.decoder_layers),
        ])?;
        if config.tie == Tie::All && source_vocab != target_vocab {
            let expected = format!("the {source_vocab} source tokens where all tables are one");
            let actual = target_vocab.to_string();
            return Err(NnError::Hyper { name: "target_vocab", expected, actual });
        }
        let layer = |causal| TransformerLayerConfig {
            attention: AttentionConfig {
                d_model: d,
                n_heads: config.heads,
                score: ScoreKind::ScaledDot,
                scope: ScopeConfig { causal, window: None },
                rotary: config.position.rotary(),
                dropout: config.attention_dropout,
            },
            d_ff: config.d_ff,
            activation: Activation::Relu,
            norm: config.norm,
            dropout: config.dropout,
        };
        // Times √d, the vectors have entries of the order of one.
        let mut table =
            |name, rows| specs.add(name, &[rows, d], Init::Normal(1.0 / (d as f64).sqrt()));
        let (source, target) = if config.tie == Tie::All {
            let shared = table("words", source_vocab);
            (shared, shared)
        } else {
            (table("source.table", source_vocab), table("target.table", target_vocab))
        };
        let positions = ["source", "target"]
            .map(|side| specs.scope(side, |specs| Positions::new(specs, config.position, d)));
        let encoder = (0..config.encoder_layers)
            .map(|l| TransformerLayer::new(specs, &format!("encoder.{l}"), layer(false)))
            .collect::<Result<_, _>>()?;
        let decoder = (0..config.decoder_layers)
            .map(|l| TransformerDecoderLayer::new(specs, &format!("decoder.{l}"), layer(true)))
            .collect::<Result<_, _>>()?;
        let last = (config.norm == Norm::Before)
            .then(|| ["encoder.last", "decoder.last"].map(|name| LayerNorm::new(specs, name, d)));
        let output = match config.tie {
            Tie::None => Output::Own(Linear::new(specs, "output", d, target_vocab)),
            _ => Output::Tied(specs.add("output.bias", &[target_vocab], Init::Constant(0.0))),
        };
        Ok(Self { config, source, target, positions, encoder, decoder, last, output })
    }

    /// E·√d + PE with dropout, of tokens that begin at place `first` of their items.
    fn embed<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        side: usize,
        (ids, items): (&[u32], &Ragged),
        first: usize,
    ) -> Result<Var, NnError> {
        let table = tape.param([self.source, self.target][side]);
        let x = tape.embedding(table, ids)?;
        let x = tape.scale(x, (self.config.d_model as f64).sqrt());
        let x = self.positions[side].add_from(tape, x, items, first)?;
        tape.dropout(x, self.config.dropout)
    }

    fn encode<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        source: &Sequences,
        mut maps: Option<&mut Vec<AlignmentMap<T>>>,
    ) -> Result<Var, NnError> {
        let mut x = self.embed(tape, 0, (&source.ids, &source.items), 0)?;
        for (l, layer) in self.encoder.iter().enumerate() {
            let (y, weights) = layer.forward(tape, x, &source.items, maps.is_some())?;
            if let (Some(maps), Some(weights)) = (&mut maps, weights) {
                let n = source.items.total();
                self.add_maps(maps, AttentionKind::EncoderSelf, l, &weights.weights, (n, n))?;
            }
            x = y;
        }
        match &self.last {
            Some([last, _]) => last.forward(tape, x),
            None => Ok(x),
        }
    }

    fn finish<T: Real>(&self, tape: &mut Tape<'_, T>, y: Var) -> Result<Var, NnError> {
        let y = match &self.last {
            Some([_, last]) => last.forward(tape, y)?,
            None => y,
        };
        match &self.output {
            Output::Own(output) => output.forward(tape, y),
            Output::Tied(bias) => {
                let (w, b) = (tape.param(self.target), tape.param(*bias));
                tape.linear(y, w, Some(b), Activation::None, None)
            }
        }
    }

    pub(super) fn logits<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        source: &Sequences,
        inputs: &Sequences,
        mut maps: Option<&mut Vec<AlignmentMap<T>>>,
    ) -> Result<Var, NnError> {
        let memory = self.encode(tape, source, maps.as_deref_mut())?;
        let mut y = self.embed(tape, 1, (&inputs.ids, &inputs.items), 0)?;
        let mut seen: Vec<DecoderLayerWeights<T>> = Vec::new();
        for layer in &self.decoder {
            let (out, weights) =
                layer.forward(tape, (y, &inputs.items), (memory, &source.items), maps.is_some())?;
            y = out;
            seen.push(weights);
        }
        if let Some(maps) = maps {
            let (n, s) = (inputs.items.total(), source.items.total());
            for (l, weights) in seen.iter().enumerate() {
                if let Some(own) = &weights.own {
                    self.add_maps(maps, AttentionKind::DecoderSelf, l, own, (n, n))?;
                }
            }
            for (l, weights) in seen.iter().enumerate() {
                if let Some(cross) = &weights.cross {
                    self.add_maps(maps, AttentionKind::Cross, l, cross, (n, s))?;
                }
            }
        }
        self.finish(tape, y)
    }

    /// The maps of all heads of a layer, for a batch of one item.
    fn add_maps<T: Real>(
        &self,
        maps: &mut Vec<AlignmentMap<T>>,
        kind: AttentionKind,
        layer: usize,
        weights: &Tensor<T>,
        (queries, keys): (usize, usize),
    ) -> Result<(), NnError> {
        let of_head = weights.data().chunks_exact((queries * keys).max(1));
        for (head, weights) in of_head.take(self.config.heads).enumerate() {
            let weights = Tensor::from_slice(&[queries, keys], weights)?;
            let (centres, sigma, radius) = (None, None, None);
            maps.push(AlignmentMap { kind, layer, head, weights, centres, sigma, radius });
        }
        Ok(())
    }

    pub(super) fn start<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        source: &Sequences,
    ) -> Result<TransformerState<T>, NnError> {
        let memory = self.encode(tape, source, None)?;
        let mut kept = Vec::with_capacity(self.decoder.len());
        for layer in &self.decoder {
            let kv = layer.cross().memory(tape, memory)?;
            kept.push(tape.value(kv).clone());
        }
        let rows = source.items.items();
        let cache = || KvCache::new(rows, self.config.d_model);
        Ok(TransformerState {
            source: (0..rows).collect(),
            sources: source.items.clone(),
            memory: kept,
            caches: self.decoder.iter().map(|_| cache()).collect(),
        })
    }

    pub(super) fn step<T: Real>(
        &self,
        packed: &PackedParams<T>,
        state: &mut TransformerState<T>,
        previous: &[u32],
        keep: bool,
    ) -> Result<Step<T>, NnError> {
        let mut tape = Tape::inference(packed);
        let items = Ragged::new(&vec![1; previous.len()]);
        let time = state.caches.first().map_or(0, KvCache::len);
        let mut y = self.embed(&mut tape, 1, (previous, &items), time)?;
        let pairs = state.pairs();
        let mut last = None;
        let layers = self.decoder.iter().zip(&state.memory).zip(&mut state.caches);
        for (l, ((layer, memory), cache)) in layers.enumerate() {
            let kv = tape.constant(memory.clone());
            let want = keep && l + 1 == self.decoder.len();
            let (out, weights) = layer.step(&mut tape, y, cache, (kv, &pairs), want)?;
            y = out;
            last = weights;
        }
        let logits = self.finish(&mut tape, y)?;
        let seen = last.map(|weights| Seen {
            weights: mean_over_heads(&weights, self.config.heads, &pairs),
            centres: None,
        });
        Ok(Step { logits: tape.value(logits).clone(), seen })
    }
}

/// The mean over the heads of weights `[heads, q_len, kv_len]`, item by item: one row a query.
fn mean_over_heads<T: Real>(weights: &Tensor<T>, heads: usize, items: &[Item]) -> Vec<Vec<T>> {
    let share = T::from_f64(1.0 / heads as f64);
    let mut rows = Vec::new();
    let mut from = 0;
    for item in items {
        let size = item.q_len * item.kv_len;
        let mut mean = vec![T::ZERO; size];
        for head in weights.data()[from..from + heads * size].chunks_exact(size.max(1)) {
            mean.iter_mut().zip(head).for_each(|(a, w)| *a += *w * share);
        }
        from += heads * size;
        rows.extend(mean.chunks_exact(item.kv_len.max(1)).map(<[T]>::to_vec));
    }
    rows
}
