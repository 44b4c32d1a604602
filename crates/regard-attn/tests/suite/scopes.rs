//! Scopes: what the hints say of tiles and ranges is what `allows` says pair by pair.

use proptest::prelude::*;
use regard_attn::scope::{
    Alignment, And, Blocks, Causal, Documents, EdgeRows, Full, Given, Graph, Lengths, Or,
    PredictedCentre, SelfLoops, Window, Window2d,
};
use regard_attn::{At, Coverage, Item, Scope};
use regard_testkit::random_vec;

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

    if scope.contiguous() {
        for i in queries.clone() {
            let seen = scope.keys(at, i..i + 1);
            assert!(
                seen.clone().all(|j| allows(i, j)),
                "{context}: {seen:?} is more than {i} sees"
            );
        }
    }

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
        let at = At { item: 0, head: 0, q_len, kv_len, q_offset: 0 };
        let len = (len * (kv_len + 1) as f64) as usize;
        let (queries, keys) = (part(q_len, tile.0, tile.1), part(kv_len, tile.2, tile.3));
        check_all(at, queries, keys, left, right, len);
    }
}

/// True with probability `density`, drawn from a seed.
fn coins(seed: u64, n: usize, density: f64) -> Vec<bool> {
    random_vec(seed, n).iter().map(|x| 0.5 * (x + 1.0) < density).collect()
}

