//! One layer of the Transformer's decoder, over whole targets or one token at a time.

use std::sync::Arc;

use regard_attn::Item;
use regard_attn::normaliser::Softmax;
use regard_attn::position::{NoPosition, Rotary, RotaryLayout};
use regard_attn::scope::Full;
use regard_attn::score::ScaledDot;
use regard_tensor::{Real, Tensor};

use super::{AttentionConfig, LayerNorm, Linear, MultiHeadAttention, Norm, TransformerLayerConfig};
use crate::ops::{Activation, Attended, AttentionSpec, Operands, PositionSpec, ScoreSpec};
use crate::{NnError, ParamSpecs, Ragged, Tape, Var};

/// Multi-head attention of one sequence to another: `[c_1; …; c_h] W_oᵀ + b` over q = x W_qᵀ and
/// k, v = m W_kvᵀ (Vaswani et al. 2017, §3.2.3).
#[derive(Debug, Clone)]
pub struct CrossAttention {
    config: AttentionConfig,
    query: Linear,
    key_value: Linear,
    output: Linear,
}

/// Scaled dot product and softmax over all keys.
fn scaled_dot<T: Real>(heads: usize, d_k: usize, dropout: f64) -> AttentionSpec<T> {
    AttentionSpec {
        n_heads: heads,
        score: ScoreSpec::Fixed(Arc::new(ScaledDot::new(d_k))),
        normaliser: Arc::new(Softmax),
        scope: Arc::new(Full),
        position: PositionSpec::Fixed(Arc::new(NoPosition)),
        dropout,
    }
}

impl CrossAttention {
    /// Parameters `query`, `key_value` and `output`. Of the configuration the sizes and the dropout count.
    fn new(specs: &mut ParamSpecs, name: &str, config: AttentionConfig) -> Self {
        let d = config.d_model;
        specs.scope(name, |specs| Self {
            config,
            query: Linear::new(specs, "query", d, d),
            key_value: Linear::new(specs, "key_value", d, 2 * d),
            output: Linear::new(specs, "output", d, d),
        })
    }

    /// Keys and values of a memory `[rows, d_model]`, `[rows, 2·d_model]`.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn memory<T: Real>(&self, tape: &mut Tape<'_, T>, memory: Var) -> Result<Var, NnError> {
        self.key_value.forward(tape, memory)
    }

    /// The output for x over keys and values that belong together as the items say.
    fn forward<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
        kv: Var,
        items: &[Item],
        residual: Option<Var>,
        want_weights: bool,
    ) -> Result<(Var, Attended<T>), NnError> {
        let AttentionConfig { d_model, n_heads, dropout, .. } = self.config;
        let q = self.query.forward(tape, x)?;
        let spec = scaled_dot(n_heads, d_model / n_heads, dropout);
        let attended = tape.attention(Operands::KeyValue { q, kv }, items, spec, want_weights)?;
        let y = self.output.apply(tape, attended.context, Activation::None, residual)?;
        Ok((y, attended))
    }
}

/// Keys and values of the tokens so far, of every row of a batch that all stand at the same place.
#[derive(Debug, Clone)]
pub struct KvCache<T: Real> {
    /// `[slots, room, 2·d_model]`, the first `len` of each slot in use.
    data: Tensor<T>,
    /// The slot of each row.
    slots: Vec<usize>,
    len: usize,
}

impl<T: Real> KvCache<T> {
    /// No tokens yet.
    pub fn new(rows: usize, d_model: usize) -> Self {
        let data = Tensor::stale(&[rows, 16, 2 * d_model]);
        Self { data, slots: (0..rows).collect(), len: 0 }
    }

