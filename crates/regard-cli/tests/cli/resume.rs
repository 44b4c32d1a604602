//! A run that was stopped in whatever way, and resumed, ends with the bits of one left alone.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use regard::report::{RunSummary, StopReason};
use regard::tasks::TaskError;
use regard::tasks::run::RunFolder;
use regard::tasks::tag;
use regard::tasks::training::{Observer, Silent};
use regard::tasks::translate::reversal::{ReversalSettings, reversal};
use regard::tasks::translate::{self, ModelKind};

use crate::support::{Done, TINY, arrays, data, metrics_without_times, regard, run, widths, words};
use crate::translate_support::parallel;

/// Everything that a checkpoint must hold is in use: Adam, a running average, dropout of all
/// kinds, word dropout, an evaluation after each epoch and checkpoints in between.
const RUN: &str = "train tag --model bilstm --train {}/train.conllu --dev {}/dev.conllu --epochs 25 \
    --set model.word_dim=8 --set model.char_dim=4 --set model.char_hidden=4 --set model.hidden=8 \
    --set model.layers=2 --set train.batch_tokens=40 --set train.lr=0.01 --set train.warmup=5 \
    --set train.average=0.9 --set train.weight_decay=0.01 --set train.checkpoint_every=3";

/// The same for a translator, with gradients of two batches in a step and the decoder's own choices.
const TRANSLATE: &str = "train translate --model seq2seq --train {}/train.de {}/train.en \
    --dev {}/dev.de {}/dev.en --epochs 12 --tokens bpe --set data.vocab_size=280 \
    --set model.embedding=8 --set model.hidden=8 --set model.dropout=0.2 --set train.batch_tokens=300 \
    --set train.accumulate=2 --set train.lr=0.01 --set train.warmup=5 --set train.average=0.9 \
    --set train.scheduled_sampling=0.3 --set train.checkpoint_every=3";

struct Stage {
    folder: TempDir,
    /// How a run begins.
    begin: &'static str,
    /// How long the run left alone took.
    took: Duration,
}

impl Stage {
    /// Trains `alone`, which nothing disturbs.
    fn new() -> Self {
        Self::of(data(), RUN)
    }

    fn of(folder: TempDir, begin: &'static str) -> Self {
        let began = Instant::now();
        run(folder.path(), &format!("{begin} --out {{}}/alone")).ok();
        Self { folder, begin, took: began.elapsed() }
    }

    /// `tag` or `translate`.
    fn task(&self) -> &'static str {
        self.begin.split_whitespace().nth(1).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Begins the run `name`, or goes on with it where it has begun.
    fn command(&self, name: &str) -> Command {
        let line = if self.path(name).join("config.toml").exists() {
            format!("train {} --resume --out {{}}/{name}", self.task())
        } else {
            format!("{} --out {{}}/{name}", self.begin)
        };
        let mut command = regard(words(self.folder.path(), &line));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Goes on until the end, and compares.
    fn finish(&self, name: &str) {
        let done = Done::from(self.command(name).output().unwrap());
        assert_eq!(done.code, Some(0), "{done:?}");
        let (alone, stopped) = (self.path("alone"), self.path(name));
        for file in ["model.safetensors", "last.safetensors"] {
            assert_eq!(arrays(&stopped.join(file)), arrays(&alone.join(file)), "{name} {file}");
        }
        assert_eq!(metrics_without_times(&stopped), metrics_without_times(&alone), "{name}");
        let names = |run: &Path| {
            let entries = fs::read_dir(run).unwrap().map(|e| e.unwrap().file_name());
            let mut names: Vec<_> = entries.collect();
            names.sort();
            names
        };
        assert_eq!(names(&stopped), names(&alone), "{name}: something was left behind");
    }

    /// What is there can be used at any moment.
    fn check_files(&self, name: &str) {
        for file in ["model.safetensors", "last.safetensors"] {
            let path = self.path(name).join(file);
            if path.exists() {
                arrays(&path);
            }
        }
    }
}

fn wait_for(path: &Path, child: &mut Child) {
    let began = Instant::now();
    while fs::metadata(path).map_or(0, |m| m.len()) == 0 {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        assert!(began.elapsed() < Duration::from_secs(60), "{} never came", path.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn killed_at_random_moments() {
    kill_at_random_moments(&Stage::new());
}

#[test]
fn a_translator_killed_at_random_moments() {
    kill_at_random_moments(&Stage::of(parallel(), TRANSLATE));
}

fn kill_at_random_moments(stage: &Stage) {
    // Another sequence of moments each time; the seed is told so that a failure can be repeated.
    let seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(1, |d| d.as_nanos() as u64);
    let mut state = seed;
    let mut kills = 0;
    for _ in 0..8 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let part = (state >> 33) as f64 / (1u64 << 31) as f64;
        let mut child = stage.command("killed").spawn().unwrap();
        std::thread::sleep(stage.took.mul_f64(0.2 * part));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        kills += usize::from(status.code().is_none());
        stage.check_files("killed");
    }
    assert!(kills > 1, "the run ended before it was killed twice (seed {seed})");
    stage.finish("killed");
}

#[test]
fn killed_in_the_middle_of_a_write() {
    kill_in_the_middle_of_a_write(&Stage::new());
}

#[test]
fn a_translator_killed_in_the_middle_of_a_write() {
    kill_in_the_middle_of_a_write(&Stage::of(parallel(), TRANSLATE));
}

fn kill_in_the_middle_of_a_write(stage: &Stage) {
    // The first writes are vocabularies and settings, the later ones checkpoints, best weights
    // and curves; a resumed process counts anew.
    for n in [1, 3, 5, 6, 9, 2, 12, 1, 4, 7] {
        let output =
            stage.command("torn").env("REGARD_TEST_ABORT_WRITE", n.to_string()).output().unwrap();
        assert_eq!(output.status.code(), None, "write {n} was not reached: {output:?}");
        stage.check_files("torn");
    }
    stage.finish("torn");
}

#[test]
fn interrupted_by_the_user() {
    // Under nohup the signals keep their meaning, see `signals.rs`.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    if ignored.is_some_and(|mask| mask & 1 == 1) {
        return;
    }
    let stage = Stage::new();
    // Twice at once, to a process and to its group, is once.
    for (signal, times) in [("-INT", 1), ("-TERM", 1), ("-INT", 2)] {
        let name = format!("interrupted{signal}{times}");
        let mut child = stage.command(&name).spawn().unwrap();
        wait_for(&stage.path(&name).join("metrics.jsonl"), &mut child);
        let processes = vec![child.id().to_string(); times];
        let kill = Command::new("kill").arg(signal).args(processes).status().unwrap();
        assert!(kill.success());
        let done = Done::from(child.wait_with_output().unwrap());
        assert_eq!(done.code, Some(130), "{done:?}");
        let line = format!("  regard train tag --resume --out {}\n", stage.path(&name).display());
        assert!(done.err.ends_with(&line), "{}", done.err);
        assert!(done.out.starts_with("bilstm: interrupted after "), "{}", done.out);
        stage.finish(&name);
    }
}

/// Stops a training when it has taken a step.
struct StopAt<'a> {
    step: u64,
    stop: &'a AtomicBool,
}

impl Observer for StopAt<'_> {
    fn step(&mut self, step: u64, _: u64, _: usize, _: f64) {
        self.stop.store(step == self.step, Ordering::Relaxed);
    }
}

