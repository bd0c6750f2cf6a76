//! Vectors of passages, for a search by meaning.
//!
//! An operator chooses one [`Embedder`] ([`EmbeddingArgs`], [`from_settings`]) or none. [`worker::run`] gives the
//! passages of a store their vectors in the background.
//!
//! Vectors have length 1 and are rounded to whole numbers from -127 to 127, so similarity is an integer dot product.

mod files;
mod local;
mod remote;
mod settings;
pub mod worker;

use std::fmt;

use async_trait::async_trait;

pub use files::{FilesError, check_files};
pub use settings::{EmbeddingArgs, EmbeddingSettings, from_settings};

/// The length of every vector, but for rounding.
pub const UNIT: f64 = 127.0;

/// Makes vectors of texts.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// What made the vectors: vectors of different models cannot be compared, so stores keep this name with each.
    fn model(&self) -> &str;

    /// Numbers in each vector.
    fn dimensions(&self) -> usize;

    /// How many texts are worth one call. More in one call would only take longer.
    fn at_once(&self) -> usize {
        usize::MAX
    }

    /// One vector for each text, in their order; empty for one that the model does not take. The same text always gets
    /// the same vector of a local model.
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<i8>>, EmbedError>;
}

impl fmt::Debug for dyn Embedder + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.model())
    }
}

/// Why there are no vectors, in a sentence that says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EmbedError(pub String);

/// `vector` with length 1, rounded to whole numbers; none if it has no direction.
fn quantised(vector: &[f32]) -> Option<Vec<i8>> {
    let length = vector.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    let is_usable = length.is_finite() && length > 0.0;
    // A component is at most as long as the vector.
    is_usable.then(|| vector.iter().map(|x| (f64::from(*x) / length * UNIT).round() as i8).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_normalised_and_rounded() {
        assert_eq!(quantised(&[3.0, -4.0]), Some(vec![76, -102]));
        assert_eq!(quantised(&[f32::MAX, 0.0]), Some(vec![127, 0]));
        for useless in [[0.0, 0.0], [f32::NAN, 1.0], [1.0, f32::INFINITY]] {
            assert_eq!(quantised(&useless), None, "{useless:?}");
        }
    }
}
