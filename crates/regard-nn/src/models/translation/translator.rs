//! The choice among the translation models, and what all of them do.

use std::sync::Arc;

use regard_tensor::{Key, Real, Tensor};

use super::decoding::{Decoding, State, Step, log_softmax};
use super::{
    AlignmentMap, AttentionKind, BEGIN, Bahdanau, Cho2014, END, Luong, PairBatch, SPECIAL, Seq2seq,
    Sequences, TranslationTransformer, TranslatorConfig, TranslatorModel,
};
use crate::ops::Seen;
use crate::{Mode, NnError, PackedParams, ParamSpecs, Params, Tape, Var};

/// An encoder–decoder model.
#[derive(Debug, Clone)]
pub struct Translator {
    config: TranslatorConfig,
    model: Model,
}

#[derive(Debug, Clone)]
enum Model {
    Seq2seq(Seq2seq),
    Cho2014(Cho2014),
    Bahdanau(Bahdanau),
    Luong(Luong),
    Transformer(TranslationTransformer),
}

/// What the loss is made of.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LossOptions {
    /// ε of the smoothed targets, in [0, 1): see [`Tape::cross_entropy`].
    pub label_smoothing: f64,
    /// Probability, in [0, 1], that an input of the decoder is the model's own choice in place of the
    /// given token, in training.
    pub scheduled_sampling: f64,
}

/// The loss of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TranslationLoss {
    /// Mean over the target tokens, each target's end counted: what is minimised.
    pub loss: Var,
    /// Σ −log p(token), in nats, without smoothing.
    pub nll_sum: f64,
    /// Number of target tokens, ends counted.
    pub tokens: usize,
}

impl Translator {
    /// Lists the parameters of a model.
    ///
    /// # Errors
    /// A size of 0, sizes that do not go together, or an option out of range.
    pub fn new(specs: &mut ParamSpecs, config: TranslatorConfig) -> Result<Self, NnError> {
        let vocabs = (config.source_vocab, config.target_vocab);
        for (name, size) in [("source_vocab", vocabs.0), ("target_vocab", vocabs.1)] {
            if size <= SPECIAL {
                let expected = format!("more than the {SPECIAL} special tokens");
                return Err(NnError::Hyper { name, expected, actual: size.to_string() });
            }
        }
        let model = match config.model {
            TranslatorModel::Seq2seq(c) => Model::Seq2seq(Seq2seq::new(specs, vocabs, c)?),
            TranslatorModel::Cho2014(c) => Model::Cho2014(Cho2014::new(specs, vocabs, c)?),
            TranslatorModel::Bahdanau(c) => Model::Bahdanau(Bahdanau::new(specs, vocabs, c)?),
            TranslatorModel::Luong(c) => Model::Luong(Luong::new(specs, vocabs, c)?),
            TranslatorModel::Transformer(c) => {
                Model::Transformer(TranslationTransformer::new(specs, vocabs, c)?)
            }
        };
        Ok(Self { config, model })
    }

    /// Sizes and choices.
    pub fn config(&self) -> &TranslatorConfig {
        &self.config
    }

