//! The executor role.
