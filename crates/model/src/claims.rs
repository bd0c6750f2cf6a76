//! The claims of a Markdown text and the marks of its footnotes.

use std::collections::HashSet;
use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use tree_agent_contract::citation::footnote_mark;
use tree_agent_contract::limits;
use tree_agent_contract::text::one_line;
use unicode_segmentation::UnicodeSegmentation;

/// A sentence of a paragraph or of an item of a list, or a row of a table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Its words on one line, without marks of footnotes.
    pub(crate) text: String,
    /// The footnotes that it refers to, by their numbers.
    pub(crate) notes: Vec<String>,
    /// Where it stands, with its marks.
    pub(crate) range: Range<usize>,
    /// The byte of the text where another mark may stand.
    pub(crate) end: usize,
}

/// A footnote.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Footnote {
    /// Its number.
    pub(crate) number: String,
    /// The whole of it.
    pub(crate) range: Range<usize>,
}

/// Bytes of what stands in brackets and ends no sentence.
const BRACKETS: usize = 64;

/// Headings of sections that list sources.
const SOURCES: [&str; 3] = ["sources", "references", "bibliography"];

/// What a text claims, and its footnotes. Headings, code, footnotes and lists of sources claim nothing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) claims: Vec<Claim>,
    pub(crate) footnotes: Vec<Footnote>,
}

/// A run of inline text, the code in it, and whether it is quoted.
#[derive(Default)]
struct Run {
    range: Option<Range<usize>>,
    code: Vec<Range<usize>>,
    is_quoted: bool,
}

impl Run {
    fn add(&mut self, range: Range<usize>) {
        match &mut self.range {
            Some(run) => run.end = run.end.max(range.end),
            None => self.range = Some(range),
        }
    }
}

impl Claims {
    /// Reads a text.
    pub(crate) fn of(markdown: &str) -> Self {
        let options = Options::ENABLE_FOOTNOTES | Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        let noted = Parser::new_ext(markdown, options).filter_map(|event| match event {
            Event::Start(Tag::FootnoteDefinition(label)) => Some(label.to_string()),
            _ => None,
        });
        let noted: HashSet<String> = noted.collect();
        let mut all = Self::default();
        let mut run = Run::default();
        let mut quotations = 0_usize;
        // Depth within what claims nothing, and within rows of tables, which are taken whole.
        let (mut silent, mut rows) = (0_usize, 0_usize);
        let (mut heading, mut lists_sources) = (None::<Range<usize>>, false);
        for (event, range) in Parser::new_ext(markdown, options).into_offset_iter() {
            match event {
                Event::Start(Tag::Heading { .. }) => {
                    all.end(markdown, &mut run, &noted, lists_sources);
                    silent += 1;
                    heading = Some(range);
                }
                Event::End(TagEnd::Heading(_)) => {
                    silent = silent.saturating_sub(1);
                    let text = heading.take().and_then(|range| markdown.get(range)).unwrap_or_default();
                    let text = text.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
                    lists_sources = SOURCES.contains(&text.as_str());
                }
                Event::Start(Tag::FootnoteDefinition(label)) => {
                    all.end(markdown, &mut run, &noted, lists_sources);
                    silent += 1;
                    if label.bytes().all(|b| b.is_ascii_digit()) {
                        all.footnotes.push(Footnote { number: label.to_string(), range });
                    }
                }
                Event::Start(Tag::CodeBlock(_) | Tag::HtmlBlock | Tag::MetadataBlock(_) | Tag::TableHead) => {
                    all.end(markdown, &mut run, &noted, lists_sources);
                    silent += 1;
                }
                Event::End(
                    TagEnd::FootnoteDefinition
                    | TagEnd::CodeBlock
                    | TagEnd::HtmlBlock
                    | TagEnd::MetadataBlock(_)
                    | TagEnd::TableHead,
                ) => silent = silent.saturating_sub(1),
                Event::Start(Tag::TableRow) => {
                    all.end(markdown, &mut run, &noted, lists_sources);
                    rows += 1;
                    if silent == 0 && !lists_sources {
                        let row = Run { is_quoted: quotations > 0, ..Run::default() };
                        all.claim(markdown, range.clone(), &marks(markdown, range, &row, &noted));
                    }
                }
                Event::End(TagEnd::TableRow) => rows = rows.saturating_sub(1),
                _ if silent > 0 || rows > 0 => {}
                Event::Code(_) | Event::InlineMath(_) => {
                    run.code.push(range.clone());
                    run.add(range);
                }
                Event::Text(_)
                | Event::InlineHtml(_)
                | Event::SoftBreak
                | Event::HardBreak
                | Event::FootnoteReference(_)
                | Event::Start(Tag::Emphasis | Tag::Strong | Tag::Strikethrough | Tag::Link { .. })
                | Event::Start(Tag::Image { .. }) => run.add(range),
                Event::End(
                    TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link | TagEnd::Image,
                ) => {}
                other => {
                    all.end(markdown, &mut run, &noted, lists_sources);
                    match other {
                        Event::Start(Tag::BlockQuote(_)) => quotations += 1,
                        Event::End(TagEnd::BlockQuote(_)) => quotations -= 1,
                        _ => {}
                    }
                    run.is_quoted = quotations > 0;
                }
            }
        }
        all.end(markdown, &mut run, &noted, lists_sources);
        all
    }