    /// The loss of a batch of pairs.
    ///
    /// With scheduled sampling (Bengio et al. 2015, <https://arxiv.org/abs/1506.03099>) the decoder's
    /// inputs are first written step by step, each with this probability the token that the model finds
    /// likeliest after the inputs so far, else the given one; no gradient goes through that choice. Departure:
    /// the choice is the likeliest token rather than a drawn one, and is made without dropout.
    ///
    /// # Errors
    /// Sides with different numbers of items, an empty item, an id outside its vocabulary, an option out of
    /// range.
    pub fn loss<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        batch: &PairBatch,
        options: LossOptions,
    ) -> Result<TranslationLoss, NnError> {
        batch.check(self.config.source_vocab, self.config.target_vocab)?;
        let rate = options.scheduled_sampling;
        if !(0.0..=1.0).contains(&rate) {
            let (expected, actual) = ("in [0, 1]".into(), rate.to_string());
            return Err(NnError::Hyper { name: "scheduled_sampling", expected, actual });
        }
        let mut inputs = batch.target.prefixed(BEGIN);
        let key = if rate > 0.0 { tape.next_key() } else { None };
        if let Some(key) = key {
            self.mix(tape.params(), &batch.source, &mut inputs, rate, key)?;
        }
        let logits = self.logits(tape, &batch.source, &inputs, None)?;
        let targets = batch.target.suffixed(END);
        let (loss, nll_sum) =
            tape.cross_entropy_and_nll(logits, &targets.ids, options.label_smoothing)?;
        Ok(TranslationLoss { loss, nll_sum, tokens: targets.ids.len() })
    }

    /// Puts the model's own choices in place of some inputs.
    fn mix<T: Real>(
        &self,
        params: &Params<T>,
        source: &Sequences,
        inputs: &mut Sequences,
        rate: f64,
        key: Key,
    ) -> Result<(), NnError> {
        let mut decoding = self.start(params, source)?;
        let mut rows: Vec<usize> = (0..inputs.items.items()).collect();
        for t in 1..inputs.items.longest() {
            let running = |item: usize| inputs.items.lengths()[item] > t;
            let kept: Vec<usize> = (0..rows.len()).filter(|r| running(rows[*r])).collect();
            if kept.len() < rows.len() {
                decoding.select(&kept)?;
                rows = kept.iter().map(|r| rows[*r]).collect();
            }
            let at = |item: usize, t: usize| inputs.items.rows(item).start + t;
            let previous: Vec<u32> = rows.iter().map(|item| inputs.ids[at(*item, t - 1)]).collect();
            let log_p = decoding.step(&previous)?;
            for (r, item) in rows.iter().enumerate() {
                let place = at(*item, t);
                if f64::from(key.uniform(place as u32)) < rate {
                    inputs.ids[place] = likeliest(log_p.row(r));
                }
            }
        }
        Ok(())
    }

    /// The logits after each input token, `[inputs, target_vocab]`; with `maps`, every attention's weights
    /// are added to it.
    fn logits<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        source: &Sequences,
        inputs: &Sequences,
        maps: Option<&mut Vec<AlignmentMap<T>>>,
    ) -> Result<Var, NnError> {
        let want = maps.is_some();
        let (logits, seen, window) = match &self.model {
            Model::Seq2seq(m) => return m.logits(tape, source, inputs),
            Model::Cho2014(m) => return m.logits(tape, source, inputs),
            Model::Transformer(m) => return m.logits(tape, source, inputs, maps),
            Model::Bahdanau(m) => {
                let (logits, seen) = m.logits(tape, source, inputs, want)?;
                (logits, seen, (None, None))
            }
            Model::Luong(m) => {
                let (logits, seen) = m.logits(tape, source, inputs, want)?;
                (logits, seen, m.window())
            }
        };
        if let (Some(maps), Some(Seen { weights, centres })) = (maps, seen) {
            let (radius, sigma) = window;
            let keys = source.items.total();
            maps.push(AlignmentMap {
                kind: AttentionKind::Cross,
                layer: 0,
                head: 0,
                weights: Tensor::from_slice(&[weights.len(), keys], &weights.concat())?,
                centres,
                sigma: sigma.map(T::from_f64),
                radius,
            });
        }
        Ok(logits)
    }

    /// Reads the sources and stands before the first token of each output.
    ///
    /// # Errors
    /// An empty source, or an id outside the vocabulary.
    pub fn start<'m, T: Real>(
        &'m self,
        params: &Params<T>,
        source: &Sequences,
    ) -> Result<Decoding<'m, T>, NnError> {
        source.check("source", self.config.source_vocab)?;
        let packed = Arc::new(PackedParams::new(params));
        let mut tape = Tape::inference(&packed);
        let state = match &self.model {
            Model::Seq2seq(m) => State::Rnn(m.start(&mut tape, source)?),
            Model::Cho2014(m) => State::Rnn(m.start(&mut tape, source)?),
            Model::Bahdanau(m) => State::Rnn(m.start(&mut tape, source)?),
            Model::Luong(m) => State::Rnn(m.start(&mut tape, source)?),
            Model::Transformer(m) => State::Transformer(m.start(&mut tape, source)?),
        };
        drop(tape);
        Ok(Decoding { model: self, packed, state, keep_attention: false, attention: None })
    }

    /// The logits of the next token of every row.
    pub(super) fn step<T: Real>(
        &self,
        packed: &PackedParams<T>,
        state: &mut State<T>,
        previous: &[u32],
        keep: bool,
    ) -> Result<Step<T>, NnError> {
        match (&self.model, state) {
            (Model::Seq2seq(m), State::Rnn(state)) => {
                Ok(Step::blind(m.step(packed, state, previous)?))
            }
            (Model::Cho2014(m), State::Rnn(state)) => {
                Ok(Step::blind(m.step(packed, state, previous)?))
            }
            (Model::Bahdanau(m), State::Rnn(state)) => m.step(packed, state, previous, keep),
            (Model::Luong(m), State::Rnn(state)) => m.step(packed, state, previous, keep),
            (Model::Transformer(m), State::Transformer(state)) => {
                m.step(packed, state, previous, keep)
            }
            _ => unreachable!("a decoding is made by its own model"),
        }
    }

    /// The log-probability of every token of the targets and of their ends, given the tokens before.
    ///
    /// # Errors
    /// As [`Translator::loss`].
    pub fn log_probs<T: Real>(
        &self,
        params: &Params<T>,
        batch: &PairBatch,
    ) -> Result<Vec<Vec<f64>>, NnError> {
        batch.check(self.config.source_vocab, self.config.target_vocab)?;
        let mut tape = Tape::new(params, Mode::Inference);
        let inputs = batch.target.prefixed(BEGIN);
        let logits = self.logits(&mut tape, &batch.source, &inputs, None)?;
        let mut z = tape.value(logits).clone();
        log_softmax(&mut z);
        let targets = batch.target.suffixed(END);
        let of_item = |item| {
            let rows = targets.items.rows(item);
            rows.map(|i| z.row(i)[targets.ids[i] as usize].to_f64()).collect()
        };
        Ok((0..targets.items.items()).map(of_item).collect())
    }

    /// The weights of every attention as the model reads `source` and writes `target`, whatever it would
    /// have written itself.
    ///
    /// # Errors
    /// An empty side, or an id outside its vocabulary.
    pub fn look<T: Real>(
        &self,
        params: &Params<T>,
        source: &[u32],
        target: &[u32],
    ) -> Result<Vec<AlignmentMap<T>>, NnError> {
        let batch =
            PairBatch { source: Sequences::new(&[source]), target: Sequences::new(&[target]) };
        batch.check(self.config.source_vocab, self.config.target_vocab)?;
        let mut tape = Tape::new(params, Mode::Inference);
        let mut maps = Vec::new();
        let inputs = batch.target.prefixed(BEGIN);
        self.logits(&mut tape, &batch.source, &inputs, Some(&mut maps))?;
        Ok(maps)
    }
}

/// The index of the largest; of the first one where several are.
pub(super) fn likeliest<T: Real>(row: &[T]) -> u32 {
    let mut best = 0;
    for (i, x) in row.iter().enumerate() {
        if *x > row[best] {
            best = i;
        }
    }
    best as u32
}
