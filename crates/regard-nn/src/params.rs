//! Parameters: named arrays in one flat buffer.
//!
//! A model first lists its parameters in [`ParamSpecs`]; [`Params::new`] allocates all of them at
//! once and draws their first values. Gradients live in a second flat buffer of the same layout,
//! which is what optimisers walk over in one pass.

use std::sync::Arc;

use regard_tensor::kernels::reduce;
use regard_tensor::{Buffer, Key, Real, Shape, Tensor, simd};

/// Names one parameter of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ParamId(usize);

/// How a parameter's first values are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// All the same.
    Constant(f64),
    /// Uniform in ±√(6 / (fan_in + fan_out)) (Glorot and Bengio 2010, eq. 16); a matrix is
    /// `[fan_out, fan_in]`.
    Glorot,
    /// Normal with mean 0 and this standard deviation.
    Normal(f64),
    /// Uniform in ± this bound.
    Uniform(f64),
    /// Blocks of rows, each a random orthogonal square (Saxe et al. 2014): for the recurrent
    /// matrices `[gates·hidden, hidden]`.
    Orthogonal,
    /// Zero, but one in the second quarter: the forget gate of a fresh LSTM stays open
    /// (Jozefowicz et al. 2015).
    ForgetGate,
}

/// One parameter before it has values.
#[derive(Debug, Clone)]
pub struct ParamSpec {
    /// Its name in checkpoints, such as `layers.0.norm.gain`.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
    /// Its first values.
    pub init: Init,
    /// First element in the flat buffer.
    offset: usize,
}

/// The list of a model's parameters.
#[derive(Debug, Default, Clone)]
pub struct ParamSpecs {
    list: Vec<ParamSpec>,
    prefix: Vec<String>,
    total: usize,
}

impl ParamSpecs {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a parameter; the name gets the prefixes of the scopes around it.
    ///
    /// # Panics
    /// If the name is taken: names are written in the program.
    pub fn add(&mut self, name: &str, dims: &[usize], init: Init) -> ParamId {
        let mut full = self.prefix.join(".");
        if !full.is_empty() {
            full.push('.');
        }
        full.push_str(name);
        assert!(self.list.iter().all(|p| p.name != full), "parameter {full} is listed once");
        let shape = Shape::new(dims);
        self.list.push(ParamSpec { name: full, shape, init, offset: self.total });
        // Every parameter begins on a cache line.
        self.total += shape.size().next_multiple_of(16);
        ParamId(self.list.len() - 1)
    }

    /// Length of the flat buffer that the list needs, which counts the gaps that align parameters.
    pub fn flat_len(&self) -> usize {
        self.total
    }

    /// Runs `f` with `name.` before every name.
    pub fn scope<R>(&mut self, name: impl Into<String>, f: impl FnOnce(&mut Self) -> R) -> R {
        self.prefix.push(name.into());
        let result = f(self);
        self.prefix.pop();
        result
    }
}

/// A model's parameters with their values.
#[derive(Debug, Clone)]
pub struct Params<T: Real> {
    specs: Arc<[ParamSpec]>,
    values: Arc<Buffer<T>>,
}

impl<T: Real> Params<T> {
    /// Allocates the list and draws the first values; the value of a parameter depends on the
    /// seed and its name alone.
    pub fn new(specs: ParamSpecs, seed: u64) -> Self {
        let mut values = Buffer::zeroed(specs.total);
        let key = Key::new(seed).named("init");
        for spec in &specs.list {
            let out = &mut values[spec.offset..spec.offset + spec.shape.size()];
            draw(out, spec, key.named(&spec.name));
        }
        Self { specs: specs.list.into(), values: Arc::new(values) }
    }

    /// Allocates the list with zeros, for values that come from elsewhere.
    pub fn zeros(specs: ParamSpecs) -> Self {
        let values = Arc::new(Buffer::zeroed(specs.total));
        Self { specs: specs.list.into(), values }
    }

    /// Length of the flat buffer, which counts the gaps that align parameters.
    pub fn flat_len(&self) -> usize {
        self.values.len()
    }

    /// Number of trained values.
    pub fn count(&self) -> usize {
        self.specs.iter().map(|p| p.shape.size()).sum()
    }

    /// All values in one run, gaps included.
    pub fn flat(&self) -> &[T] {
        &self.values
    }

