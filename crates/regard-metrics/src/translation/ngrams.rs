//! How many n-grams of a hypothesis occur in its references.

/// One place of a text: which text, and where the n-gram begins.
type Place = (usize, usize);

/// Matches of each order: matched_n = Σ_g min(h(g), max_r ref_r(g)) over the n-grams g of length n, for n = 1 to `max_order`,
/// with h(g) and ref_r(g) the occurrences in the hypothesis and in reference r.
///
/// All places of all texts are sorted once by the `max_order` items that follow them; the n-grams of every order then stand beside their
/// likes. Time O(L log L · `max_order`) and memory O(L) for L items in all, whatever repeats.
pub(crate) fn matched<T: Ord + Copy>(
    hypothesis: &[T],
    references: &[&[T]],
    max_order: usize,
) -> Vec<u64> {
    let texts: Vec<&[T]> = std::iter::once(hypothesis).chain(references.iter().copied()).collect();
    let window = |(text, start): Place| {
        let text = texts[text];
        &text[start..text.len().min(start + max_order)]
    };
    let mut places: Vec<Place> = Vec::with_capacity(texts.iter().map(|text| text.len()).sum());
    for (text, items) in texts.iter().enumerate() {
        places.extend((0..items.len()).map(|start| (text, start)));
    }
    places.sort_unstable_by(|&a, &b| window(a).cmp(window(b)));

    let mut occurrences = vec![0_u64; texts.len()];
    let mut matched = vec![0; max_order];
    for (order, matched) in (1..=max_order).zip(&mut matched) {
        // A place so near to the end that it has no n-gram of this order is left out; those of one n-gram stay together.
        let mut grams = places.iter().copied().filter(|&place| window(place).len() >= order);
        let mut next = grams.next();
        while let Some(first) = next {
            let gram = &window(first)[..order];
            occurrences.fill(0);
            occurrences[first.0] += 1;
            next = grams.next();
            while let Some(place) = next.filter(|&place| window(place)[..order] == *gram) {
                occurrences[place.0] += 1;
                next = grams.next();
            }
            let in_references = occurrences[1..].iter().copied().max().unwrap_or(0);
            *matched += occurrences[0].min(in_references);
        }
    }
    matched
}

/// n-grams of one order in a text of `len` items.
pub(crate) fn total(len: usize, order: usize) -> u64 {
    (len + 1).saturating_sub(order) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn count(text: &[char], order: usize) -> BTreeMap<&[char], u64> {
        let mut counts = BTreeMap::new();
        for gram in text.windows(order) {
            *counts.entry(gram).or_insert(0) += 1;
        }
        counts
    }

    /// The definition, word for word.
    fn plain(hypothesis: &[char], references: &[&[char]], order: usize) -> u64 {
        let in_references: Vec<_> = references.iter().map(|text| count(text, order)).collect();
        let most = |gram| in_references.iter().filter_map(|r| r.get(gram).copied()).max();
        let own = count(hypothesis, order);
        own.iter().map(|(gram, &n)| n.min(most(gram).unwrap_or(0))).sum()
    }

    proptest! {
        #[test]
        fn sorted_places_count_as_the_definition_does(
            hypothesis in "[ab]{0,13}|[a-d]{0,7}",
            references in prop::collection::vec("[ab]{0,11}|[a-d]{0,7}", 0..4),
        ) {
            let hypothesis: Vec<char> = hypothesis.chars().collect();
            let references: Vec<Vec<char>> = references.iter().map(|r| r.chars().collect()).collect();
            let references: Vec<&[char]> = references.iter().map(Vec::as_slice).collect();
            let found = matched(&hypothesis, &references, 5);
            for order in 1..=5 {
                prop_assert_eq!(found[order - 1], plain(&hypothesis, &references, order));
            }
        }
    }

    #[test]
    fn totals_of_short_texts() {
        assert_eq!([0, 1, 2, 5].map(|len| total(len, 2)), [0, 0, 1, 4]);
    }
}
