//! A small dense matrix that survives JSON exactly.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

/// `rows × cols` numbers, row after row: element (i, j) is `data[i * cols + j]`.
///
/// In JSON each number is the shortest decimal that reads back as the same f32, and −∞, which
/// JSON cannot say, is `null`: here it means a forbidden (query, key) pair. NaN and +∞ are
/// refused, since they would come back as something else.
///
/// ```
/// use regard_report::Matrix;
///
/// let scores = Matrix::new(1, 2, vec![0.1, f32::NEG_INFINITY]);
/// let json = serde_json::to_string(&scores)?;
/// assert_eq!(json, r#"{"rows":1,"cols":2,"data":[0.1,null]}"#);
/// assert_eq!(serde_json::from_str::<Matrix>(&json)?, scores);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// The numbers, `rows * cols` of them.
    #[serde(serialize_with = "write_data", deserialize_with = "read_data")]
    pub data: Vec<f32>,
}

impl Matrix {
    /// A matrix of the given numbers.
    ///
    /// # Panics
    ///
    /// When `data` does not hold `rows * cols` numbers.
    pub fn new(rows: usize, cols: usize, data: Vec<f32>) -> Self {
        assert_eq!(data.len(), rows * cols, "a {rows}x{cols} matrix");
        Self { rows, cols, data }
    }

    /// Row `i`, `cols` numbers.
    ///
    /// # Panics
    ///
    /// When there is no row `i`.
    pub fn row(&self, i: usize) -> &[f32] {
        assert!(i < self.rows, "row {i} of {}", self.rows);
        &self.data[i * self.cols..(i + 1) * self.cols]
    }

    /// Element (i, j).
    ///
    /// # Panics
    ///
    /// When there is no such element.
    pub fn at(&self, i: usize, j: usize) -> f32 {
        self.row(i)[j]
    }
}

fn write_data<S: Serializer>(data: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
    if let Some(value) = data.iter().find(|value| value.is_nan() || **value == f32::INFINITY) {
        return Err(ser::Error::custom(format_args!("a matrix holds {value}")));
    }
    serializer.collect_seq(data.iter().map(|value| (*value != f32::NEG_INFINITY).then_some(*value)))
}

fn read_data<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f32>, D::Error> {
    let data = Vec::<Option<f32>>::deserialize(deserializer)?;
    data.into_iter()
        .map(|value| match value {
            None => Ok(f32::NEG_INFINITY),
            // A decimal beyond the range of f32 would silently become infinite.
            Some(value) if !value.is_finite() => {
                Err(de::Error::custom("a number is too large for 32 bits"))
            }
            Some(value) => Ok(value),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_f32_survives_json_bit_for_bit() {
        // A walk through all exponents and signs with a stride that is coprime to 2^32.
        let mut bits = 1u32;
        let mut data = vec![0.0, -0.0, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45];
        while data.len() < 200_000 {
            bits = bits.wrapping_add(2_654_435_761);
            let value = f32::from_bits(bits);
            if value.is_finite() {
                data.push(value);
            }
        }
        let matrix = Matrix::new(data.len(), 1, data);
        let json = serde_json::to_string(&matrix).unwrap();
        let back: Matrix = serde_json::from_str(&json).unwrap();
        for (a, b) in matrix.data.iter().zip(&back.data) {
            assert_eq!(a.to_bits(), b.to_bits(), "{a:e}");
        }
    }

    #[test]
    fn what_json_cannot_say_is_refused() {
        for value in [f32::NAN, f32::INFINITY] {
            let error = serde_json::to_string(&Matrix::new(1, 1, vec![value])).unwrap_err();
            assert!(error.to_string().contains("a matrix holds"), "{error}");
        }
        let json = r#"{"rows":1,"cols":1,"data":[1e39]}"#;
        assert!(serde_json::from_str::<Matrix>(json).is_err());
    }
}
