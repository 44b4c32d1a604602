//! Tape, layers, losses, optimisers, schedules and checkpoints.
