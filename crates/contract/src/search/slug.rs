//! Slugs: titles as names of folders.

use deunicode::deunicode_char;

/// Characters that a slug may have.
pub const MAX: usize = 60;
/// The slug of a title of which nothing can be written.
const NAMELESS: &str = "topic";

/// The slug of a title: lower-case ASCII letters and digits in groups that hyphens join, at most [`MAX`] characters.
/// Other scripts are transliterated. It is never empty.
pub fn of(title: &str) -> String {
    let mut slug = String::new();
    let mut gap = false;
    // A slug needs no more than the beginning of an enormous title.
    for c in title.chars().take(4 * MAX) {
        // An apostrophe joins, as in `don't`.
        if matches!(c, '\'' | '’') {
            continue;
        }
        let written = deunicode_char(c).unwrap_or_default();
        // A character of another script or an emoji is a word of its own if its name has several letters.
        let is_word = !c.is_ascii() && !c.is_alphabetic() && written.len() > 1;
        gap |= is_word;
        for c in written.chars() {
            if !c.is_ascii_alphanumeric() {
                gap = true;
                continue;
            }
            if std::mem::take(&mut gap) && !slug.is_empty() {
                slug.push('-');
            }
            slug.push(c.to_ascii_lowercase());
        }
        gap |= is_word;
    }
    cut(&mut slug, MAX);
    if slug.is_empty() { NAMELESS.to_owned() } else { slug }
}

/// The slug of a title among siblings. A slug that is `taken` gets a number: `topic`, `topic-2`, `topic-3`.
pub fn unique(title: &str, taken: impl Fn(&str) -> bool) -> String {
    let base = of(title);
    if !taken(&base) {
        return base;
    }
    (2_u64..)
        .map(|n| {
            let number = format!("-{n}");
            let mut slug = base.clone();
            cut(&mut slug, MAX - number.len());
            slug + &number
        })
        .find(|slug| !taken(slug))
        .unwrap_or_else(|| unreachable!("there are more numbers than siblings"))
}

/// Checks that a text is a slug. The error says what would be one.
///
/// # Errors
/// When it is not.
pub fn check(slug: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = !slug.is_empty()
        && slug.len() <= MAX
        && slug.chars().all(allowed)
        && !slug.starts_with('-')
        && !slug.ends_with('-')
        && !slug.contains("--");
    let shown = crate::text::truncate(slug, 2 * MAX);
    good.then_some(()).ok_or_else(|| format!("{shown:?} is not a slug; {:?} would be one", of(slug)))
}

fn cut(slug: &mut String, max: usize) {
    slug.truncate(max);
    slug.truncate(slug.trim_end_matches('-').len());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn titles_become_names_of_folders() {
        for (title, slug) in [
            ("Authentication System", "authentication-system"),
            ("  OAuth2 -- Flow!  ", "oauth2-flow"),
            ("What's new?", "whats-new"),
            ("a/b\\c..d", "a-b-c-d"),
            ("..", "topic"),
            ("", "topic"),
            (" \t\n\u{7}", "topic"),
            ("Größe & Maß", "grosse-mass"),
            ("Ænima", "aenima"),
            ("Москва", "moskva"),
            ("Crème brûlée", "creme-brulee"),
            ("e\u{301}t\u{e9}", "ete"),
            ("---", "topic"),
        ] {
            assert_eq!(of(title), slug, "{title:?}");
        }
        assert!(of("木の枝").is_ascii());
        assert_ne!(of("木の枝"), NAMELESS);
        assert_eq!(check(&of("🦀🔥")), Ok(()));
    }

    #[test]
    fn a_long_title_is_cut_without_a_hyphen_at_its_end() {
        assert_eq!(of(&"x".repeat(10_000)).len(), MAX);
        let title = format!("{} {}", "a".repeat(MAX - 1), "b");
        assert_eq!(of(&title), "a".repeat(MAX - 1));
    }

    #[test]
    fn siblings_get_numbers_within_the_limit() {
        let long = "x".repeat(MAX);
        let taken = ["a".to_owned(), "a-2".to_owned(), long.clone()];
        let is_taken = |slug: &str| taken.iter().any(|t| t == slug);
        assert_eq!(unique("A!", is_taken), "a-3");
        assert_eq!(unique("b", is_taken), "b");
        assert_eq!(unique(&long, is_taken), format!("{}-2", "x".repeat(MAX - 2)));
    }

    #[test]
    fn what_is_no_slug_is_refused_with_one_that_is() {
        for bad in ["", "A", "a b", "-a", "a-", "a--b", "ä", &"x".repeat(MAX + 1)] {
            assert!(check(bad).unwrap_err().contains("would be one"), "{bad:?}");
        }
        assert_eq!(check("A b").unwrap_err(), "\"A b\" is not a slug; \"a-b\" would be one");
    }

    proptest! {
        #[test]
        fn any_text_has_a_slug(text in any::<String>()) {
            prop_assert_eq!(check(&of(&text)), Ok(()));
            let twice = unique(&text, |slug| slug == of(&text));
            prop_assert_eq!(check(&twice), Ok(()));
            prop_assert_ne!(twice, of(&text));
            prop_assert_eq!(of(&of(&text)), of(&text));
        }
    }
}
