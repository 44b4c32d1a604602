//! What the engine refuses, and what is left of the errors of the parts, in whole words: argument,
//! expected and actual. (Sizes, parts and upstream gradients of a call are walked through in the
//! tests of `regard-attn`.)

use regard::attn::normaliser::{Hard, Identity, Sigmoid, Softmax};
use regard::attn::position::NoPosition;
use regard::attn::scope::{Documents, Full, Scope, Window2d};
use regard::attn::score::Dot;
use regard::attn::{AttnError, Call, Dims, Item, Rows, RowsMut, Upstream, Wanted};
use regard::engine::{self, GradArrays, Gradients, Place};

const DIMS: Dims = Dims { n_heads: 2, n_kv_heads: 1, d_k: 3, d_v: 4 };

/// Five queries and four keys.
const ITEMS: [Item; 2] = [
    Item { q_start: 0, q_len: 3, kv_start: 0, kv_len: 2, q_offset: 0 },
    Item { q_start: 3, q_len: 2, kv_start: 2, kv_len: 2, q_offset: 0 },
];

const GOOD: Call<'_, f32> = Call {
    score: &Dot,
    normaliser: &Softmax,
    scope: &Full,
    position: &NoPosition,
    dropout: None,
    dims: DIMS,
    items: &ITEMS,
};

const NUMBERS: [f32; 60] = [0.5; 60];

fn rows(heads: usize, width: usize) -> Rows<'static, f32> {
    Rows { data: &NUMBERS, row_stride: heads * width, head_stride: width }
}

/// What forward says of contexts of so many elements, with these strides.
fn forward(
    call: &Call<'_, f32>,
    len: usize,
    row_stride: usize,
    head_stride: usize,
) -> Result<(), String> {
    let mut context = vec![0.0; len];
    let out = RowsMut { data: &mut context, row_stride, head_stride };
    let (q, k, v) = (rows(2, 3), rows(1, 3), rows(1, 4));
    let done = engine::forward(call, q, k, v, out, false);
    done.map(|_| ()).map_err(|error| error.to_string())
}

#[test]
fn contexts() {
    assert_eq!(forward(&GOOD, 40, 8, 4), Ok(()));
    assert_eq!(
        forward(&GOOD, 39, 8, 4).unwrap_err(),
        "attention: `context` must be at least 40 elements (5 rows, 2 heads of 4), got 39"
    );
    assert_eq!(
        forward(&GOOD, 40, 7, 4).unwrap_err(),
        "attention: `context` must be rows that do not overlap (5 rows, 2 heads of 4), got strides 7 \
         and 4"
    );
    // The call itself is checked, too.
    let wrong = Call { dims: Dims { d_v: 0, ..DIMS }, ..GOOD };
    assert_eq!(
        forward(&wrong, 40, 8, 4).unwrap_err(),
        "attention: `d_v` must be at least 1, got 0"
    );
}

#[test]
fn items_that_share_rows() {
    let mut items = ITEMS;
    items[1].q_start = 2;
    assert_eq!(
        forward(&Call { items: &items, ..GOOD }, 40, 8, 4).unwrap_err(),
        "attention: `q_start` must be at least 3, the end of the item before, got 2"
    );
    // Keys may be read twice, but not be given gradients twice.
    let mut items = ITEMS;
    items[1].kv_start = 1;
    let call = Call { items: &items, ..GOOD };
    assert_eq!(forward(&call, 40, 8, 4), Ok(()));
    assert_eq!(
        Backward::GOOD.of(&call).unwrap_err(),
        "attention: `kv_start` must be at least 2, the end of the item before, got 1"
    );
}

/// Lengths of the arrays of a backward pass.
#[derive(Clone, Copy)]
struct Backward {
    context: usize,
    d_context: usize,
    lse: usize,
    dq: usize,
    dk: usize,
    dv: usize,
    dscore: usize,
    dposition: usize,
}

impl Backward {
    const GOOD: Self = Self {
        context: 40,
        d_context: 40,
        lse: 10,
        dq: 30,
        dk: 12,
        dv: 16,
        dscore: 0,
        dposition: 0,
    };

