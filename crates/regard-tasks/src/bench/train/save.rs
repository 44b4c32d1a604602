//! The start of a training as a file, for another program to start from.

use std::path::Path;

use regard_nn::checkpoint::{Archive, Array};
use regard_nn::{NnError, ParamSpecs, Params};
use serde_json::json;

use super::cases::TrainCase;
use super::data::{BATCHES, Batch, batches};
use super::model::Model;
use super::{BETA1, BETA2, EPS, LEARNING_RATE, SEED};

/// Writes the first weights (`weights.` and the name), the batches (`batches.words` and `batches.labels`,
/// `[batches, sentences, tokens]`; whole numbers, which an f32 holds exactly up to 2²⁴), the case's sizes and
/// the optimiser's constants (JSON texts `case` and `optimiser`) as a safetensors file.
///
/// # Errors
/// The file cannot be written.
pub fn save_start(case: &TrainCase, path: &Path) -> Result<(), NnError> {
    let mut specs = ParamSpecs::new();
    Model::new(&mut specs, case)?;
    let params = Params::<f32>::new(specs, SEED);
    let mut archive = Archive::new();
    archive.put("weights.", &params, params.flat());
    let batches = batches(case);
    let mut put = |name: &str, of: fn(&Batch) -> &[u32]| {
        let data = batches.iter().flat_map(of).map(|id| *id as f32).collect();
        let shape = vec![BATCHES, case.batch, case.length];
        archive.arrays.insert(name.into(), Array { shape, data });
    };
    put("batches.words", |batch| &batch.ids.words);
    put("batches.labels", |batch| &batch.labels);
    let mut sizes = json!(case);
    sizes["parameters"] = params.count().into();
    sizes["operations"] = case.operations().into();
    let optimiser = json!({ "lr": LEARNING_RATE, "betas": [BETA1, BETA2], "eps": EPS });
    archive.texts.insert("case".into(), sizes.to_string());
    archive.texts.insert("optimiser".into(), optimiser.to_string());
    archive.write(path)
}

#[cfg(test)]
mod tests {
    use super::super::cases::chosen;
    use super::*;

    #[test]
    fn a_start_holds_weights_batches_and_sizes() {
        let case = chosen(&["small".into()], &[]).unwrap()[0];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("small.safetensors");
        save_start(&case, &path).unwrap();
        let archive = Archive::<f32>::read(&path).unwrap();
        let words = &archive.arrays["batches.words"];
        assert_eq!(words.shape, [BATCHES, case.batch, case.length]);
        let labels = &archive.arrays["batches.labels"].data;
        assert!(words.data.iter().zip(labels).all(|(word, label)| word % 32.0 == *label));
        let sizes: serde_json::Value = serde_json::from_str(&archive.texts["case"]).unwrap();
        let weights = archive.arrays.iter().filter(|(name, _)| name.starts_with("weights."));
        let count: usize = weights.map(|(_, array)| array.data.len()).sum();
        assert_eq!(sizes["parameters"], count);
        assert_eq!(sizes["model"], "transformer");
    }
}
