//! Words as answers are compared: lower case, without accents, punctuation and articles.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The words of `text` in lower case, without accents and punctuation.
pub fn words(text: &str) -> Vec<String> {
    let folded: String =
        text.nfkd().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase).collect();
    folded.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

/// The words of an answer, without articles.
pub fn answer_words(text: &str) -> Vec<String> {
    words(text).into_iter().filter(|w| !matches!(w.as_str(), "a" | "an" | "the")).collect()
}

/// Whether the words of `part` stand in `whole` one after the other.
pub fn contains(whole: &[String], part: &[String]) -> bool {
    !part.is_empty() && whole.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_compared_by_their_words() {
        assert_eq!(answer_words("The Tekezé-River!"), ["tekeze", "river"]);
        let whole = answer_words("It flows into the Atbarah River, north of it.");
        assert!(contains(&whole, &answer_words("an Atbarah river")));
        assert!(!contains(&whole, &answer_words("river Atbarah")));
        assert!(!contains(&whole, &[]));
    }
}
