//! Checkpoints: what is written comes back to the last bit, what is wrong with a file is named,
//! no bytes make the reader panic, and a write that fails or dies leaves the old file whole.

use std::collections::HashMap;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{bits, normal};
use proptest::prelude::*;
use regard_nn::checkpoint::{Archive, Array, CheckpointFault, Reader, write_atomic};
use regard_nn::{Init, NnError, ParamSpecs, Params};
use regard_tensor::{Key, Real};
use safetensors::tensor::{Dtype, TensorView};

/// Three parameters of ranks 1, 2 and 4, one of them with no element.
fn params<T: Real>() -> Params<T> {
    let mut specs = ParamSpecs::new();
    specs.add("bias", &[5], Init::Normal(1.0));
    specs.scope("layer", |specs| {
        specs.add("weight", &[3, 5], Init::Glorot);
        specs.add("none", &[2, 0, 3, 1], Init::Constant(1.0));
    });
    Params::new(specs, 3)
}

fn archive<T: Real>(params: &Params<T>) -> Archive<T> {
    let mut archive = Archive::new();
    archive.put("model.", params, params.flat());
    archive.texts.insert("state".into(), "step = 7\n# \"Größe\" \u{1F600}\n".into());
    archive
}

/// The bytes of an archive, as a file holds them.
fn bytes_of<T: Real>(archive: &Archive<T>) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.safetensors");
    archive.write(&path).unwrap();
    fs::read(path).unwrap()
}

/// What keeps these bytes from being an archive of f32.
fn fault_in(bytes: &[u8]) -> CheckpointFault {
    match Archive::<f32>::parse(bytes, Path::new("x")).expect_err("a fault is found") {
        NnError::Checkpoint { fault, .. } => fault,
        other => panic!("not a fault of the file: {other}"),
    }
}

// ----------------------------------------------------------------------------- there and back

fn round_trip<T: Real>() {
    let mut params = params::<T>();
    // Numbers that only their bits tell apart or that text would spoil.
    let special = [-0.0, f64::from(f32::MIN_POSITIVE) / 8.0, f64::from(f32::MAX), 0.1, 1.0 / 3.0];
    for (x, s) in params.flat_mut().iter_mut().zip(special) {
        *x = T::from_f64(s);
    }
    let averages: Vec<T> = normal(4, params.flat_len()).into_iter().map(T::from_f64).collect();
    let mut written = archive(&params);
    written.put("first.", &params, &averages);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep.safetensors");
    written.write(&path).unwrap();
    let read = Archive::<T>::read(&path).unwrap();
    assert_eq!(read.path, path);
    assert_eq!(read.arrays, written.arrays);
    assert_eq!(read.texts, written.texts);

    // The gaps between parameters are not the file's business: they stay.
    let mark = T::from_f64(42.0);
    for (prefix, expected) in [("model.", params.flat()), ("first.", &averages[..])] {
        let mut flat = vec![mark; params.flat_len()];
        Reader::open(&path).unwrap().get(prefix, params.specs(), &mut flat).unwrap();
        let mut inside = vec![false; flat.len()];
        for spec in params.specs() {
            assert_eq!(bits(&flat[spec.range()]), bits(&expected[spec.range()]), "{}", spec.name);
            inside[spec.range()].fill(true);
        }
        assert!(flat.iter().zip(inside).all(|(x, inside)| inside || *x == mark));
    }
}

#[test]
fn what_is_written_comes_back_to_the_last_bit() {
    round_trip::<f32>();
    round_trip::<f64>();
}

#[test]
fn an_empty_archive_comes_back() {
    let empty = Archive::<f32>::new();
    let bytes = bytes_of(&empty);
    let read = Archive::<f32>::parse(&bytes, Path::new("x")).unwrap();
    assert!(read.arrays.is_empty() && read.texts.is_empty());
    let mut reader = Reader::<f32, _>::new(Cursor::new(&bytes), Path::new("x")).unwrap();
    reader.get("", &[], &mut []).unwrap();
}

