//! Markdown as passages: short verbatim pieces, each under the headings that it stands under.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use unicode_segmentation::UnicodeSegmentation;

use super::short;

/// Sentences are joined until a passage is this long, in bytes: enough to be understood alone.
const PASSAGE_BYTES: usize = 320;
/// A sentence without an end (a generated table, a minified file) is left out beyond this.
const SENTENCE_BYTES: usize = 2_000;
/// Bytes of a heading in a citation.
const HEADING_BYTES: usize = 160;

/// Words whose period ends no sentence.
const ABBREVIATIONS: &[&str] = &[
    "e.g.", "i.e.", "cf.", "vs.", "approx.", "Dr.", "Mr.", "Mrs.", "Prof.", "No.", "Fig.", "Sec.", "z.B.",
    "d.h.",
];

/// A piece of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Where it stands in the body.
    pub(super) range: Range<usize>,
    /// The headings above it, `A › B`; empty before the first.
    pub(super) heading: String,
}

/// The pieces of `body`: parts of paragraphs, list items and table rows, in order. Code and front matter are left out.
pub(super) fn pieces(body: &str) -> Vec<Piece> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    let mut walk =
        Walk { body, pieces: Vec::new(), headings: Vec::new(), block: None, whole: Vec::new(), skipping: 0 };
    for (event, range) in Parser::new_ext(body, options).into_offset_iter() {
        walk.on(event, range);
    }
    walk.flush();
    walk.pieces
}

struct Walk<'a> {
    body: &'a str,
    pieces: Vec<Piece>,
    /// Level and text of the headings above.
    headings: Vec<(u8, String)>,
    /// From the first to the last inline byte of the block at hand.
    block: Option<Range<usize>>,
    /// Inline parts of the block that are never cut: code, links, what is emphasised.
    whole: Vec<Range<usize>>,
    /// Depth within code and front matter.
    skipping: u32,
}

impl Walk<'_> {
    fn on(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(Tag::CodeBlock(_) | Tag::MetadataBlock(_) | Tag::HtmlBlock) => {
                self.flush();
                self.skipping += 1;
            }
            Event::End(TagEnd::CodeBlock | TagEnd::MetadataBlock(_) | TagEnd::HtmlBlock) => {
                self.skipping = self.skipping.saturating_sub(1);
            }
            Event::End(TagEnd::Heading(level)) => {
                self.whole.clear();
                let text = self.block.take().map(|b| short(&self.body[b], HEADING_BYTES));
                let level = level as u8;
                self.headings.retain(|(above, _)| *above < level);
                self.headings.push((level, text.unwrap_or_default()));
            }
            Event::Start(
                Tag::Paragraph
                | Tag::Heading { .. }
                | Tag::BlockQuote(_)
                | Tag::List(_)
                | Tag::Item
                | Tag::TableHead
                | Tag::TableRow,
            )
            | Event::End(
                TagEnd::Paragraph | TagEnd::BlockQuote(_) | TagEnd::List(_) | TagEnd::Item | TagEnd::TableRow,
            )
            | Event::Rule => self.flush(),
            // Names of columns answer nothing by themselves.
            Event::End(TagEnd::TableHead) => {
                self.block = None;
                self.whole.clear();
            }
            Event::Start(Tag::Table(_) | Tag::TableCell)
            | Event::End(TagEnd::Table | TagEnd::TableCell)
            | Event::SoftBreak
            | Event::HardBreak
            | Event::Html(_) => {}
            _ if self.skipping > 0 => {}
            event => {
                if let Event::Code(_) | Event::Start(Tag::Strong | Tag::Emphasis | Tag::Link { .. }) = event {
                    self.whole.push(range.clone());
                }
                let block = self.block.get_or_insert(range.clone());
                block.start = block.start.min(range.start);
                block.end = block.end.max(range.end);
            }
        }
    }

    /// Ends the block at hand and cuts it into pieces.
    fn flush(&mut self) {
        let whole = std::mem::take(&mut self.whole);
        let Some(block) = self.block.take() else { return };
        let heading = self.headings.iter().map(|(_, text)| text.as_str()).filter(|t| !t.is_empty());
        let heading = heading.collect::<Vec<_>>().join(" › ");
        // A line break within a paragraph is a space to its reader; to Unicode it would end a sentence. The bytes stay
        // where they are.
        let flat = self.body[block.clone()].replace(['\n', '\r'], " ");
        let mut piece: Option<Range<usize>> = None;
        // Both are in order, so one look at each is enough.
        let mut whole = whole.into_iter().peekable();
        let mut from = block.start;
        for (at, bound) in flat.split_sentence_bound_indices() {
            let to = block.start + at + bound.len();
            while whole.next_if(|w| w.end < to).is_some() {}
            let inside = whole.peek().is_some_and(|w| w.start < to && to < w.end);
            if to < block.end && (inside || !ends_sentence(bound, &flat[at + bound.len()..])) {
                continue;
            }
            let sentence = &self.body[from..to];
            if let Some(before) = &piece
                && before.len() + sentence.trim_end().len() > PASSAGE_BYTES
            {
                self.push(before.clone(), &heading);
                piece = None;
            }
            piece = Some(piece.map_or(from, |p| p.start)..to);
            from = to;
        }
        if let Some(last) = piece {
            self.push(last, &heading);
        }
    }

    fn push(&mut self, range: Range<usize>, heading: &str) {
        let text = &self.body[range.clone()];
        let start = range.start + (text.len() - text.trim_start().len());
        let end = start + text.trim().len();
        if (1..=SENTENCE_BYTES).contains(&(end - start)) && text.chars().any(char::is_alphanumeric) {
            self.pieces.push(Piece { range: start..end, heading: heading.to_owned() });
        }
    }
}

