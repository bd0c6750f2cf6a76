//! Documents as passages: short verbatim pieces of Markdown, code and HTML, each under the headings that it stands
//! under.

mod cut;
mod html;
mod links;
mod nesting;

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use unicode_segmentation::UnicodeSegmentation;

use super::short;

/// Sentences are joined until a passage is this long, in bytes: enough to be understood alone.
const PASSAGE_BYTES: usize = 320;
/// A longer sentence (a generated table, a minified file, notes without full stops) is cut between words.
const SENTENCE_BYTES: usize = 2_000;
/// Bytes of a heading in a citation.
const HEADING_BYTES: usize = 160;

/// Levels of quotations and lists within each other. A text with more is read line by line, because the parser looks at
/// every level again for each line.
const LEVELS: usize = 100;

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

/// The pieces of the document `body` at `path`, in order: parts of paragraphs, list items, table rows, blocks of code,
/// and the text of HTML. Front matter is left out.
pub(super) fn pieces(path: &str, body: &str) -> Vec<Piece> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    let mut walk = Walk {
        body,
        pieces: Vec::new(),
        headings: Vec::new(),
        block: None,
        whole: Vec::new(),
        links: Vec::new(),
        skipping: 0,
    };
    let extension = path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    // An import writes a page as Markdown and keeps its name.
    let is_page = body.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).starts_with('<');
    if is_page && matches!(extension.as_deref(), Some("html" | "htm" | "xhtml")) {
        walk.html(0..body.len());
        return walk.pieces;
    }
    if nesting::is_deeper(body, LEVELS) {
        walk.code(0..body.len());
        return walk.pieces;
    }
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
    /// Links and images of the block.
    links: Vec<Range<usize>>,
    /// Depth within front matter.
    skipping: u32,
}

