//! How a training goes: a bar on a terminal, plain lines elsewhere, JSON lines where asked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use regard::report::{EvalRecord, StepRecord};
use regard::tasks::training::Observer;
use serde_json::json;

use crate::output::{print_json, tell};
use crate::text::{count, duration, figure, number, unit};

/// Steps between two plain lines.
const LINE_EVERY: u64 = 200;

/// Hears a training and shows it.
pub(crate) struct Progress<'a> {
    sink: Sink,
    /// Set when the reader of the JSON lines has gone.
    stop: &'a AtomicBool,
    fault: Option<anyhow::Error>,
    began: Instant,
    /// Steps done before this process began, and all that are planned.
    first: u64,
    total: u64,
    /// Tokens and steps since it began.
    tokens: usize,
    steps: u64,
    /// Loss, smoothed over some ten batches, so that it can be read while it moves.
    loss: Option<f64>,
    rate: Option<f64>,
    dev: String,
}

enum Sink {
    Bar(ProgressBar),
    Lines,
    Json,
}

impl<'a> Progress<'a> {
    /// An observer that has heard nothing. `stop` is set when JSON lines can no longer be written.
    pub(crate) fn new(json: bool, stop: &'a AtomicBool) -> Self {
        Self {
            sink: if json { Sink::Json } else { Sink::Lines },
            stop,
            fault: None,
            began: Instant::now(),
            first: 0,
            total: 0,
            tokens: 0,
            steps: 0,
            loss: None,
            rate: None,
            dev: String::new(),
        }
    }

    /// Clears the bar. Gives back why the JSON lines could not be written.
    pub(crate) fn finish(&mut self) -> Option<anyhow::Error> {
        if let Sink::Bar(bar) = &self.sink {
            bar.finish_and_clear();
        }
        self.fault.take()
    }

    fn say(&self, text: &str) {
        match &self.sink {
            Sink::Bar(bar) => bar.suspend(|| tell(text)),
            Sink::Lines | Sink::Json => tell(text),
        }
    }

    fn json<T: serde::Serialize + ?Sized>(&mut self, kind: &str, data: &T) {
        if let (Sink::Json, None) = (&self.sink, &self.fault)
            && let Err(error) = print_json(kind, data)
        {
            self.fault = Some(error);
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn time_left(&self, step: u64) -> String {
        let per_step = self.began.elapsed().as_secs_f64() / self.steps.max(1) as f64;
        duration(per_step * self.total.saturating_sub(step) as f64) + " left"
    }
}

impl Observer for Progress<'_> {
    fn begin(&mut self, model: &str, n_parameters: usize, done: u64, total: u64) {
        self.began = Instant::now();
        (self.first, self.total) = (done, total);
        self.json(
            "begin",
            &json!({"model": model, "n_parameters": n_parameters, "step": done, "total_steps": total}),
        );
        if matches!(self.sink, Sink::Json) {
            return;
        }
        let from = if done == 0 { String::new() } else { format!(", going on at step {done}") };
        let total_steps = count(total, "step");
        self.say(&format!("{model}: {n_parameters} parameters, {total_steps}{from}"));
        let bar = ProgressBar::new(total).with_position(done);
        if !bar.is_hidden() {
            let style = ProgressStyle::with_template("{bar:20} {pos}/{len}  {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            self.sink = Sink::Bar(bar);
        }
    }

    fn step(&mut self, step: u64, epoch: u64, tokens: usize, loss: f64) {
        self.steps = step - self.first;
        self.tokens += tokens;
        self.loss = Some(self.loss.map_or(loss, |old| 0.9 * old + 0.1 * loss));
        if let Sink::Bar(bar) = &self.sink {
            let seconds = self.began.elapsed().as_secs_f64().max(1e-9);
            let rate = self.rate.unwrap_or(self.tokens as f64 / seconds);
            let loss = self.loss.unwrap_or(loss);
            bar.set_position(step);
            bar.set_message(format!(
                "epoch {epoch}  loss {loss:.3}  {rate:.0} tokens/s{}  {}",
                self.dev,
                self.time_left(step)
            ));
        }
    }

    fn logged(&mut self, record: &StepRecord) {
        self.json("step", record);
        self.rate = Some(record.tokens_per_s);
        if matches!(self.sink, Sink::Lines) && record.step.is_multiple_of(LINE_EVERY) {
            tell(&format!(
                "step {}/{} (epoch {}): loss {:.3}, {:.0} tokens/s, {}",
                record.step,
                self.total,
                record.epoch,
                self.loss.unwrap_or(record.loss),
                record.tokens_per_s,
                self.time_left(record.step)
            ));
        }
    }

    fn evaluated(&mut self, record: &EvalRecord, is_best: bool) {
        self.json("eval", record);
        // What the task is about, where there are several figures.
        let main = ["span_f1", "accuracy", "bleu", "loss"];
        let main = main.iter().find_map(|key| Some((key, record.metrics.get(*key)?)));
        if let Some((key, value)) = main {
            let name = figure(key);
            self.dev = format!("  {} {name} {}{}", record.split, number(key, *value), unit(key));
        }
        if matches!(self.sink, Sink::Json) {
            return;
        }
        let figures = record.metrics.iter();
        let figures: Vec<String> = figures
            .map(|(key, value)| format!("{} {}{}", figure(key), number(key, *value), unit(key)))
            .collect();
        let best = if is_best { " (best so far)" } else { "" };
        self.say(&format!(
            "epoch {}, step {}: {} {}{best}",
            record.epoch,
            record.step,
            record.split,
            figures.join(", ")
        ));
    }

    fn sample(&mut self, text: &str) {
        self.json("sample", text);
        if !matches!(self.sink, Sink::Json) {
            self.say(&format!("  {}", text.replace('\n', "\n  ")));
        }
    }

    fn note(&mut self, text: &str) {
        self.json("note", text);
        self.say(&format!("note: {text}"));
    }
}
