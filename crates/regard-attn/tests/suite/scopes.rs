//! Scopes: what the hints say of tiles and ranges is what `allows` says pair by pair.

use proptest::prelude::*;
use regard_attn::scope::{Alignment, And, Causal, Full, Lengths, Window};
use regard_attn::{At, Coverage, Item, Scope};

/// Holds every hint of a scope to `allows` on one tile. A sharp scope also never says less than it
/// could: `Partial` only of mixed tiles, and the narrowest ranges.
fn check_hints(
    scope: &dyn Scope,
    at: At,
    queries: (usize, usize),
    keys: (usize, usize),
    sharp: bool,
) {
    let (queries, keys) = (queries.0..queries.1, keys.0..keys.1);
    let context = format!("{scope:?}, {at:?}, queries {queries:?}, keys {keys:?}");
    let allows = |i, j| scope.allows(at, i, j);
    let any = queries.clone().any(|i| keys.clone().any(|j| allows(i, j)));
    let all = queries.clone().all(|i| keys.clone().all(|j| allows(i, j)));
    match scope.tile(at, queries.clone(), keys.clone()) {
        Coverage::Skip => assert!(!any, "{context}: skips allowed pairs"),
        Coverage::Whole => assert!(all, "{context}: shows forbidden pairs"),
        Coverage::Partial => {
            let mixed = any && !all;
            assert!(mixed || !sharp || queries.is_empty() || keys.is_empty(), "{context}: slow");
        }
    }

    let seen = scope.keys(at, queries.clone());
    let allowed: Vec<usize> =
        (0..at.kv_len).filter(|j| queries.clone().any(|i| allows(i, *j))).collect();
    check_range(&format!("{context}: keys"), seen, at.kv_len, &allowed, sharp);

    let seers = scope.queries(at, keys.clone());
    let allowed: Vec<usize> =
        (0..at.q_len).filter(|i| keys.clone().any(|j| allows(*i, j))).collect();
    check_range(&format!("{context}: queries"), seers, at.q_len, &allowed, sharp);
}

fn check_range(
    context: &str,
    range: std::ops::Range<usize>,
    len: usize,
    allowed: &[usize],
    sharp: bool,
) {
    assert!(range.start <= range.end && range.end <= len, "{context}: {range:?} of {len}");
    assert!(allowed.iter().all(|n| range.contains(n)), "{context}: {range:?} misses {allowed:?}");
    if let (true, Some(first), Some(last)) = (sharp, allowed.first(), allowed.last()) {
        assert_eq!(range, *first..last + 1, "{context}");
    }
    if sharp && allowed.is_empty() {
        assert!(range.is_empty(), "{context}: {range:?}");
    }
}

/// Part of 0..len, not empty; two numbers in [0, 1) choose it.
fn part(len: usize, a: f64, b: f64) -> (usize, usize) {
    let start = (a * len as f64) as usize;
    (start, start + 1 + (b * (len - start) as f64) as usize)
}

fn check_all(
    at: At,
    queries: (usize, usize),
    keys: (usize, usize),
    left: usize,
    right: usize,
    len: usize,
) {
    let lengths = Lengths { kv: &[len] };
    let window = Window { left, right };
    let top = Causal { alignment: Alignment::TopLeft };
    let bottom = Causal { alignment: Alignment::BottomRight };
    let endless = Window { left: usize::MAX, right: usize::MAX };
    let streaming = Window { left: usize::MAX, right };
    let single: [&dyn Scope; 7] = [&Full, &lengths, &window, &top, &bottom, &endless, &streaming];
    for scope in single {
        check_hints(scope, at, queries, keys, true);
    }
    let pairs: [&dyn Scope; 4] = [
        &And(&[&window, &lengths]),
        &And(&[&top, &lengths]),
        &And(&[&window, &bottom, &lengths]),
        &And(&[&Full, &And(&[&window, &top])]),
    ];
    for scope in pairs {
        check_hints(scope, at, queries, keys, false);
        check_hints(scope, at, (0, 0), keys, false);
        check_hints(scope, at, queries, (0, 0), false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn hints_agree_with_allows(
        q_len in 1usize..24,
        kv_len in 1usize..24,
        (left, right) in (0usize..8, 0usize..8),
        tile in (0.0..1.0, 0.0..1.0, 0.0..1.0, 0.0..1.0),
        len in 0.0..1.0,
    ) {
        let at = At { item: 0, head: 0, q_len, kv_len };
        let len = (len * (kv_len + 1) as f64) as usize;
        let (queries, keys) = (part(q_len, tile.0, tile.1), part(kv_len, tile.2, tile.3));
        check_all(at, queries, keys, left, right, len);
    }
}

#[test]
fn hints_agree_with_allows_on_every_small_tile() {
    for (q_len, kv_len) in [(1, 1), (3, 3), (4, 2), (2, 5)] {
        let at = At { item: 0, head: 0, q_len, kv_len };
        for q0 in 0..q_len {
            for q1 in q0 + 1..=q_len {
                for k0 in 0..kv_len {
                    for k1 in k0 + 1..=kv_len {
                        for side in [0, 1, 6] {
                            check_all(at, (q0, q1), (k0, k1), side, 1, kv_len / 2);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_window_as_wide_as_the_item_is_full() {
    let at = At { item: 0, head: 0, q_len: 5, kv_len: 7 };
    for window in [Window { left: 4, right: 6 }, Window { left: usize::MAX, right: usize::MAX }] {
        assert!((0..5).all(|i| (0..7).all(|j| window.allows(at, i, j))));
        assert_eq!(window.tile(at, 0..5, 0..7), Coverage::Whole);
    }
}

#[test]
fn scopes_say_what_they_allow() {
    let scope = And(&[
        &Window { left: usize::MAX, right: 3 },
        &Causal { alignment: Alignment::BottomRight },
        &Lengths { kv: &[1] },
    ]);
    assert_eq!(
        scope.describe(),
        "window of all before and 3 after and causal up to the last query and key and real keys \
         only, no padding"
    );
    assert_eq!(Full.describe(), "full");
    scope.check(&[Item { q_start: 0, q_len: 2, kv_start: 0, kv_len: 1 }]).unwrap();
}
