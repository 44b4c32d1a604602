//! A decoder's way back.

use regard_tensor::kernels::matmul::{Mat, MatMut, matmul};
use regard_tensor::kernels::reduce::add_column_sums;
use regard_tensor::{Real, Tensor};

use super::Order;
use super::layer::{add, drop_out, rows_of};
use super::run::Decoder;
use crate::layers::StateVars;
use crate::ops::align::{Before, add_sums};
use crate::ops::recurrent::Cell;
use crate::{Grads, Var};

impl<T: Real> Decoder<T> {
    /// The way back: everything that goes to `grads`, given the gradient of the result.
    pub(super) fn backward(
        self,
        dy: &Tensor<T>,
        xw: Var,
        vars: (Option<Var>, Option<Var>),
        grads: &mut Grads<'_, T>,
    ) {
        let (h, d_v, d_read) = (self.h, self.arrays.d_v(), dy.cols());
        let wide = self.kind.gates() * h;
        let (top, total) = (self.layers.len() - 1, self.context.rows());
        let widest = self.steps.widest();
        let d_fed = self.combine.as_ref().map_or(0, |(w, _)| w.rows());
        let mut sums = self.arrays.sums(&self.kept);
        // Gradients of the arguments of the gates, by their input and by their recurrent part.
        let mut by_input: Vec<Tensor<T>> =
            self.layers.iter().map(|_| Tensor::stale(&[total, wide])).collect();
        let mut by_state: Vec<Tensor<T>> = self
            .layers
            .iter()
            .map(|_| Tensor::stale(&[if self.kind == Cell::Gru { total } else { 0 }, wide]))
            .collect();
        // ∂L/∂(W_c [s; c]).
        let mut d_combine = Tensor::stale(&[total, d_fed]);
        // What the step after leaves: ∂L/∂h and ∂L/∂c of each layer, ∂L/∂h̃.
        let mut carry_h: Vec<Tensor<T>> =
            self.layers.iter().map(|_| Tensor::zeros(&[widest, h])).collect();
        let mut carry_c: Vec<Tensor<T>> =
            self.layers.iter().map(|_| Tensor::zeros(&[widest, h])).collect();
        let mut carry_feed = vec![T::ZERO; widest * d_fed];
        let mut d_below = vec![T::ZERO; widest * h];
        let mut d_context = vec![T::ZERO; widest * d_v];
        for t in (0..self.steps.len()).rev() {
            let (from, n) = (self.steps.starts[t], self.steps.width(t));
            let rows = from..from + n;
            let before = if t == 0 { 0 } else { self.steps.starts[t - 1] };
            let looked = if t == 0 { Before::Nothing } else { Before::Rows(before) };
            let d_below = &mut d_below[..n * h];
            let d_context = &mut d_context[..n * d_v];
            let sources = &self.steps.source[rows.clone()];
            d_below.fill(T::ZERO);
            if self.order == Order::UpdateFirst {
                if let Some((by_state, by_context)) = &self.combine {
                    let dz = &mut d_combine.data_mut()[from * d_fed..(from + n) * d_fed];
                    let fed = rows_of(&self.fed, from, n);
                    for (r, source) in sources.iter().enumerate() {
                        let (at, dy) = (r * d_fed..(r + 1) * d_fed, dy.row(*source as usize));
                        let lines = dz[at.clone()].iter_mut().zip(&fed[at.clone()]);
                        for ((dz, y), (dy, late)) in lines.zip(dy.iter().zip(&carry_feed[at])) {
                            *dz = (*dy + *late) * (T::ONE - *y * *y);
                        }
                    }
                    by_state.back(d_below, 0.0, dz, n);
                    by_context.back(d_context, 0.0, dz, n);
                } else {
                    for (r, source) in sources.iter().enumerate() {
                        let dy = dy.row(*source as usize);
                        d_below[r * h..(r + 1) * h].copy_from_slice(&dy[..h]);
                        d_context[r * d_v..(r + 1) * d_v].copy_from_slice(&dy[h..d_read]);
                    }
                }
                let (kept, rows) = (&self.kept, rows.clone());
                self.arrays.backward(kept, rows, d_context, d_below, &mut sums, looked);
            }
            for l in (0..=top).rev() {
                let layer = &self.layers[l];
                let dx = &mut by_input[l].data_mut()[from * wide..(from + n) * wide];
                let du = if self.kind == Cell::Gru {
                    &mut by_state[l].data_mut()[from * wide..(from + n) * wide]
                } else {
                    &mut []
                };
                let (dh, dc) = (carry_h[l].data_mut(), carry_c[l].data_mut());
                let (dh, dc) = (&mut dh[..n * h], &mut dc[..n * h]);
                layer.step_backward(self.kind, (t, from, before, n), d_below, (dh, dc), dx, du);
                if l > 0
                    && let Some((w, _)) = &layer.w_in
                {
                    w.back(d_below, 0.0, dx, n);
                    drop_out(self.dropout, l, from * h, d_below);
                }
            }
            let dx = rows_of(&by_input[0], from, n);
            match self.order {
                Order::UpdateFirst => {
                    if let Some(w) = &self.w_feed {
                        w.back(&mut carry_feed[..n * d_fed], 0.0, dx, n);
                    }
                }
                Order::AttendFirst => {
                    let dh = &mut carry_h[top].data_mut()[..n * h];
                    for (r, source) in sources.iter().enumerate() {
                        let dy = dy.row(*source as usize);
                        add(&mut dh[r * h..(r + 1) * h], &dy[..h]);
                        d_context[r * d_v..(r + 1) * d_v].copy_from_slice(&dy[h..d_read]);
                    }
                    if let Some(w) = &self.w_feed {
                        w.back(d_context, 1.0, dx, n);
                    }
                    self.arrays.backward(&self.kept, rows, d_context, dh, &mut sums, looked);
                }
            }
        }
        self.add_gradients((xw, vars.0, vars.1), &by_input, &by_state, &d_combine, grads);
        for (layer, (dh, dc)) in self.layers.iter().zip(carry_h.iter().zip(&carry_c)) {
            let StateVars { h: state, c } = layer.vars.initial;
            for (var, d) in [(Some(state), dh), (c, dc)] {
                if let Some(var) = var
                    && grads.wants(var)
                {
                    self.steps.add_first(d.data(), h, grads.sum(var));
                }
            }
        }
        add_sums(&self.arrays, sums, &self.kept, &self.asks(), grads);
    }

