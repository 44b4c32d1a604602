//! Every error, in words: what is at fault, what it must be, and what came.

use regard_attn::normaliser::{Sigmoid, Softmax, Temperature};
use regard_attn::position::{
    Alibi, Chain, DenseBias, Gaussian, Grid, Learned, NoPosition, Position, Quadratic, Relative2d,
    RelativeBias, Rotary, RotaryLayout, Shaw,
};
use regard_attn::scope::{
    And, Blocks, Causal, Csr, Documents, EdgeRows, Full, Given, Graph, Lengths, Or,
    PredictedCentre, Scope, SelfLoops, Window2d,
};
use regard_attn::score::{
    Additive, Dot, Gat, Gatv2, General, HeadScale, Location, Scaled, ScaledDot, Score, Softcap,
};
use regard_attn::{AttnError, Call, Dims, Dropout, Item, Rows, Upstream, Wanted, reference};
use regard_tensor::Key;

const ITEMS: [Item; 2] = [
    Item { q_start: 0, q_len: 3, kv_start: 0, kv_len: 3, q_offset: 0 },
    Item { q_start: 3, q_len: 2, kv_start: 3, kv_len: 4, q_offset: 0 },
];

const DIMS: Dims = Dims { n_heads: 2, n_kv_heads: 1, d_k: 3, d_v: 5 };

const GOOD: Call<'_, f32> = Call {
    score: &Dot,
    normaliser: &Softmax,
    scope: &Full,
    position: &NoPosition,
    dropout: None,
    dims: DIMS,
    items: &ITEMS,
};

const Q: [f32; 30] = [0.5; 30];
const K: [f32; 21] = [0.5; 21];
const V: [f32; 35] = [0.5; 35];

fn q(data: &[f32]) -> Rows<'_, f32> {
    Rows { data, row_stride: 6, head_stride: 3 }
}

fn k(data: &[f32]) -> Rows<'_, f32> {
    Rows { data, row_stride: 3, head_stride: 3 }
}

fn v(data: &[f32]) -> Rows<'_, f32> {
    Rows { data, row_stride: 5, head_stride: 5 }
}

/// What the call says of full arrays.
fn message(call: &Call<'_, f32>) -> String {
    call.check(q(&Q), k(&K), v(&V)).unwrap_err().to_string()
}

fn with_dims(change: impl Fn(&mut Dims)) -> String {
    let mut dims = DIMS;
    change(&mut dims);
    message(&Call { dims, ..GOOD })
}

#[test]
fn sizes() {
    GOOD.check(q(&Q), k(&K), v(&V)).unwrap();
    assert_eq!(with_dims(|d| d.n_heads = 0), "attention: `n_heads` must be at least 1, got 0");
    for n_kv_heads in [0, 3] {
        assert_eq!(
            with_dims(|d| d.n_kv_heads = n_kv_heads),
            format!("attention: `n_kv_heads` must be a divisor of n_heads = 2, got {n_kv_heads}")
        );
    }
    assert_eq!(with_dims(|d| d.d_k = 0), "attention: `d_k` must be at least 1, got 0");
    assert_eq!(with_dims(|d| d.d_v = 0), "attention: `d_v` must be at least 1, got 0");
}

#[test]
fn arrays() {
    let of = |q, k, v| GOOD.check(q, k, v).unwrap_err().to_string();
    assert_eq!(
        of(q(&Q[1..]), k(&K), v(&V)),
        "attention: `query` must be at least 30 elements (5 rows, 2 heads of 3), got 29"
    );
    assert_eq!(
        of(q(&Q), k(&K[1..]), v(&V)),
        "attention: `key` must be at least 21 elements (7 rows, 1 heads of 3), got 20"
    );
    assert_eq!(
        of(q(&Q), k(&K), v(&[])),
        "attention: `value` must be at least 35 elements (7 rows, 1 heads of 5), got 0"
    );
}

#[test]
fn dropout() {
    for rate in [-0.1, 1.0, f64::NAN] {
        let dropout = Some(Dropout { rate, key: Key::new(0) });
        assert_eq!(
            message(&Call { dropout, ..GOOD }),
            format!("attention: option `dropout` must be in [0, 1), got {rate}")
        );
    }
}

