//! What the tests of this crate share: small arrays, small models and batches for them.

pub(crate) mod translation;

use regard_nn::layers::{Norm, ScopeConfig, ScoreKind};
use regard_nn::models::{
    CharEncoder, CnnConfig, EncoderConfig, FeedForwardConfig, Output, PositionKind, RnnConfig,
    SelfAttentionConfig, Tagger, TaggerConfig, TokenIds, TransformerConfig, WordsConfig,
};
use regard_nn::{Mode, NnError, ParamSpecs, Params, Ragged, Tape, Var};
use regard_tensor::{Key, Real, Tensor};
use regard_testkit::check_gradients_of;

/// Parameters of a model that has none.
pub(crate) fn no_params<T: Real>() -> Params<T> {
    Params::new(ParamSpecs::new(), 0)
}

/// An array of these numbers, rounded to `T`.
#[track_caller]
pub(crate) fn tensor<T: Real>(dims: &[usize], data: &[f64]) -> Tensor<T> {
    let data: Vec<T> = data.iter().map(|x| T::from_f64(*x)).collect();
    Tensor::from_slice(dims, &data).expect("the numbers fill the shape")
}

/// Normal numbers, the same for the same seed.
pub(crate) fn normal(seed: u64, n: usize) -> Vec<f64> {
    let key = Key::new(seed);
    (0..n).map(|i| key.normal(i as u32)).collect()
}

/// The numbers of a slice in f64.
pub(crate) fn wide<T: Real>(data: &[T]) -> Vec<f64> {
    data.iter().map(|x| x.to_f64()).collect()
}

/// The bits of a slice, for comparisons to the last one.
pub(crate) fn bits<T: Real>(data: &[T]) -> Vec<u64> {
    data.iter().map(|x| x.to_f64().to_bits()).collect()
}

/// The largest magnitude in a slice.
pub(crate) fn largest(data: &[f64]) -> f64 {
    data.iter().fold(0.0, |top: f64, x| top.max(x.abs()))
}

/// The attention of a whole sentence, of what came before, of two neighbours, and of both limits.
pub(crate) const SCOPES: [ScopeConfig; 4] = [
    ScopeConfig { causal: false, window: None },
    ScopeConfig { causal: true, window: None },
    ScopeConfig { causal: false, window: Some((1, 2)) },
    ScopeConfig { causal: true, window: Some((2, 2)) },
];

/// Every kind of token encoder, `width` wide (even) and two layers deep, with every score, scope
/// and position at least once.
pub(crate) fn encoders(width: usize, dropout: f64) -> Vec<(String, EncoderConfig)> {
    let (hidden, layers) = (width, 2);
    let mut all = Vec::new();
    for context in [0, 1] {
        let config = FeedForwardConfig { context, hidden, layers, dropout };
        all.push((format!("feed-forward ±{context}"), EncoderConfig::FeedForward(config)));
    }
    for kernel in [1, 2, 3] {
        let config = CnnConfig { kernel, hidden, layers, dropout };
        all.push((format!("cnn of {kernel}"), EncoderConfig::Cnn(config)));
    }
    for bidirectional in [false, true] {
        let config = RnnConfig { hidden, layers, bidirectional, dropout };
        all.push((format!("rnn, both ways: {bidirectional}"), EncoderConfig::Rnn(config)));
    }
    let positions =
        [PositionKind::None, PositionKind::Sinusoidal, PositionKind::Learned, PositionKind::Rotary];
    let scores = [ScoreKind::Dot, ScoreKind::ScaledDot, ScoreKind::Additive];
    for (i, position) in positions.into_iter().enumerate() {
        for (j, score) in scores.into_iter().enumerate() {
            let scope = SCOPES[(i + j) % SCOPES.len()];
            let name = format!("{score:?}, {position:?}, {scope:?}");
            all.push((
                format!("self-attention, {name}"),
                EncoderConfig::SelfAttention(SelfAttentionConfig {
                    d_model: width,
                    layers,
                    score,
                    scope,
                    position,
                    dropout,
                }),
            ));
            // Each norm with each score and position once.
            let norm = if (i + j) % 2 == 0 { Norm::Before } else { Norm::After };
            let heads = if position == PositionKind::Rotary { 1 } else { 2 };
            all.push((
                format!("transformer, norm {norm:?}, {name}"),
                EncoderConfig::Transformer(TransformerConfig {
                    d_model: width,
                    heads,
                    layers,
                    d_ff: width + 3,
                    norm,
                    score,
                    scope,
                    position,
                    dropout,
                    attention_dropout: dropout,
                }),
            ));
        }
    }
    all
}

