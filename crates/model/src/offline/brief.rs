//! A brief: an objective that lists what is to be answered, in numbered, lettered or marked parts.

use super::short;

/// Parts of a brief at the most.
const PARTS: usize = 24;
/// A first sentence of so many words at the most is the heading of its part.
const HEADING_WORDS: usize = 6;

/// A part of a brief.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// How the brief numbers it, such as `2 (b)`.
    pub(super) label: String,
    /// What the brief calls it, or the part above it.
    heading: String,
    /// What it asks.
    asked: String,
}

impl Part {
    /// Its heading in an answer.
    pub(super) fn title(&self) -> String {
        let asked = short(&self.asked, 120);
        if self.heading.is_empty() {
            format!("{} {asked}", self.label)
        } else {
            format!("{} {}: {asked}", self.label, self.heading)
        }
    }

    /// The question that it is. The heading says what it is about.
    pub(super) fn question(&self) -> String {
        format!("{} {}", self.heading, self.asked).trim().to_owned()
    }
}

/// The mark of an item at the beginning of a line: its number, letter or nothing, and its text.
fn item(line: &str) -> Option<(Mark<'_>, &str)> {
    let line = line.trim_start();
    if let Some(text) = ["- ", "* ", "• ", "– "].iter().find_map(|mark| line.strip_prefix(mark)) {
        return Some((Mark::Bullet, text));
    }
    let open = line.strip_prefix('(');
    let inner = open.unwrap_or(line);
    let end = inner
        .find([')', '.'])
        .filter(|end| *end > 0 && (open.is_none() || inner[*end..].starts_with(')')))?;
    let (label, text) = (&inner[..end], inner[end + 1..].strip_prefix(' ')?);
    match label.len() {
        1..=2 if label.bytes().all(|b| b.is_ascii_digit()) => Some((Mark::Number(label), text)),
        1 if label.bytes().all(|b| b.is_ascii_lowercase()) => Some((Mark::Letter(label), text)),
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark<'a> {
    Number(&'a str),
    Letter(&'a str),
    Bullet,
}

/// An item with those below it.
struct Item<'a> {
    label: &'a str,
    text: String,
    below: Vec<(Mark<'a>, String)>,
}

/// The parts of `brief`; none if it lists fewer than two. What stands before and behind the list says for whom and in
/// which form it is answered.
pub(super) fn parts(brief: &str) -> Vec<Part> {
    let Some(outer) = brief.lines().find_map(item).map(|(mark, _)| std::mem::discriminant(&mark)) else {
        return Vec::new();
    };
    let mut items: Vec<Item<'_>> = Vec::new();
    let (mut blank, mut ended) = (false, false);
    for line in brief.lines() {
        match item(line) {
            Some((mark, text)) if std::mem::discriminant(&mark) == outer => {
                let label = if let Mark::Number(label) | Mark::Letter(label) = mark { label } else { "" };
                items.push(Item { label, text: text.to_owned(), below: Vec::new() });
                ended = false;
            }
            Some((mark, text)) => {
                items.iter_mut().last().into_iter().for_each(|item| item.below.push((mark, text.to_owned())))
            }
            None if line.trim().is_empty() => {}
            // A paragraph that is not indented is no part of the item above it.
            None if blank && !line.starts_with([' ', '\t']) => ended = true,
            None if !ended => {
                let text = items.last_mut().map(|item| match item.below.last_mut() {
                    Some((_, text)) => text,
                    None => &mut item.text,
                });
                text.into_iter().for_each(|text| text.push_str(&format!(" {}", line.trim())));
            }
            None => {}
        }
        blank = line.trim().is_empty();
    }
    let mut parts: Vec<Part> = Vec::new();
    for (number, item) in (1..).zip(&items) {
        let number = if item.label.is_empty() { format!("{number}") } else { item.label.to_owned() };
        let (first, rest) = item.text.split_once(". ").unwrap_or((&item.text, ""));
        let is_heading = first.split_whitespace().count() <= HEADING_WORDS && !first.ends_with('?');
        let (heading, asked) = match is_heading && (!rest.is_empty() || !item.below.is_empty()) {
            true => (first.trim_end_matches([':', '.']), rest),
            false => ("", item.text.as_str()),
        };
        let part = |label: String, asked: &str| Part {
            label,
            heading: heading.to_owned(),
            asked: asked.trim_end_matches([',', ';']).trim_end_matches(", and").trim().to_owned(),
        };
        if item.below.is_empty() {
            parts.push(part(number, asked));
            continue;
        }
        for (place, (mark, text)) in (b'a'..=b'z').zip(&item.below) {
            let letter = if let Mark::Letter(letter) = mark {
                (*letter).to_owned()
            } else {
                char::from(place).to_string()
            };
            parts.push(part(format!("{number} ({letter})"), text));
        }
    }
    parts.retain(|part| !part.asked.is_empty());
    parts.truncate(PARTS);
    if parts.len() < 2 { Vec::new() } else { parts }
}

/// The headings of the parts of `brief`, each once; empty if it is none.
pub(super) fn headings(brief: &str) -> String {
    let mut headings: Vec<String> = Vec::new();
    for Part { heading, asked, .. } in parts(brief) {
        let heading = if heading.is_empty() { asked } else { heading };
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    headings.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_letters_and_bullets_are_parts() {
        let brief = "You are preparing a note. Documents are available.\n\n1. Money. What did it earn, and\n   \
                     what did it cost?\n\n2. People\n   (a) Who leads it?\n   (b) Since when?\n\n3. Set out\n   - the \
                     largest customer, and\n   - its share.\n4) How is the weather?\n\nKeep it to one page.\n";
        let parts = parts(brief);
        let shown: Vec<(String, String)> =
            parts.iter().map(|part| (part.label.clone(), part.question())).collect();
        let shown: Vec<(&str, &str)> = shown.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(
            shown,
            [
                ("1", "Money What did it earn, and what did it cost?"),
                ("2 (a)", "People Who leads it?"),
                ("2 (b)", "People Since when?"),
                ("3 (a)", "Set out the largest customer"),
                ("3 (b)", "Set out its share."),
                ("4", "How is the weather?"),
            ]
        );
        assert_eq!(parts[1].title(), "2 (a) People: Who leads it?");
        assert_eq!(headings(brief), "Money; People; Set out; How is the weather?");
    }

    #[test]
    fn other_objectives_are_no_briefs() {
        for text in
            ["What costs 3.5 euro?", "1. Only one part", "Why?\n- because", "In 2024. It was so.\nA. B", ""]
        {
            assert_eq!(parts(text), [], "{text}");
        }
    }
}