#[test]
fn scores() {
    assert_eq!(
        message(&Call { score: &ScaledDot::new(64), ..GOOD }),
        "attention: `d_k` must be 64, the width that the score divides by, got 3"
    );
    assert_eq!(
        message(&Call { score: &Additive { v: &[0.5; 3] }, ..GOOD }),
        "attention: `v` must be n_heads × d_k = 2 × 3 elements, got 3"
    );
    let of = |score: &dyn Score<f32>| message(&Call { score, ..GOOD });
    assert_eq!(
        of(&General { w: &[0.5; 9] }),
        "attention: `w` must be n_heads × d_k × d_k = 2 × 3 × 3 elements, got 9"
    );
    assert_eq!(
        of(&Gat { a: &[0.5; 6], slope: 0.2 }),
        "attention: `a` must be n_heads × 2·d_k = 2 × 6 elements, got 6"
    );
    assert_eq!(
        of(&Gatv2 { a: &[0.5; 12], slope: 0.2 }),
        "attention: `a` must be n_heads × d_k = 2 × 3 elements, got 12"
    );
    let slope = "attention: option `slope` must be finite, got NaN";
    assert_eq!(of(&Gat { a: &[0.5; 12], slope: f32::NAN }), slope);
    assert_eq!(of(&Gatv2 { a: &[0.5; 6], slope: f32::NAN }), slope);
    for cap in [0.0, -1.0, f32::INFINITY, f32::NAN] {
        assert_eq!(
            of(&Softcap { inner: Dot, cap }),
            format!("attention: option `cap` must be finite and above 0, got {cap}")
        );
    }
    assert_eq!(
        of(&Scaled { inner: Dot, factor: f32::INFINITY }),
        "attention: option `factor` must be finite, got inf"
    );
    assert_eq!(
        of(&HeadScale { inner: Dot, factors: &[1.0] }),
        "attention: `factors` must be one for each of the 2 heads, got 1"
    );
    // What is inside is checked too.
    let inside = "attention: `d_k` must be 64, the width that the score divides by, got 3";
    let inner = ScaledDot::new(64);
    assert_eq!(of(&Softcap { inner, cap: 1.0 }), inside);
    assert_eq!(of(&Scaled { inner, factor: 1.0 }), inside);
    assert_eq!(of(&HeadScale { inner: &inner, factors: &[1.0; 2] }), inside);
}

#[test]
fn temperatures() {
    for tau in [0.0, -1.0, 1e-31, f64::INFINITY, f64::NAN] {
        assert_eq!(
            Temperature::new(tau).unwrap_err().to_string(),
            format!("attention: option `temperature` must be from 1e-30 to 1e30, got {tau}")
        );
    }
}

#[test]
fn scopes() {
    assert_eq!(
        message(&Call { scope: &Lengths { kv: &[3] }, ..GOOD }),
        "attention: `lengths` must be one length for each of the 2 items, got 1"
    );
    assert_eq!(
        message(&Call { scope: &Lengths { kv: &[3, 5] }, ..GOOD }),
        "attention: `lengths` must be at most the 4 keys of item 1, got 5"
    );
    let square = "attention: `q_len` must be the kv_len 4 of item 1, or top-left or bottom-right \
                  alignment chosen, got 2";
    assert_eq!(message(&Call { scope: &Causal::square(), ..GOOD }), square);
    // Inside a combination too.
    assert_eq!(message(&Call { scope: &And(&[&Full, &Causal::square()]), ..GOOD }), square);
    assert_eq!(message(&Call { scope: &Or(&[&Full, &Causal::square()]), ..GOOD }), square);
    let of = |scope: &dyn Scope| message(&Call { scope, ..GOOD });
    assert_eq!(of(&Blocks { size: 0 }), "attention: `size` must be at least 1, got 0");
    assert_eq!(
        of(&Window2d { width: 0, radius: 1 }),
        "attention: `width` must be at least 1, got 0"
    );
    assert_eq!(
        of(&Window2d { width: 3, radius: 1 }),
        "attention: `q_len` must be a multiple of the width 3 in item 1, got 2"
    );
    assert_eq!(
        of(&Documents::from_lengths(&[&[2, 1]])),
        "attention: `documents` must be one list for each of the 2 items, got 1"
    );
    assert_eq!(
        of(&Documents::from_lengths(&[&[2, 1], &[1, 1]])),
        "attention: `kv_len` must be the 2 tokens of the documents of item 1, got 4"
    );
    assert_eq!(
        Documents::from_ids(&[&[1], &[4, 4, 5, 4]]).unwrap_err().to_string(),
        "attention: `ids` must be tokens of one document side by side, got id 4 once more at token \
         3 of item 1"
    );
}