impl Walk<'_> {
    fn on(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(Tag::MetadataBlock(_)) => {
                self.flush();
                self.skipping += 1;
            }
            Event::End(TagEnd::MetadataBlock(_)) => self.skipping = self.skipping.saturating_sub(1),
            Event::Start(Tag::CodeBlock(_) | Tag::HtmlBlock) => self.flush(),
            Event::End(TagEnd::CodeBlock) => self.block.take().into_iter().for_each(|block| self.code(block)),
            Event::End(TagEnd::HtmlBlock) => self.block.take().into_iter().for_each(|block| self.html(block)),
            Event::End(TagEnd::Heading(level)) => {
                self.forget();
                let text = self.block.take().unwrap_or_default();
                self.heading(level as u8, text);
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
                self.forget();
            }
            Event::Start(Tag::Table(_) | Tag::TableCell)
            | Event::End(TagEnd::Table | TagEnd::TableCell)
            | Event::SoftBreak
            | Event::HardBreak => {}
            _ if self.skipping > 0 => {}
            event => {
                if let Event::Code(_) | Event::Start(Tag::Strong | Tag::Emphasis | Tag::Link { .. }) = event {
                    self.whole.push(range.clone());
                }
                if let Event::Start(Tag::Link { .. } | Tag::Image { .. }) = event {
                    self.links.push(range.clone());
                }
                let block = self.block.get_or_insert(range.clone());
                block.start = block.start.min(range.start);
                block.end = block.end.max(range.end);
            }
        }
    }

    /// Leaves out the inline parts of a block that is not cut.
    fn forget(&mut self) {
        self.whole.clear();
        self.links.clear();
    }

    /// What follows stands under the heading at `text`.
    fn heading(&mut self, level: u8, text: Range<usize>) {
        self.headings.retain(|(above, _)| *above < level);
        self.headings.push((level, short(&self.body[text], HEADING_BYTES)));
    }

    /// The headings above, in one line.
    fn under(&self) -> String {
        let headings = self.headings.iter().map(|(_, text)| text.as_str()).filter(|t| !t.is_empty());
        headings.collect::<Vec<_>>().join(" › ")
    }

    /// Whether the heading above stands over a list that only leads elsewhere.
    fn is_below_links(&self) -> bool {
        self.headings.last().is_some_and(|(_, text)| links::is_heading_of_links(text))
    }

    /// Adds the lines of a block of code, as many together as fit into a passage; a blank line separates passages.
    fn code(&mut self, block: Range<usize>) {
        let heading = self.under();
        let mut piece: Option<Range<usize>> = None;
        let mut from = block.start;
        for line in self.body[block].split_inclusive('\n') {
            let to = from + line.len();
            let is_blank = line.trim().is_empty();
            if let Some(before) = piece.take_if(|p| is_blank || to - p.start > PASSAGE_BYTES) {
                self.push(before, &heading);
            }
            if !is_blank {
                piece = Some(piece.map_or(from, |p| p.start)..to);
            }
            from = to;
        }
        if let Some(last) = piece {
            self.push(last, &heading);
        }
    }

    /// Adds the text of HTML, without the tags around it.
    fn html(&mut self, block: Range<usize>) {
        for text in html::texts(&self.body[block.clone()]) {
            let range = block.start + text.range.start..block.start + text.range.end;
            // The text of a link may be cut from its end tag.
            let seen = || format!("{}</a>", &self.body[block.start + text.from..range.end]);
            match text.heading {
                Some(level) => self.heading(level, range),
                None if links::leads_on(&seen(), &[], false) => {}
                None => self.sentences(range, Vec::new(), &[]),
            }
        }
    }

    /// Ends the block at hand and cuts it into pieces.
    fn flush(&mut self) {
        let (whole, links) = (std::mem::take(&mut self.whole), std::mem::take(&mut self.links));
        if let Some(block) = self.block.take() {
            self.sentences(block, whole, &links);
        }
    }

    /// Cuts a block of text between its sentences; nothing in `whole` is cut. What only leads elsewhere is left out.
    fn sentences(&mut self, block: Range<usize>, whole: Vec<Range<usize>>, mut links: &[Range<usize>]) {
        let heading = self.under();
        let below_links = self.is_below_links();
        // A line break within a paragraph is a space to its reader; to Unicode it would end a sentence. The bytes stay
        // where they are.
        let flat = self.body[block.clone()].replace(['\n', '\r'], " ");
        let mut piece: Option<Range<usize>> = None;
        // Both are in order, so one look at each is enough.
        let mut whole = whole.into_iter().peekable();
        let mut from = block.start;
        let bounds = cut::stretches(&flat).into_iter().flat_map(|(place, stretch)| {
            let bounds = stretch.split_sentence_bound_indices();
            bounds.map(move |(at, bound)| (place + at, bound, at + bound.len() == stretch.len()))
        });
        for (at, bound, ends_stretch) in bounds {
            let to = block.start + at + bound.len();
            while whole.next_if(|w| w.end < to).is_some() {}
            let inside = whole.peek().is_some_and(|w| w.start < to && to < w.end);
            let goes_on = inside || ends_stretch || !ends_sentence(bound, &flat[at + bound.len()..]);
            if to < block.end && goes_on {
                continue;
            }
            let sentence = &self.body[from..to];
            let count = links.partition_point(|link| link.start < to);
            let inside: Vec<Range<usize>> =
                links[..count].iter().map(|l| l.start.max(from) - from..l.end.max(from) - from).collect();
            links = &links[count..];
            if links::leads_on(sentence, &inside, below_links) {
                piece.take().into_iter().for_each(|before| self.push(before, &heading));
                from = to;
                continue;
            }
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

    /// Adds the text at `range`, in several pieces if it is one overlong sentence.
    fn push(&mut self, range: Range<usize>, heading: &str) {
        let text = &self.body[range.clone()];
        if text.trim().len() <= SENTENCE_BYTES {
            return self.add(range, heading);
        }
        for window in cut::windows(text, PASSAGE_BYTES) {
            self.add(range.start + window.start..range.start + window.end, heading);
        }
    }

    /// Adds the text at `range` as one piece, unless it has no word.
    fn add(&mut self, range: Range<usize>, heading: &str) {
        let text = &self.body[range.clone()];
        let start = range.start + (text.len() - text.trim_start().len());
        let end = start + text.trim().len();
        if text.chars().any(char::is_alphanumeric) {
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
    fn a_page_that_was_imported_as_markdown_is_read_as_such() {
        let body = "# Garden\n\n## Watering\n\nFerns need water.\n\n```\nlet x: Vec<Zirvane>;\n```\n";
        let said: Vec<(&str, String)> =
            pieces("page.html", body).into_iter().map(|p| (&body[p.range], p.heading)).collect();
        let heading = "Garden › Watering".to_owned();
        assert_eq!(said, [("Ferns need water.", heading.clone()), ("let x: Vec<Zirvane>;", heading)]);
        let page = "\n<h1>Garden</h1><p>Ferns need <b>water</b>.";
        let said: Vec<&str> = pieces("page.html", page).into_iter().map(|p| &page[p.range]).collect();
        assert_eq!(said, ["Ferns need <b>water</b>."]);
    }

    #[test]
    fn pieces_stand_under_their_headings() {
        let body = "---\ntitle: x\n---\n# A\n\nOne *two*\nthree. Four.\n\n## B\n\n- item `code`\n- other\n\n| h | i |\n|---|---|\n| c | d |\n\n```\nfenced\n```\n\n# C\n\nlast";
        let found: Vec<(String, &str)> =
            pieces("a.md", body).into_iter().map(|p| (p.heading, &body[p.range])).collect();
        let expected = [
            ("A", "One *two*\nthree. Four."),
            ("A › B", "item `code`"),
            ("A › B", "other"),
            ("A › B", "c | d"),
            ("A › B", "fenced"),
            ("C", "last"),
        ];
        assert_eq!(found, expected.map(|(h, t)| (h.to_owned(), t)));
    }

    #[test]
    fn code_indented_text_and_html_are_read() {
        let body = "# Use\n\nRun:\n\n```sh\n# first\nmake cluster\n\nmake bench\n```\n\nOr:\n\n    make demo\n    make dev\n\n\
                    <details>\n<summary>More</summary>\n<p>Call <b>make lint</b> first.\n<!-- hidden --></p>\n\
                    <script>skipped()</script>\n</details>\n\n- item\n\n      in a list\n";
        let found: Vec<&str> = pieces("a.md", body).into_iter().map(|p| &body[p.range]).collect();
        let expected = [
            "Run:",
            "# first\nmake cluster",
            "make bench",
            "Or:",
            "make demo\n    make dev",
            "More",
            "Call <b>make lint</b> first.",
            "item",
            "in a list",
        ];
        assert_eq!(found, expected);
        let page = "<html><head><title>T</title><style>p {}</style></head><body><h1>Top &amp; all</h1>\n\n\
                    <p>One\n<i>two</i>.<p>Three <br>four <a href=\"x\">five</a></body></html>";
        let found: Vec<(String, &str)> =
            pieces("x.HTML", page).into_iter().map(|p| (p.heading, &page[p.range])).collect();
        let top = "Top &amp; all".to_owned();
        let expected = [
            (String::new(), "T"),
            (top.clone(), "One\n<i>two</i>."),
            (top.clone(), "Three"),
            (top, "four <a href=\"x\">five"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn long_code_is_cut_between_lines() {
        let body = format!("```\n{}```\n", "a line of code of some length();\n".repeat(40));
        let found = pieces("a.md", &body);
        assert!(found.len() > 3, "{}", found.len());
        assert!(
            found.iter().all(|p| p.range.len() <= PASSAGE_BYTES && body[p.range.clone()].ends_with("();"))
        );
    }

    #[test]
    fn long_paragraphs_are_cut_between_sentences() {
        let body = "This sentence is about the size of a usual one, give or take. ".repeat(20);
        let found = pieces("a.md", &body);
        assert!(found.len() > 2);
        assert!(
            found.iter().all(|p| p.range.len() <= PASSAGE_BYTES && body[p.range.clone()].ends_with("take."))
        );
    }

    #[test]
    fn a_text_that_is_nested_too_deeply_is_read_line_by_line() {
        let body = format!("# A\n\n{}b\n\nThe harbour is closed.\n", "> ".repeat(LEVELS + 1));
        let found: Vec<&str> = pieces("a.md", &body).into_iter().map(|p| &body[p.range]).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[2], "The harbour is closed.");
    }

    /// A passage must be found for every word, however the text is written.
    #[test]
    fn a_sentence_without_an_end_is_cut_between_words() {
        let items: String = (0..300).map(|i| format!("item{i},")).collect();
        let prose = "we keep the frobnicator near the boiler and oil it. then we go on. ".repeat(60);
        for (path, body, word) in [
            ("list.txt", format!("# A\nname,{items}frobnicator,oil\n"), "frobnicator,oil"),
            (
                "fence.md",
                format!("```\n{}frobnicator{}\n```\n", "x = [1, 2];".repeat(120), " y".repeat(600)),
                "frobnicator",
            ),
            ("low.md", format!("{prose}last comes the sprocket"), "last comes the sprocket"),
            ("row.md", format!("| a |\n|---|\n| {}sprocket |\n", "word ".repeat(500)), "sprocket"),
            ("page.html", format!("<p>{}<b>sprocket</b></p>", "word ".repeat(500)), "sprocket"),
            ("lines.csv", format!("{}sprocket,1\n", "bolt,2\n".repeat(900)), "sprocket,1"),
        ] {
            let found = pieces(path, &body);
            assert!(found.iter().all(|p| p.range.len() <= PASSAGE_BYTES), "{path}: {found:?}");
            assert!(found.iter().any(|p| body[p.range.clone()].contains(word)), "{path}: {found:?}");
        }
    }

    /// Quadratic work takes a minute for some of these, linear work a fraction of a second.
    #[test]
    fn every_text_is_read_in_linear_time() {
        let fill = |part: &str| part.repeat(100_000 / part.len());
        for (name, body) in [
            ("words", fill("word ")),
            ("one word", fill("x")),
            ("spaces after a full stop", format!("A.{}1", fill(" "))),
            ("brackets after a full stop", format!("A. {}", fill(") 1 "))),
            ("marks after a full stop", format!("A. {}", fill(" \u{345}"))),
            ("full stops", fill(". ")),
            ("open tags", fill("<a ")),
            ("stars", fill("*a **b ")),
            ("code", format!("```\n{}", fill("a,"))),
            ("headings", fill("# a\n\nb\n\n")),
            ("quotations", format!("{}{}", "> ".repeat(40_000), "a\n".repeat(10_000))),
            ("lists", format!("{}{}", "- ".repeat(20_000), "a\n\n".repeat(20_000))),
        ] {
            for path in ["a.md", "a.html"] {
                let began = std::time::Instant::now();
                pieces(path, &body);
                assert!(began.elapsed().as_secs() < 10, "{name} in {path}: {:?}", began.elapsed());
            }
        }
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
            let found = pieces("a.md", &body);
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
        fn any_text_gives_pieces_in_order(
            body in "[a-zäß.#*|`<>/!\\- \n]{0,300}",
            path in "a[.](md|html)",
        ) {
            let mut end = 0;
            for piece in pieces(&path, &body) {
                prop_assert!(piece.range.start >= end);
                end = piece.range.end;
                prop_assert!(!body[piece.range].trim().is_empty());
            }
        }
    }
}
