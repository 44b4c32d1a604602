//! Timing the steps of a case.

use std::time::{Duration, Instant};

use regard_nn::optim::Optimiser;
use regard_nn::{Mode, NnError, OperatorTimes, ParamSpecs, Params, Tape};
use regard_tensor::buffer::{blocks_from_system, trim_pool};
use regard_tensor::memory::{self, Taken};
use regard_tensor::{Buffer, Key, parallel, peak, simd};
use serde::Serialize;

use super::cases::TrainCase;
use super::data::{Batch, Work};
use super::model::Model;
use super::{ADAM, LEARNING_RATE, SEED};

/// Steps that are timed at least, after the first, which warms up.
const TIMED: usize = 3;

/// Further steps in which the operators are timed.
const SPLIT: usize = 3;

/// Seconds of a step's parts, each the median over the timed steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PhaseLine {
    /// Forward with the loss.
    pub forward: f64,
    /// Gradients set to zero, and backward.
    pub backward: f64,
    /// The update.
    pub optimiser: f64,
}

/// Seconds that a kind of operator takes in a step, in mean over steps of their own.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OperatorLine {
    /// `linear`, `attention`, ….
    pub name: &'static str,
    /// In forward.
    pub forward: f64,
    /// In backward.
    pub backward: f64,
    /// How many there are.
    pub calls: usize,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainLine {
    /// `regard`.
    #[serde(rename = "impl")]
    pub implementation: &'static str,
    /// Version of the toolkit.
    pub version: &'static str,
    /// How it is computed; there is one way.
    pub path: &'static str,
    /// What is trained.
    pub case: TrainCase,
    /// Number of trained values.
    pub parameters: usize,
    /// The loss before each update.
    pub losses: Vec<f64>,
    /// Steps that were timed.
    pub steps: usize,
    /// Median over the timed steps.
    pub seconds_median: f64,
    /// The fastest step.
    pub seconds_min: f64,
    /// The slowest step.
    pub seconds_max: f64,
    /// Tokens a second, in median over the timed steps.
    pub tokens_per_s: f64,
    /// By the slowest.
    pub tokens_per_s_min: f64,
    /// By the fastest.
    pub tokens_per_s_max: f64,
    /// Operations of matrix products a second, by the median step ([`TrainCase::operations`]).
    pub gflops: f64,
    /// That, as a fraction of [`TrainLine::peak_gflops`].
    pub peak_fraction: f64,
    /// What the threads reach by multiply-adds in registers, measured in the same run.
    pub peak_gflops: f64,
    /// The parts of a step.
    pub phases: PhaseLine,
    /// Kinds of operators, the slowest first.
    pub operators: Vec<OperatorLine>,
    /// Resident memory before there was a model, where the system tells.
    pub resident_before_bytes: Option<usize>,
    /// The most resident memory while the steps ran, where the system tells.
    pub resident_peak_bytes: Option<usize>,
    /// Blocks taken from the allocator in a timed step, in median; 0 where the program does not count
    /// them.
    pub blocks_per_step: usize,
    /// Their bytes, in median.
    pub bytes_per_step: usize,
    /// Blocks that the pool of arrays took from the system after the first step, in all timed steps together.
    pub pool_blocks_after_first: usize,
    /// Number of threads.
    pub threads: usize,
    /// SIMD level in use.
    pub simd: &'static str,
}

/// A model in training.
struct Training {
    model: Model,
    params: Params<f32>,
    grads: Buffer<f32>,
    optimiser: Optimiser<f32>,
}

/// What a step took.
#[derive(Debug, Clone, Copy)]
struct Step {
    loss: f64,
    forward: Duration,
    backward: Duration,
    optimiser: Duration,
    taken: Taken,
}

impl Training {
    fn new(case: &TrainCase) -> Result<Self, NnError> {
        let mut specs = ParamSpecs::new();
        let model = Model::new(&mut specs, case)?;
        let params = Params::new(specs, SEED);
        let len = params.flat_len();
        Ok(Self { model, params, grads: Buffer::zeroed(len), optimiser: Optimiser::new(ADAM, len) })
    }

    fn step(&mut self, batch: &Batch, times: Option<&mut OperatorTimes>) -> Result<Step, NnError> {
        let before = memory::taken_so_far();
        let begin = Instant::now();
        let key = Key::new(SEED).child(self.optimiser.steps());
        let mut tape = Tape::new(&self.params, Mode::Training(key));
        if let Some(times) = times {
            tape.time_into(times);
        }
        let loss = self.model.loss(&mut tape, batch)?;
        let value = f64::from(tape.value(loss).data()[0]);
        let forward = Instant::now();
        self.grads.fill(0.0);
        tape.backward(loss, &mut self.grads);
        let backward = Instant::now();
        self.optimiser.step(self.params.flat_mut(), &self.grads, LEARNING_RATE);
        let end = Instant::now();
        let after = memory::taken_so_far();
        Ok(Step {
            loss: value,
            forward: forward - begin,
            backward: backward - forward,
            optimiser: end - backward,
            taken: Taken {
                blocks: after.blocks - before.blocks,
                bytes: after.bytes - before.bytes,
            },
        })
    }
}

