//! Names in a text: words that begin with a capital, one after the other.
//!
//! What a passage names and a question did not is where the next passage is looked for.

use super::words::{is_stop, stems};

/// Words that may stand within a name in lower case.
const WITHIN: &[&str] = &[
    "a", "and", "at", "da", "de", "del", "der", "di", "du", "for", "in", "la", "le", "of", "on", "the", "to",
    "van", "von", "with",
];
/// Words at which a long name is divided: `University of Elm` also names `Elm`.
const DIVIDING: &[&str] = &["and", "at", "for", "in", "of", "on", "with"];
/// Words of a name at the most.
const LONGEST: usize = 12;

/// The names in `text`, each once, in order. A long name is followed by its parts.
pub(super) fn names(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut current: Vec<&str> = Vec::new();
    for token in tokens(text) {
        let is_word = token.starts_with(char::is_alphanumeric);
        let initial = current.last().is_some_and(|last| last.chars().count() == 1);
        let within = !current.is_empty() && WITHIN.contains(&token);
        if is_word && (token.starts_with(char::is_uppercase) || within) && current.len() < LONGEST {
            current.push(token);
        } else if !(token == "." && initial) {
            note(&mut found, &std::mem::take(&mut current));
        }
    }
    note(&mut found, &current);
    found
}

/// Words and single marks. A mark within a word (`O'Neill`, `Jean-Luc`) belongs to it.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut from: Option<usize> = None;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let joins = matches!(c, '\'' | '’' | '-')
            && from.is_some()
            && chars.peek().is_some_and(|(_, next)| next.is_alphanumeric());
        if c.is_alphanumeric() || joins {
            from.get_or_insert(at);
            continue;
        }
        if let Some(from) = from.take() {
            tokens.push(&text[from..at]);
        }
        if !c.is_whitespace() {
            tokens.push(&text[at..at + c.len_utf8()]);
        }
    }
    if let Some(from) = from {
        tokens.push(&text[from..]);
    }
    tokens
}

/// Adds the name that `words` form, and its parts.
fn note(found: &mut Vec<String>, words: &[&str]) {
    let words = trimmed(words);
    if words.is_empty() {
        return;
    }
    let mut add = |words: &[&str]| {
        let name = words.join(" ");
        if !words.is_empty() && !found.contains(&name) {
            found.push(name);
        }
    };
    add(words);
    let parts: Vec<&[&str]> = words.split(|word| DIVIDING.contains(word)).map(trimmed).collect();
    if parts.len() > 1 {
        parts.into_iter().for_each(add);
    }
}

/// `words` without those at either end that say nothing: `The`, `In`, `and`.
fn trimmed<'a, 'b>(mut words: &'a [&'b str]) -> &'a [&'b str] {
    let says_nothing = |word: &str| is_stop(&word.to_lowercase()) || WITHIN.contains(&word);
    while let [first, rest @ ..] = words
        && says_nothing(first)
    {
        words = rest;
    }
    while let [rest @ .., last] = words
        && says_nothing(last)
    {
        words = rest;
    }
    words
}

/// A name by which two texts can be linked: its stems. None if it is too short to tell anything.
pub(super) fn key(name: &str) -> Option<Vec<String>> {
    let key: Vec<String> = stems(name).collect();
    let tells = match key.as_slice() {
        [] => false,
        [one] => one.chars().count() > 2 && !one.chars().all(|c| c.is_ascii_digit()) && !is_stop(one),
        _ => true,
    };
    tells.then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_capitalised_words_in_a_row() {
        let text = "The novel was written by J. R. Vance, who taught at the University of Elm in Old-Port. In 1990 \
                    Jean-Luc O'Neill joined.";
        let expected = [
            "J R Vance",
            "University of Elm in Old-Port",
            "University",
            "Elm",
            "Old-Port",
            "Jean-Luc O'Neill",
        ];
        assert_eq!(names(text), expected);
        assert_eq!(names("What is it?"), Vec::<String>::new());
        assert_eq!(key("Elm"), Some(vec!["elm".to_owned()]));
        assert_eq!(key("I"), None);
    }
}
