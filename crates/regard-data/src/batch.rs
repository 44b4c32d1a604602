//! Which sentences go into a batch together.

use crate::rng::SplitMix64;

/// Sentences are sorted by length within buckets of this many batches: enough for batches of like
/// lengths, few enough for an order that differs from epoch to epoch.
const BATCHES_PER_BUCKET: usize = 64;

/// Batches for one epoch of training: the indices `0..lengths.len()`, each exactly once.
///
/// The sentences are shuffled, sorted by length within large buckets, cut into batches of at most
/// `batch_tokens` words in all (a longer sentence is a batch of its own), and the batches
/// shuffled. The same arguments give the same batches; another `epoch` or `seed`, others.
///
/// ```
/// let lengths = [3, 9, 2, 4, 30, 5];
/// let batches = regard_data::plan(&lengths, 10, 1, 0);
/// let mut all: Vec<usize> = batches.concat();
/// all.sort();
/// assert_eq!(all, [0, 1, 2, 3, 4, 5]);
/// assert!(batches.contains(&vec![4]));
/// ```
pub fn plan(lengths: &[usize], batch_tokens: usize, seed: u64, epoch: u64) -> Vec<Vec<usize>> {
    let mut rng = SplitMix64::new(seed, epoch);
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    rng.shuffle(&mut order);
    let mut batches = Vec::new();
    for mut bucket in cut(&order, lengths, batch_tokens.saturating_mul(BATCHES_PER_BUCKET)) {
        bucket.sort_by_key(|&i| lengths[i]);
        batches.extend(cut(&bucket, lengths, batch_tokens));
    }
    rng.shuffle(&mut batches);
    batches
}

/// Batches for evaluation: all sentences by length, then by index, cut as in [`plan`]. The indices
/// tell where each result belongs.
///
/// ```
/// assert_eq!(
///     regard_data::plan_in_order(&[3, 9, 2, 4], 10),
///     [vec![2, 0, 3], vec![1]],
/// );
/// ```
pub fn plan_in_order(lengths: &[usize], batch_tokens: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&i| lengths[i]);
    cut(&order, lengths, batch_tokens)
}

/// Runs of `order` of at most `limit` words each, and of at least one sentence.
fn cut(order: &[usize], lengths: &[usize], limit: usize) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<usize>> = Vec::new();
    let mut n_words = 0usize;
    for &i in order {
        n_words = n_words.saturating_add(lengths[i]);
        match runs.last_mut() {
            Some(run) if n_words <= limit => run.push(i),
            _ => {
                runs.push(vec![i]);
                n_words = lengths[i];
            }
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(batches: &[Vec<usize>], lengths: &[usize], batch_tokens: usize) {
        let mut all = batches.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..lengths.len()), "every sentence once");
        for batch in batches {
            let n_words: usize = batch.iter().map(|&i| lengths[i]).sum();
            assert!(!batch.is_empty());
            assert!(n_words <= batch_tokens || batch.len() == 1, "{n_words} words");
        }
    }

    proptest! {
        #[test]
        fn every_sentence_once_and_no_batch_too_large(
            lengths in prop::collection::vec(0usize..50, 0..400),
            batch_tokens in 0usize..120,
            seed: u64,
            epoch: u64,
        ) {
            let batches = plan(&lengths, batch_tokens, seed, epoch);
            check(&batches, &lengths, batch_tokens);
            prop_assert_eq!(&batches, &plan(&lengths, batch_tokens, seed, epoch));
            let batches = plan_in_order(&lengths, batch_tokens);
            check(&batches, &lengths, batch_tokens);
            let order = batches.concat();
            prop_assert!(order.is_sorted_by_key(|&i| (lengths[i], i)));
        }
    }

    #[test]
    fn epochs_and_seeds_differ_and_lengths_agree() {
        // Lengths of no order, 1 to 40.
        let lengths: Vec<usize> = (0..5003).map(|i| 1 + i * 7919 % 40).collect();
        let first = plan(&lengths, 500, 1, 0);
        assert_ne!(first, plan(&lengths, 500, 1, 1));
        assert_ne!(first, plan(&lengths, 500, 2, 0));
        assert_ne!(plan(&lengths, 500, 1, 1), plan(&lengths, 500, 2, 1));
        check(&first, &lengths, 500);
        // Not only the batches' order: their members differ too.
        let sets = |batches: Vec<Vec<usize>>| {
            batches
                .into_iter()
                .map(|mut batch| {
                    batch.sort_unstable();
                    batch
                })
                .collect::<std::collections::BTreeSet<_>>()
        };
        assert!(sets(first.clone()).is_disjoint(&sets(plan(&lengths, 500, 1, 1))));
        // Padding to the longest would add less than a tenth; unsorted it would near double.
        let padded: usize = first
            .iter()
            .map(|batch| batch.len() * batch.iter().map(|&i| lengths[i]).max().unwrap_or(0))
            .sum();
        let n_words: usize = lengths.iter().sum();
        assert!(padded * 10 < n_words * 11, "{padded} for {n_words}");
    }

    #[test]
    fn edges() {
        assert!(plan(&[], 10, 0, 0).is_empty());
        assert!(plan_in_order(&[], 10).is_empty());
        assert_eq!(plan_in_order(&[1, 1], 0), [vec![0], vec![1]]);
        // A sum beyond the largest number counts as that number.
        assert_eq!(plan_in_order(&[usize::MAX, 1], usize::MAX - 1), [vec![1], vec![0]]);
    }
}
