//! The loop round the engine: leases, role calls, group commit, publish.