#[test]
fn centres() {
    let of = |centres: &[&[f64]]| {
        message(&Call { scope: &PredictedCentre { centres, radius: 1 }, ..GOOD })
    };
    assert_eq!(
        of(&[&[0.0; 3]]),
        "attention: `centres` must be one list for each of the 2 items, got 1"
    );
    assert_eq!(
        of(&[&[0.0; 3], &[0.0; 3]]),
        "attention: `centres` must be one for each of the 2 queries of item 1, got 3"
    );
    assert_eq!(
        of(&[&[0.0; 3], &[0.0, f64::NAN]]),
        "attention: `centres` must be finite, got NaN for query 1 of item 1"
    );
}

#[test]
fn masks() {
    let of = |allowed: &[&[bool]]| message(&Call { scope: &Given { allowed }, ..GOOD });
    let three: [&[bool]; 3] = [&[true; 9], &[true; 8], &[]];
    assert_eq!(
        of(&three),
        "attention: `allowed` must be one mask, or one for each of the 2 items, got 3"
    );
    assert_eq!(
        of(&three[..1]),
        "attention: `allowed` must be q_len × kv_len = 2 × 4 elements for item 1, got 9"
    );
    GOOD.check(q(&Q), k(&K), v(&V)).unwrap();
    let scope = Given { allowed: &three[..2] };
    Call { scope: &scope, ..GOOD }.check(q(&Q), k(&K), v(&V)).unwrap();
}

#[test]
fn graphs() {
    let of = |graphs: &[Csr<'_>], self_loops| {
        message(&Call { scope: &Graph { graphs, self_loops }, ..GOOD })
    };
    let as_given = |offsets: &[usize], columns: &[usize]| {
        let first = Csr { offsets: &[0, 1, 1, 3], columns: &[2, 0, 1] };
        of(&[first, Csr { offsets, columns }], SelfLoops::AsGiven)
    };
    assert_eq!(
        of(&[], SelfLoops::AsGiven),
        "attention: `graphs` must be one graph, or one for each of the 2 items, got 0"
    );
    assert_eq!(
        as_given(&[0, 1], &[0]),
        "attention: `offsets` must be q_len + 1 = 3 entries for item 1, got 2"
    );
    for (offsets, from_to) in [([1, 1, 2], "1 to 2"), ([0, 3, 2], "0 to 2"), ([0, 1, 1], "0 to 1")]
    {
        assert_eq!(
            as_given(&offsets, &[0, 1]),
            format!(
                "attention: `offsets` must be ascending from 0 to the 2 columns, got others, from \
                 {from_to}"
            )
        );
    }
    assert_eq!(
        as_given(&[0, 1, 2], &[0, 4]),
        "attention: `columns` must be below the 4 keys of item 1, got 4 for query 1"
    );
    assert_eq!(
        as_given(&[0, 2, 2], &[3, 3]),
        "attention: `columns` must be ascending in each row, got 3 and then 3 for query 0"
    );
    let good = Csr { offsets: &[0, 1, 1, 3], columns: &[2, 0, 1] };
    assert_eq!(
        of(&[good, good], SelfLoops::Added),
        "attention: `q_len` must be the kv_len 4 of item 1, for self-loops, got 2"
    );
    assert_eq!(
        EdgeRows::new(2, &[(0, 1), (2, 1)]).unwrap_err().to_string(),
        "attention: `edges` must be edges of queries below 2, got (2, 1)"
    );
    assert_eq!(
        EdgeRows::new(2, &[(0, 1), (1, 1), (0, 1)]).unwrap_err().to_string(),
        "attention: `edges` must be given once each, got (0, 1) twice"
    );
}

