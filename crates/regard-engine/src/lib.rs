//! How attention runs: tiled forward and backward on CPU.
