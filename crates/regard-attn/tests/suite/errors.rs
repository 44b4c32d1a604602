//! Every error, in words: what is at fault, what it must be, and what came.

use regard_attn::normaliser::{Softmax, Temperature};
use regard_attn::position::{Learned, NoPosition, Position, Rotary, RotaryLayout};
use regard_attn::scope::{
    And, Blocks, Causal, Csr, Documents, EdgeRows, Full, Given, Graph, Lengths, Or,
    PredictedCentre, Scope, SelfLoops, Window2d,
};
use regard_attn::score::{
    Additive, Dot, Gat, Gatv2, General, HeadScale, Scaled, ScaledDot, Score, Softcap,
};
use regard_attn::{AttnError, Call, Dims, Dropout, Item, Rows, reference};
use regard_tensor::Key;

const ITEMS: [Item; 2] = [
    Item { q_start: 0, q_len: 3, kv_start: 0, kv_len: 3 },
    Item { q_start: 3, q_len: 2, kv_start: 3, kv_len: 4 },
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

#[test]
fn upstream_gradients() {
    let of = |d_context: &[f32], d_weights: Option<&[f32]>| {
        reference::backward(&GOOD, q(&Q), k(&K), v(&V), d_context, d_weights)
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
    assert!(reference::backward(&call, q(&Q), k(&K), v(&V), &right, None).is_err());
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