#[test]
fn positions() {
    let half = RotaryLayout::Half;
    assert_eq!(
        message(&Call { position: &Rotary::new(10000.0, half), ..GOOD }),
        "attention: `d_k` must be even, to be turned in pairs, got 3"
    );
    for base in [0.0, -1.0, f64::INFINITY, f64::NAN] {
        assert_eq!(
            message(&Call { position: &Rotary::new(base, half), ..GOOD }),
            format!("attention: option `base` must be finite and above 0, got {base}")
        );
    }
    let broken = Learned { table: &[0.0f32; 5], max_len: 2, d: 3 };
    let of_table = "attention: `table` must be max_len × d = 2 × 3 elements, got 5";
    assert_eq!(message(&Call { position: &broken, ..GOOD }), of_table);
    assert_eq!(broken.input(0, &mut [0.0; 3]).unwrap_err().to_string(), of_table);

    let learned = Learned { table: &[0.0f32; 6], max_len: 2, d: 3 };
    assert_eq!(
        learned.input(2, &mut [0.0; 3]).unwrap_err().to_string(),
        "attention: `position` must be below max_len = 2, got 2"
    );
    assert_eq!(
        learned.input(1, &mut [0.0; 4]).unwrap_err().to_string(),
        "attention: `x` must be d = 3 elements, got 4"
    );
}

fn of_position(position: &dyn Position<f32>) -> String {
    message(&Call { position, ..GOOD })
}

#[test]
fn buckets() {
    let table = [0.0f32; 16];
    let good = RelativeBias { table: &table, n_buckets: 8, max_distance: 3, bidirectional: true };
    Call { position: &good, ..GOOD }.check(q(&Q), k(&K), v(&V)).unwrap();
    for n_buckets in [0, 2, 7] {
        assert_eq!(
            of_position(&RelativeBias { n_buckets, ..good }),
            format!(
                "attention: `n_buckets` must be even and at least 4, for two directions, got \
                 {n_buckets}"
            )
        );
    }
    for n_buckets in [0, 1] {
        assert_eq!(
            of_position(&RelativeBias { n_buckets, bidirectional: false, ..good }),
            format!("attention: `n_buckets` must be at least 2, got {n_buckets}")
        );
    }
    assert_eq!(
        of_position(&RelativeBias { max_distance: 2, ..good }),
        "attention: `max_distance` must be above 2, the distances with a bucket of their own, got 2"
    );
    for n in [15, 0] {
        assert_eq!(
            of_position(&RelativeBias { table: &table[..n], ..good }),
            format!("attention: `table` must be n_buckets × n_heads = 8 × 2 elements, got {n}")
        );
    }
    let many = usize::MAX - 1;
    assert_eq!(
        of_position(&RelativeBias { n_buckets: many, max_distance: many, ..good }),
        format!("attention: `table` must be n_buckets × n_heads = {many} × 2 elements, got 16")
    );
}

#[test]
fn slopes() {
    assert_eq!(
        of_position(&Alibi::new(3)),
        "attention: `slopes` must be one for each of the 2 heads, got 3"
    );
    assert_eq!(
        of_position(&Alibi::with_slopes(vec![1.0, f64::NEG_INFINITY])),
        "attention: option `slopes` must be finite, got -inf"
    );
}

