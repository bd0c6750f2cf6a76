//! The planner role and the driver.
