//! Parameters that do not change any more.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use regard_tensor::Real;
use regard_tensor::kernels::matmul::{Mat, Packed};

use crate::{ParamId, Params};

/// A parameter and the columns of it that stand for a matrix.
type Part = (ParamId, Range<usize>);

/// Parameters that do not change any more, their matrices kept in the order in which products read them.
///
/// For many forward passes with the same values: prediction, and writing token by token. Each matrix is
/// packed when a [`Tape::inference`](crate::Tape::inference) first multiplies with it, and kept beside the
/// parameters: up to as much memory again. Results have the same bits as without.
#[derive(Debug)]
pub struct PackedParams<T: Real> {
    params: Params<T>,
    matrices: Mutex<HashMap<Part, Arc<Packed<T>>>>,
}

impl<T: Real> PackedParams<T> {
    /// Over these values as they are now; nothing is copied or packed yet.
    pub fn new(params: &Params<T>) -> Self {
        Self { params: params.clone(), matrices: Mutex::default() }
    }

    /// The parameters.
    pub fn params(&self) -> &Params<T> {
        &self.params
    }

    /// The transpose of some columns of a parameter `[out, in]`, packed as a right factor.
    pub(crate) fn transposed(&self, id: ParamId, columns: Range<usize>) -> Arc<Packed<T>> {
        let lock = || self.matrices.lock().unwrap_or_else(PoisonError::into_inner);
        let part = (id, columns);
        if let Some(packed) = lock().get(&part) {
            return Arc::clone(packed);
        }
        // Not under the lock: packing is parallel, and a thread that waits for it may come by here again.
        let w = self.params.tensor(id);
        let columns = &part.1;
        let w = Mat::strided(&w.data()[columns.start..], w.dim(0), columns.len(), w.cols());
        let packed = Arc::new(Packed::new(w.t()));
        Arc::clone(lock().entry(part).or_insert(packed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Activation, Direction};
    use crate::{Init, Mode, ParamSpecs, Ragged, Tape, Var};

    #[test]
    fn packed_parameters_give_the_same_bits_and_stay_what_they_were() {
        let mut specs = ParamSpecs::new();
        let w = specs.add("w", &[37, 20], Init::Glorot);
        let (w_ih, w_hh) =
            (specs.add("ih", &[24, 37], Init::Glorot), specs.add("hh", &[24, 8], Init::Glorot));
        let (b_ih, b_hh) =
            (specs.add("b", &[24], Init::Normal(0.1)), specs.add("c", &[24], Init::Normal(0.1)));
        let x = specs.add("x", &[5, 20], Init::Normal(1.0));
        let mut params = Params::<f32>::new(specs, 1);
        let run = |tape: &mut Tape<'_, f32>| {
            let [x, w, w_ih, w_hh, b_ih, b_hh] =
                [x, w, w_ih, w_hh, b_ih, b_hh].map(|id| tape.param(id));
            let y: Var = tape.linear(x, w, None, Activation::Tanh, None).unwrap();
            let items = Ragged::new(&[2, 3]);
            let h = tape.gru(y, &items, (w_ih, w_hh), (b_ih, b_hh), Direction::Forward).unwrap();
            tape.value(h).data().to_vec()
        };
        let want = run(&mut Tape::new(&params, Mode::Inference));
        let packed = PackedParams::new(&params);
        assert_eq!(run(&mut Tape::inference(&packed)), want);
        assert_eq!(run(&mut Tape::inference(&packed)), want);
        params.flat_mut().fill(0.0);
        assert_eq!(run(&mut Tape::inference(&packed)), want);
    }
}