#[test]
fn tables_of_distances() {
    let numbers = [0.0f32; 100];
    // Radius 1: three vectors of 3, and of 5, for all or for each of two heads.
    let good = Shaw { keys: &numbers[..9], values: &numbers[..30], radius: 1, scale: 0.5 };
    for position in [good, Shaw { keys: &numbers[..18], values: &[], ..good }] {
        Call { position: &position, ..GOOD }.check(q(&Q), k(&K), v(&V)).unwrap();
    }
    assert_eq!(
        of_position(&Shaw { keys: &numbers[..10], ..good }),
        "attention: `keys` must be (2·radius + 1) × d_k = (2·1 + 1) × 3 elements, or so many for \
         each of the 2 heads, got 10"
    );
    assert!(of_position(&Shaw { keys: &[], ..good }).ends_with("heads, got 0"));
    assert_eq!(
        of_position(&Shaw { values: &numbers[..9], ..good }),
        "attention: `values` must be empty, or (2·radius + 1) × d_v = (2·1 + 1) × 5 elements, or \
         so many for each of the 2 heads, got 9"
    );
    for radius in [2, usize::MAX] {
        assert!(of_position(&Shaw { radius, ..good }).contains(&format!("(2·{radius} + 1)")));
    }
    for scale in [f32::NAN, f32::INFINITY] {
        let finite = format!("attention: option `scale` must be finite, got {scale}");
        assert_eq!(of_position(&Shaw { scale, ..good }), finite);
        let grid = Grid::LINE;
        let position = Relative2d { rows: &[], columns: &[], radius: 1, grid, scale };
        assert_eq!(of_position(&position), finite);
    }

    let even = Call { dims: Dims { d_k: 2, d_v: 1, ..DIMS }, ..GOOD };
    let of = |position: &dyn Position<f32>| message(&Call { position, ..even });
    let (rows, columns) = (&numbers[..3], &numbers[..6]);
    let good = Relative2d { rows, columns, radius: 1, grid: Grid::LINE, scale: 1.0 };
    Call { position: &good, ..even }.check(q(&Q), k(&K), v(&V)).unwrap();
    assert_eq!(
        of_position(&good),
        "attention: `d_k` must be even, half for rows and half for columns, got 3"
    );
    for (position, argument) in [
        (Relative2d { rows: &[], ..good }, "rows"),
        (Relative2d { columns: &[], ..good }, "columns"),
    ] {
        assert_eq!(
            of(&position),
            format!(
                "attention: `{argument}` must be (2·radius + 1) × d_k / 2 = (2·1 + 1) × 1 elements, \
                 or so many for each of the 2 heads, got 0"
            )
        );
    }
}

#[test]
fn grids() {
    let of = |grid| of_position(&Quadratic { params: &[0.0f32; 6], grid });
    let same = Grid::same(3);
    assert_eq!(
        of(Grid { query_width: 0, ..same }),
        "attention: `query_width` must be at least 1, got 0"
    );
    assert_eq!(
        of(Grid { key_width: 0, ..same }),
        "attention: `key_width` must be at least 1, got 0"
    );
    for shift in [i64::MIN, (1 << 40) + 1] {
        assert_eq!(
            of(Grid { top: shift, ..same }),
            format!("attention: `top` must be at most 1099511627776 from 0, got {shift}")
        );
        assert_eq!(
            of(Grid { left: shift, ..same }),
            format!("attention: `left` must be at most 1099511627776 from 0, got {shift}")
        );
    }
    assert_eq!(
        of_position(&Quadratic { params: &[0.0; 4], grid: same }),
        "attention: `params` must be n_heads × 3 = 2 × 3 elements, got 4"
    );
    // A position that looks at a grid names it, too.
    let grid = Grid::same(0);
    let position = Relative2d { rows: &[], columns: &[], radius: 1, grid, scale: 1.0 };
    assert!(of_position(&position).contains("`query_width`"));
}

#[test]
fn gaussians() {
    let of = |params: &[f32], q_lens: &[usize]| of_position(&Gaussian::new(params, q_lens));
    let good = [0.0, 1.0, 2.0, 0.0, 1.0, 0.5];
    let position = Gaussian::new(&good, &[3, 2]);
    Call { position: &position, ..GOOD }.check(q(&Q), k(&K), v(&V)).unwrap();
    assert_eq!(of(&good, &[5]), "attention: `q_lens` must be one for each of the 2 items, got 1");
    assert_eq!(of(&good, &[3, 1]), "attention: `q_lens` must be the q_len 2 of item 1, got 1");
    for n in [0, 5] {
        assert_eq!(
            of(&good[..n], &[3, 2]),
            format!("attention: `params` must be 5 centres and σ, got {n}")
        );
    }
    assert_eq!(
        of(&[0.0, 1.0, 2.0, f32::NAN, 1.0, 0.5], &[3, 2]),
        "attention: `centres` must be finite, got NaN for query 3 of all"
    );
    for sigma in [0.0, -1.0, f32::INFINITY, f32::NAN] {
        assert_eq!(
            of(&[0.0, 1.0, 2.0, 0.0, 1.0, sigma], &[3, 2]),
            format!("attention: option `sigma` must be finite and above 0, got {sigma}")
        );
    }
}

