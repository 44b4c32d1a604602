//! `regard bench`: a few steps of the smallest case, its start as a file, its labels, wrong names.

use regard::nn::checkpoint::Archive;
use serde_json::Value;

use crate::support::{Done, regard, run};

#[test]
fn a_few_steps_of_the_smallest_case_are_measured() {
    let folder = tempfile::tempdir().unwrap();
    let json = run(folder.path(), "bench train --case small --steps 12 --json").ok();
    let event: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(event["type"], "bench");
    let line = &event["data"];
    assert_eq!(line["case"]["name"], "small");
    let losses: Vec<f64> =
        line["losses"].as_array().unwrap().iter().map(|loss| loss.as_f64().unwrap()).collect();
    // Steps 1 and 11 see the same batch.
    assert!(losses.len() == 12 && losses[10] < losses[0], "{losses:?}");
    for name in ["tokens_per_s", "gflops", "blocks_per_step", "bytes_per_step"] {
        assert!(line[name].as_f64().unwrap() > 0.0, "{name}: {line}");
    }
    let operators = line["operators"].as_array().unwrap();
    assert!(operators.iter().any(|o| o["name"] == "attention" && o["calls"] == 2), "{line}");

    let table = run(folder.path(), "bench train --case small --steps 4").ok();
    assert!(table.contains("tokens/s") && table.contains("attention"), "{table}");
}

#[test]
fn after_the_first_step_no_array_comes_from_the_system() {
    // One thread: how many pieces several work on at once depends on who is faster.
    for case in ["small", "gru"] {
        let mut command = regard(["bench", "train", "--case", case, "--steps", "6", "--json"]);
        let json = Done::from(command.env("RAYON_NUM_THREADS", "1").output().unwrap()).ok();
        let event: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(event["data"]["pool_blocks_after_first"], 0, "{case}: {json}");
    }
}

#[test]
fn a_level_that_does_not_exist_is_an_error() {
    let mut command = regard(["mechanisms"]);
    let err = Done::from(command.env("REGARD_SIMD", "avx3").output().unwrap()).fails();
    assert!(err.contains("REGARD_SIMD=avx3") && err.contains("plain, avx2 or avx512"), "{err}");
    for level in ["", "plain", "avx512"] {
        Done::from(regard(["mechanisms"]).env("REGARD_SIMD", level).output().unwrap()).ok();
    }
}

#[test]
fn labels_of_the_smallest_case_are_measured() {
    let folder = tempfile::tempdir().unwrap();
    let json = run(folder.path(), "bench predict --case small --seconds 0 --json").ok();
    let event: Value = serde_json::from_str(&json).unwrap();
    let line = &event["data"];
    assert_eq!((&line["sentences"], line["labels"].as_array().unwrap().len()), (&80.into(), 1_025));
    for name in ["one_per_s", "bulk_per_s"] {
        assert!(line[name].as_f64().unwrap() > 0.0, "{name}: {line}");
    }
    let table = run(folder.path(), "bench predict --case small --seconds 0").ok();
    assert!(table.contains("in bulk") && table.contains("small"), "{table}");
    let err = run(folder.path(), "bench predict --case smal").fails();
    assert!(err.contains("did you mean `small`?"), "{err}");
}

#[test]
fn a_start_is_written_and_one_case_is_needed_for_it() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "bench train --case small --save {}/start.safetensors").ok();
    let archive = Archive::<f32>::read(&folder.path().join("start.safetensors")).unwrap();
    assert!(
        archive.arrays.contains_key("weights.output.bias") && archive.texts.contains_key("case")
    );
    let err = run(folder.path(), "bench train --save {}/all.safetensors").fails();
    assert!(err.contains("one case") && err.contains("tagger_32"), "{err}");
    assert!(!folder.path().join("all.safetensors").exists());
}

#[test]
fn wrong_names_are_told_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    for (line, words) in [
        ("bench train --case huge", "no case `huge`; there are tagger_32, tagger_10000, lstm"),
        ("bench train --model cnn", "no model `cnn`; there are transformer"),
        ("bench train --case gru --model lstm", "--list"),
        ("bench train --steps 3", "--steps"),
        ("bench attention --variant huge", "no variant `huge`; there are plain"),
        ("bench attention --variant cuasal", "no variant `cuasal`, did you mean `causal`?"),
        ("bench attention --shape smal", "did you mean `small`?"),
        ("bench train --model lsmt", "did you mean `lstm`?"),
        ("bench attention --seconds -1", "expected a number from 0 to 3600"),
    ] {
        let err = run(folder.path(), line).fails();
        assert!(err.contains(words), "{line}: {err}");
    }
    let list = run(folder.path(), "bench predict --list --model gru").ok();
    assert_eq!(list, "gru gru\n");
    let list = run(folder.path(), "bench train --list --model transformer").ok();
    assert_eq!(list, "tagger_32 transformer\ntagger_10000 transformer\nsmall transformer\n");
}
