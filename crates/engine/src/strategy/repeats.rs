//! Which tasks of homework repeat earlier ones with nothing new.

use std::collections::BTreeSet;

use crate::covered::words;

/// What a task asks: its title, and what must be so when it is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) title: &'a str,
    pub(super) criteria: &'a [String],
}

impl Asked<'_> {
    /// True if every word that counts is in `earlier`, and every file: `old pump.md`, `pump.md` and `_pump.md` are
    /// three files.
    pub(super) fn adds_nothing_to(self, earlier: Asked<'_>) -> bool {
        let known: BTreeSet<String> = earlier.words().into_iter().collect();
        let words = self.words();
        let files = through_last_file(self.title);
        let is_next =
            |rest: &str| files.is_empty() || rest.is_empty() || rest.starts_with(char::is_whitespace);
        let names_file = |text: &&String| text.contains('`') || !through_last_file(text).is_empty();
        !words.is_empty()
            && words.iter().all(|word| known.contains(word))
            && earlier.title.strip_prefix(files).is_some_and(is_next)
            && self.criteria.iter().filter(names_file).all(|text| earlier.criteria.contains(text))
    }

    fn words(self) -> Vec<String> {
        std::iter::once(self.title).chain(self.criteria.iter().map(String::as_str)).flat_map(words).collect()
    }
}

/// The text as far as the last word that may be the name of a file; empty if there is none. Names may hold spaces, so
/// nobody can tell where one begins.
fn through_last_file(text: &str) -> &str {
    let (mut at, mut end) = (0, 0);
    for word in text.split_inclusive(char::is_whitespace) {
        if word.trim_matches(|c: char| !c.is_alphanumeric()).contains(['/', '.']) {
            end = at + word.trim_end().len();
        }
        at += word.len();
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adds_nothing(title: &str, criteria: &[&str], earlier: &str, met: &[&str]) -> bool {
        let owned = |criteria: &[&str]| criteria.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>();
        let (criteria, met) = (owned(criteria), owned(met));
        Asked { title, criteria: &criteria }.adds_nothing_to(Asked { title: earlier, criteria: &met })
    }

    #[test]
    fn another_file_is_something_new() {
        let earlier = "What old a/pump-parts.md says about the seal and the valve";
        assert!(adds_nothing("What old a/pump-parts.md says about the valve", &[], earlier, &[]));
        for other in
            ["a/pump-parts.md", "a/pump.md", "parts.md", "old _a/pump-parts.md", "old, a/pump-parts.md"]
        {
            assert!(
                !adds_nothing(&format!("What {other} says about the seal"), &[], earlier, &[]),
                "{other}"
            );
        }
        assert!(adds_nothing("The valve and the seal", &[], earlier, &[]), "it names no file");
    }

    #[test]
    fn a_criterion_that_names_a_file_is_met_as_it_is() {
        let (title, met) =
            ("Read about the seal", ["reads old pump.md", "reads `old README`", "quotes the seal"]);
        assert!(adds_nothing(title, &["quotes seals", "reads old pump.md"], title, &met));
        assert!(!adds_nothing(title, &["reads pump.md"], title, &met));
        assert!(!adds_nothing(title, &["reads `README`"], title, &met));
        assert!(!adds_nothing("", &[], title, &met), "it says nothing");
    }
}