/// Scopes that need items of their own shape: both lengths are multiples of `width`.
fn check_shaped(
    (width, rows, key_rows): (usize, usize, usize),
    tile: (f64, f64, f64, f64),
    radius: usize,
    density: f64,
    seed: u64,
) {
    let item = |q_len, kv_len| Item { q_start: 0, q_len, kv_start: 0, kv_len, q_offset: 0 };
    let (q_len, kv_len) = (width * rows, width * key_rows);
    let at = At { item: 0, head: 0, q_len, kv_len, q_offset: 0 };
    let (queries, keys) = (part(q_len, tile.0, tile.1), part(kv_len, tile.2, tile.3));
    let mask = coins(seed, q_len * kv_len, density);
    let edges: Vec<(usize, usize)> =
        (0..q_len * kv_len).filter(|n| mask[*n]).map(|n| (n / kv_len, n % kv_len)).collect();
    let edge_rows = EdgeRows::new(q_len, &edges).unwrap();
    let (masks, graphs) = ([&mask[..]], [edge_rows.csr()]);
    let window = Window2d { width, radius };
    let blocks = Blocks { size: radius + 1 };
    let given = Given { allowed: &masks };
    let graph = Graph { graphs: &graphs, self_loops: SelfLoops::AsGiven };
    let centres: Vec<f64> =
        random_vec(seed, q_len).iter().map(|x| (0.5 + x) * (kv_len + 4) as f64).collect();
    let predicted = PredictedCentre { centres: &[&centres], radius };
    let sharp: [&dyn Scope; 5] = [&window, &blocks, &given, &graph, &predicted];
    for scope in sharp {
        scope.check(&[item(q_len, kv_len)]).unwrap();
        check_hints(scope, at, queries, keys, true);
        assert_eq!(scope.tile(at, 0..0, keys.0..keys.1), Coverage::Skip, "{scope:?}");
    }
    let near = Window { left: radius, right: 1 };
    let blunt: [&dyn Scope; 4] = [
        &Or(&[&near, &given]),
        &Or(&[&blocks, &graph, &window]),
        &And(&[&Or(&[&near, &blocks]), &given]),
        &Or(&[]),
    ];
    for scope in blunt {
        check_hints(scope, at, queries, keys, false);
        check_hints(scope, at, (0, 0), keys, false);
        check_hints(scope, at, queries, (0, 0), false);
    }

    // As many queries as keys.
    let square = At { q_len: kv_len, ..at };
    let queries = part(kv_len, tile.0, tile.1);
    let own: Vec<(usize, usize)> = edges.into_iter().filter(|edge| edge.0 < kv_len).collect();
    let own_rows = EdgeRows::new(kv_len, &own).unwrap();
    let graphs = [own_rows.csr()];
    let graph = Graph { graphs: &graphs, self_loops: SelfLoops::Added };
    // Documents that end after some of the tokens, now and then with an empty one between.
    let mut lengths = Vec::new();
    let mut start = 0;
    for end in (1..kv_len).filter(|n| mask[*n]).chain([kv_len]) {
        lengths.push(end - start);
        lengths.extend((end % 3 == 0).then_some(0));
        start = end;
    }
    let documents = Documents::from_lengths(&[&lengths]);
    let sharp: [&dyn Scope; 2] = [&graph, &documents];
    for scope in sharp {
        scope.check(&[item(kv_len, kv_len)]).unwrap();
        check_hints(scope, square, queries, keys, true);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn hints_of_shaped_scopes_agree_with_allows(
        shape in (1usize..7, 1usize..5, 1usize..5),
        tile in (0.0..1.0, 0.0..1.0, 0.0..1.0, 0.0..1.0),
        radius in 0usize..4,
        density in prop_oneof![Just(0.0), Just(1.0), 0.0..1.0],
        seed in any::<u64>(),
    ) {
        check_shaped(shape, tile, radius, density, seed);
    }
}

#[test]
fn a_window_in_two_dimensions_does_not_wrap() {
    let (width, height) = (5, 4);
    let at = At { item: 0, head: 0, q_len: 20, kv_len: 20, q_offset: 0 };
    for radius in 0..6 {
        let window = Window2d { width, radius };
        for (i, j) in (0..20).flat_map(|i| (0..20).map(move |j| (i, j))) {
            let ((y, x), (v, u)) = ((i / width, i % width), (j / width, j % width));
            assert_eq!(window.allows(at, i, j), y.abs_diff(v).max(x.abs_diff(u)) <= radius);
        }
    }
    let all = Window2d { width, radius: height };
    assert_eq!(all.tile(at, 0..20, 0..20), Coverage::Whole);
    let unlimited = Window2d { width, radius: usize::MAX };
    assert_eq!(unlimited.keys(at, 7..8), 0..20);
    // In images of one row it is the window in one dimension.
    let (line, window) = (Window2d { width: 20, radius: 3 }, Window { left: 3, right: 3 });
    assert!((0..20).all(|i| (0..20).all(|j| line.allows(at, i, j) == window.allows(at, i, j))));
}

#[test]
fn a_centre_that_moves_along_is_a_window() {
    let at = At { item: 0, head: 0, q_len: 9, kv_len: 9, q_offset: 0 };
    let centres: Vec<f64> = (0..9).map(|i| f64::from(i) + 0.75).collect();
    for radius in [0, 2, 8, usize::MAX] {
        let (window, predicted) = (
            Window { left: radius, right: radius },
            PredictedCentre { centres: &[&centres], radius },
        );
        for i in 0..9 {
            assert!((0..9).all(|j| predicted.allows(at, i, j) == window.allows(at, i, j)));
        }
    }
    // Rounded down, below zero too.
    let scope = PredictedCentre { centres: &[&[-0.25; 9]], radius: 1 };
    assert_eq!(scope.keys(at, 0..9), 0..1);
}

#[test]
fn documents_and_blocks_are_items_of_their_own() {
    let at = At { item: 0, head: 0, q_len: 8, kv_len: 8, q_offset: 0 };
    let documents = Documents::from_lengths(&[&[3, 3, 2]]);
    let blocks = Blocks { size: 3 };
    assert!((0..8).all(|i| (0..8).all(|j| documents.allows(at, i, j) == blocks.allows(at, i, j))));
    assert_eq!(Documents::from_ids(&[&[9, 9, 9, 1, 1, 1, 4, 4]]).unwrap(), documents);
    assert_eq!(blocks.describe(), "blocks of 3");
}

#[test]
fn one_mask_or_graph_serves_all_items() {
    let mask = [true, false, false, true, true, false];
    let (one, each) = ([&mask[..]], [&mask[..], &mask[..]]);
    let rows = EdgeRows::new(2, &[(1, 1), (0, 0), (1, 0)]).unwrap();
    let (graph, graphs) = ([rows.csr()], [rows.csr(), rows.csr()]);
    let self_loops = SelfLoops::AsGiven;
    let items = [Item { q_start: 0, q_len: 2, kv_start: 0, kv_len: 3, q_offset: 0 }; 2];
    let scopes: [&dyn Scope; 4] = [
        &Given { allowed: &one },
        &Given { allowed: &each },
        &Graph { graphs: &graph, self_loops },
        &Graph { graphs: &graphs, self_loops },
    ];
    for scope in scopes {
        scope.check(&items).unwrap();
        for item in 0..2 {
            let at = At { item, head: 0, q_len: 2, kv_len: 3, q_offset: 0 };
            let seen: Vec<bool> = (0..6).map(|n| scope.allows(at, n / 3, n % 3)).collect();
            assert_eq!(seen, mask, "{scope:?}");
        }
    }
}

#[test]
fn weights_by_column_come_back_in_the_order_of_the_edges() {
    let edges = [(2, 0), (0, 3), (2, 3), (0, 1), (1, 1)];
    let rows = EdgeRows::new(3, &edges).unwrap();
    // A number for each column that names its edge.
    let csr = rows.csr();
    let by_column: Vec<usize> =
        (0..3).flat_map(|i| csr.row(i).iter().map(move |j| 10 * i + j)).collect();
    let by_edge: Vec<usize> = rows.place().iter().map(|n| by_column[*n]).collect();
    assert_eq!(by_edge, edges.map(|(i, j)| 10 * i + j));
}

#[test]
fn hints_agree_with_allows_on_every_small_tile() {
    for (q_len, kv_len) in [(1, 1), (3, 3), (4, 2), (2, 5)] {
        let at = At { item: 0, head: 0, q_len, kv_len, q_offset: 0 };
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
    let at = At { item: 0, head: 0, q_len: 5, kv_len: 7, q_offset: 0 };
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
    scope.check(&[Item { q_start: 0, q_len: 2, kv_start: 0, kv_len: 1, q_offset: 0 }]).unwrap();
}
