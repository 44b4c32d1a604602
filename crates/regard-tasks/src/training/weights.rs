//! The best weights of a run, and what memory a model may take.

use regard_nn::checkpoint::Reader;
use regard_nn::{NnError, ParamSpecs, Params};

use super::FINGERPRINT;
use crate::TaskError;
use crate::run::{RunFolder, files};

const GIB: f64 = (1u64 << 30) as f64;
/// Memory that training a model may take for its parameters.
const MAX_BYTES: f64 = 16.0 * GIB;

/// Refuses a model whose training needs more memory than machines have.
pub(crate) fn check_memory(specs: &ParamSpecs) -> Result<(), NnError> {
    // Weights, gradients and the optimiser's two averages.
    let bytes = specs.flat_len() as f64 * 16.0;
    if bytes > MAX_BYTES {
        let expected = format!("small enough for {:.0} GiB of memory", MAX_BYTES / GIB);
        let actual = format!("{} parameters, {:.0} GiB", specs.flat_len(), bytes / GIB);
        return Err(NnError::Hyper { name: "model", expected, actual });
    }
    Ok(())
}

/// Reads the best weights of a folder into `params`.
///
/// # Errors
/// The file is missing, damaged, or of another model; `params` then holds anything.
pub(crate) fn load_best(
    run: &RunFolder,
    params: &mut Params<f32>,
    fingerprint: &str,
) -> Result<(), TaskError> {
    let folder = run.path();
    if !run.file(files::MODEL).is_file() {
        return Err(TaskError::MissingFile { folder: folder.into(), file: files::MODEL });
    }
    let mut file = Reader::open(&run.file(files::MODEL))?;
    let (specs, flat) = params.parts_mut();
    file.get("", specs, flat)?;
    if file.texts().get(FINGERPRINT).map(String::as_str) != Some(fingerprint) {
        return Err(TaskError::Changed { folder: folder.into(), file: files::MODEL });
    }
    Ok(())
}
