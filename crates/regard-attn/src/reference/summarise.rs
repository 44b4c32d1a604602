//! Summaries, from whole rows of weights.

use regard_tensor::Real;

use super::{Turned, row};
use crate::summary::{Summary, Wanted, distance_bin, insert_top};
use crate::{AttnError, Call, Rows};

/// The summaries of a call's weights, see [`Summary`].
///
/// # Errors
/// Those of [`Call::check`] (there are no values to check) and of [`Wanted::check`].
pub fn summarise<T: Real>(
    call: &Call<'_, T>,
    q: Rows<'_, T>,
    k: Rows<'_, T>,
    wanted: Wanted,
) -> Result<Summary<T>, AttnError> {
    call.check_scores(q, k)?;
    wanted.check(call)?;
    let n_queries = call.n_queries();
    let (queries, keys) = (call.query_offsets(), call.key_offsets());
    let mut out = Summary::zeros(call, wanted);
    for (n, item) in call.items.iter().enumerate() {
        let turned = Turned::new(call, *item, q, k);
        for head in 0..call.dims.n_heads {
            let at = call.at(n, head);
            for i in 0..item.q_len {
                let Some(row) = row(call, at, i, &turned) else { continue };
                let place = head * n_queries + queries[n] + i;
                if wanted.entropy {
                    out.entropy[place] = row.entropy(call);
                }
                if wanted.choices {
                    let chosen = row.chosen();
                    out.chosen[place] = chosen.unwrap_or(out.chosen[place]);
                    out.log_prob[place] = chosen.map_or(row.lse, |c| row.scores[c] - row.lse);
                }
                for j in 0..item.kv_len {
                    let weight = row.weights[j];
                    if wanted.key_sums {
                        out.key_sums[head * call.n_keys() + keys[n] + j] += weight;
                    }
                    insert_top(&mut out.top[place * wanted.top..][..wanted.top], j, weight);
                    if let Some(radius) = wanted.distances {
                        let bin = distance_bin(item.q_offset + i, j, radius);
                        out.distances[head * (2 * radius + 1) + bin] +=
                            weight / T::from_f64(n_queries as f64);
                    }
                }
            }
        }
    }
    Ok(out)
}