/// One encoder of each kind: the first, the last and some between of [`encoders`].
pub(crate) fn one_of_each_kind(width: usize, dropout: f64) -> Vec<(String, EncoderConfig)> {
    let mut kinds = Vec::new();
    let mut chosen = encoders(width, dropout);
    chosen.reverse();
    chosen.retain(|(_, config)| {
        let kind = std::mem::discriminant(config);
        let fresh = !kinds.contains(&kind);
        kinds.push(kind);
        fresh
    });
    assert_eq!(chosen.len(), 5, "there are five kinds of encoder");
    chosen
}

/// Number of words, characters and labels of the small models.
pub(crate) const N_WORDS: usize = 11;
const N_CHARS: usize = 7;
pub(crate) const N_LABELS: usize = 3;

/// Word vectors `d_word` wide, with this reader of characters.
pub(crate) fn words(d_word: usize, encoder: CharEncoder, dropout: f64) -> WordsConfig {
    WordsConfig {
        n_words: N_WORDS,
        d_word,
        n_chars: N_CHARS,
        d_char: 3,
        encoder,
        char_hidden: 2,
        char_widths: vec![2, 3],
        dropout,
    }
}

/// A tagger over [`N_WORDS`] words with its parameters.
#[track_caller]
pub(crate) fn tagger<T: Real>(
    words: WordsConfig,
    encoder: EncoderConfig,
    output: Output,
    seed: u64,
) -> (Tagger, Params<T>) {
    let mut specs = ParamSpecs::new();
    let config = TaggerConfig { words, encoder, n_labels: N_LABELS, output };
    let tagger = Tagger::new(&mut specs, config).expect("the sizes go together");
    (tagger, Params::new(specs, seed))
}

/// The ids of sentences of words below [`N_WORDS`]; a word's characters follow from its id, and
/// there are one to four of them.
pub(crate) fn token_ids(sentences: &[Vec<u32>]) -> TokenIds {
    let lengths: Vec<usize> = sentences.iter().map(Vec::len).collect();
    let words = sentences.concat();
    let mut known: Vec<u32> = Vec::new();
    let mut distinct = Vec::new();
    for word in &words {
        let at = known.iter().position(|k| k == word).unwrap_or_else(|| {
            known.push(*word);
            known.len() - 1
        });
        distinct.push(at as u32);
    }
    let spell = |word: &u32| (0..=word % 4).map(|i| (word * 5 + i * i) % N_CHARS as u32).collect();
    let spelled: Vec<Vec<u32>> = known.iter().map(spell).collect();
    let char_lengths: Vec<usize> = spelled.iter().map(Vec::len).collect();
    TokenIds {
        items: Ragged::new(&lengths),
        words,
        distinct,
        chars: spelled.concat(),
        char_items: Ragged::new(&char_lengths),
    }
}

/// Sentences of these lengths, words drawn evenly.
pub(crate) fn sentences(seed: u64, lengths: &[usize]) -> Vec<Vec<u32>> {
    let key = Key::new(seed).named("words");
    let mut drawn = 0;
    let mut word = |_| {
        drawn += 1;
        key.below(drawn, N_WORDS as u32)
    };
    lengths.iter().map(|n| (0..*n).map(&mut word).collect()).collect()
}

/// A label for every word of a batch, drawn evenly.
pub(crate) fn labels(seed: u64, n: usize) -> Vec<u32> {
    let key = Key::new(seed).named("labels");
    (0..n).map(|i| key.below(i as u32, N_LABELS as u32)).collect()
}

/// Runs `f` on a pool of this many threads.
pub(crate) fn on_threads<R: Send>(threads: usize, f: impl FnOnce() -> R + Send) -> R {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.expect("a pool of threads").install(f)
}

