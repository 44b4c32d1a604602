//! Operators, optimisers and schedules against PyTorch: every case of `scripts/golden/nn.json`, in
//! f64 and in f32.
//!
//! A number may be off by
//!
//! ```text
//! eps · (sums · longest) · (largest input) · (largest entry of the array)
//! ```
//!
//! where `longest` is the longest axis of the case and `sums` says, per family below, through how
//! many sums or chained roundings a number goes; both magnitudes count at least as 1. The bounds
//! were fixed before the first run.

use crate::common::{largest, no_params, tensor, wide};
use regard_nn::layers::{
    AttentionConfig, Norm, ScopeConfig, ScoreKind, TransformerLayer, TransformerLayerConfig,
};
use regard_nn::ops::{Activation, Crf, Direction, IGNORED, Pool, viterbi};
use regard_nn::optim::{Optimiser, OptimiserConfig, clip, global_norm};
use regard_nn::schedule::Schedule;
use regard_nn::{Mode, NnError, ParamSpecs, Params, Ragged, Tape, Var};
use regard_tensor::Real;
use regard_testkit::{Bound, Case, Golden, close_each};

/// What does not agree in a case: nothing, where all is well.
type Faults = Vec<String>;

/// The name that a family's cases begin with, and its test.
type Family = (&'static str, fn(&Case) -> Result<Faults, NnError>);

fn families<T: Real>() -> Vec<Family> {
    vec![
        ("linear_", linear::<T>),
        ("layer_norm", layer_norm::<T>),
        ("embedding_", embedding::<T>),
        ("cross_entropy_", cross_entropy::<T>),
        ("lstm_", lstm::<T>),
        ("gru_", gru::<T>),
        ("conv1d_", conv1d::<T>),
        ("window_", window::<T>),
        ("pool_", pool::<T>),
        ("crf_", crf::<T>),
        ("optimiser_", optimiser::<T>),
        ("clip_grad_norm_", clip_norm::<T>),
        ("schedule_", schedule),
        ("transformer_", transformer::<T>),
    ]
}

fn check_every_case<T: Real>() {
    let golden = Golden::load("nn");
    assert_eq!(golden.header("dtype"), "float64");
    let families = families::<T>();
    let mut used = vec![0; families.len()];
    let mut faults = Vec::new();
    for case in golden.cases() {
        let name = case.name();
        let Some(at) = families.iter().position(|(prefix, _)| name.starts_with(prefix)) else {
            panic!("case {name} has no test");
        };
        used[at] += 1;
        match families[at].1(case) {
            Ok(found) => faults.extend(found.into_iter().map(|fault| format!("{name}: {fault}"))),
            Err(error) => faults.push(format!("{name}: {error}")),
        }
    }
    for ((prefix, _), used) in families.iter().zip(used) {
        assert!(used > 0, "no case of nn.json begins with {prefix}");
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_case_agrees_in_f64() {
    check_every_case::<f64>();
}

#[test]
fn every_case_agrees_in_f32() {
    check_every_case::<f32>();
}

/// Compares one array.
fn compare<T: Real>(
    name: &str,
    actual: &[T],
    expected: &[f64],
    terms: usize,
    scale: f64,
) -> Faults {
    let bound = Bound::new(T::EPSILON.to_f64(), terms, scale * largest(expected).max(1.0));
    let fault = close_each(&wide(actual), expected, |_| bound).err();
    fault.map(|fault| format!("{name}: {fault}")).into_iter().collect()
}

/// Runs an operator on the case's arrays `names` and compares `y` and the gradient of each.
///
/// `steep` is a factor by which the operator may enlarge a rounding, 1 for most.
fn check<T: Real>(
    case: &Case,
    (sums, steep): (usize, f64),
    names: &[&str],
    op: impl FnOnce(&mut Tape<'_, T>, &[Var]) -> Result<Var, NnError>,
) -> Result<Faults, NnError> {
    let params = no_params();
    let mut tape = Tape::new(&params, Mode::Gradient);
    let inputs: Vec<Var> = names
        .iter()
        .map(|name| {
            let (shape, data) = case.array(name);
            tape.input(tensor(&shape, &data))
        })
        .collect();
    let y = op(&mut tape, &inputs)?;

    let (shape, expected) = case.array("y");
    let (dy_shape, dy) = case.array("dy");
    let given = names.iter().map(|name| case.array(name));
    let scale = given.map(|(_, data)| largest(&data)).fold(largest(&dy).max(1.0), f64::max);
    let longest = names.iter().flat_map(|name| case.array(name).0).chain(shape.clone()).max();
    let terms = sums * longest.unwrap_or(1);

    let mut faults = Vec::new();
    if tape.shape(y)[..] != shape[..] {
        faults.push(format!("y has shape {}, expected {shape:?}", tape.shape(y)));
        return Ok(faults);
    }
    faults.extend(compare("y", tape.value(y).data(), &expected, terms, scale * steep));
    let gradients = tape.backward_from(y, tensor(&dy_shape, &dy), &mut []);
    for (name, var) in names.iter().zip(inputs) {
        let name = format!("d_{name}");
        let (shape, expected) = case.array(&name);
        match gradients.of(var) {
            Some(actual) if actual.shape()[..] == shape[..] => {
                faults.extend(compare(&name, actual.data(), &expected, terms, scale * steep));
            }
            Some(actual) => {
                faults.push(format!("{name} has shape {}, expected {shape:?}", actual.shape()));
            }
            None => faults.push(format!("{name} is missing")),
        }
    }
    Ok(faults)
}

fn activation(name: &str) -> Activation {
    match name {
        "none" => Activation::None,
        "relu" => Activation::Relu,
        "gelu" => Activation::Gelu,
        "tanh" => Activation::Tanh,
        "sigmoid" => Activation::Sigmoid,
        other => panic!("activation {other} has no counterpart"),
    }
}

fn ids(case: &Case, key: &str) -> Vec<u32> {
    case.sizes(key).iter().map(|id| *id as u32).collect()
}

fn linear<T: Real>(case: &Case) -> Result<Faults, NnError> {
    let (bias, residual) = (case.flag("bias"), case.flag("residual"));
    let names = [("x", true), ("w", true), ("b", bias), ("residual", residual)];
    let names: Vec<&str> = names.into_iter().filter(|(_, there)| *there).map(|(n, _)| n).collect();
    // The product; bias, activation and residual are three roundings more.
    check::<T>(case, (4, 1.0), &names, |tape, v| {
        let b = bias.then(|| v[2]);
        let r = residual.then(|| v[v.len() - 1]);
        tape.linear(v[0], v[1], b, activation(case.text("activation")), r)
    })
}

fn layer_norm<T: Real>(case: &Case) -> Result<Faults, NnError> {
    assert_eq!(case.scalar("eps"), 1e-5, "the operator's ε is fixed");
    // Mean, variance, and two more means in backward. A constant row is divided by √ε.
    let steep = case.scalar("eps").sqrt().recip();
    check::<T>(case, (4, steep), &["x", "gain", "bias"], |tape, v| {
        tape.layer_norm(v[0], v[1], v[2])
    })
}

fn embedding<T: Real>(case: &Case) -> Result<Faults, NnError> {
    check::<T>(case, (1, 1.0), &["table"], |tape, v| tape.embedding(v[0], &ids(case, "ids")))
}

fn cross_entropy<T: Real>(case: &Case) -> Result<Faults, NnError> {
    let ignored = case.scalar("ignore_index");
    let id = |t: &f64| if *t == ignored { IGNORED } else { *t as u32 };
    let targets: Vec<u32> = case.numbers("targets").iter().map(id).collect();
    // Softmax, its logarithm, the mean over the rows.
    check::<T>(case, (3, 1.0), &["logits"], |tape, v| {
        tape.cross_entropy(v[0], &targets, case.scalar("label_smoothing"))
    })
}

/// Roundings of a recurrence: in each step two products and four functions, there and back.
fn recurrent(case: &Case) -> (usize, f64) {
    (6 * 2 * case.sizes("lengths").into_iter().max().unwrap_or(0), 1.0)
}

/// Runs the directions of a recurrent case; `one` runs one, with the parameters of `names` from
/// the place given on.
fn directions<T: Real>(
    case: &Case,
    names: &[&'static str],
    one: impl Fn(&mut Tape<'_, T>, Var, &[Var], Direction) -> Result<Var, NnError>,
) -> Result<Faults, NnError> {
    let direction = case.text("direction");
    let mut all = vec!["x".to_owned()];
    all.extend(names.iter().map(|name| (*name).to_owned()));
    if direction == "both" {
        all.extend(names.iter().map(|name| format!("{name}_reverse")));
    }
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    check::<T>(case, recurrent(case), &all, |tape, v| {
        let (first, second) = v[1..].split_at(names.len());
        match direction {
            "forward" => one(tape, v[0], first, Direction::Forward),
            "reverse" => one(tape, v[0], first, Direction::Backward),
            _ => {
                let there = one(tape, v[0], first, Direction::Forward)?;
                let back = one(tape, v[0], second, Direction::Backward)?;
                tape.concat(&[there, back])
            }
        }
    })
}

fn lstm<T: Real>(case: &Case) -> Result<Faults, NnError> {
    let items = Ragged::new(&case.sizes("lengths"));
    directions::<T>(case, &["w_ih", "w_hh", "b"], |tape, x, v, direction| {
        tape.lstm(x, &items, v[0], v[1], v[2], direction)
    })
}

fn gru<T: Real>(case: &Case) -> Result<Faults, NnError> {
    let items = Ragged::new(&case.sizes("lengths"));
    directions::<T>(case, &["w_ih", "w_hh", "b_ih", "b_hh"], |tape, x, v, direction| {
        tape.gru(x, &items, (v[0], v[1]), (v[2], v[3]), direction)
    })
}

fn conv1d<T: Real>(case: &Case) -> Result<Faults, NnError> {
    let items = Ragged::new(&case.sizes("lengths"));
    let width = case.size("width");
    assert_eq!(case.size("left"), (width - 1) / 2, "the operator puts the odd tap on the right");
    check::<T>(case, (2, 1.0), &["x", "w", "b"], |tape, v| {
        tape.conv1d(v[0], &items, v[1], Some(v[2]), width, Activation::None)
    })
}

fn window<T: Real>(case: &Case) -> Result<Faults, NnError> {
    let items = Ragged::new(&case.sizes("lengths"));
    check::<T>(case, (1, 1.0), &["x"], |tape, v| {
        tape.windows(v[0], &items, case.size("left"), case.size("right"))
    })
}

fn pool<T: Real>(case: &Case) -> Result<Faults, NnError> {
    let items = Ragged::new(&case.sizes("lengths"));
    let kind = match case.text("kind") {
        "max" => Pool::Max,
        "mean" => Pool::Mean,
        other => panic!("pooling {other} has no counterpart"),
    };
    check::<T>(case, (1, 1.0), &["x"], |tape, v| tape.pool(v[0], &items, kind))
}

fn crf<T: Real>(case: &Case) -> Result<Faults, NnError> {
    let lengths = case.sizes("lengths");
    let items = Ragged::new(&lengths);
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let names = ["emissions", "transitions", "start", "end"];
    // In each step a log-sum-exp, there and back, and the sum of two paths' scores.
    let mut faults = check::<T>(case, (4 * longest, 1.0), &names, |tape, v| {
        let chain = Crf { transitions: v[1], start: v[2], end: v[3] };
        tape.crf(v[0], &items, &ids(case, "tags"), chain)
    })?;

    let [e, transitions, start, end] = names.map(|name| case.array(name).1);
    let round = |data: &[f64]| data.iter().map(|x| T::from_f64(*x)).collect::<Vec<T>>();
    let c = start.len();
    let mut paths = Vec::new();
    let mut scores = Vec::new();
    for b in 0..items.items() {
        let rows = items.rows(b);
        let e = &e[rows.start * c..rows.end * c];
        let path = viterbi(&round(e), &round(&transitions), &round(&start), &round(&end));
        let at = |t: usize| path[t] as usize;
        let mut score = start[at(0)] + end[at(path.len() - 1)];
        score += (0..path.len()).map(|t| e[t * c + at(t)]).sum::<f64>();
        score += (1..path.len()).map(|t| transitions[at(t - 1) * c + at(t)]).sum::<f64>();
        scores.push(score);
        paths.extend(path);
    }
    let best = ids(case, "viterbi");
    if paths != best {
        faults.push(format!("the best path is {best:?}, viterbi says {paths:?}"));
    }
    let expected = case.array("viterbi_score").1;
    faults.extend(compare("viterbi_score", &scores, &expected, 2 * longest + 2, 1.0));
    Ok(faults)
}

fn optimiser<T: Real>(case: &Case) -> Result<Faults, NnError> {
    let scalar = |key| case.scalar(key);
    let (lr, weight_decay) = (scalar("lr"), scalar("weight_decay"));
    let config = match case.name() {
        "optimiser_sgd" | "optimiser_sgd_momentum" => {
            OptimiserConfig::Sgd { momentum: scalar("momentum"), weight_decay }
        }
        name @ ("optimiser_adam" | "optimiser_adamw") => {
            let (beta1, beta2, eps) = (scalar("beta1"), scalar("beta2"), scalar("eps"));
            if name == "optimiser_adam" {
                OptimiserConfig::Adam { beta1, beta2, eps, weight_decay }
            } else {
                OptimiserConfig::Adamw { beta1, beta2, eps, weight_decay }
            }
        }
        other => panic!("{other} has no counterpart"),
    };
    config.check()?;
    let round = |data: Vec<f64>| data.into_iter().map(T::from_f64).collect::<Vec<T>>();
    let initial = case.array("initial").1;
    let n = initial.len();
    let (gradients, parameters) = (case.array("gradients").1, case.array("parameters").1);
    let scale = largest(&gradients).max(largest(&initial)).max(1.0);
    let mut state = round(initial);
    let mut optimiser = Optimiser::<T>::new(config, n);
    let mut faults = Vec::new();
    for (step, (g, expected)) in gradients.chunks(n).zip(parameters.chunks(n)).enumerate() {
        optimiser.step(&mut state, &round(g.to_vec()), lr);
        // Two averages of two products each, a root, a quotient and two sums: ten a step.
        let name = format!("parameters after step {}", step + 1);
        faults.extend(compare(&name, &state, expected, 10 * (step + 1), scale));
    }
    assert_eq!(optimiser.steps() as usize, gradients.len() / n);
    Ok(faults)
}

#[expect(clippy::unnecessary_wraps, reason = "the families' tests have one type")]
fn clip_norm<T: Real>(case: &Case) -> Result<Faults, NnError> {
    let both = |a: &str, b: &str| [case.array(a).1, case.array(b).1].concat();
    let given = both("gradient_0", "gradient_1");
    let expected = both("clipped_0", "clipped_1");
    let norm = case.array("norm").1;
    let mut flat: Vec<T> = given.iter().map(|x| T::from_f64(*x)).collect();
    let terms = given.len();
    let before = global_norm(&flat);
    let mut faults = compare("norm", &[T::from_f64(before)], &norm, terms, 1.0);
    let told = clip(&mut flat, case.scalar("max_norm"));
    assert_eq!(told.to_bits(), before.to_bits(), "clip tells the norm before");
    faults.extend(compare("clipped", &flat, &expected, terms, largest(&given)));
    Ok(faults)
}

#[expect(clippy::unnecessary_wraps, reason = "the families' tests have one type")]
fn schedule(case: &Case) -> Result<Faults, NnError> {
    let warmup = case.size("warmup") as u64;
    let (schedule, peak) = match case.name() {
        "schedule_noam" => {
            let peak = (case.scalar("d_model") * case.scalar("warmup")).powf(-0.5);
            (Schedule::InverseSqrt { warmup }, peak)
        }
        "schedule_inverse_sqrt" => (Schedule::InverseSqrt { warmup }, case.scalar("peak")),
        "schedule_cosine" => {
            let (peak, floor) = (case.scalar("peak"), case.scalar("floor") / case.scalar("peak"));
            (Schedule::Cosine { warmup, total: case.size("total") as u64, floor }, peak)
        }
        other => panic!("{other} has no counterpart"),
    };
    let rates: Vec<f64> =
        case.sizes("steps").iter().map(|step| peak * schedule.factor(*step as u64)).collect();
    // A handful of products, a root or a cosine; the rates are of the order of the peak.
    let bound = Bound::f64(10, peak);
    let fault = close_each(&rates, &case.array("lr").1, |_| bound).err();
    Ok(fault.into_iter().collect())
}

/// Our names and PyTorch's.
const NAMES: [(&str, &str); 12] = [
    ("attention.qkv.weight", "self_attn.in_proj_weight"),
    ("attention.qkv.bias", "self_attn.in_proj_bias"),
    ("attention.output.weight", "self_attn.out_proj.weight"),
    ("attention.output.bias", "self_attn.out_proj.bias"),
    ("inner.weight", "linear1.weight"),
    ("inner.bias", "linear1.bias"),
    ("outer.weight", "linear2.weight"),
    ("outer.bias", "linear2.bias"),
    ("norm1.gain", "norm1.weight"),
    ("norm1.bias", "norm1.bias"),
    ("norm2.gain", "norm2.weight"),
    ("norm2.bias", "norm2.bias"),
];

fn transformer<T: Real>(case: &Case) -> Result<Faults, NnError> {
    assert_eq!(case.scalar("eps"), 1e-5, "the operator's ε is fixed");
    let (x_shape, x) = case.array("x");
    let config = TransformerLayerConfig {
        attention: AttentionConfig {
            d_model: x_shape[1],
            n_heads: case.size("n_heads"),
            score: ScoreKind::ScaledDot,
            scope: ScopeConfig::default(),
            rotary: None,
            dropout: 0.0,
        },
        d_ff: case.array("linear1.bias").0[0],
        activation: activation(case.text("activation")),
        norm: if case.text("norm") == "pre" { Norm::Before } else { Norm::After },
        dropout: 0.0,
    };
    let mut specs = ParamSpecs::new();
    let layer = TransformerLayer::new(&mut specs, "layer", config)?;
    let mut params = Params::<T>::new(specs, 0);
    let list: Vec<_> = params.specs().to_vec();
    assert_eq!(list.len(), NAMES.len(), "every parameter has a counterpart");
    let theirs = |spec: &regard_nn::ParamSpec| {
        let ours = spec.name.strip_prefix("layer.").expect("the layer's scope");
        let found = NAMES.iter().find(|(name, _)| *name == ours);
        found.unwrap_or_else(|| panic!("{ours} has no counterpart")).1
    };
    let mut scale = largest(&x).max(1.0);
    for spec in &list {
        let (shape, data) = case.array(theirs(spec));
        assert_eq!(spec.shape[..], shape[..], "{}", spec.name);
        scale = scale.max(largest(&data));
        for (to, from) in params.flat_mut()[spec.range()].iter_mut().zip(&data) {
            *to = T::from_f64(*from);
        }
    }

    let items = Ragged::new(&case.sizes("lengths"));
    let mut tape = Tape::new(&params, Mode::Gradient);
    let input = tape.input(tensor(&x_shape, &x));
    let (y, _) = layer.forward(&mut tape, input, &items, false)?;
    // Two norms of four sums, the projections and products of attention, two linear maps, there
    // and back: thirty-two sums, none longer than the rows of the fused projection.
    let terms = 32 * 18;
    let mut faults = compare("y", tape.value(y).data(), &case.array("y").1, terms, scale);
    let (dy_shape, dy) = case.array("dy");
    let mut flat = vec![T::ZERO; params.flat_len()];
    let gradients = tape.backward_from(y, tensor(&dy_shape, &dy), &mut flat);
    let dx = gradients.of(input).expect("x has a gradient");
    faults.extend(compare("d_x", dx.data(), &case.array("d_x").1, terms, scale));
    for spec in &list {
        let name = format!("d_{}", theirs(spec));
        faults.extend(compare(&name, &flat[spec.range()], &case.array(&name).1, terms, scale));
    }
    Ok(faults)
}
