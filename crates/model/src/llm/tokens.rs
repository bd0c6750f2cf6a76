//! Counts tokens with the vocabulary of the larger OpenAI models. Other models count a little differently, which is
//! close enough for a budget that leaves room.

use tiktoken_rs::o200k_base_singleton;

/// The number of tokens of `text`.
pub(super) fn count(text: &str) -> usize {
    o200k_base_singleton().encode_ordinary(text).len()
}

/// True if all of `texts` together have at most `budget` tokens. A token is at least one byte, so short texts need no
/// count.
pub(super) fn fit(texts: &[&str], budget: usize) -> bool {
    texts.iter().map(|text| text.len()).sum::<usize>() <= budget
        || texts.iter().map(|text| count(text)).sum::<usize>() <= budget
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
    }
}
