//! What must hold of every translation model: step by step equals the whole at once, a beam of one is
//! greedy, a beam of everything is exhaustive, a batch is its items.

use std::collections::HashMap;

use crate::common::translation::{TARGET_VOCAB, drawn, models, pairs, translator};
use crate::common::{bits, named, on_threads};
use regard_nn::models::translation::decode::{
    DecodeConfig, Hypothesis, LengthPenalty, score_targets, search, translate,
};
use regard_nn::models::translation::{
    AttentionKind, BEGIN, END, LossOptions, PairBatch, Sequences, Translator, TranslatorConfig,
};
use regard_nn::{Mode, Params, Tape};
use regard_tensor::{Key, Real};

/// The log-probabilities of the targets' tokens and ends, step by step; rows leave when they end.
fn by_steps<T: Real>(model: &Translator, params: &Params<T>, batch: &PairBatch) -> Vec<Vec<f64>> {
    let mut decoding = model.start(params, &batch.source).expect("good sources");
    let mut rows: Vec<usize> = (0..batch.source.items.items()).collect();
    let mut all = vec![Vec::new(); rows.len()];
    for t in 0..=batch.target.items.longest() {
        let kept: Vec<usize> =
            (0..rows.len()).filter(|r| batch.target.item(rows[*r]).len() >= t).collect();
        decoding.select(&kept).expect("rows that are there");
        rows = kept.iter().map(|r| rows[*r]).collect();
        let before = |item: &usize| if t == 0 { BEGIN } else { batch.target.item(*item)[t - 1] };
        let previous: Vec<u32> = rows.iter().map(before).collect();
        let log_p = decoding.step(&previous).expect("good tokens");
        for (r, item) in rows.iter().enumerate() {
            let target = batch.target.item(*item).get(t).copied().unwrap_or(END);
            all[*item].push(log_p.row(r)[target as usize].to_f64());
            let sum: f64 = log_p.row(r).iter().map(|p| p.to_f64().exp()).sum();
            assert!((sum - 1.0).abs() < 1e-5, "probabilities sum to one");
        }
    }
    all
}

fn each(check: impl Fn(TranslatorConfig)) {
    for (name, config) in models(0.0) {
        named(&name, || check(config.clone()));
    }
}

fn assert_near(a: &[Vec<f64>], b: &[Vec<f64>], allowed: f64) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert_eq!(a.len(), b.len());
        for (a, b) in a.iter().zip(b) {
            assert!((a - b).abs() <= allowed, "{a} and {b}");
        }
    }
}

#[test]
fn steps_equal_the_whole_target_at_once() {
    each(|config| {
        let batch = pairs();
        let (model, params) = translator::<f64>(config.clone(), 1);
        let whole = score_targets(&model, &params, &batch).unwrap();
        assert_near(&by_steps(&model, &params, &batch), &whole, 1e-12);
        let mut tape = Tape::new(&params, Mode::Gradient);
        let loss = model.loss(&mut tape, &batch, LossOptions::default()).unwrap();
        let sum: f64 = whole.iter().flatten().sum();
        assert_eq!(loss.tokens, whole.iter().map(Vec::len).sum::<usize>());
        assert!((loss.nll_sum + sum).abs() < 1e-11);
        let mean = tape.value(loss.loss).data()[0];
        assert!((mean - loss.nll_sum / loss.tokens as f64).abs() < 1e-12);

        let (model, params) = translator::<f32>(config, 1);
        let whole = score_targets(&model, &params, &batch).unwrap();
        // f32 has 1.2e-7; a log-probability goes through some hundred roundings.
        assert_near(&by_steps(&model, &params, &batch), &whole, 2e-4);
    });
}

#[test]
fn long_targets_outgrow_the_first_cache() {
    each(|config| {
        let (model, params) = translator::<f64>(config, 2);
        let target = drawn(5, &[19, 40], TARGET_VOCAB);
        let batch = PairBatch { source: drawn(4, &[9, 3], TARGET_VOCAB), target };
        let whole = score_targets(&model, &params, &batch).unwrap();
        assert_near(&by_steps(&model, &params, &batch), &whole, 1e-11);
    });
}

#[test]
fn an_item_in_a_batch_is_the_item_alone() {
    each(|config| {
        let batch = pairs();
        let (model, params) = translator::<f64>(config, 3);
        let whole = score_targets(&model, &params, &batch).unwrap();
        for (b, of_batch) in whole.iter().enumerate() {
            let one = |s: &Sequences| Sequences::new(&[s.item(b)]);
            let alone = PairBatch { source: one(&batch.source), target: one(&batch.target) };
            let alone = score_targets(&model, &params, &alone).unwrap();
            assert_near(&alone, std::slice::from_ref(of_batch), 1e-12);
        }
    });
}