    /// The highest number of a footnote, or of a mark of one; 0 if there is none.
    pub(crate) fn highest_note(&self) -> usize {
        let marks = self.claims.iter().flat_map(|claim| &claim.notes);
        let notes = self.footnotes.iter().map(|note| &note.number);
        marks.chain(notes).filter_map(|number| number.parse().ok()).max().unwrap_or_default()
    }

    /// Ends a run of inline text: its sentences are claims.
    fn end(&mut self, markdown: &str, run: &mut Run, noted: &HashSet<String>, lists_sources: bool) {
        let is_quoted = run.is_quoted;
        let run = std::mem::replace(run, Run { is_quoted, ..Run::default() });
        let Some(range) = run.range.clone().filter(|_| !lists_sources) else { return };
        let Some(raw) = markdown.get(range.clone()) else { return };
        let marks = marks(markdown, range.clone(), &run, noted);
        // Sentences are found without the marks, which stand where one ends and the next begins.
        let (mut bare, mut from) = (String::with_capacity(raw.len()), Vec::with_capacity(raw.len()));
        for (at, c) in outside(raw, range.start, &marks) {
            bare.push(if matches!(c, '\n' | '\r') { ' ' } else { c });
            from.extend(std::iter::repeat_n(at, c.len_utf8()));
        }
        let (mut begin, mut open) = (0, 0);
        for (start, sentence) in bare.split_sentence_bound_indices() {
            let next = start + sentence.len();
            if next <= open {
                continue;
            }
            // A sentence does not end within brackets; those of `[5]` belong to the one before.
            let opened = bare[open..next].rfind('[').filter(|at| !bare[open + at..next].contains(']'));
            let closed = opened.and_then(|_| bare.bytes().skip(next).take(BRACKETS).position(|b| b == b']'));
            let next = match closed {
                Some(closed) if bare[..next].ends_with('[') => next + closed + 1,
                Some(_) => continue,
                None => next,
            };
            open = next;
            let end = from.get(next).copied().unwrap_or(raw.len());
            self.claim(markdown, range.start + begin..range.start + end, &marks);
            begin = end;
        }
    }

    fn claim(&mut self, markdown: &str, range: Range<usize>, marks: &[Range<usize>]) {
        let Some(raw) = markdown.get(range.clone()) else { return };
        let text: String = outside(raw, range.start, marks).map(|(_, c)| c).collect();
        let begin = marks.partition_point(|mark| mark.start < range.start);
        let own = marks[begin..].iter().take_while(|mark| mark.start < range.end);
        let notes: Vec<String> = own.map(|mark| markdown[mark.start + 2..mark.end - 1].to_owned()).collect();
        let text = one_line(&text);
        if text.chars().filter(|c| c.is_alphanumeric()).count() >= limits::QUOTE_CHARS || !notes.is_empty() {
            // A mark of a row stands in its last cell.
            let begin = range.start + raw.len() - raw.trim_start().len();
            let own = raw.trim();
            let cells = if own.starts_with('|') { own.trim_end_matches('|').trim_end() } else { own };
            let (range, end) = (begin..begin + own.len(), begin + cells.len());
            self.claims.push(Claim { text, notes, range, end });
        }
    }
}

/// `text` without marks of footnotes.
pub(crate) fn without_marks(text: &str) -> String {
    let parts = text.split("[^").enumerate().map(|(at, part)| match at {
        0 => part.to_owned(),
        _ => {
            let part = format!("[^{part}");
            footnote_mark(&part).map_or_else(|| part.clone(), |mark| part[mark.len()..].to_owned())
        }
    });
    parts.collect()
}

/// The characters of `raw`, which begins at `start` of the text, that are outside of `marks`, which are in order.
fn outside<'a>(
    raw: &'a str,
    start: usize,
    marks: &'a [Range<usize>],
) -> impl Iterator<Item = (usize, char)> + 'a {
    let mut rest = &marks[marks.partition_point(|mark| mark.end <= start)..];
    raw.char_indices().filter(move |(at, _)| {
        while let [first, others @ ..] = rest
            && first.end <= start + at
        {
            rest = others;
        }
        rest.first().is_none_or(|mark| start + at < mark.start)
    })
}

