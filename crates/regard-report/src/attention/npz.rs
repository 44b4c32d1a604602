//! The tensors as a NumPy archive.

use std::io::{Cursor, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::AttentionReport;
use crate::ReportError;

/// All tensors of a report as an uncompressed `.npz` archive for `numpy.load`.
///
/// Arrays, with L words and counts from 0: `tokens` (L texts) and, for each layer l and head h,
/// `layer{l}_head{h}_q`, `_k`, `_v`, `_scores` (−∞ where forbidden), `_weights`, `_context` in
/// f32 with the shapes of [`HeadAttention`](crate::HeadAttention), and `_v_a` for an additive
/// score. The same report gives the same bytes.
///
/// Format: [NEP 1](https://numpy.org/neps/nep-0001-npy-format.html), version 1.0.
///
/// # Errors
///
/// Those of [`AttentionReport::validate`]; [`ReportError::Npz`] when the archive cannot be built.
pub fn attention_npz(report: &AttentionReport) -> Result<Vec<u8>, ReportError> {
    report.validate()?;
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    add(&mut archive, "tokens", &npy_texts(&report.tokens))?;
    for (l, h, head) in report.heads() {
        for (name, matrix) in [
            ("q", &head.q),
            ("k", &head.k),
            ("v", &head.v),
            ("scores", &head.scores),
            ("weights", &head.weights),
            ("context", &head.context),
        ] {
            let bytes = npy_f32(&[matrix.rows, matrix.cols], &matrix.data);
            add(&mut archive, &format!("layer{l}_head{h}_{name}"), &bytes)?;
        }
        if let Some(v_a) = &head.v_a {
            let bytes = npy_f32(&[v_a.len()], v_a);
            add(&mut archive, &format!("layer{l}_head{h}_v_a"), &bytes)?;
        }
    }
    Ok(archive.finish()?.into_inner())
}

fn add(
    archive: &mut ZipWriter<Cursor<Vec<u8>>>,
    name: &str,
    npy: &[u8],
) -> Result<(), ReportError> {
    // A fixed date keeps the bytes the same from run to run.
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .last_modified_time(DateTime::default());
    archive.start_file(format!("{name}.npy"), options)?;
    archive.write_all(npy).map_err(zip::result::ZipError::from)?;
    Ok(())
}

/// A `.npy` file of little-endian f32 in C order.
fn npy_f32(shape: &[usize], data: &[f32]) -> Vec<u8> {
    let mut npy = npy_header("<f4", shape);
    npy.extend(data.iter().flat_map(|value| value.to_le_bytes()));
    npy
}

/// A `.npy` file of texts: UTF-32, each padded with zeros to the longest.
fn npy_texts(texts: &[String]) -> Vec<u8> {
    let longest = texts.iter().map(|text| text.chars().count()).max();
    // NumPy has no use for texts of no length.
    let width = longest.unwrap_or(0).max(1);
    let mut npy = npy_header(&format!("<U{width}"), &[texts.len()]);
    for text in texts {
        let letters = text.chars().map(u32::from).chain(std::iter::repeat(0));
        npy.extend(letters.take(width).flat_map(u32::to_le_bytes));
    }
    npy
}

/// Magic, version 1.0, length of the dictionary, and the dictionary, padded with spaces so that
/// the data begins at a multiple of 64 bytes.
fn npy_header(descr: &str, shape: &[usize]) -> Vec<u8> {
    let lengths: Vec<String> = shape.iter().map(usize::to_string).collect();
    // The comma at the end makes one length a tuple too.
    let shape = lengths.join(", ") + ",";
    let dictionary =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    let before = 10;
    // One byte for the closing line end.
    let total = (before + dictionary.len() + 1).next_multiple_of(64);
    let mut npy = b"\x93NUMPY\x01\x00".to_vec();
    npy.extend(((total - before) as u16).to_le_bytes());
    npy.extend(dictionary.as_bytes());
    npy.resize(total - 1, b' ');
    npy.push(b'\n');
    npy
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::{SampleShape, ScoreKind, sample_report};

    #[test]
    fn the_header_is_numpys() {
        // What numpy.save writes before the data of a 3×5 array of f32, apart from blanks, which
        // the format leaves free.
        let header = npy_header("<f4", &[3, 5]);
        assert_eq!(header.len() % 64, 0);
        assert_eq!(&header[..8], b"\x93NUMPY\x01\x00");
        let length = u16::from_le_bytes([header[8], header[9]]) as usize;
        assert_eq!(length + 10, header.len());
        let text = std::str::from_utf8(&header[10..]).unwrap();
        assert_eq!(text.trim_end(), "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5,), }");
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn the_archive_holds_every_tensor() {
        let shape = SampleShape {
            n_layers: 1,
            n_heads: 2,
            d_k: 3,
            d_v: 5,
            score: ScoreKind::Additive,
            reach: Some(1),
        };
        let report = sample_report(&["a", "日本", ""], &shape, 2);
        let bytes = attention_npz(&report).unwrap();
        assert_eq!(bytes, attention_npz(&report).unwrap());
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
        assert_eq!(archive.len(), 1 + 2 * 7);

        let mut read = |name: &str| {
            let mut npy = Vec::new();
            archive.by_name(name).unwrap().read_to_end(&mut npy).unwrap();
            let start = 10 + u16::from_le_bytes([npy[8], npy[9]]) as usize;
            npy.split_off(start)
        };
        let scores: Vec<f32> = read("layer0_head1_scores.npy")
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect();
        assert_eq!(scores, report.layers[0].heads[1].scores.data);
        assert_eq!(read("layer0_head0_context.npy").len(), 3 * 5 * 4);
        assert_eq!(read("layer0_head0_v_a.npy").len(), 3 * 4);
        let tokens = read("tokens.npy");
        assert_eq!(&tokens[8..16], [0xe5, 0x65, 0, 0, 0x2c, 0x67, 0, 0]);
    }
}