    /// Tokens so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no token yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Keeps the chosen rows, in this order. The first that goes on from a row takes its slot; only what
    /// others need of it is copied.
    pub fn select(&mut self, rows: &[usize]) {
        let parents: Vec<usize> = rows.iter().map(|row| self.slots[*row]).collect();
        let n_slots = self.data.dim(0);
        if rows.len() > n_slots {
            self.data = self.copied(&parents, self.data.dim(1));
            self.slots = (0..rows.len()).collect();
            return;
        }
        let mut taken = vec![false; n_slots];
        let first: Vec<bool> =
            parents.iter().map(|slot| !std::mem::replace(&mut taken[*slot], true)).collect();
        let mut free = (0..n_slots).filter(|slot| !taken[*slot]);
        let (size, used) = (self.data.dim(1) * self.data.dim(2), self.len * self.data.dim(2));
        let data = self.data.data_mut();
        let slot = |(parent, first): (&usize, bool)| {
            if first {
                return *parent;
            }
            let slot = free.next().expect("there are no more rows than slots");
            data.copy_within(parent * size..parent * size + used, slot * size);
            slot
        };
        self.slots = parents.iter().zip(first).map(slot).collect();
    }

    /// The tokens so far of some slots, with this much room each.
    fn copied(&self, slots: &[usize], room: usize) -> Tensor<T> {
        let (old, wide) = (self.data.dim(1) * self.data.dim(2), self.data.dim(2));
        let mut out = Tensor::stale(&[slots.len(), room, wide]);
        let used = self.len * wide;
        for (out, slot) in out.data_mut().chunks_exact_mut((room * wide).max(1)).zip(slots) {
            out[..used].copy_from_slice(&self.data.data()[slot * old..slot * old + used]);
        }
        out
    }

    /// Adds a token to every row: the keys and values that stand behind the queries in qkv
    /// `[rows, 3·d_model]`.
    fn push(&mut self, qkv: &Tensor<T>) {
        let wide = self.data.dim(2);
        if self.len == self.data.dim(1) {
            self.data = self.copied(&self.slots, 2 * self.len);
            self.slots = (0..self.slots.len()).collect();
        }
        let (room, at) = (self.data.dim(1), self.len);
        let data = self.data.data_mut();
        for (slot, qkv) in self.slots.iter().zip(qkv.data().chunks_exact((wide / 2 * 3).max(1))) {
            let first = (slot * room + at) * wide;
            data[first..first + wide].copy_from_slice(&qkv[wide / 2..]);
        }
        self.len += 1;
    }

    /// The new token of each row against all of the row's so far.
    fn items(&self) -> Vec<Item> {
        let (room, len) = (self.data.dim(1), self.len);
        let item = |(row, slot): (usize, &usize)| Item {
            q_start: row,
            q_len: 1,
            kv_start: slot * room,
            kv_len: len,
            q_offset: len - 1,
        };
        self.slots.iter().enumerate().map(item).collect()
    }
}

impl MultiHeadAttention {
    /// Causal self-attention of one new token a row, x `[rows, d_model]`, over the tokens so far; adds the
    /// token to the cache. Equals the last row of [`MultiHeadAttention::forward`] over all of them.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn step<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
        cache: &mut KvCache<T>,
        residual: Option<Var>,
    ) -> Result<Var, NnError> {
        let AttentionConfig { d_model: d, n_heads, rotary, .. } = *self.config();
        let qkv = self.projected(tape, x)?;
        let qkv = tape.value(qkv).clone();
        cache.push(&qkv);
        let mut q = Tensor::stale(&[qkv.rows(), d]);
        for (q, row) in q.data_mut().chunks_exact_mut(d).zip(qkv.data().chunks_exact(3 * d)) {
            q.copy_from_slice(&row[..d]);
        }
        let q = tape.constant(q);
        let (rows, wide) = (cache.data.dim(0) * cache.data.dim(1), cache.data.dim(2));
        let kv = tape.constant(cache.data.reshape(&[rows, wide])?);
        let mut spec = scaled_dot(n_heads, d / n_heads, 0.0);
        if let Some(base) = rotary {
            let turned = Rotary::new(base, RotaryLayout::Half).with_table(d / n_heads, cache.len);
            spec.position = PositionSpec::Fixed(Arc::new(turned));
        }
        let attended = tape.attention(Operands::KeyValue { q, kv }, &cache.items(), spec, false)?;
        self.closed(tape, attended.context, residual)
    }
}

