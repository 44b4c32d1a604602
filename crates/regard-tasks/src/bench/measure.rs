//! Timing one case.

use std::time::{Duration, Instant};

use regard_attn::{AttnError, Call, Rows, RowsMut, Upstream, Wanted};
use regard_engine::{GradArrays, Gradients};
use regard_tensor::buffer::trim_pool;
use regard_tensor::{Buffer, Key, memory};

use super::cases::Case;

/// Which work is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Contexts alone.
    Forward,
    /// Contexts and the gradients of everything.
    ForwardBackward,
}

impl Pass {
    /// `forward` or `forward_backward`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::ForwardBackward => "forward_backward",
        }
    }
}

/// Seconds of each run, and the peak of memory above inputs and results.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) seconds: Vec<f64>,
    pub(super) extra_peak_bytes: usize,
    pub(super) pairs: usize,
}

/// The arrays of a case, `[rows, heads, width]`, in the memory that tensors lie in.
struct Arrays {
    q: Buffer<f32>,
    k: Buffer<f32>,
    v: Buffer<f32>,
    dc: Buffer<f32>,
    context: Buffer<f32>,
    dq: Buffer<f32>,
    dk: Buffer<f32>,
    dv: Buffer<f32>,
    dscore: Buffer<f32>,
    dposition: Buffer<f32>,
}

fn numbers(stream: u64, n: usize, size: f32) -> Buffer<f32> {
    let key = Key::new(stream);
    let mut numbers = Buffer::zeroed(n);
    for (i, x) in numbers.iter_mut().enumerate() {
        *x = size * key.normal(i as u32) as f32;
    }
    numbers
}

fn rows(data: &[f32], heads: usize, width: usize) -> Rows<'_, f32> {
    Rows { data, row_stride: heads * width, head_stride: width }
}

fn rows_mut(data: &mut [f32], heads: usize, width: usize) -> RowsMut<'_, f32> {
    RowsMut { data, row_stride: heads * width, head_stride: width }
}

impl Arrays {
    fn new(case: &Case) -> Self {
        let d = case.dims;
        let (queries, keys) = (case.batch * case.q_len, case.batch * case.kv_len);
        let (of_q, of_k) = (queries * d.n_heads * d.d_k, keys * d.n_kv_heads * d.d_k);
        let (of_v, of_c) = (keys * d.n_kv_heads * d.d_v, queries * d.n_heads * d.d_v);
        let (score, position) = case.n_params();
        Self {
            q: numbers(11, of_q, 1.0),
            k: numbers(12, of_k, 1.0),
            v: numbers(13, of_v, 1.0),
            dc: numbers(14, of_c, 1.0),
            context: Buffer::zeroed(of_c),
            dq: Buffer::zeroed(of_q),
            dk: Buffer::zeroed(of_k),
            dv: Buffer::zeroed(of_v),
            dscore: Buffer::zeroed(score),
            dposition: Buffer::zeroed(position),
        }
    }

    fn once(&mut self, case: &Case, call: &Call<'_, f32>, pass: Pass) -> Result<(), AttnError> {
        let d = case.dims;
        let q = rows(&self.q, d.n_heads, d.d_k);
        let (k, v) = if case.variant.starts_with("decode") {
            // A cache grows head by head.
            let keys = case.batch * case.kv_len;
            let cache = |data, width| Rows { data, row_stride: width, head_stride: keys * width };
            (cache(&self.k[..], d.d_k), cache(&self.v[..], d.d_v))
        } else {
            (rows(&self.k, d.n_kv_heads, d.d_k), rows(&self.v, d.n_kv_heads, d.d_v))
        };
        let context = rows_mut(&mut self.context, d.n_heads, d.d_v);
        let lse = regard_engine::forward(call, q, k, v, context, false)?.lse;
        if case.variant == "weights_summary" {
            let wanted = Wanted { key_sums: true, top: 4, ..Wanted::default() };
            std::hint::black_box(regard_engine::summarise(call, q, k, &lse, wanted)?);
        }
        if pass == Pass::Forward {
            return Ok(());
        }
        for d in [&mut self.dscore, &mut self.dposition] {
            d.fill(0.0);
        }
        let arrays = GradArrays::Separate {
            dq: rows_mut(&mut self.dq, d.n_heads, d.d_k),
            dk: rows_mut(&mut self.dk, d.n_kv_heads, d.d_k),
            dv: rows_mut(&mut self.dv, d.n_kv_heads, d.d_v),
        };
        let grads = Gradients {
            arrays,
            add: false,
            dscore_params: &mut self.dscore,
            dposition_params: &mut self.dposition,
        };
        let (context, dc) =
            (rows(&self.context, d.n_heads, d.d_v), rows(&self.dc, d.n_heads, d.d_v));
        regard_engine::backward(call, q, k, v, context, &lse, dc, Upstream::NONE, grads)
    }
}

/// Runs a pass for about `budget`, three times at least, after one run that warms up, in which the
/// memory is counted.
pub(super) fn measure(case: &Case, pass: Pass, budget: Duration) -> Result<Measured, AttnError> {
    let mut arrays = Arrays::new(case);
    let (score, position) = case.n_params();
    let score_params = numbers(15, score, 1.0 / (case.dims.d_k as f32).sqrt());
    let position_params = numbers(16, position, 1.0);
    case.with_call(&score_params, &position_params, |call| {
        trim_pool();
        let (extra_peak_bytes, warm) = memory::peak_of(|| arrays.once(case, call, pass));
        warm?;
        let (begin, mut seconds) = (Instant::now(), Vec::new());
        while seconds.len() < 3 || begin.elapsed() < budget {
            let start = Instant::now();
            arrays.once(case, call, pass)?;
            seconds.push(start.elapsed().as_secs_f64());
        }
        Ok(Measured { seconds, extra_peak_bytes, pairs: case.pairs(call) })
    })
}