    fn of(self, call: &Call<'_, f32>) -> Result<(), String> {
        let [mut dq, mut dk, mut dv, mut dscore, mut dposition] =
            [self.dq, self.dk, self.dv, self.dscore, self.dposition].map(|len| vec![0.0; len]);
        let mutable =
            |data, heads, width| RowsMut { data, row_stride: heads * width, head_stride: width };
        let grads = Gradients {
            arrays: GradArrays::Separate {
                dq: mutable(&mut dq[..], 2, 3),
                dk: mutable(&mut dk[..], 1, 3),
                dv: mutable(&mut dv[..], 1, 4),
            },
            add: true,
            dscore_params: &mut dscore,
            dposition_params: &mut dposition,
        };
        let of = |len: usize| Rows { data: &NUMBERS[..len], row_stride: 8, head_stride: 4 };
        backward(call, of(self.context), &NUMBERS[..self.lse], of(self.d_context), grads)
    }
}

fn backward(
    call: &Call<'_, f32>,
    context: Rows<'_, f32>,
    lse: &[f32],
    d_context: Rows<'_, f32>,
    grads: Gradients<'_, f32>,
) -> Result<(), String> {
    let (q, k, v) = (rows(2, 3), rows(1, 3), rows(1, 4));
    let none = Upstream::NONE;
    let done = engine::backward(call, q, k, v, context, lse, d_context, none, grads);
    done.map_err(|error: AttnError| error.to_string())
}

#[test]
fn arrays_of_a_backward_pass() {
    const GOOD_ARRAYS: Backward = Backward::GOOD;
    assert_eq!(GOOD_ARRAYS.of(&GOOD), Ok(()));
    for (arrays, message) in [
        (
            Backward { context: 39, ..GOOD_ARRAYS },
            "`context` must be at least 40 elements (5 rows, 2 heads of 4), got 39",
        ),
        (
            Backward { d_context: 0, ..GOOD_ARRAYS },
            "`d_context` must be at least 40 elements (5 rows, 2 heads of 4), got 0",
        ),
        (Backward { lse: 11, ..GOOD_ARRAYS }, "`lse` must be 10 elements, got 11"),
        (
            Backward { dq: 29, ..GOOD_ARRAYS },
            "`dq` must be at least 30 elements (5 rows, 2 heads of 3), got 29",
        ),
        (
            Backward { dk: 11, ..GOOD_ARRAYS },
            "`dk` must be at least 12 elements (4 rows, 1 heads of 3), got 11",
        ),
        (
            Backward { dv: 15, ..GOOD_ARRAYS },
            "`dv` must be at least 16 elements (4 rows, 1 heads of 4), got 15",
        ),
        (Backward { dscore: 1, ..GOOD_ARRAYS }, "`dscore_params` must be 0 elements, got 1"),
        (Backward { dposition: 2, ..GOOD_ARRAYS }, "`dposition_params` must be 0 elements, got 2"),
    ] {
        assert_eq!(arrays.of(&GOOD).unwrap_err(), format!("attention: {message}"));
    }
}

#[test]
fn gradients_in_one_array() {
    // One head and self-attention, rows of q, k and v side by side.
    let call = Call {
        dims: Dims { n_heads: 1, n_kv_heads: 1, d_k: 3, d_v: 4 },
        items: &Item::packed(&[3]),
        ..GOOD
    };
    let of = |offsets: [usize; 3], len: usize, together: bool| {
        let [dq, dk, dv] = offsets.map(|offset| Place { offset, row_stride: 10, head_stride: 10 });
        let (mut data, mut queries) = (vec![0.0; len], [0.0; 9]);
        let arrays = if together {
            GradArrays::Fused { data: &mut data, dq, dk, dv }
        } else {
            let dq = RowsMut { data: &mut queries, row_stride: 3, head_stride: 3 };
            GradArrays::KeyValue { dq, data: &mut data, dk, dv }
        };
        let grads =
            Gradients { arrays, add: true, dscore_params: &mut [], dposition_params: &mut [] };
        let context = Rows { data: &NUMBERS, row_stride: 4, head_stride: 4 };
        backward(&call, context, &NUMBERS[..3], context, grads)
    };
    let places = |offsets: [usize; 2]| {
        offsets
            .map(|offset| format!("Place {{ offset: {offset}, row_stride: 10, head_stride: 10 }}"))
            .join(" and ")
    };
    for together in [true, false] {
        assert_eq!(of([0, 3, 6], 30, together), Ok(()));
        assert_eq!(
            of([0, 3, 6], 29, together).unwrap_err(),
            "attention: `dv` must be at least 30 elements (3 rows, 1 heads of 4), got 29"
        );
        assert_eq!(
            of([0, 4, 6], 40, together).unwrap_err(),
            format!(
                "attention: `dv` must be apart from `dk`: behind it, or beside it in rows of the \
                 same length, got {}",
                places([6, 4])
            )
        );
    }
    for (offsets, argument, other, pair) in
        [([0, 2, 6], "dk", "dq", [2, 0]), ([6, 0, 3], "dv", "dq", [3, 6])]
    {
        assert_eq!(
            of(offsets, 40, true).unwrap_err(),
            format!(
                "attention: `{argument}` must be apart from `{other}`: behind it, or beside it in \
                 rows of the same length, got {}",
                places(pair)
            )
        );
    }
}

