//! Where the time of a step goes, by operator.

use std::panic::Location;
use std::time::{Duration, Instant};

/// What one kind of operator took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OperatorTime {
    /// Time in forward, with what the layers around it did since the operator before.
    pub forward: Duration,
    /// Time in backward.
    pub backward: Duration,
    /// How many times it was computed.
    pub calls: usize,
}

/// The times of all operators of the tapes that were told to write them down
/// ([`Tape::time_into`](crate::Tape::time_into)).
///
/// An operator's kind is the file under `ops/` that it stands in: `linear`, `attention`, ….
#[derive(Debug, Clone)]
pub struct OperatorTimes {
    since: Instant,
    kinds: Vec<(&'static str, OperatorTime)>,
}

impl OperatorTimes {
    /// Nothing measured yet.
    pub fn new() -> Self {
        Self { since: Instant::now(), kinds: Vec::new() }
    }

    /// The kinds with their times, the slowest first.
    pub fn kinds(&self) -> Vec<(&'static str, OperatorTime)> {
        let mut kinds = self.kinds.clone();
        kinds.sort_by_key(|(_, time)| std::cmp::Reverse(time.forward + time.backward));
        kinds
    }

    /// Begins to count from now.
    pub(crate) fn start(&mut self) {
        self.since = Instant::now();
    }

    /// The operator recorded at `place` was computed since the last call.
    pub(crate) fn forward(&mut self, place: &'static Location<'static>) {
        let (lap, time) = self.lap(place);
        time.forward += lap;
        time.calls += 1;
    }

    /// Its gradient was computed since the last call.
    pub(crate) fn backward(&mut self, place: &'static Location<'static>) {
        let (lap, time) = self.lap(place);
        time.backward += lap;
    }

    fn lap(&mut self, place: &'static Location<'static>) -> (Duration, &mut OperatorTime) {
        let now = Instant::now();
        let lap = now - std::mem::replace(&mut self.since, now);
        let kind = kind_of(place.file());
        let at = self.kinds.iter().position(|(name, _)| *name == kind).unwrap_or_else(|| {
            self.kinds.push((kind, OperatorTime::default()));
            self.kinds.len() - 1
        });
        (lap, &mut self.kinds[at].1)
    }
}

impl Default for OperatorTimes {
    fn default() -> Self {
        Self::new()
    }
}

/// The name of the file or of its folder.
fn kind_of(file: &'static str) -> &'static str {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let path = path.strip_suffix("mod").map_or(path, |folder| folder.trim_end_matches(['/', '\\']));
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use regard_tensor::Tensor;

    use super::*;
    use crate::layers::Linear;
    use crate::{Mode, ParamSpecs, Params, Tape};

    #[test]
    fn kinds_are_files_and_folders() {
        assert_eq!(kind_of("crates/regard-nn/src/ops/linear.rs"), "linear");
        assert_eq!(kind_of("crates/regard-nn/src/ops/align/mod.rs"), "align");
        assert_eq!(kind_of("src\\ops\\align\\mod.rs"), "align");
    }

    #[test]
    fn every_operator_is_counted_and_gradients_stay() {
        let mut specs = ParamSpecs::new();
        let layers = ["a", "b"].map(|name| Linear::new(&mut specs, name, 3, 3));
        let params = Params::<f64>::new(specs, 1);
        let gradient = |times: Option<&mut OperatorTimes>| {
            let mut tape = Tape::new(&params, Mode::Gradient);
            if let Some(times) = times {
                tape.time_into(times);
            }
            let x = Tensor::from_slice(&[2, 3], &[0.3, -0.2, 0.5, 0.1, 0.7, -0.4]).unwrap();
            let mut x = tape.constant(x);
            for layer in &layers {
                x = layer.forward(&mut tape, x).unwrap();
            }
            let loss = tape.cross_entropy(x, &[0, 2], 0.0).unwrap();
            let mut flat = vec![0.0; params.flat_len()];
            tape.backward(loss, &mut flat);
            flat
        };
        let mut times = OperatorTimes::new();
        assert_eq!(gradient(Some(&mut times)), gradient(None));
        let mut calls: Vec<_> = times.kinds().iter().map(|(k, t)| (*k, t.calls)).collect();
        calls.sort_unstable();
        assert_eq!(calls, [("cross_entropy", 1), ("linear", 2)]);
        assert!(times.kinds().iter().all(|(_, t)| !t.forward.is_zero() && !t.backward.is_zero()));
    }
}
