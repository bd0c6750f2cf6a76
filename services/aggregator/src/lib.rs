//! The aggregator role.