#[test]
fn summaries() {
    let of = |call: &Call<'_, f32>, lse: usize, wanted: Wanted| {
        let done = engine::summarise(call, rows(2, 3), rows(1, 3), &NUMBERS[..lse], wanted);
        done.map(|_| ()).map_err(|error| error.to_string())
    };
    let (all, sums) = (
        Wanted { key_sums: true, top: 2, entropy: true, choices: true, distances: Some(3) },
        Wanted { key_sums: true, ..Wanted::default() },
    );
    let hard = Call { normaliser: &Hard, ..GOOD };
    assert_eq!(of(&hard, 10, all), Ok(()));
    assert_eq!(of(&GOOD, 9, sums).unwrap_err(), "attention: `lse` must be 10 elements, got 9");
    assert_eq!(
        of(&GOOD, 10, all).unwrap_err(),
        "attention: normaliser `softmax` cannot be used here: only `hard` and `sampled` choose a key"
    );
    for (normaliser, name) in
        [(&Sigmoid as &dyn regard::attn::Normaliser<f32>, "sigmoid"), (&Identity, "identity")]
    {
        let call = Call { normaliser, ..GOOD };
        let message = format!(
            "attention: normaliser `{name}` cannot be used here: the entropy is that of weights \
             which sum to one"
        );
        let entropy = Wanted { entropy: true, ..Wanted::default() };
        assert_eq!(of(&call, 10, entropy).unwrap_err(), message);
        // The same of a loss that looks at the entropy.
        let d_entropy = Upstream { entropy: Some(&NUMBERS[..10]), ..Upstream::NONE };
        assert_eq!(d_entropy.check(&call).unwrap_err().to_string(), message);
    }
    assert_eq!(
        of(&Call { dims: Dims { d_k: 0, ..DIMS }, ..GOOD }, 10, sums).unwrap_err(),
        "attention: `d_k` must be at least 1, got 0"
    );
}

#[test]
fn the_other_length_of_scopes_that_look_at_both() {
    let of = |scope: &dyn Scope, q_len, kv_len| {
        let item = Item { q_start: 0, q_len, kv_start: 0, kv_len, q_offset: 0 };
        scope.check(&[item]).unwrap_err().to_string()
    };
    assert_eq!(
        of(&Window2d { width: 2, radius: 1 }, 4, 3),
        "attention: `kv_len` must be a multiple of the width 2 in item 0, got 3"
    );
    let documents = Documents::from_lengths(&[&[1, 2]]);
    for (q_len, kv_len, argument) in [(2, 3, "q_len"), (3, 2, "kv_len")] {
        assert_eq!(
            of(&documents, q_len, kv_len),
            format!(
                "attention: `{argument}` must be the 3 tokens of the documents of item 0, got 2"
            )
        );
    }
}

#[test]
fn an_error_is_data() {
    let wrong = Call { dims: Dims { d_k: 0, ..DIMS }, ..GOOD };
    let error = wrong.check(rows(2, 3), rows(1, 3), rows(1, 4)).unwrap_err();
    let size =
        AttnError::Size { argument: "d_k", expected: "at least 1".into(), actual: "0".into() };
    assert_eq!(error, size);
}
