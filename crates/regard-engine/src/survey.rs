//! What a scope says of whole tiles, asked once for all heads.

use regard_attn::{At, AttnError, Call, Coverage, Item, Scope, Span};
use regard_tensor::{Real, parallel};

use crate::plan::{KEYS, QUERIES};

/// A scope that looks at memory for each pair (a given mask), with its answers for the tiles that calls are cut into.
#[derive(Debug)]
pub(crate) struct Survey<'a> {
    scope: &'a dyn Scope,
    items: Vec<Surveyed>,
}

/// The answers for one item.
#[derive(Debug)]
struct Surveyed {
    /// Of each tile of queries, the keys that it may see, and what holds of each tile of keys.
    rows: Vec<(Span, Vec<Coverage>)>,
}

impl<'a> Survey<'a> {
    /// Asks for every tile, if it pays off.
    pub(crate) fn of<T: Real>(call: &Call<'a, T>) -> Option<Self> {
        let scope = call.scope;
        if !scope.reads_pairs() || !scope.same_for_heads() {
            return None;
        }
        let of_item = |item: usize| {
            let at = call.at(item, 0);
            let row = |n: usize| {
                let queries = tile(n, QUERIES, at.q_len);
                let of_keys = |m: usize| scope.tile(at, queries.clone(), tile(m, KEYS, at.kv_len));
                let coverage = (0..at.kv_len.div_ceil(KEYS)).map(of_keys).collect();
                (scope.keys(at, queries.clone()), coverage)
            };
            let work = at.q_len * at.kv_len;
            Surveyed { rows: parallel::map(at.q_len.div_ceil(QUERIES), work, row) }
        };
        Some(Self { scope, items: (0..call.items.len()).map(of_item).collect() })
    }
}

/// The call, with a survey in place of its scope where there is one.
pub(crate) fn surveyed<'s, T: Real>(
    call: &Call<'s, T>,
    survey: Option<&'s Survey<'s>>,
) -> Call<'s, T> {
    match survey {
        Some(survey) => Call { scope: survey, ..*call },
        None => *call,
    }
}

/// The n-th of the tiles of `size` that `len` rows are cut into.
fn tile(n: usize, size: usize, len: usize) -> Span {
    n * size..len.min((n + 1) * size)
}

/// Which tile a range is, if it is one.
fn which(range: &Span, size: usize, len: usize) -> Option<usize> {
    (!range.is_empty() && *range == tile(range.start / size, size, len))
        .then_some(range.start / size)
}

/// The scope itself: what is not a whole tile it is asked anew.
impl Scope for Survey<'_> {
    fn name(&self) -> &'static str {
        self.scope.name()
    }

    fn describe(&self) -> String {
        self.scope.describe()
    }

    fn check(&self, items: &[Item]) -> Result<(), AttnError> {
        self.scope.check(items)
    }

    fn allows(&self, at: At, query: usize, key: usize) -> bool {
        self.scope.allows(at, query, key)
    }

    fn tile(&self, at: At, queries: Span, keys: Span) -> Coverage {
        let place = (which(&queries, QUERIES, at.q_len), which(&keys, KEYS, at.kv_len));
        match place {
            (Some(n), Some(m)) => self.items[at.item].rows[n].1[m],
            _ => self.scope.tile(at, queries, keys),
        }
    }

    fn keys(&self, at: At, queries: Span) -> Span {
        match which(&queries, QUERIES, at.q_len) {
            Some(n) => self.items[at.item].rows[n].0.clone(),
            None => self.scope.keys(at, queries),
        }
    }

    fn queries(&self, at: At, keys: Span) -> Span {
        self.scope.queries(at, keys)
    }

    fn contiguous(&self) -> bool {
        self.scope.contiguous()
    }

    fn lists(&self, at: At) -> bool {
        self.scope.lists(at)
    }

    fn same_for_heads(&self) -> bool {
        true
    }

    fn reads_pairs(&self) -> bool {
        false
    }

    fn list(&self, at: At, query: usize, keys: &mut Vec<usize>) {
        self.scope.list(at, query, keys);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regard_attn::normaliser::Softmax;
    use regard_attn::position::NoPosition;
    use regard_attn::scope::{Causal, Given};
    use regard_attn::score::Dot;
    use regard_attn::{Dims, scope::Alignment};
    use regard_testkit::random_vec;

    /// Whatever is asked, tiles and other ranges, it answers as the scope does.
    #[test]
    fn a_survey_answers_as_its_scope() {
        let (q_len, kv_len) = (130, 200);
        let sparse = random_vec(3, q_len * kv_len);
        let mask: Vec<bool> = sparse
            .iter()
            .enumerate()
            .map(|(n, x)| (n % kv_len < 64 && n / kv_len < 70) || (n / kv_len > 127 && *x > 0.9))
            .collect();
        let given = Given { allowed: &[&mask] };
        let items = [Item { q_start: 0, q_len, kv_start: 0, kv_len, q_offset: 0 }];
        let call = Call::<f32> {
            score: &Dot,
            normaliser: &Softmax,
            scope: &given,
            position: &NoPosition,
            dropout: None,
            dims: Dims { n_heads: 2, n_kv_heads: 2, d_k: 1, d_v: 1 },
            items: &items,
        };
        let survey = Survey::of(&call).expect("a mask is surveyed");
        let causal = Causal { alignment: Alignment::TopLeft };
        assert!(Survey::of(&Call { scope: &causal, ..call }).is_none());
        let ends = [0, 1, 63, 64, 65, 128, 129, 130, 192, 200];
        let ranges = |len: usize| {
            let below = move |end: &usize| *end <= len;
            ends.into_iter().filter(below).flat_map(move |start| {
                ends.into_iter()
                    .filter(below)
                    .filter(move |end| start <= *end)
                    .map(move |end| start..end)
            })
        };
        for head in 0..2 {
            let at = call.at(0, head);
            for queries in ranges(q_len).filter(|queries| !queries.is_empty()) {
                assert_eq!(survey.keys(at, queries.clone()), given.keys(at, queries.clone()));
                for keys in ranges(kv_len).filter(|keys| !keys.is_empty()) {
                    let want = given.tile(at, queries.clone(), keys.clone());
                    assert_eq!(
                        survey.tile(at, queries.clone(), keys.clone()),
                        want,
                        "{queries:?} {keys:?}"
                    );
                }
            }
        }
    }
}