#[test]
fn other_readers_of_the_format_read_the_file() {
    let params = params::<f32>();
    let bytes = bytes_of(&archive(&params));
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let weight = file.tensor("model.layer.weight").unwrap();
    assert_eq!((weight.dtype(), weight.shape()), (Dtype::F32, &[3, 5][..]));
    let spec = params.specs().iter().find(|s| s.name == "layer.weight").unwrap();
    let expected: Vec<u8> =
        params.flat()[spec.range()].iter().flat_map(|x| x.to_le_bytes()).collect();
    assert_eq!(weight.data(), expected);
}

#[test]
fn the_same_archive_gives_the_same_bytes() {
    let mut archive = archive(&params::<f32>());
    for name in ["a", "b", "c", "d", "e", "f"] {
        archive.texts.insert(name.into(), name.repeat(3));
    }
    let first = bytes_of(&archive);
    assert!((0..8).all(|_| bytes_of(&archive) == first));
}

// --------------------------------------------------------------------------------------- faults

/// A change to a good archive.
type Change<'a> = &'a dyn Fn(&mut Archive<f32>);

#[test]
fn what_does_not_fit_the_model_is_named() {
    let params = params::<f32>();
    let whole = archive(&params);
    let array = |shape: &[usize], data: &[f32]| Array { shape: shape.into(), data: data.into() };
    let none: Change<'_> = &|_| {};
    let missing: Change<'_> = &|a| drop(a.arrays.remove("model.bias"));
    let unexpected: Change<'_> = &|a| {
        a.arrays.insert("model.layer.extra".into(), array(&[1], &[0.0]));
    };
    let shape: Change<'_> = &|a| {
        a.arrays.insert("model.bias".into(), array(&[4], &[0.0; 4]));
    };
    // As many numbers, but not the same shape.
    let transposed: Change<'_> = &|a| {
        a.arrays.insert("model.layer.weight".into(), array(&[5, 3], &[0.0; 15]));
    };
    let deep: Change<'_> = &|a| {
        a.arrays.insert("model.bias".into(), array(&[1, 1, 1, 1, 5], &[0.0; 5]));
    };
    let nan: Change<'_> = &|a| a.arrays.get_mut("model.layer.weight").unwrap().data[7] = f32::NAN;
    let infinite: Change<'_> =
        &|a| a.arrays.get_mut("model.bias").unwrap().data[0] = f32::NEG_INFINITY;
    // Arrays under another prefix are somebody else's.
    let foreign: Change<'_> = &|a| {
        a.arrays.insert("first.extra".into(), array(&[1], &[f32::NAN]));
    };
    let cases: [(Change<'_>, Option<&str>); 9] = [
        (none, None),
        (foreign, None),
        (
            missing,
            Some(
                "tensor `model.bias` is missing; the file belongs to a model of another \
                        configuration",
            ),
        ),
        (
            unexpected,
            Some(
                "tensor `model.layer.extra` is unknown; the file belongs to a model of \
                           another configuration",
            ),
        ),
        (shape, Some("tensor `model.bias` has shape [4], the model needs [5]")),
        (transposed, Some("tensor `model.layer.weight` has shape [5, 3], the model needs [3, 5]")),
        (deep, Some("tensor `model.bias` has shape [1, 1, 1, 1, 5], the model needs [5]")),
        (nan, Some("tensor `model.layer.weight` holds a value that is not finite")),
        (infinite, Some("tensor `model.bias` holds a value that is not finite")),
    ];
    for (i, (change, expected)) in cases.into_iter().enumerate() {
        let mut changed = whole.clone();
        change(&mut changed);
        // Through a file, so that its path is in the message.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.safetensors");
        changed.write(&path).unwrap();
        let mut read = Reader::<f32>::open(&path).unwrap();
        let mut flat = vec![0.0; params.flat_len()];
        let message = read.get("model.", params.specs(), &mut flat).err().map(|e| e.to_string());
        let expected = expected.map(|fault| format!("checkpoint {}: {fault}", path.display()));
        assert_eq!(message, expected, "case {i}");
    }
}

