//! Tolerances, gradient checker, strategies and golden reader for the tests.