#[test]
fn given_biases() {
    let data = [0.0f32; 48];
    let of = |n: usize, sizes| of_position(&DenseBias { data: &data[..n], sizes });
    for (n, sizes) in [(48, [2, 2, 3, 4]), (1, [1, 1, 1, 1]), (20, [1, 1, 4, 5])] {
        let position = DenseBias { data: &data[..n], sizes };
        Call { position: &position, ..GOOD }.check(q(&Q), k(&K), v(&V)).unwrap();
    }
    for (sizes, expected) in [
        ([3, 2, 3, 4], "`bias items` must be 1 or the 2 items, got 3"),
        ([0, 2, 3, 4], "`bias items` must be 1 or the 2 items, got 0"),
        ([2, 3, 3, 4], "`bias heads` must be 1 or the 2 heads, got 3"),
        ([2, 2, 2, 4], "`bias queries` must be 1 or at least 3, the longest item's, got 2"),
        ([2, 2, 3, 3], "`bias keys` must be 1 or at least 4, the longest item's, got 3"),
        ([2, 2, 3, 5], "`bias` must be 2 × 2 × 3 × 5 elements, got 48"),
        ([2, 2, usize::MAX, 4], "`bias` must be 2 × 2 × 18446744073709551615 × 4 elements, got 48"),
    ] {
        assert_eq!(of(48, sizes), format!("attention: {expected}"));
    }
}

#[test]
fn chains_are_checked_link_by_link() {
    let (alibi, half) = (Alibi::new(2), Rotary::new(10000.0, RotaryLayout::Half));
    assert_eq!(
        of_position(&Chain(&[&alibi, &half])),
        "attention: `d_k` must be even, to be turned in pairs, got 3"
    );
    Call { position: &Chain(&[]), ..GOOD }.check(q(&Q), k(&K), v(&V)).unwrap();
}

#[test]
fn tables_of_places() {
    let table = [0.0f32; 24];
    let of = |score: &dyn Score<f32>| message(&Call { score, ..GOOD });
    assert_eq!(
        of(&Location { table: &table, max_len: 8, d_k: 2 }),
        "attention: `d_k` must be 2, the width of the table's rows, got 3"
    );
    for max_len in [5, usize::MAX] {
        assert_eq!(
            of(&Location { table: &table, max_len, d_k: 3 }),
            format!(
                "attention: `table` must be max_len × d_k = {max_len} × 3 elements, or so many for \
                 each of 1 key heads, got 24"
            )
        );
    }
    assert_eq!(
        of(&Location { table: &table[..9], max_len: 3, d_k: 3 }),
        "attention: `kv_len` must be at most max_len = 3 in item 1, got 4"
    );
}

#[test]
fn offsets() {
    let mut items = ITEMS;
    items[1].q_offset = (1 << 40) + 1;
    assert_eq!(
        message(&Call { items: &items, ..GOOD }),
        "attention: `q_offset` must be at most 1099511627776 in item 1, got 1099511627777"
    );
    let items = [Item { q_offset: 1, ..ITEMS[0] }];
    assert_eq!(
        message(&Call { items: &items, scope: &Causal::square(), ..GOOD }),
        "attention: `q_offset` must be 0 in item 0, whose queries are its keys, got 1"
    );
}