#[test]
fn numbers_of_another_type_are_named() {
    let wide = bytes_of(&archive(&params::<f64>()));
    let error = Archive::<f32>::parse(&wide, Path::new("m")).unwrap_err().to_string();
    assert!(
        error.starts_with("checkpoint m: tensor `model.")
            && error.ends_with("is F64, expected F32"),
        "{error}"
    );
    let narrow = bytes_of(&archive(&params::<f32>()));
    let error = Archive::<f64>::parse(&narrow, Path::new("m")).unwrap_err().to_string();
    assert!(error.ends_with("is F32, expected F64"), "{error}");

    for (dtype, size) in [(Dtype::F16, 2), (Dtype::BF16, 2), (Dtype::I32, 4), (Dtype::BOOL, 1)] {
        let data = vec![0; 3 * size];
        let view = TensorView::new(dtype, vec![3], &data).unwrap();
        let bytes = safetensors::serialize([("model.bias", view)], None).unwrap();
        assert_eq!(
            fault_in(&bytes),
            CheckpointFault::Dtype {
                name: "model.bias".into(),
                expected: "F32",
                actual: format!("{dtype:?}"),
            }
        );
    }
}

#[test]
fn a_missing_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.safetensors");
    let error = Archive::<f32>::read(&path).unwrap_err();
    assert!(matches!(error, NnError::Io { action: "read", .. }));
    assert!(error.to_string().starts_with(&format!("cannot read {}: ", path.display())));
    // A folder in place of a file.
    assert!(matches!(Archive::<f32>::read(folder.path()), Err(NnError::Io { action: "read", .. })));
}

// ------------------------------------------------------------------------------------ any bytes

#[test]
fn a_file_cut_short_anywhere_is_not_whole() {
    let whole = bytes_of(&archive(&params::<f32>()));
    assert!(Archive::<f32>::parse(&whole, Path::new("x")).is_ok());
    for end in 0..whole.len() {
        let fault = fault_in(&whole[..end]);
        assert!(matches!(fault, CheckpointFault::Foreign(_)), "cut at {end}: {fault}");
    }
    let text = fault_in(&whole[..whole.len() - 1]).to_string();
    assert!(text.starts_with("not a whole safetensors file ("), "{text}");
    assert!(text.ends_with("); it was cut short or made by something else"), "{text}");
    // Nor is one with something behind it.
    let longer = [&whole[..], &[0]].concat();
    assert!(matches!(fault_in(&longer), CheckpointFault::Foreign(_)));
}

/// A file with this header and `n` bytes of numbers.
fn with_header(header: &str, n: usize) -> Vec<u8> {
    let length = (header.len() as u64).to_le_bytes();
    [&length[..], header.as_bytes(), &vec![0; n]].concat()
}

