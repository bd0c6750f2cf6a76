//! What operators do to a log: [`verify`] it, [`rebuild`] its projections, and move ended runs to an [`archive`] and
//! back. Documents of projects have no log; their [`passages`] follow from their texts. Everything works on any store,
//! beside running services.

pub mod archive;
mod error;
mod fold;
mod passages;
mod rebuild;
mod verify;

pub use error::MaintenanceError;
pub use fold::Fold;
pub use passages::passages;
pub use rebuild::{Rebuilt, rebuild};
pub use verify::{Finding, Report, Subject, UnknownType, verify};

/// Events of one page while a log is read.
const PAGE: usize = 5_000;
