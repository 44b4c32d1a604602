//! What a run needs to go on: its state, written to and read from `last.safetensors`.

use std::collections::BTreeMap;

use regard_nn::NnError;
use regard_nn::checkpoint::{Archive, CheckpointFault, Reader};
use serde::{Deserialize, Serialize};

use super::{FINGERPRINT, Learner, Trainer};
use crate::TaskError;
use crate::run::{RunFolder, files};

/// The part of a run's state that is no array.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// Steps taken.
    pub(super) step: u64,
    /// The current epoch, from 1.
    pub(super) epoch: u64,
    /// Batches of the epoch that are done.
    pub(super) batch: u64,
    /// Tokens trained on.
    pub(super) tokens: u64,
    /// Loss of the last step.
    #[serde(default)]
    pub(super) loss: f64,
    /// Best value of the kept metric; absent before the first evaluation.
    pub(super) best_value: Option<f64>,
    pub(super) best_step: u64,
    /// Epochs since then.
    pub(super) stale_epochs: u64,
    /// Seconds of training so far.
    pub(super) elapsed_s: f64,
    /// The last epoch is done, patience ran out, or time did.
    pub(super) finished: bool,
    pub(super) early: bool,
    #[serde(default)]
    pub(super) timed_out: bool,
    /// The figures of the best evaluation.
    pub(super) figures: BTreeMap<String, f64>,
}

impl Default for State {
    /// Before the first step.
    fn default() -> Self {
        Self {
            step: 0,
            epoch: 1,
            batch: 0,
            tokens: 0,
            loss: 0.0,
            best_value: None,
            best_step: 0,
            stale_epochs: 0,
            elapsed_s: 0.0,
            finished: false,
            early: false,
            timed_out: false,
            figures: BTreeMap::new(),
        }
    }
}

impl<L: Learner> Trainer<L> {
    pub(super) fn save_last(&self) -> Result<(), TaskError> {
        let Some(run) = &self.run else { return Ok(()) };
        let params = self.learner.params();
        let (first, second) = self.optimiser.state();
        let mut archive = Archive::new();
        archive.put("weights.", params, params.flat());
        archive.put("first.", params, first);
        if !second.is_empty() {
            archive.put("second.", params, second);
        }
        if let Some(average) = &self.average {
            archive.put("average.", params, average);
        }
        let state = toml::to_string(&self.state).unwrap_or_default();
        archive.texts.insert("state".into(), state);
        archive.texts.insert("format".into(), "regard-checkpoint".into());
        archive.texts.insert(FINGERPRINT.into(), self.learner.fingerprint(true));
        if let Some(log) = &self.log {
            log.sync()?;
        }
        Ok(archive.write(&run.file(files::LAST))?)
    }

    pub(super) fn restore(&mut self, run: &RunFolder) -> Result<(), TaskError> {
        let path = run.file(files::LAST);
        let mut file = Reader::<f32>::open(&path)?;
        if file.texts().get(FINGERPRINT) != Some(&self.learner.fingerprint(true)) {
            return Err(TaskError::Changed { folder: run.path().into(), file: files::LAST });
        }
        let fault = |text: String| NnError::Checkpoint {
            path: path.clone(),
            fault: CheckpointFault::State(text),
        };
        let text = file.texts().get("state").ok_or_else(|| fault("it is missing".into()))?;
        let state: State = toml::from_str(text).map_err(|e| fault(e.to_string()))?;
        let params = self.learner.params();
        let mut read = |prefix: &str| -> Result<Vec<f32>, TaskError> {
            let mut flat = vec![0.0; params.flat_len()];
            file.get(prefix, params.specs(), &mut flat)?;
            Ok(flat)
        };
        let weights = read("weights.")?;
        let first = read("first.")?;
        let adam = !self.optimiser.state().1.is_empty();
        let second = if adam { read("second.")? } else { Vec::new() };
        let average = self.average.is_some().then(|| read("average.")).transpose()?;
        self.learner.params_mut().flat_mut().copy_from_slice(&weights);
        self.optimiser.restore(&first, &second, state.step);
        if let (Some(place), Some(average)) = (&mut self.average, average) {
            place.copy_from_slice(&average);
        }
        self.state = state;
        Ok(())
    }
}
