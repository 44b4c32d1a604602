//! One module a task: configuration, wiring, train, evaluate, predict.