/// An input of an operator: its name and shape.
pub(crate) type Input = (&'static str, Vec<usize>);

/// Checks the gradients of an operator by all of its inputs, drawn from the normal distribution.
#[track_caller]
pub(crate) fn check(
    inputs: &[Input],
    op: impl Fn(&mut Tape<'_, f64>, &[Var]) -> Result<Var, NnError>,
) {
    check_in(Mode::Gradient, inputs, op);
}

#[track_caller]
pub(crate) fn check_in(
    mode: Mode,
    inputs: &[Input],
    op: impl Fn(&mut Tape<'_, f64>, &[Var]) -> Result<Var, NnError>,
) {
    let params = no_params();
    let run = |arguments: &[(&str, Vec<f64>)]| {
        let mut tape = Tape::new(&params, mode);
        let input =
            |((_, shape), (_, data)): (&Input, &(&str, Vec<f64>))| tape.input(tensor(shape, data));
        let vars: Vec<Var> = inputs.iter().zip(arguments).map(input).collect();
        let y = op(&mut tape, &vars).expect("the shapes fit");
        (tape, vars, y)
    };
    let draw =
        |(i, (name, shape)): (usize, &Input)| (*name, normal(i as u64 + 1, shape.iter().product()));
    let mut arguments: Vec<(&str, Vec<f64>)> = inputs.iter().enumerate().map(draw).collect();

    let (tape, vars, y) = run(&arguments);
    let r = normal(99, tape.value(y).len());
    let shape = tape.shape(y);
    let gradients = tape.backward_from(y, tensor(&shape, &r), &mut []);
    let gradients: Vec<Vec<f64>> = vars
        .iter()
        .zip(&arguments)
        .map(|(var, (_, data))| {
            // An output that does not depend on an input has no gradient by it: zero.
            gradients.of(*var).map_or_else(|| vec![0.0; data.len()], |g| g.data().to_vec())
        })
        .collect();
    let f = |arguments: &[(&str, Vec<f64>)]| {
        let (tape, _, y) = run(arguments);
        tape.value(y).data().iter().zip(&r).map(|(y, r)| y * r).sum()
    };
    check_gradients_of(&mut arguments, f, &gradients);
}

/// Checks the gradients of a scalar by every parameter of a model, each an argument of its own.
///
/// The parameters are moved away from their first values, so that no bias is zero (a relu over
/// dropped inputs would stand on its kink) and no gain one.
#[track_caller]
pub(crate) fn check_params(
    mut params: Params<f64>,
    mode: Mode,
    loss: impl Fn(&mut Tape<'_, f64>) -> Result<Var, NnError>,
) {
    let moves = normal(77, params.flat_len());
    for (x, by) in params.flat_mut().iter_mut().zip(moves) {
        *x += 0.3 * by;
    }
    let specs = params.specs().to_vec();
    let mut tape = Tape::new(&params, mode);
    let value = loss(&mut tape).expect("the shapes fit");
    let mut flat = vec![0.0; params.flat_len()];
    tape.backward(value, &mut flat);

    let named = |flat: &[f64]| -> Vec<Vec<f64>> {
        specs.iter().map(|spec| flat[spec.range()].to_vec()).collect()
    };
    let gradients = named(&flat);
    let values = named(params.flat());
    let mut arguments: Vec<(&str, Vec<f64>)> =
        specs.iter().map(|spec| spec.name.as_str()).zip(values).collect();
    let f = |arguments: &[(&str, Vec<f64>)]| {
        for (spec, (_, values)) in specs.iter().zip(arguments) {
            params.flat_mut()[spec.range()].copy_from_slice(values);
        }
        let mut tape = Tape::new(&params, mode);
        let value = loss(&mut tape).expect("the shapes fit");
        tape.value(value).data()[0]
    };
    check_gradients_of(&mut arguments, f, &gradients);
}

/// Runs a check and says which model it was, if it fails.
pub(crate) fn named(name: &str, check: impl Fn()) {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
    if let Err(panic) = result {
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        panic!("{name}: {text}");
    }
}
