//! Accumulators of evaluation counts: update, merge, finish.
