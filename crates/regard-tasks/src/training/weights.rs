//! The best weights of a run, and what memory a model may take.

use regard_nn::checkpoint::Archive;
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
pub(crate) fn load_best(
    run: &RunFolder,
    params: &mut Params<f32>,
    fingerprint: &str,
) -> Result<(), TaskError> {
    let flat = read_best(run, params, fingerprint)?;
    params.flat_mut().copy_from_slice(&flat);
    Ok(())
}

/// The best weights of a folder, laid out as `params`.
///
/// # Errors
/// The file is missing, damaged, or of another model.
pub(super) fn read_best(
    run: &RunFolder,
    params: &Params<f32>,
    fingerprint: &str,
) -> Result<Vec<f32>, TaskError> {
    let folder = run.path();
    if !run.file(files::MODEL).is_file() {
        return Err(TaskError::MissingFile { folder: folder.into(), file: files::MODEL });
    }
    let archive = Archive::<f32>::read(&run.file(files::MODEL))?;
    let mut flat = params.flat().to_vec();
    archive.get("", params, &mut flat)?;
    if archive.texts.get(FINGERPRINT).map(String::as_str) != Some(fingerprint) {
        return Err(TaskError::Changed { folder: folder.into(), file: files::MODEL });
    }
    Ok(flat)
}
