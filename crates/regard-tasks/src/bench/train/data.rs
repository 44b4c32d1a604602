//! Batches drawn by the addressed generator: the same on every machine.

use regard_nn::Ragged;
use regard_nn::models::TokenIds;
use regard_tensor::Key;

use super::cases::TrainCase;

/// Batches that the steps take in turn.
pub(super) const BATCHES: usize = 10;

/// Words and their labels.
pub(super) struct Batch {
    pub(super) ids: TokenIds,
    pub(super) labels: Vec<u32>,
}

/// [`BATCHES`] batches: words drawn evenly from the vocabulary; a word's label is its number modulo the
/// number of labels, so that there is something to learn.
pub(super) fn batches(case: &TrainCase) -> Vec<Batch> {
    let key = Key::new(0).named("bench train");
    let items = Ragged::new(&vec![case.length; case.batch]);
    let n = case.tokens();
    let batch = |b: usize| {
        let key = key.child(b as u64);
        let words: Vec<u32> = (0..n as u32).map(|i| key.below(i, case.n_words as u32)).collect();
        let labels = words.iter().map(|word| word % case.n_labels as u32).collect();
        let ids = TokenIds {
            items: items.clone(),
            distinct: vec![0; n],
            words,
            chars: Vec::new(),
            char_items: Ragged::new(&[]),
        };
        Batch { ids, labels }
    };
    (0..BATCHES).map(batch).collect()
}
