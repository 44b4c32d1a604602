//! Dense arrays on pooled, aligned buffers, counter-based randomness and the numeric kernels.