    /// The gradients of the matrices: one product each over the rows of all steps.
    fn add_gradients(
        &self,
        (xw, w_feed, combine): (Var, Option<Var>, Option<Var>),
        by_input: &[Tensor<T>],
        by_state: &[Tensor<T>],
        d_combine: &Tensor<T>,
        grads: &mut Grads<'_, T>,
    ) {
        let (h, d_v) = (self.h, self.arrays.d_v());
        let mut product = |var: Var, dz: &Tensor<T>, x: &Tensor<T>| {
            if grads.wants(var) {
                let (n, d_out, d_in) = (x.rows(), dz.cols(), x.cols());
                let skipped = dz.rows() - n;
                let dz = Mat::new(&dz.data()[skipped * d_out..], n, d_out);
                let (dw, keep) = grads.slot(var);
                matmul(
                    MatMut::new(dw, d_out, d_in),
                    keep,
                    1.0,
                    dz.t(),
                    Mat::new(x.data(), n, d_in),
                );
            }
        };
        for (l, layer) in self.layers.iter().enumerate() {
            let du = if self.kind == Cell::Gru { &by_state[l] } else { &by_input[l] };
            let before = self.steps.previous(&layer.hidden, Some(&layer.first.0));
            product(layer.vars.w_hh, du, &before);
            if let Some((w, _)) = layer.vars.input {
                product(w, &by_input[l], &layer.input);
            }
        }
        if let Some(var) = w_feed {
            match self.order {
                Order::AttendFirst => product(var, &by_input[0], &self.context),
                Order::UpdateFirst => {
                    let fed = self.steps.previous(&self.fed, self.first_feed.as_ref());
                    product(var, &by_input[0], &fed);
                }
            }
        }
        if let Some(var) = combine
            && grads.wants(var)
        {
            let (n, d) = (d_combine.rows(), d_combine.cols());
            let asks = self.asks();
            let (dw, keep) = grads.slot(var);
            for (first, x) in [(0, &asks), (h, &self.context)] {
                let width = x.cols();
                let out = MatMut::strided(&mut dw[first..], d, width, h + d_v);
                let dz = Mat::new(d_combine.data(), n, d).t();
                matmul(out, keep, 1.0, dz, Mat::new(x.data(), n, width));
            }
        }
        for (l, layer) in self.layers.iter().enumerate() {
            let wide = by_input[l].cols();
            if let Some((_, b)) = layer.vars.input
                && grads.wants(b)
            {
                add_column_sums(by_input[l].data(), wide, grads.sum(b));
            }
            if let Some(b) = layer.vars.b_hh
                && grads.wants(b)
            {
                add_column_sums(by_state[l].data(), wide, grads.sum(b));
            }
        }
        if grads.wants(xw) {
            grads.add(xw, self.steps.scatter(&by_input[0]));
        }
    }
}