#[test]
fn rows_follow_their_selection() {
    each(|config| {
        let (model, params) = translator::<f64>(config, 4);
        let source = drawn(8, &[2, 5, 3], TARGET_VOCAB);
        let mut many = model.start(&params, &source).unwrap();
        many.keep_attention(true);
        many.step(&[BEGIN; 3]).unwrap();
        many.select(&[2, 0, 2, 2]).unwrap();
        many.step(&[3, 4, 5, 3]).unwrap();
        many.select(&[2, 1, 0]).unwrap();
        let got = many.step(&[6, 3, 4]).unwrap();
        assert_eq!(many.sources(), [2, 0, 2]);
        for (r, (item, tokens)) in [(2, [5, 6]), (0, [4, 3]), (2, [3, 4])].into_iter().enumerate() {
            let one = Sequences::new(&[source.item(item)]);
            let mut alone = model.start(&params, &one).unwrap();
            alone.keep_attention(true);
            alone.step(&[BEGIN]).unwrap();
            alone.step(&tokens[..1]).unwrap();
            let want = alone.step(&tokens[1..]).unwrap();
            assert!(got.row(r).iter().zip(want.row(0)).all(|(a, b)| (a - b).abs() < 1e-12));
            if let (Some(many), Some([alone])) = (many.attention(), alone.attention()) {
                assert_eq!(many[r].len(), source.item(item).len());
                assert!(many[r].iter().zip(alone).all(|(a, b)| (a - b).abs() < 1e-12));
            }
        }
    });
}

#[test]
fn a_beam_of_one_is_greedy() {
    each(|config| {
        let (model, params) = translator::<f64>(config, 5);
        let source = drawn(9, &[4, 1, 6], TARGET_VOCAB);
        let config = DecodeConfig { max_length: 9, ..DecodeConfig::default() };
        let found = translate(&model, &params, &source, &config).unwrap();
        for (item, found) in found.iter().enumerate() {
            let one = Sequences::new(&[source.item(item)]);
            let mut decoding = model.start(&params, &one).unwrap();
            let (mut tokens, mut log_prob, mut last) = (Vec::new(), 0.0, BEGIN);
            loop {
                let log_p = decoding.step(&[last]).unwrap();
                let cut = tokens.len() == 9;
                let allowed = |t: &u32| *t != BEGIN && (!cut || *t == END);
                let best = (0..TARGET_VOCAB as u32)
                    .filter(allowed)
                    .max_by(|a, b| log_p.row(0)[*a as usize].total_cmp(&log_p.row(0)[*b as usize]))
                    .unwrap();
                log_prob += log_p.row(0)[best as usize];
                last = best;
                if best == END {
                    assert_eq!(found[0].finished, !cut);
                    break;
                }
                tokens.push(best);
            }
            assert_eq!(found[0].tokens, tokens);
            assert!((found[0].log_prob - log_prob).abs() < 1e-11);
        }
    });
}

/// Every output of up to `max` tokens with its log-probability and its attention, by brute force.
fn exhaustive(
    model: &Translator,
    params: &Params<f64>,
    source: &[u32],
    max: usize,
) -> HashMap<Vec<u32>, f64> {
    let mut prefixes = vec![Vec::new()];
    let mut all = prefixes.clone();
    for _ in 0..max {
        let extend = |p: &Vec<u32>| {
            (0..TARGET_VOCAB as u32).filter(|t| *t != BEGIN && *t != END).map({
                let p = p.clone();
                move |t| [&p[..], &[t]].concat()
            })
        };
        prefixes = prefixes.iter().flat_map(extend).collect();
        all.extend(prefixes.iter().cloned());
    }
    all.into_iter()
        .map(|tokens| {
            let mut decoding = model.start(params, &Sequences::new(&[source])).unwrap();
            let mut sum = 0.0;
            let mut last = BEGIN;
            for token in tokens.iter().copied().chain([END]) {
                let log_p = decoding.step(&[last]).unwrap();
                sum += log_p.row(0)[token as usize];
                last = token;
            }
            (tokens, sum)
        })
        .collect()
}

