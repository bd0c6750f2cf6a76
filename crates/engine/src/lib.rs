//! Decide and apply: the pure state machine of a run, and the graph projection.