#[test]
fn headers_that_lie_are_refused() {
    let tensor = |shape: &str, from: u64, to: u64| {
        format!(r#"{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":[{from},{to}]}}}}"#)
    };
    let good = with_header(&tensor("[2]", 0, 8), 8);
    assert_eq!(Archive::<f32>::parse(&good, Path::new("x")).unwrap().arrays["a"].data, [0.0; 2]);
    let huge = u64::MAX / 2;
    let lies = [
        with_header(&tensor("[3]", 0, 8), 8),
        with_header(&tensor("[2]", 0, 8), 4),
        with_header(&tensor("[2]", 4, 12), 12),
        with_header(&tensor("[2]", 8, 0), 8),
        with_header(&tensor("[2]", huge, huge + 8), 8),
        // Sizes whose product wraps around to 2 · 4 bytes.
        with_header(&tensor("[4611686018427387904, 4, 2]", 0, 8), 8),
        with_header(&tensor("[-2]", 0, 8), 8),
        with_header(r#"{"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}}"#, 8),
        with_header(r#"{"a":{"shape":[2],"data_offsets":[0,8]}}"#, 8),
        with_header("[]", 0),
        with_header("{", 0),
        with_header("", 0),
        u64::MAX.to_le_bytes().to_vec(),
        (1u64 << 40).to_le_bytes().to_vec(),
        [0x80; 64].to_vec(),
        vec![],
        // A pickle and a zip: what other programs save models as.
        b"\x80\x02}q\x00X\x04\x00\x00\x00biasq\x01K\x01s.".to_vec(),
        b"PK\x03\x04\x14\x00\x00\x00\x00\x00".to_vec(),
    ];
    for (i, bytes) in lies.iter().enumerate() {
        let fault = fault_in(bytes);
        assert!(matches!(fault, CheckpointFault::Foreign(_)), "lie {i}: {fault}");
    }
}

/// Reads any bytes as a checkpoint of the model, to the end.
fn read_fully(bytes: &[u8]) {
    let params = params::<f32>();
    let mut flat = vec![0.0; params.flat_len()];
    if let Ok(mut file) = Reader::<f32, _>::new(Cursor::new(bytes), Path::new("x"))
        && file.get("model.", params.specs(), &mut flat).is_ok()
    {
        assert!(flat.iter().all(|x| x.is_finite()));
    }
    if let Ok(archive) = Archive::<f64>::parse(bytes, Path::new("x")) {
        assert!(archive.arrays.values().all(|a| a.shape.iter().product::<usize>() == a.data.len()));
    }
}

/// No file of failures: the seeds of a failing case are in its message.
fn any_bytes() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(any_bytes())]

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        read_fully(&bytes);
        // The same with a header of a length that fits.
        let n = bytes.len().min(40);
        let framed = [&(n as u64).to_le_bytes()[..], &bytes].concat();
        read_fully(&framed);
    }

    #[test]
    fn no_change_of_a_good_file_makes_the_reader_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = bytes_of(&archive(&params::<f32>()));
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        read_fully(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        read_fully(&bytes);
    }

    #[test]
    fn any_archive_comes_back(
        data in proptest::collection::vec(any::<f32>(), 0..20),
        names in proptest::collection::btree_set(".{0,12}", 0..5),
        text in ".{0,40}",
    ) {
        let mut archive = Archive::<f32>::new();
        for name in names {
            if name != "__metadata__" {
                let array = Array { shape: vec![data.len(), 1], data: data.clone() };
                archive.arrays.insert(name.clone(), array);
            }
            archive.texts.insert(name, text.clone());
        }
        let read = Archive::<f32>::parse(&bytes_of(&archive), Path::new("x")).unwrap();
        prop_assert_eq!(read.texts, archive.texts);
        prop_assert!(read.arrays.keys().eq(archive.arrays.keys()));
        for (name, array) in &archive.arrays {
            prop_assert_eq!(&read.arrays[name].shape, &array.shape);
            let same = read.arrays[name].data.iter().zip(&array.data)
                .all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()));
            prop_assert!(same);
        }
    }
}

// ---------------------------------------------------------------------------------- failed writes

const OLD: &[u8] = b"the old file";

/// A folder with an old file in it.
fn old_file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    fs::write(&path, OLD).unwrap();
    (folder, path)
}

fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_write_replaces_the_file_and_leaves_nothing_else() {
    let (folder, path) = old_file();
    for bytes in [&b"new"[..], b"", &version(7)] {
        write_atomic(&path, bytes).unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes);
        assert_eq!(names_in(folder.path()), ["model.safetensors"]);
    }
}

#[test]
fn a_write_into_a_missing_folder_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none/model.safetensors");
    let error = write_atomic(&path, b"new").unwrap_err();
    assert!(matches!(error, NnError::Io { action: "write", .. }));
    assert!(error.to_string().starts_with(&format!("cannot write {}: ", path.display())));
    assert!(names_in(folder.path()).is_empty());
    // A file where a folder should be; a path without a name.
    fs::write(folder.path().join("file"), OLD).unwrap();
    assert!(write_atomic(&folder.path().join("file/m"), b"new").is_err());
    assert!(write_atomic(&folder.path().join(".."), b"new").is_err());
    assert_eq!(names_in(folder.path()), ["file"]);
}

#[test]
fn a_write_that_cannot_take_its_place_leaves_what_is_there() {
    // A folder that is not empty has the name.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("inside"), OLD).unwrap();
    assert!(write_atomic(&path, b"new").is_err());
    assert_eq!(fs::read(path.join("inside")).unwrap(), OLD);
    assert_eq!(names_in(folder.path()), ["model.safetensors"], "the temporary file is gone");

    // Something that is no file has the temporary name.
    let (folder, path) = old_file();
    let blocked = format!("model.safetensors.{}.tmp", std::process::id());
    fs::create_dir(folder.path().join(blocked)).unwrap();
    assert!(write_atomic(&path, b"new").is_err());
    assert_eq!(fs::read(&path).unwrap(), OLD);
}

