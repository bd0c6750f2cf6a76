//! The planner role and the driver.

pub mod role;
