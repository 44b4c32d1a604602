//! Arrays that do not fit are refused, by name.

use crate::support::parts::ScoreKind;
use crate::support::{Problem, numbers, rows, rows_mut};
use regard_attn::Item;
use regard_engine::{GradArrays, Gradients, Place};

#[test]
fn arrays_of_the_wrong_size_are_refused_by_name() {
    let problem = Problem::new(ScoreKind::Additive, 2, 1, Problem::packed(&[(4, 6)]));
    let d = problem.dims;
    let refused = |context: usize, dk: usize, lse: usize, params: usize, weights: usize| {
        problem.with_call::<f64, _>(|call| {
            let (q, k) = (rows(&problem.q, 2, d.d_k), rows(&problem.k, 1, d.d_k));
            let v = rows(&problem.v, 1, d.d_v);
            let contexts = vec![0.0; context];
            let (mut dq, mut dk) = (vec![0.0; problem.q.len()], vec![0.0; dk]);
            let (mut dv, mut dparams) = (vec![0.0; problem.v.len()], vec![0.0; params]);
            let arrays = GradArrays::Separate {
                dq: rows_mut(&mut dq, 2, d.d_k),
                dk: rows_mut(&mut dk, 1, d.d_k),
                dv: rows_mut(&mut dv, 1, d.d_v),
            };
            let grads = Gradients {
                arrays,
                add: true,
                dscore_params: &mut dparams,
                dposition_params: &mut [],
            };
            let (context, dc) = (rows(&contexts, 2, d.d_v), rows(&problem.d_context, 2, d.d_v));
            let (lse, d_weights) = (vec![0.0; lse], vec![0.0; weights]);
            let given = Some(&d_weights[..]);
            regard_engine::backward(call, q, k, v, context, &lse, dc, given.into(), grads)
                .map_err(|error| error.to_string())
        })
    };
    let (context, dk, lse, params, weights) = (24, 30, 8, 10, 48);
    assert_eq!(refused(context, dk, lse, params, weights), Ok(()));
    for (got, argument) in [
        (refused(23, dk, lse, params, weights), "`context` must be at least 24 elements"),
        (refused(context, 29, lse, params, weights), "`dk` must be at least 30 elements"),
        (refused(context, dk, 7, params, weights), "`lse` must be 8 elements, got 7"),
        (refused(context, dk, lse, 11, weights), "`dscore_params` must be 10 elements, got 11"),
        (refused(context, dk, lse, params, 47), "`d_weights` must be 48 elements, got 47"),
    ] {
        assert!(got.as_ref().is_err_and(|message| message.contains(argument)), "{got:?}");
    }

    let shared = vec![
        Item { q_start: 0, q_len: 3, kv_start: 0, kv_len: 3, q_offset: 0 },
        Item { q_start: 2, q_len: 2, kv_start: 3, kv_len: 3, q_offset: 0 },
    ];
    let problem = Problem::new(ScoreKind::Dot, 1, 1, shared);
    let mut context = numbers(1, 12);
    problem.with_call::<f64, _>(|call| {
        let (q, k) = (rows(&problem.q, 1, d.d_k), rows(&problem.k, 1, d.d_k));
        let v = rows(&problem.v, 1, d.d_v);
        let out = rows_mut(&mut context, 1, d.d_v);
        let error = regard_engine::forward(call, q, k, v, out, false).unwrap_err().to_string();
        assert!(error.contains("`q_start` must be at least 3"), "{error}");
    });
}

#[test]
fn gradients_that_overlap_are_refused() {
    let problem = Problem::new(ScoreKind::Dot, 1, 1, Problem::packed(&[(4, 4)]));
    let mut problem = Problem { dims: regard_attn::Dims { d_v: 5, ..problem.dims }, ..problem };
    (problem.v, problem.d_context) = (numbers(1, 20), numbers(2, 20));
    let refused = |offsets: [usize; 3], row_stride: usize| {
        problem.with_call::<f64, _>(|call| {
            let (q, k, v) =
                (rows(&problem.q, 1, 5), rows(&problem.k, 1, 5), rows(&problem.v, 1, 5));
            let dc = rows(&problem.d_context, 1, 5);
            let mut data = vec![0.0; 80];
            let [dq, dk, dv] = offsets.map(|offset| Place { offset, row_stride, head_stride: 5 });
            let arrays = GradArrays::Fused { data: &mut data, dq, dk, dv };
            let grads =
                Gradients { arrays, add: true, dscore_params: &mut [], dposition_params: &mut [] };
            regard_engine::backward(
                call,
                q,
                k,
                v,
                dc,
                &[0.0; 4],
                dc,
                regard_attn::Upstream::NONE,
                grads,
            )
            .map_err(|error| error.to_string())
        })
    };
    assert_eq!(refused([0, 5, 10], 15), Ok(()));
    assert_eq!(refused([40, 20, 0], 5), Ok(()));
    for (offsets, row_stride, argument) in [
        ([0, 4, 10], 15, "`dk`"),
        ([0, 5, 9], 15, "`dv`"),
        ([0, 5, 11], 15, "`dv`"),
        ([0, 5, 0], 15, "`dv`"),
    ] {
        let message = refused(offsets, row_stride).unwrap_err();
        assert!(message.contains(argument) && message.contains("apart from"), "{message}");
    }
}