/// `y = x + SelfAttention(x);  z = y + CrossAttention(y, memory);  u = z + W₂ act(W₁ z + b₁) + b₂`, with
/// layer norms before or after each (Vaswani et al. 2017, §3.1).
#[derive(Debug, Clone)]
pub struct TransformerDecoderLayer {
    config: TransformerLayerConfig,
    attention: MultiHeadAttention,
    cross: CrossAttention,
    inner: Linear,
    outer: Linear,
    norms: [LayerNorm; 3],
}

/// The weights of one layer, where they were asked for.
#[derive(Debug, Clone)]
pub struct DecoderLayerWeights<T: Real> {
    /// Of the self-attention, item by item `[heads, len, len]`.
    pub own: Option<Tensor<T>>,
    /// Of the cross-attention, item by item `[heads, len, source len]`.
    pub cross: Option<Tensor<T>>,
}

impl TransformerDecoderLayer {
    /// Parameters `attention`, `cross`, `inner`, `outer`, `norm1`, `norm2`, `norm3`. The configuration's scope
    /// is that of the self-attention and should be causal.
    ///
    /// # Errors
    /// As [`MultiHeadAttention::new`].
    pub fn new(
        specs: &mut ParamSpecs,
        name: &str,
        config: TransformerLayerConfig,
    ) -> Result<Self, NnError> {
        let d = config.attention.d_model;
        specs.scope(name, |specs| {
            Ok(Self {
                config,
                attention: MultiHeadAttention::new(specs, "attention", config.attention)?,
                cross: CrossAttention::new(specs, "cross", config.attention),
                inner: Linear::new(specs, "inner", d, config.d_ff),
                outer: Linear::new(specs, "outer", config.d_ff, d),
                norms: ["norm1", "norm2", "norm3"].map(|name| LayerNorm::new(specs, name, d)),
            })
        })
    }

    /// The layer's attention to the memory.
    pub fn cross(&self) -> &CrossAttention {
        &self.cross
    }