type Resume = fn(&Path, &AtomicBool, &mut dyn Observer) -> Result<RunSummary, TaskError>;

#[test]
fn an_interruption_during_the_scores_of_an_epoch_is_heeded_and_resumed() {
    let files = ["config.toml", "words.tsv", "chars.tsv", "labels.tsv", "seen.tsv"];
    interrupt_during_scores(&Stage::new(), &files, tag::resume);
}

#[test]
fn an_interruption_during_the_scores_of_a_translator_is_heeded_and_resumed() {
    let stage = Stage::of(parallel(), TRANSLATE);
    interrupt_during_scores(&stage, &["config.toml", "tokenizer.json"], translate::resume);
}

fn interrupt_during_scores(stage: &Stage, files: &[&str], resume: Resume) {
    // A run that was killed before its first checkpoint.
    let path = stage.path("stopped");
    fs::create_dir(&path).unwrap();
    for file in files {
        fs::copy(stage.path("alone").join(file), path.join(file)).unwrap();
    }
    let evals = metrics_without_times(&stage.path("alone"));
    let steps: Vec<u64> = evals.iter().filter(|e| e["type"] == "eval").map(step_of).collect();
    // At the end of the second epoch, and at that of the last.
    for step in [steps[1], steps[steps.len() - 1]] {
        let stop = AtomicBool::new(false);
        let summary: RunSummary = resume(&path, &stop, &mut StopAt { step, stop: &stop }).unwrap();
        assert_eq!((summary.stop, summary.steps), (StopReason::Interrupted, step));
        let logged = metrics_without_times(&path);
        assert!(logged.iter().all(|e| e["type"] != "eval" || step_of(e) < step), "{logged:?}");
    }
    stage.finish("stopped");
}

fn step_of(record: &serde_json::Value) -> u64 {
    record["data"]["step"].as_u64().unwrap()
}

#[test]
fn an_interruption_of_the_reversal_is_heeded_before_its_last_answers() {
    let settings = ReversalSettings { train: 50, ..ReversalSettings::default() };
    let stopped = reversal(ModelKind::Seq2seq, &settings, &AtomicBool::new(true), &mut Silent);
    assert!(matches!(stopped, Err(TaskError::Stopped)), "{stopped:?}");
}

#[test]
fn one_training_at_a_time_writes_into_a_folder() {
    let folder = data();
    let start = format!(
        "train tag --model fc --train {{}}/train.conllu --out {{}}/run --epochs 1000000 {TINY} {}",
        widths("fc")
    );
    let path = folder.path().join("run");
    let mut child = regard(words(folder.path(), &start)).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&path.join("metrics.jsonl"), &mut child);
    for line in ["train tag --resume --out {}/run", &start] {
        let err = run(folder.path(), line).fails();
        let message = format!("error: another training is writing into {};", path.display());
        assert!(err.contains(&message) && err.contains("wait until it has ended"), "{err}");
    }
    // Who only reads may do so, and a lock ends with its process.
    RunFolder::open(&path).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let first = RunFolder::go_on(&path).unwrap();
    assert!(matches!(RunFolder::go_on(&path), Err(TaskError::InUse(_))));
    drop(first);
    RunFolder::go_on(&path).unwrap();
}

#[test]
fn a_finished_run_stays_as_it_is() {
    let stage = Stage::new();
    let before = fs::read(stage.path("alone/last.safetensors")).unwrap();
    let out = Done::from(stage.command("alone").output().unwrap()).ok();
    assert!(out.starts_with("bilstm: finished after "), "{out}");
    assert_eq!(fs::read(stage.path("alone/last.safetensors")).unwrap(), before);
}

#[test]
fn json_lines_into_a_closed_pipe_stop_and_save() {
    let stage = Stage::new();
    let line = format!("{RUN} --out {{}}/piped --json");
    let mut child = regard(words(stage.folder.path(), &line))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    stage.finish("piped");
}
