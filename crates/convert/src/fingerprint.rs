//! By what an import knows a file that has not changed.

use sha2::{Digest, Sha256};
use tree_agent_contract::text::hex;

/// Changes when files are converted or split in another way, so that they are imported again.
const VERSION: &[u8] = b"7";

/// A hash of all that the documents of a file are made of: its bytes, and its title if that is kept beside it.
pub fn file_hash(title: &str, bytes: &[u8]) -> String {
    sha256(&[VERSION, &title.len().to_le_bytes(), title.as_bytes(), bytes])
}

/// What a document of a file is recognised by: the [hash](file_hash) of the file and the number of its documents. A
/// file is unchanged only if all of them are there.
pub fn fingerprint(hash: &str, documents: usize) -> String {
    format!("{hash}-{documents}")
}

/// SHA-256 of the parts one after the other, in hex.
pub fn sha256(parts: &[&[u8]]) -> String {
    let mut digest = Sha256::new();
    parts.iter().for_each(|part| digest.update(part));
    hex(&digest.finalize())
}