    /// The layer's output for whole targets x `[total, d_model]`, item b over source b of the memory
    /// `[source total, d_model]`.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn forward<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        (x, items): (Var, &Ragged),
        (memory, sources): (Var, &Ragged),
        want_weights: bool,
    ) -> Result<(Var, DecoderLayerWeights<T>), NnError> {
        let kv = self.cross.memory(tape, memory)?;
        let pairs = items.lengths().iter().zip(sources.lengths()).enumerate();
        let pairs: Vec<Item> = pairs
            .map(|(b, (q_len, kv_len))| Item {
                q_start: items.rows(b).start,
                q_len: *q_len,
                kv_start: sources.rows(b).start,
                kv_len: *kv_len,
                q_offset: 0,
            })
            .collect();
        let mut weights = DecoderLayerWeights { own: None, cross: None };
        let y = self.run(
            tape,
            x,
            |tape, x, residual| {
                let (y, own) = self.attention.forward(tape, x, items, residual, want_weights)?;
                weights.own = own.map(|own| own.weights);
                Ok(y)
            },
            |tape, x, residual| {
                let (y, attended) =
                    self.cross.forward(tape, x, kv, &pairs, residual, want_weights)?;
                weights.cross = attended.weights.map(|w| tape.value(w).clone());
                Ok(y)
            },
        )?;
        Ok((y, weights))
    }

    /// The layer's output for one new token a row, x `[rows, d_model]`, over keys and values of the memory
    /// that belong to the rows as the items say; with the weights of the cross-attention, item by item
    /// `[heads, rows, source len]`, where asked for.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn step<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
        cache: &mut KvCache<T>,
        (kv, items): (Var, &[Item]),
        want_weights: bool,
    ) -> Result<(Var, Option<Tensor<T>>), NnError> {
        let mut weights = None;
        let y = self.run(
            tape,
            x,
            |tape, x, residual| self.attention.step(tape, x, cache, residual),
            |tape, x, residual| {
                let (y, attended) =
                    self.cross.forward(tape, x, kv, items, residual, want_weights)?;
                weights = attended.weights.map(|w| tape.value(w).clone());
                Ok(y)
            },
        )?;
        Ok((y, weights))
    }

    /// The three sub-layers with their norms and residuals; both attentions add the residual that they
    /// are given.
    fn run<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
        attend: impl FnOnce(&mut Tape<'_, T>, Var, Option<Var>) -> Result<Var, NnError>,
        cross: impl FnOnce(&mut Tape<'_, T>, Var, Option<Var>) -> Result<Var, NnError>,
    ) -> Result<Var, NnError> {
        let before = self.config.norm == Norm::Before;
        let rate = self.config.dropout;
        // Without dropout the residual is added inside the matrix product's last pass.
        let fused = |x| if rate == 0.0 { Some(x) } else { None };
        let open = |tape: &mut Tape<'_, T>, x: Var, norm: &LayerNorm| {
            if before { norm.forward(tape, x) } else { Ok(x) }
        };
        let close = |tape: &mut Tape<'_, T>, sub: Var, x: Var, norm: &LayerNorm| {
            let sum = if rate == 0.0 {
                sub
            } else {
                let sub = tape.dropout(sub, rate)?;
                tape.add(x, sub)?
            };
            if before { Ok(sum) } else { norm.forward(tape, sum) }
        };
        let [first, second, third] = &self.norms;

        let input = open(tape, x, first)?;
        let sub = attend(tape, input, fused(x))?;
        let y = close(tape, sub, x, first)?;

        let input = open(tape, y, second)?;
        let sub = cross(tape, input, fused(y))?;
        let z = close(tape, sub, y, second)?;

        let input = open(tape, z, third)?;
        let inner = self.inner.apply(tape, input, self.config.activation, None)?;
        let inner = tape.dropout(inner, rate)?;
        let sub = self.outer.apply(tape, inner, Activation::None, fused(z))?;
        close(tape, sub, z, third)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens of every row, as a cache holds them.
    fn held(cache: &KvCache<f32>) -> Vec<Vec<f32>> {
        let rows = cache.data.data().chunks_exact(cache.data.dim(2)).collect::<Vec<_>>();
        let of = |item: Item| rows[item.kv_start..item.kv_start + item.kv_len].concat();
        cache.items().into_iter().map(of).collect()
    }

    #[test]
    fn a_cache_holds_what_its_rows_wrote_whatever_was_selected() {
        let mut cache = KvCache::new(3, 1);
        let mut want = vec![Vec::new(); 3];
        // More rows, fewer, the same row often, another order; past the first room.
        let selections: [&[usize]; 6] =
            [&[0, 0, 1, 2, 2, 2], &[5, 4, 3, 0], &[0, 1, 2, 3], &[3, 3, 3, 3], &[2, 0], &[1]];
        for step in 0..40 {
            let qkv: Vec<f32> = (0..want.len())
                .flat_map(|row| [-1.0, (100 * step + row) as f32, (100 * step + row) as f32 + 0.5])
                .collect();
            cache.push(&Tensor::from_slice(&[want.len(), 3], &qkv).unwrap());
            for (row, qkv) in want.iter_mut().zip(qkv.chunks_exact(3)) {
                row.extend_from_slice(&qkv[1..]);
            }
            assert_eq!(held(&cache), want, "step {step}");
            if step % 3 == 2 {
                let chosen = selections[step / 3 % 6];
                if chosen.iter().all(|row| *row < want.len()) {
                    cache.select(chosen);
                    want = chosen.iter().map(|row| want[*row].clone()).collect();
                    assert_eq!(held(&cache), want, "after step {step}");
                }
            }
        }
        assert_eq!(cache.len(), 40);
    }
}