    /// All values in one run for writing.
    pub fn flat_mut(&mut self) -> &mut [T] {
        self.parts_mut().1
    }

    /// The list, and all values in one run for writing.
    pub fn parts_mut(&mut self) -> (&[ParamSpec], &mut [T]) {
        if Arc::get_mut(&mut self.values).is_none() {
            self.values = Arc::new(Buffer::copy_of(&self.values));
        }
        let values = Arc::get_mut(&mut self.values).expect("the buffer was just made unique");
        (&self.specs, values)
    }

    /// A parameter's values; nothing is copied.
    pub fn tensor(&self, id: ParamId) -> Tensor<T> {
        let spec = &self.specs[id.0];
        Tensor::view(Arc::clone(&self.values), spec.offset, &spec.shape)
    }

    /// Where a parameter lies in the flat buffer.
    pub fn range(&self, id: ParamId) -> std::ops::Range<usize> {
        self.specs[id.0].range()
    }

    /// The list, in the order of the flat buffer.
    pub fn specs(&self) -> &[ParamSpec] {
        &self.specs
    }
}

impl ParamSpec {
    /// Where the parameter lies in the flat buffer.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.shape.size()
    }
}

fn draw<T: Real>(out: &mut [T], spec: &ParamSpec, key: Key) {
    let uniform = |out: &mut [T], bound: f64| {
        for (i, x) in out.iter_mut().enumerate() {
            *x = T::from_f64(bound * (2.0 * f64::from(key.uniform(i as u32)) - 1.0));
        }
    };
    match spec.init {
        Init::Constant(c) => out.fill(T::from_f64(c)),
        Init::Uniform(bound) => uniform(out, bound),
        Init::Glorot => {
            let fans = spec.shape.iter().product::<usize>() / spec.shape[0].max(1) + spec.shape[0];
            uniform(out, (6.0 / fans as f64).sqrt());
        }
        Init::Normal(sd) => {
            for (i, x) in out.iter_mut().enumerate() {
                *x = T::from_f64(sd * key.normal(i as u32));
            }
        }
        Init::Orthogonal => {
            let n = spec.shape.last().copied().unwrap_or(0);
            for (b, block) in out.chunks_mut((n * n).max(1)).enumerate() {
                orthogonal(block, n, key.child(b as u64));
            }
        }
        Init::ForgetGate => {
            let quarter = out.len() / 4;
            out[quarter..2 * quarter].fill(T::ONE);
        }
    }
}

/// Rows of normal numbers made orthonormal by Gram and Schmidt (twice, for rounding).
fn orthogonal<T: Real>(out: &mut [T], n: usize, key: Key) {
    let mut rows: Vec<Vec<f64>> = Vec::new();
    for (i, target) in out.chunks_mut(n).enumerate() {
        let mut row: Vec<f64> = (0..n).map(|j| key.normal((i * n + j) as u32)).collect();
        for _ in 0..2 {
            for other in &rows {
                let (row, other) = (&mut row[..], &other[..]);
                simd::vectorise(
                    #[inline(always)]
                    move || {
                        let dot = reduce::dot(row, other);
                        for (a, b) in row.iter_mut().zip(other) {
                            *a -= dot * *b;
                        }
                    },
                );
            }
        }
        let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        for x in &mut row {
            *x /= norm;
        }
        target.iter_mut().zip(&row).for_each(|(t, x)| *t = T::from_f64(*x));
        rows.push(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recurrent_blocks_start_orthonormal_and_names_decide_values() {
        let mut specs = ParamSpecs::new();
        let w = specs.scope("lstm", |s| s.add("w_hh", &[20, 5], Init::Orthogonal));
        let b = specs.add("b", &[20], Init::ForgetGate);
        let params = Params::<f64>::new(specs.clone(), 3);
        let w = params.tensor(w);
        for i in 0..5 {
            for j in 0..5 {
                let dot: f64 = w.row(10 + i).iter().zip(w.row(10 + j)).map(|(a, b)| a * b).sum();
                assert!((dot - f64::from(u8::from(i == j))).abs() < 1e-12);
            }
        }
        assert_eq!(params.tensor(b).data().iter().sum::<f64>(), 5.0);
        assert_eq!(params.specs()[0].name, "lstm.w_hh");
        assert_ne!(Params::<f64>::new(specs, 4).flat(), params.flat());
    }
}