#[test]
fn what_a_loss_may_look_at() {
    let of = |upstream: Upstream<'_, f32>| {
        let wrong = reference::backward(&GOOD, q(&Q), k(&K), v(&V), &[0.0; 50], upstream);
        wrong.unwrap_err().to_string()
    };
    // 7 keys and 5 queries, 2 heads.
    assert_eq!(
        of(Upstream { key_sums: Some(&[0.0; 13]), ..Upstream::NONE }),
        "attention: `d_key_sums` must be 14 elements, got 13"
    );
    assert_eq!(
        of(Upstream { entropy: Some(&[0.0; 11]), ..Upstream::NONE }),
        "attention: `d_entropy` must be 10 elements, got 11"
    );
    assert_eq!(
        of(Upstream { log_prob: Some(&[0.0; 11]), ..Upstream::NONE }),
        "attention: `d_log_prob` must be 10 elements, got 11"
    );
    let no_choice = "attention: normaliser `softmax` cannot be used here: only `hard` and \
                     `sampled` choose a key";
    assert_eq!(of(Upstream { log_prob: Some(&[0.0; 10]), ..Upstream::NONE }), no_choice);
    let of = |call: &Call<'_, f32>, wanted| {
        reference::summarise(call, q(&Q), k(&K), wanted).unwrap_err().to_string()
    };
    assert_eq!(of(&GOOD, Wanted { choices: true, ..Wanted::default() }), no_choice);
    assert_eq!(
        of(&Call { normaliser: &Sigmoid, ..GOOD }, Wanted { entropy: true, ..Wanted::default() }),
        "attention: normaliser `sigmoid` cannot be used here: the entropy is that of weights which \
         sum to one"
    );
    let most = (1 << 20) + 1;
    assert_eq!(
        of(&GOOD, Wanted { top: most, ..Wanted::default() }),
        "attention: `top` must be at most 1048576, got 1048577"
    );
    assert_eq!(
        of(&GOOD, Wanted { distances: Some(most), ..Wanted::default() }),
        "attention: `distances` must be at most 1048576, got 1048577"
    );
    // The call itself is checked, too.
    let call = Call { dims: Dims { d_k: 0, ..DIMS }, ..GOOD };
    assert!(of(&call, Wanted::default()).contains("`d_k`"));
}

#[test]
fn upstream_gradients() {
    let of = |d_context: &[f32], d_weights: Option<&[f32]>| {
        reference::backward(&GOOD, q(&Q), k(&K), v(&V), d_context, d_weights.into())
    };
    // 5 queries × 2 heads × 5; 2 heads × (3·3 + 2·4).
    let right = [0.0; 50];
    assert!(of(&right, Some(&[0.0; 34])).is_ok());
    let wrong = of(&right[1..], None).unwrap_err();
    assert_eq!(wrong.to_string(), "attention: `d_context` must be 50 elements, got 49");
    let wrong = of(&right, Some(&[0.0; 35])).unwrap_err();
    assert_eq!(wrong.to_string(), "attention: `d_weights` must be 34 elements, got 35");
    // The call itself is checked first.
    let call = Call { dims: Dims { d_k: 0, ..DIMS }, ..GOOD };
    assert!(reference::forward(&call, q(&Q), k(&K), v(&V)).is_err());
    assert!(reference::backward(&call, q(&Q), k(&K), v(&V), &right, Upstream::NONE).is_err());
}

#[test]
fn parts_that_do_not_go_together() {
    let error = AttnError::Unsupported {
        part: "position",
        name: "rotary",
        reason: "the score is not a product",
    };
    assert_eq!(
        error.to_string(),
        "attention: position `rotary` cannot be used here: the score is not a product"
    );
}

/// Sums and products of such sizes once overflowed before anything was checked.
#[test]
fn sizes_that_no_array_has_are_refused_by_name() {
    const HUGE: usize = usize::MAX - 1;
    let item = Item { q_start: 0, q_len: 2, kv_start: 0, kv_len: 2, q_offset: 0 };
    let data = [0.5f32; 64];
    let refused = |item: Item, stride: usize| {
        let call = Call { items: &[item], ..GOOD };
        let rows = Rows { data: &data, row_stride: stride, head_stride: stride };
        reference::forward(&call, rows, rows, rows).unwrap_err().to_string()
    };
    for (item, argument) in [
        (Item { q_start: HUGE, ..item }, "`q_start` must be at most"),
        (Item { q_len: HUGE, ..item }, "`q_len` must be at most"),
        (Item { kv_start: HUGE, ..item }, "`kv_start` must be at most"),
        (Item { kv_len: HUGE, ..item }, "`kv_len` must be at most"),
        (Item { q_offset: HUGE, ..item }, "`q_offset` must be at most"),
    ] {
        let message = refused(item, 4);
        assert!(message.contains(argument), "{message}");
    }
    let message = refused(item, HUGE);
    assert!(message.contains("`query` must be at least"), "{message}");
}