#[test]
fn a_beam_that_keeps_every_prefix_searches_exhaustively() {
    let chosen =
        ["bahdanau", "transformer Before, Rotary, All", "luong General, LocalP, fed: true"];
    let max = 3;
    for (name, config) in models(0.0) {
        if !chosen.contains(&name.as_str()) {
            continue;
        }
        let (model, params) = translator::<f64>(config, 6);
        let source = [3, 5, 4, 6];
        let all = exhaustive(&model, &params, &source, max);
        let penalties = [
            (LengthPenalty::None, 0.0),
            (LengthPenalty::Gnmt(0.6), 0.0),
            (LengthPenalty::Gnmt(2.0), 0.3),
            (LengthPenalty::Average(1.0), 0.0),
            (LengthPenalty::Average(1.5), 0.2),
        ];
        for (length_penalty, coverage_penalty) in penalties {
            let beam = TARGET_VOCAB.pow(max as u32);
            let config = DecodeConfig {
                beam,
                n_best: 20,
                max_length: max,
                length_penalty,
                coverage_penalty,
                attention: true,
                ..DecodeConfig::default()
            };
            let found = search(&model, &params, &Sequences::new(&[source]), &config).unwrap();
            assert_eq!(found[0].len(), 20);
            let score = |h: &Hypothesis, log_prob: f64| {
                let length = (h.tokens.len() + 1) as f64;
                let lp = match length_penalty {
                    LengthPenalty::None => 1.0,
                    LengthPenalty::Gnmt(a) => ((5.0 + length) / 6.0).powf(a),
                    LengthPenalty::Average(a) => length.powf(a),
                };
                let seen = |j: usize| h.attention.iter().map(|a| f64::from(a[j])).sum::<f64>();
                let cover: f64 = (0..source.len()).map(|j| seen(j).clamp(1e-10, 1.0).ln()).sum();
                log_prob / lp + coverage_penalty * cover
            };
            for h in &found[0] {
                assert!((h.log_prob - all[&h.tokens]).abs() < 1e-11, "{name}");
                assert!((h.score - score(h, h.log_prob)).abs() < 1e-11, "{name}");
                assert_eq!(h.attention.len(), h.tokens.len() + 1);
                assert_eq!(h.finished, h.tokens.len() < max);
            }
            if coverage_penalty == 0.0 {
                let lp = |tokens: &Vec<u32>| length_penalty.of(tokens.len() + 1);
                let mut scores: Vec<f64> = all.iter().map(|(t, p)| p / lp(t)).collect();
                scores.sort_by(|a, b| b.total_cmp(a));
                for (h, want) in found[0].iter().zip(scores) {
                    assert!((h.score - want).abs() < 1e-11, "{name}: {} and {want}", h.score);
                }
            } else {
                // The best of all outputs, their attention taken from a search that keeps them all.
                let every = DecodeConfig { n_best: all.len(), ..config.clone() };
                let every = search(&model, &params, &Sequences::new(&[source]), &every).unwrap();
                assert_eq!(every[0].len(), all.len(), "{name}");
                let best = every[0].iter().map(|h| score(h, all[&h.tokens]));
                let best = best.fold(f64::NEG_INFINITY, f64::max);
                assert!((found[0][0].score - best).abs() < 1e-11, "{name}");
            }
        }
    }
}

#[test]
fn a_batch_is_searched_as_its_items_alone() {
    each(|config| {
        let (model, params) = translator::<f64>(config, 7);
        let source = drawn(3, &[4, 1, 7, 2], TARGET_VOCAB);
        let config = DecodeConfig { beam: 3, n_best: 3, max_length: 8, ..DecodeConfig::default() };
        let batch = translate(&model, &params, &source, &config).unwrap();
        for (item, of_batch) in batch.iter().enumerate() {
            let one = Sequences::new(&[source.item(item)]);
            let alone = translate(&model, &params, &one, &config).unwrap();
            let tokens = |all: &[Hypothesis]| -> Vec<Vec<u32>> {
                all.iter().map(|h| h.tokens.clone()).collect()
            };
            assert_eq!(tokens(of_batch), tokens(&alone[0]));
            assert!(of_batch.windows(2).all(|pair| pair[0].score >= pair[1].score));
        }
    });
}

#[test]
fn lengths_and_repeated_runs_are_held_to() {
    each(|config| {
        let (model, params) = translator::<f64>(config, 8);
        let source = drawn(3, &[4, 2], TARGET_VOCAB);
        let config = DecodeConfig {
            beam: 3,
            min_length: 4,
            max_length: 12,
            no_repeat: 2,
            ..DecodeConfig::default()
        };
        for found in translate(&model, &params, &source, &config).unwrap() {
            let tokens = &found[0].tokens;
            assert!((4..=12).contains(&tokens.len()));
            let runs: Vec<&[u32]> = tokens.windows(2).collect();
            assert!((1..runs.len()).all(|i| !runs[i..].contains(&runs[i - 1])), "{tokens:?}");
        }
    });
}

