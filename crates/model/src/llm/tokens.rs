//! Counts tokens with the vocabulary of the larger OpenAI models. Other models count a little differently, which is
//! close enough for a budget that leaves room.

use tiktoken_rs::o200k_base_singleton;
use tree_agent_contract::text::{prefix, suffix};

/// The number of tokens of `text`.
pub(super) fn count(text: &str) -> usize {
    o200k_base_singleton().encode_ordinary(text).len()
}

/// About the number of tokens of `text`. Of a long one only parts are counted: counting megabytes takes seconds.
pub(super) fn estimate(text: &str) -> usize {
    const PARTS: usize = 16;
    const PART_BYTES: usize = 16 * 1024;
    if text.len() <= PARTS * PART_BYTES {
        return count(text);
    }
    let stride = text.len() / PARTS;
    let parts = (0..PARTS).map(|part| prefix(suffix(text, text.len() - part * stride), PART_BYTES));
    let (bytes, tokens) =
        parts.fold((0, 0), |(bytes, tokens), part| (bytes + part.len(), tokens + count(part)));
    (tokens as u64 * text.len() as u64 / bytes.max(1) as u64) as usize
}

/// True if all of `texts` together have at most `budget` tokens. A token is at least one byte, so short texts need no
/// count, and texts of more than sixteen bytes for each token are taken for too long.
pub(super) fn fit(texts: &[&str], budget: usize) -> bool {
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    bytes <= budget || bytes / 16 <= budget && texts.iter().map(|text| count(text)).sum::<usize>() <= budget
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_vocabulary() {
        assert_eq!(count("hello world"), 2);
        assert_eq!(count(""), 0);
        assert!(fit(&["hello", " world"], 2));
        assert!(!fit(&["hello world hello world"], 2));
        let long = "The harbour has two locks. ".repeat(20_000);
        assert!(estimate(&long).abs_diff(count(&long)) < count(&long) / 50);
    }
}
