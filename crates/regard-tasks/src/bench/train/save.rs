//! The start of a training as a file, for another program to start from.

use std::path::Path;

use regard_nn::checkpoint::{Archive, Array};
use regard_nn::{NnError, ParamSpecs, Params, Ragged};
use serde_json::json;

use super::data::{Batch, Work};
use super::model::Model;
use super::{BETA1, BETA2, EPS, LEARNING_RATE, SEED};

/// Writes the first weights (`weights.` and the name), of batch b `batches.b.lengths`, `batches.b.words` and `batches.b.labels`,
/// where characters are read also `batches.b.distinct`, `batches.b.chars` and `batches.b.char_lengths` (as in
/// [`TokenIds`](regard_nn::models::TokenIds); whole numbers, which an f32 holds exactly up to 2²⁴), the case's sizes and
/// the optimiser's constants (JSON texts `case` and `optimiser`) as a safetensors file.
///
/// # Errors
/// The file cannot be written.
pub fn save_start(work: &Work, path: &Path) -> Result<(), NnError> {
    let Work { case, batches } = work;
    let mut specs = ParamSpecs::new();
    Model::new(&mut specs, case)?;
    let params = Params::<f32>::new(specs, SEED);
    let mut archive = Archive::new();
    archive.put("weights.", &params, params.flat());
    for (b, Batch { ids, labels }) in batches.iter().enumerate() {
        let mut put = |name: &str, data: Vec<f32>| {
            let array = Array { shape: vec![data.len()], data };
            archive.arrays.insert(format!("batches.{b}.{name}"), array);
        };
        let numbers = |ids: &[u32]| ids.iter().map(|id| *id as f32).collect();
        let lengths = |items: &Ragged| items.lengths().iter().map(|n| *n as f32).collect();
        put("lengths", lengths(&ids.items));
        put("words", numbers(&ids.words));
        put("labels", numbers(labels));
        if case.chars.is_some() {
            put("distinct", numbers(&ids.distinct));
            put("chars", numbers(&ids.chars));
            put("char_lengths", lengths(&ids.char_items));
        }
    }
    let mut sizes = json!(case);
    sizes["parameters"] = params.count().into();
    sizes["batches"] = batches.len().into();
    let operations = batches.iter().map(|batch| case.operations(&batch.ids));
    sizes["operations"] = operations.collect::<Vec<_>>().into();
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
        save_start(&Work::drawn(case), &path).unwrap();
        let archive = Archive::<f32>::read(&path).unwrap();
        let words = &archive.arrays["batches.9.words"];
        assert_eq!(words.shape, [case.batch * case.length]);
        assert_eq!(archive.arrays["batches.0.lengths"].data, vec![32.0; case.batch]);
        let labels = &archive.arrays["batches.9.labels"].data;
        assert!(words.data.iter().zip(labels).all(|(word, label)| word % 32.0 == *label));
        let sizes: serde_json::Value = serde_json::from_str(&archive.texts["case"]).unwrap();
        let weights = archive.arrays.iter().filter(|(name, _)| name.starts_with("weights."));
        let count: usize = weights.map(|(_, array)| array.data.len()).sum();
        assert_eq!(sizes["parameters"], count);
        assert_eq!(sizes["model"], "transformer");
    }
}