#[cfg(unix)]
#[test]
fn a_write_into_a_read_only_folder_leaves_the_old_file() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, path) = old_file();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
    // Whether permissions bind at all: they do not for root.
    let bound = fs::File::create(folder.path().join("probe")).is_err();
    let result = write_atomic(&path, b"new");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    if bound {
        assert!(matches!(result, Err(NnError::Io { action: "write", .. })));
        assert_eq!(fs::read(&path).unwrap(), OLD);
        assert_eq!(names_in(folder.path()), ["model.safetensors"]);
    } else {
        result.unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
}

#[test]
fn temporary_files_left_behind_do_not_matter() {
    let (folder, path) = old_file();
    for id in [1, std::process::id()] {
        let name = format!("model.safetensors.{id}.tmp");
        fs::write(folder.path().join(name), b"half of a file, and longer than the new one")
            .unwrap();
    }
    write_atomic(&path, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(names_in(folder.path()), ["model.safetensors", "model.safetensors.1.tmp"]);
}

// -------------------------------------------------------------------------------- writes that die

const CHILD: &str = "REGARD_TEST_CHILD_WRITES";
const ABORT: &str = "REGARD_TEST_ABORT_WRITE";

/// Some version of a file: one byte, over and over.
fn version(byte: u8) -> Vec<u8> {
    vec![byte; 300_000]
}

/// Not a test: what the tests below run as a process of its own. It writes versions 0, 1, 2, … to
/// the file that the environment names, and stops at the first error.
#[test]
fn child_that_writes() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    for byte in 0..=u8::MAX {
        if write_atomic(Path::new(&path), &version(byte)).is_err() {
            return;
        }
    }
}

/// This test program, set to run [`child_that_writes`] alone.
fn child(path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "checkpoint::child_that_writes"]).env(CHILD, path).env_remove(ABORT);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn a_process_that_dies_inside_a_write_leaves_the_old_file_whole() {
    for dies_in in [1u8, 2, 5] {
        let (folder, path) = old_file();
        let status = child(&path).env(ABORT, dies_in.to_string()).status().unwrap();
        assert!(!status.success(), "the child dies in write {dies_in}");
        let expected = if dies_in == 1 { OLD.to_vec() } else { version(dies_in - 2) };
        assert!(fs::read(&path).unwrap() == expected, "dead in write {dies_in}");
        // Half of the new file lies beside it, so the death was inside the write; and the next
        // write does not mind.
        let left = names_in(folder.path());
        assert_eq!(left.len(), 2, "{left:?}");
        write_atomic(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
}

#[test]
fn a_process_killed_at_any_moment_leaves_a_whole_file() {
    let key = Key::new(1);
    for round in 0..12 {
        let (_folder, path) = old_file();
        let mut child = child(&path).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(u64::from(key.below(round, 60_000))));
        child.kill().unwrap();
        child.wait().unwrap();
        let bytes = fs::read(&path).unwrap();
        let whole = bytes == OLD || bytes == version(bytes[0]);
        assert!(whole, "{} bytes that are no version", bytes.len());
    }
}

/// A limit on the size of files stands in for a full disk: the write fails on its way.
#[cfg(unix)]
#[test]
fn a_write_that_runs_out_of_space_leaves_the_old_file_and_no_other() {
    let (folder, path) = old_file();
    let this = std::env::current_exe().unwrap();
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" --exact checkpoint::child_that_writes";
    let status = Command::new("sh")
        .args(["-c", script])
        .arg(this)
        .env(CHILD, &path)
        .env_remove(ABORT)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "the error is handed back, nothing dies");
    assert_eq!(fs::read(&path).unwrap(), OLD);
    assert_eq!(names_in(folder.path()), ["model.safetensors"]);
}

#[test]
fn two_writers_of_different_files_do_not_meet() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for byte in 0..4 {
            let path = folder.path().join(format!("{byte}.safetensors"));
            scope.spawn(move || (0..20).for_each(|_| write_atomic(&path, &version(byte)).unwrap()));
        }
    });
    let written: HashMap<String, bool> = names_in(folder.path())
        .into_iter()
        .map(|name| {
            let bytes = fs::read(folder.path().join(&name)).unwrap();
            let whole = bytes == version(bytes[0]);
            (name, whole)
        })
        .collect();
    assert!(written.len() == 4 && written.values().all(|whole| *whole), "{written:?}");
}
