//! Rows of a table chosen by index.

use regard_tensor::{Real, Tensor, parallel};

use crate::{NnError, Tape, Var};

impl<T: Real> Tape<'_, T> {
    /// `y_i = table[ids_i]`
    ///
    /// table `[rows, d]` (a parameter or any computed array), y `[ids.len(), d]`;
    /// `d_table[r]` = Σ over i with ids_i = r of dy_i, in order of i.
    ///
    /// # Errors
    /// An id is outside the table.
    pub fn embedding(&mut self, table: Var, ids: &[u32]) -> Result<Var, NnError> {
        let tv = self.value(table).clone();
        let (rows, d) = (tv.rows(), tv.cols());
        if let Some(at) = ids.iter().position(|id| *id as usize >= rows) {
            let index = ids[at] as usize;
            let (operation, what) = ("embedding", "id");
            return Err(NnError::Index { operation, what, index, at, limit: rows });
        }
        let mut y = Tensor::stale(&[ids.len(), d]);
        let step = parallel::rows_per_chunk(d);
        parallel::chunks(y.data_mut(), step * d, ids.len() * d, |i, y| {
            for (y, id) in y.chunks_exact_mut(d.max(1)).zip(&ids[i * step..]) {
                y.copy_from_slice(tv.row(*id as usize));
            }
        });
        let ids: Box<[u32]> = ids.into();
        Ok(self.record(y, &[table], move |dy, grads| {
            let sums = grads.sum(table);
            for (i, id) in ids.iter().enumerate() {
                let at = *id as usize * d;
                sums[at..at + d].iter_mut().zip(dy.row(i)).for_each(|(s, g)| *s += *g);
            }
        }))
    }
}
