//! Text that only leads elsewhere: lists of links, badges and "see also" lines. It says nothing by itself, so it is no
//! evidence.

use std::ops::Range;

/// Words that may stand beside links that only lead on.
const BESIDE: &[&str] = &[
    "also",
    "and",
    "back",
    "contents",
    "details",
    "docs",
    "documentation",
    "for",
    "further",
    "here",
    "home",
    "in",
    "link",
    "links",
    "more",
    "next",
    "of",
    "on",
    "or",
    "prev",
    "previous",
    "read",
    "reading",
    "related",
    "see",
    "the",
    "to",
    "top",
    "up",
];
/// What a line begins with that only leads on. A word of its own follows.
const OPENINGS: &[&str] = &["see also", "further reading:", "related:", "related links:", "related pages:"];
/// Headings of lists that only lead on.
const HEADINGS: &[&str] = &[
    "external links",
    "further reading",
    "related",
    "related documents",
    "related links",
    "related pages",
    "related topics",
    "see also",
    "table of contents",
];
/// A longer line is more than a hint, in bytes.
const LINE_BYTES: usize = 320;

/// Whether `heading` stands above a list that only leads on.
pub(super) fn is_heading_of_links(heading: &str) -> bool {
    let heading = heading.trim_matches(|c: char| !c.is_alphanumeric());
    HEADINGS.iter().any(|known| heading.eq_ignore_ascii_case(known))
}

/// Whether `text`, a sentence or a line, only leads elsewhere. `links` are the Markdown links in it, in order. Below a
/// heading of links, whatever is no sentence does.
pub(super) fn leads_on(text: &str, links: &[Range<usize>], below_links: bool) -> bool {
    let start = text.trim_start_matches(|c: char| !c.is_alphanumeric());
    let opens = |opening: &&str| {
        let beginning = start.as_bytes().get(..opening.len());
        let next = start.get(opening.len()..).and_then(|rest| rest.chars().next());
        beginning.is_some_and(|b| b.eq_ignore_ascii_case(opening.as_bytes()))
            && next.is_none_or(|c| !c.is_alphanumeric())
    };
    if text.len() <= LINE_BYTES && OPENINGS.iter().any(opens) {
        return true;
    }
    if below_links && !text.trim_end().ends_with(['.', '!', '?']) {
        return true;
    }
    if links.is_empty() && !text.contains('<') && !text.contains("[[") {
        return false;
    }
    let mut outside = String::with_capacity(text.len());
    let mut at = 0;
    for link in links {
        // An image may stand within a link.
        if link.start >= at {
            outside.push_str(&text[at..link.start]);
            outside.push(' ');
        }
        at = at.max(link.end.min(text.len()));
    }
    outside.push_str(&text[at..]);
    let (outside, found) = without_tags(&outside);
    let mut words = outside.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    (found || !links.is_empty()) && words.all(|word| BESIDE.iter().any(|b| word.eq_ignore_ascii_case(b)))
}

/// `text` without its tags, the texts of its HTML links, its images and `[[links]]` of wikis. The flag says that there
/// was any of the latter three. Every byte is looked at a fixed number of times.
fn without_tags(text: &str) -> (String, bool) {
    // ASCII letters only, so that places stay the same.
    let lower = text.to_ascii_lowercase();
    let (mut outside, mut found) = (String::with_capacity(text.len()), false);
    // Nothing is looked for again that did not stand in what is left.
    let (mut may_end_link, mut may_end_wiki) = (true, true);
    let mut at = 0;
    while let Some(next) = lower[at..].find(['<', '[']) {
        outside.push_str(&text[at..at + next]);
        at += next;
        let rest = &lower[at..];
        let is_tag = rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '!');
        if may_end_wiki && rest.starts_with("[[") {
            if let Some(end) = rest.find("]]") {
                (found, at) = (true, at + end + 2);
                outside.push(' ');
                continue;
            }
            may_end_wiki = false;
        } else if rest.starts_with('<') && is_tag {
            let Some(end) = rest.find('>') else { break };
            if may_end_link && rest.starts_with("<a ") && rest[..end].contains("href") {
                if let Some(end) = rest.find("</a>") {
                    (found, at) = (true, at + end + 4);
                    outside.push(' ');
                    continue;
                }
                may_end_link = false;
            }
            found |= rest.starts_with("<img");
            at += end + 1;
            outside.push(' ');
            continue;
        }
        outside.push_str(&text[at..=at]);
        at += 1;
    }
    outside.push_str(&text[at..]);
    (outside, found)
}

#[cfg(test)]
mod tests {
    use super::super::pieces;

    #[test]
    fn lists_of_links_badges_and_hints_are_no_evidence() {
        let body = "# Lease\n\n\
            [![build](https://x.test/b.svg)](https://x.test/b) ![docs](d.svg)\n\n\
            <a href=\"x\"><img src=\"y.svg\" alt=\"lease badge\"></a>\n\n\
            - [The lease of a driver](a.md)\n- [Leases][1] and [locks](b.md)\n\
            - [Lease](l.md): ends after ten seconds\n\n\
            A lease can be renewed. See also the lock of a store. It ends by itself.\n\n\
            | [Lease](a.md) | [Lock](b.md) |\n|---|---|\n| [Lease](a.md) | [Lock](b.md) |\n| [Elm](e.md) | 1200 |\n\n\
            Use [mTLS](m.md) between [drivers](d.md).\n\n- [[wiki page]]\n\n\
            ## See also\n\n- The lease manual\n- [Locks](b.md), how they end\n- Leases end at night.\n\n[1]: c.md\n";
        let found: Vec<&str> = pieces("a.md", body).into_iter().map(|p| &body[p.range]).collect();
        let expected = [
            "[Lease](l.md): ends after ten seconds",
            "A lease can be renewed.",
            "It ends by itself.",
            "[Elm](e.md) | 1200",
            "Use [mTLS](m.md) between [drivers](d.md).",
            "Leases end at night.",
        ];
        assert_eq!(found, expected);
        let page = "<ul><li><a href=\"a\">The lease</a><li><a href=\"b\">Locks</a> end at noon</ul>";
        let found: Vec<&str> = pieces("a.html", page).into_iter().map(|p| &page[p.range]).collect();
        assert_eq!(found, ["Locks</a> end at noon"]);
    }

    #[test]
    fn links_are_read_in_linear_time() {
        for part in [
            "<a href=x>",
            "<a ",
            "<a href=x><li>b",
            "[[",
            "<a></a>",
            "[a](b) ",
            "<",
            "[![a](b)](c)",
            "see also ",
        ] {
            let body = part.repeat(100_000 / part.len());
            for path in ["a.md", "a.html"] {
                let began = std::time::Instant::now();
                pieces(path, &body);
                assert!(began.elapsed().as_secs() < 10, "{part} in {path}: {:?}", began.elapsed());
            }
        }
    }
}