/// Trains a case for `steps` steps, or until `budget` is over, at least four; then a few more, in which
/// the operators are timed.
///
/// # Errors
/// The training core refuses.
pub fn measure_training(
    work: &Work,
    steps: usize,
    budget: Option<Duration>,
) -> Result<TrainLine, NnError> {
    let Work { case, batches } = work;
    let threads = parallel::threads();
    let before = peak::multiply_add_peak(threads);
    let mut turn = batches.iter().cycle();
    let mut next = || turn.next().expect("there are batches");
    trim_pool();
    memory::forget_resident_peak();
    let resident = memory::resident();
    let mut training = Training::new(case)?;

    let least = TIMED + 1;
    let mut done = Vec::with_capacity(steps.max(least));
    let begin = Instant::now();
    done.push(training.step(next(), None)?);
    let pool_blocks = blocks_from_system();
    while done.len() < least
        || (done.len() < steps && budget.is_none_or(|budget| begin.elapsed() < budget))
    {
        done.push(training.step(next(), None)?);
    }
    let pool_blocks_after_first = blocks_from_system() - pool_blocks;
    let peak_resident = memory::resident();

    // Again: the clock of a processor that did nothing before may have been low.
    let peak_gflops = before.max(peak::multiply_add_peak(threads));
    let mut times = OperatorTimes::new();
    for _ in 0..SPLIT {
        training.step(next(), Some(&mut times))?;
    }
    let timed = &done[1..];
    let of = |part: fn(&Step) -> Duration| sorted(timed.iter().map(|s| part(s).as_secs_f64()));
    let seconds = of(|step| step.forward + step.backward + step.optimiser);
    let (fastest, slowest) = (seconds[0], seconds[seconds.len() - 1]);
    // Batches may be of different sizes: every step has a speed of its own.
    let batch = |step: usize| &batches[step % batches.len()];
    let rates = |of: &dyn Fn(&Batch) -> usize| {
        let of_step = |(i, step): (usize, &Step)| {
            let seconds = step.forward + step.backward + step.optimiser;
            of(batch(i + 1)) as f64 / seconds.as_secs_f64()
        };
        sorted(timed.iter().enumerate().map(of_step))
    };
    let speeds = rates(&|batch| batch.labels.len());
    let gflops = median(&rates(&|batch| case.operations(&batch.ids))) / 1e9;
    let memory_of = |part: fn(&Step) -> usize| {
        median(&sorted(timed.iter().map(|step| part(step) as f64))) as usize
    };
    Ok(TrainLine {
        implementation: "regard",
        version: env!("CARGO_PKG_VERSION"),
        path: "native",
        case: *case,
        parameters: training.params.count(),
        losses: done.iter().map(|step| step.loss).collect(),
        steps: timed.len(),
        seconds_median: median(&seconds),
        seconds_min: fastest,
        seconds_max: slowest,
        tokens_per_s: median(&speeds),
        tokens_per_s_min: speeds[0],
        tokens_per_s_max: speeds[speeds.len() - 1],
        gflops,
        peak_fraction: gflops / peak_gflops,
        peak_gflops,
        phases: PhaseLine {
            forward: median(&of(|step| step.forward)),
            backward: median(&of(|step| step.backward)),
            optimiser: median(&of(|step| step.optimiser)),
        },
        operators: operators(&times),
        resident_before_bytes: resident.map(|memory| memory.now_bytes),
        resident_peak_bytes: peak_resident.map(|memory| memory.peak_bytes),
        blocks_per_step: memory_of(|step| step.taken.blocks),
        bytes_per_step: memory_of(|step| step.taken.bytes),
        pool_blocks_after_first,
        threads,
        simd: simd::level().name(),
    })
}

pub(super) fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The middle of sorted values.
pub(super) fn median(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2])
}

fn operators(times: &OperatorTimes) -> Vec<OperatorLine> {
    let line = |(name, time): (&'static str, regard_nn::OperatorTime)| OperatorLine {
        name,
        forward: time.forward.as_secs_f64() / SPLIT as f64,
        backward: time.backward.as_secs_f64() / SPLIT as f64,
        calls: time.calls / SPLIT,
    };
    times.kinds().into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::cases::chosen;
    use super::*;

    #[test]
    fn every_model_learns_in_a_few_steps() {
        let small = chosen(&["small".into()], &[]).unwrap()[0];
        for model in super::super::TrainModel::ALL {
            let case = TrainCase { model, n_words: 8, n_labels: 4, batch: 4, length: 8, ..small };
            let line = measure_training(&Work::drawn(case), 60, None).unwrap();
            assert_eq!((line.losses.len(), line.steps), (60, 59), "{model:?}");
            let [first, last] = [&line.losses[..10], &line.losses[50..]];
            let gain = (first.iter().sum::<f64>() - last.iter().sum::<f64>()) / 10.0;
            // Both are means over the same ten batches.
            assert!(gain > 0.01, "{model:?}: {:?}", line.losses);
            let PhaseLine { forward, backward, optimiser } = line.phases;
            assert!(forward.min(backward).min(optimiser) > 0.0, "{model:?}");
            assert!(line.operators.iter().any(|o| o.name == "linear" && o.backward > 0.0));
            assert!(line.tokens_per_s_min <= line.tokens_per_s);
            assert!(line.tokens_per_s <= line.tokens_per_s_max);
        }
    }

    #[test]
    fn a_budget_ends_it_after_the_least_steps() {
        let case = chosen(&["small".into()], &[]).unwrap()[0];
        let line = measure_training(&Work::drawn(case), 50, Some(Duration::ZERO)).unwrap();
        assert_eq!(line.losses.len(), TIMED + 1);
    }

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&sorted([3.0, 1.0, 2.0].into_iter())), 2.0);
        assert_eq!(median(&[1.0, 2.0]), 1.5);
    }
}