/// The marks of footnotes in a run of text, in order. In code there are none. Within a quotation one without a footnote
/// is text of the source.
fn marks(markdown: &str, range: Range<usize>, run: &Run, noted: &HashSet<String>) -> Vec<Range<usize>> {
    let (mut marks, mut is_quoted, mut code) = (Vec::<Range<usize>>::new(), false, &run.code[..]);
    for (at, c) in markdown[range.clone()].char_indices().map(|(at, c)| (range.start + at, c)) {
        while let [first, others @ ..] = code
            && first.end <= at
        {
            code = others;
        }
        match c {
            _ if code.first().is_some_and(|code| code.contains(&at)) => {}
            '"' => is_quoted = !is_quoted,
            '“' | '„' | '«' => is_quoted = true,
            '”' | '»' => is_quoted = false,
            '[' => {
                let mark = footnote_mark(&markdown[at..range.end]);
                let is_text =
                    |mark: &str| (is_quoted || run.is_quoted) && !noted.contains(&mark[2..mark.len() - 1]);
                marks.extend(mark.filter(|mark| !is_text(mark)).map(|mark| at..at + mark.len()));
            }
            _ => {}
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(markdown: &str) -> (Vec<(String, String)>, Vec<String>) {
        let all = Claims::of(markdown);
        let claims = all.claims.into_iter().map(|claim| (claim.text, claim.notes.join(","))).collect();
        (claims, all.footnotes.into_iter().map(|note| markdown[note.range].trim().to_owned()).collect())
    }

    #[test]
    fn sentences_items_and_rows_are_claims_and_know_their_footnotes() {
        let text = "# The bridge has a heading.\n\nThe bridge has\n12 arches.[^1] It was built in 1791,[^2] e.g. by \
                    hand[^1][^3]. It stands.\n- An *item* of a list[^2]\n- Yes.\n\n> It is quoted here. [^1]\n\n\
                    ```\nlet a = code[^1];\n```\n\n| arch | width |\n| --- | --- |\n| first one | 30 m[^2] |\n\n\
                    Not `code[^1]` a mark.\n\n[^1]: a \"b\"\n[^2]: c \"d\"\n    and more\n[^3]: e\n";
        let (claims, notes) = read(text);
        let claims: Vec<(&str, &str)> = claims.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(
            claims,
            [
                ("The bridge has 12 arches.", "1"),
                ("It was built in 1791, e.g. by hand.", "2,1,3"),
                ("It stands.", ""),
                ("An *item* of a list", "2"),
                ("It is quoted here.", "1"),
                ("| first one | 30 m |", "2"),
                ("Not `code[^1]` a mark.", ""),
            ]
        );
        assert_eq!(notes, ["[^1]: a \"b\"", "[^2]: c \"d\"\n    and more", "[^3]: e"]);
    }

    #[test]
    fn a_sentence_may_have_several_lines_however_they_end() {
        for end in ["\n", "\r\n"] {
            let (claims, _) = read(&format!("The bridge{end}has 12{end}arches.[^1] It stands.{end}"));
            let claims: Vec<&str> = claims.iter().map(|(text, _)| text.as_str()).collect();
            assert_eq!(claims, ["The bridge has 12 arches.", "It stands."]);
        }
    }

    #[test]
    fn a_list_of_sources_claims_nothing() {
        let (claims, _) = read(
            "It stands in Avon.\n\n## Sources\n\n1. avon.md, Avon\n2. exe.md\n\n## More\n\nIt is wide and old.\n",
        );
        let claims: Vec<&str> = claims.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(claims, ["It stands in Avon.", "It is wide and old."]);
    }

    #[test]
    fn text_of_a_source_is_no_mark_and_a_claim_begins_at_a_word() {
        let text = "It is so in linkgit:git-rebase[1].[5] Also it is old.[^7] He said “see the note[^8] below.” and it \
                    stands \"here[^9]. Or\" there [at last. Truly] so.[^1] It ends.\n\n> As quoted[^3] from it.[^1]\n\n\
                    [^1]: a \"b[^4]\"\n";
        let (claims, _) = read(text);
        let claims: Vec<(&str, &str)> = claims.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(
            claims,
            [
                ("It is so in linkgit:git-rebase[1].[5]", ""),
                ("Also it is old.", "7"),
                ("He said “see the note[^8] below.” and it stands \"here[^9].", ""),
                ("Or\" there [at last. Truly] so.", "1"),
                ("As quoted[^3] from it.", "1"),
            ]
        );
    }

    #[test]
    fn footnotes_may_follow_their_paragraph_at_once() {
        let (claims, notes) = read("The tide turns twice a day.[^1]\n[^1]: a \"b c\"");
        assert_eq!(claims, [("The tide turns twice a day.".to_owned(), "1".to_owned())]);
        assert_eq!(notes, ["[^1]: a \"b c\""]);
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in "[-a-zA-Z\\[\\]^1-3:.!`|#>~* \n\"äß。]{0,120}") {
            for note in Claims::of(&text).footnotes {
                prop_assert!(text.get(note.range).is_some());
            }
        }
    }
}