/// Whether a sentence ends between `before` and `after`, where Unicode's rules see an end. They do not know of
/// identifiers (`v1.Event`) and abbreviations.
fn ends_sentence(before: &str, after: &str) -> bool {
    let trimmed = before.trim_end();
    if trimmed.ends_with(|c: char| !c.is_ascii()) {
        return true;
    }
    let starts_low = after.trim_start_matches(['`', '*', '"', '(']).starts_with(char::is_lowercase);
    if trimmed.len() == before.len() || (trimmed.ends_with('.') && starts_low && !after.starts_with('`')) {
        return false;
    }
    let word = trimmed.rsplit([' ', '(']).next().unwrap_or_default();
    !ABBREVIATIONS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pieces_stand_under_their_headings() {
        let body = "---\ntitle: x\n---\n# A\n\nOne *two*\nthree. Four.\n\n## B\n\n- item `code`\n- other\n\n| h | i |\n|---|---|\n| c | d |\n\n```\nskipped\n```\n\n# C\n\nlast";
        let found: Vec<(String, &str)> =
            pieces(body).into_iter().map(|p| (p.heading, &body[p.range])).collect();
        let expected = [
            ("A", "One *two*\nthree. Four."),
            ("A › B", "item `code`"),
            ("A › B", "other"),
            ("A › B", "c | d"),
            ("C", "last"),
        ];
        assert_eq!(found, expected.map(|(h, t)| (h.to_owned(), t)));
    }

    #[test]
    fn long_paragraphs_are_cut_between_sentences() {
        let body = "This sentence is about the size of a usual one, give or take. ".repeat(20);
        let found = pieces(&body);
        assert!(found.len() > 2);
        assert!(
            found.iter().all(|p| p.range.len() <= PASSAGE_BYTES && body[p.range.clone()].ends_with("take."))
        );
    }

    #[test]
    fn no_sentence_ends_within_code_identifiers_and_abbreviations() {
        let filler =
            "A sentence of some length that stands in the same paragraph as all of the others here. "
                .repeat(3);
        for sentence in [
            "On the wire it is one field of `treeagent.v1. Event`: `node_status` and so on.",
            "It is a treeagent.v1.Event on the wire, e.g. Redis. Then",
            "**Both of these. Are bold.** Then",
            "See i.e. The rules of vs. Unicode.",
        ] {
            let body = format!("{filler}{sentence}");
            let found = pieces(&body);
            let last = &body[found.last().unwrap().range.clone()];
            let first_words: String = sentence.chars().take(12).collect();
            assert!(found.iter().any(|p| body[p.range.clone()].contains(&first_words)), "{found:?}");
            assert!(
                !last.starts_with("Event") && !last.starts_with("Are") && !last.starts_with("The rules"),
                "{last}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_pieces_in_order(body in "[a-zäß.#*|`>\\- \n]{0,300}") {
            let mut end = 0;
            for piece in pieces(&body) {
                prop_assert!(piece.range.start >= end);
                end = piece.range.end;
                prop_assert!(!body[piece.range].trim().is_empty());
            }
        }
    }
}