#[test]
fn weights_are_looked_at_as_they_are() {
    each(|config| {
        let (model, params) = translator::<f64>(config.clone(), 9);
        let (source, target) = ([3, 4, 5, 6, 3], [4, 6]);
        let maps = model.look(&params, &source, &target).unwrap();
        let mut decoding = model.start(&params, &Sequences::new(&[source])).unwrap();
        decoding.keep_attention(true);
        let last = maps.iter().filter(|m| m.kind == AttentionKind::Cross);
        let deepest = last.clone().map(|m| m.layer).max();
        let last: Vec<_> = last.filter(|m| Some(m.layer) == deepest).collect();
        for (i, previous) in [BEGIN, target[0], target[1]].into_iter().enumerate() {
            decoding.step(&[previous]).unwrap();
            let Some(weights) = decoding.attention() else {
                assert!(maps.is_empty(), "a model with maps has weights");
                continue;
            };
            for (j, got) in weights[0].iter().enumerate() {
                let heads = last.len() as f64;
                let mean = last.iter().map(|m| m.weights.row(i)[j]).sum::<f64>() / heads;
                assert!((got - mean).abs() < 1e-12);
            }
        }
        for map in &maps {
            let keys = match map.kind {
                AttentionKind::EncoderSelf | AttentionKind::Cross => 5,
                AttentionKind::DecoderSelf => 3,
            };
            let queries = if map.kind == AttentionKind::EncoderSelf { 5 } else { 3 };
            assert_eq!(map.weights.shape()[..], [queries, keys]);
            for (i, row) in map.weights.data().chunks_exact(keys).enumerate() {
                if map.kind == AttentionKind::DecoderSelf {
                    assert!(row[i + 1..].iter().all(|a| *a == 0.0), "the future is hidden");
                }
                if let (Some(centres), Some(radius)) = (&map.centres, map.radius) {
                    let far = |j: usize| (j as f64 - centres[i].floor()).abs() > radius as f64;
                    assert!((0..keys).all(|j| !far(j) || row[j] == 0.0));
                    assert!((0.0..=4.0).contains(&centres[i]));
                }
                let sum: f64 = row.iter().sum();
                assert!(row.iter().all(|a| (0.0..=1.0 + 1e-12).contains(a)));
                // A Gaussian takes some away, and nothing gives it back; σ gives each key its own.
                if map.sigma.is_some() {
                    assert!(sum < 1.0 + 1e-12);
                } else if sum != 0.0 && !format!("{config:?}").contains("Sigmoid") {
                    assert!((sum - 1.0).abs() < 1e-12, "{sum}");
                }
            }
        }
    });
}

#[test]
fn gradients_have_the_same_bits_on_any_number_of_threads() {
    each(|config| {
        let run = |threads: usize| {
            on_threads(threads, || {
                let (model, params) = translator::<f32>(config.clone(), 1);
                let mut tape = Tape::new(&params, Mode::Training(Key::new(2)));
                let options = LossOptions { label_smoothing: 0.1, scheduled_sampling: 0.5 };
                let loss = model.loss(&mut tape, &pairs(), options).unwrap().loss;
                let mut flat = vec![0.0; params.flat_len()];
                tape.backward(loss, &mut flat);
                bits(&flat)
            })
        };
        assert_eq!(run(1), run(3));
    });
}

#[test]
fn scheduled_sampling_mixes_in_training_alone() {
    each(|config| {
        let (model, params) = translator::<f64>(config, 1);
        let loss = |mode, rate| {
            let mut tape = Tape::new(&params, mode);
            let options = LossOptions { label_smoothing: 0.0, scheduled_sampling: rate };
            model.loss(&mut tape, &pairs(), options).unwrap().nll_sum
        };
        let training = Mode::Training(Key::new(4));
        let plain = loss(Mode::Gradient, 0.0);
        assert_eq!(loss(Mode::Gradient, 1.0), plain);
        assert_eq!(loss(training, 0.0), plain);
        let mixed = loss(training, 1.0);
        assert_ne!(mixed, plain);
        assert_eq!(loss(training, 1.0), mixed, "the same key, the same inputs");
    });
}
