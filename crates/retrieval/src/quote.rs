//! Whether a quote stands in a source: a reader must see the same words in both.

use std::ops::Range;

use memchr::memmem::Finder;
use tree_agent_contract::text::prefix;
use tree_agent_contract::{Passage, Verdict, limits};

use crate::folded::{Folded, Reading, is_divider};
use crate::format::{Format, pattern};
use crate::letters::{is_currency, is_divided, is_letter, is_signed, joins};
use crate::visible::{CELL, ITEM, ROW, SECTION, TABLE};

/// Bytes of letters within which the next part of a quote must end.
const APART: usize = 8 * 1024;
/// Places of its first part that are tried.
const TRIES: usize = 32;
/// What stands on both sides of a gap at the edge of a quote.
const SPACES: (char, char) = (' ', ' ');
/// A search compares at most so many times the bytes of the source.
const EFFORT: usize = 16;

/// Words that an ellipsis must not leave out.
const DENIALS: [&str; 12] =
    ["not", "no", "never", "none", "nor", "cannot", "without", "nicht", "kein", "keine", "nie", "ohne"];
pattern!(COMMENT, r"(?s)<!--(.*?)-->");
pattern!(TITLED, r#"(?m)^[\s>]*\[[^\]]*\]:\s*\S+[ \t]+["'(]"#);

/// What a reader sees of a source. It is made once and searched as often as needed.
#[derive(Clone, Debug)]
pub struct Visible<'a> {
    source: &'a str,
    is_markdown: bool,
    folded: Folded,
}

/// A quote, in each way in which it can be read.
#[derive(Clone, Debug)]
pub struct Quote {
    /// As it stands, and then as Markdown in three ways.
    readings: Vec<Folded>,
    /// What an ellipsis divides, if there is one.
    parts: Vec<Quote>,
}

/// Where a quote stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Bytes of the source, from the first word to the last.
    pub range: Range<usize>,
    /// How many of them an ellipsis of the quote leaves out.
    pub omitted: usize,
}

impl Quote {
    /// Reads a quote.
    pub fn of(quote: &str) -> Self {
        let dotted = quote.replace('…', "...");
        let edge = |c: char| c.is_whitespace() || matches!(c, '.' | '[' | ']' | '(' | ')');
        let parts = dotted.split("...").map(|part| part.trim_matches(edge));
        let parts: Vec<Self> = parts.filter(|part| !part.is_empty()).map(Self::whole).collect();
        let is_divided =
            dotted.contains("...") && parts.iter().all(|part| part.letters() >= limits::QUOTE_CHARS);
        Self { parts: if is_divided { parts } else { Vec::new() }, ..Self::whole(quote) }
    }

    fn whole(quote: &str) -> Self {
        let quote = quote.trim();
        // More than a number, and no quotation of one.
        let number = quote.trim_start_matches(['>', ' ']);
        let is_more =
            quote.starts_with('>') && number.starts_with(|c: char| c.is_numeric() || is_currency(c));
        let ways = [Reading::Plain, Reading::Markdown, Reading::Linked, Reading::Numbered];
        let ways = if is_more || hides(quote) { &ways[..1] } else { &ways[..] };
        let readings = ways.iter().map(|way| Folded::quote(quote, *way)).collect();
        Self { readings, parts: Vec::new() }
    }

    /// Visible characters.
    pub fn letters(&self) -> usize {
        self.readings.iter().map(Folded::letters).min().unwrap_or_default()
    }
}

/// Whether Markdown hides words of a quote, which people read as it stands: a comment other than the mark of a page, a
/// cell too many, the title of a link.
fn hides(quote: &str) -> bool {
    let bars = |line: &str| line.trim_matches([' ', '>', '|']).replace("\\|", "").matches('|').count();
    let is_rule =
        |line: &&str| line.contains('-') && line.contains('|') && line.chars().all(|c| "|-: >".contains(c));
    let rule = quote.lines().find(is_rule);
    let is_mark =
        |comment: &str| ["Page ", "Sheet "].iter().any(|mark| comment.trim_start().starts_with(mark));
    rule.is_some_and(|rule| quote.lines().any(|line| bars(line) > bars(rule)))
        || TITLED.is_match(quote)
        || COMMENT.captures_iter(quote).any(|comment| !is_mark(&comment[1]))
}

/// A place of a quote, in bytes of the words and of the text.
struct Place {
    words: Range<usize>,
    text: Range<usize>,
}

impl<'a> Visible<'a> {
    /// The text of a source at `path`, which says how it is written. Artifacts have no path: they are
    /// Markdown, and quote links that are defined elsewhere.
    pub fn of(path: &str, source: &'a str) -> Self {
        let is_markdown = Format::of(path, "") == Format::Markdown;
        Self { source, is_markdown, folded: Folded::of(source, is_markdown, path.is_empty()) }
    }

    /// The verdict on a quote from this source, and where it stands.
    pub fn judge(&self, quote: &str) -> (Verdict, Option<Passage>) {
        let quote = Quote::of(quote);
        if quote.letters() < limits::QUOTE_CHARS {
            return (Verdict::TooShort, None);
        }
        match self.find(&quote) {
            None => (Verdict::NotFound, None),
            Some(Found { range, omitted }) => {
                let (heading, passage) = (self.heading(range.start), Passage::of(self.source, range));
                let passage = Passage { omitted: omitted as u64, heading, ..passage };
                (Verdict::Verified, Some(passage))
            }
        }
    }

    /// The nearest heading above byte `at` of the source.
    fn heading(&self, at: usize) -> String {
        let text = &self.folded.text;
        let Some(section) = text[..self.folded.before(at)].rfind(SECTION) else { return String::new() };
        let heading = text[section + 1..].split(is_divider).next().unwrap_or_default();
        prefix(heading.trim(), limits::TITLE_BYTES).to_owned()
    }

    /// The first place where a reader sees `quote`: its words, with the same between them. White space, typographic
    /// characters and the forms of a character may differ, and so may the marks of lists and tables. A quote begins
    /// and ends with whole words and numbers, with a capital letter or a small one. Where it has an ellipsis, its parts
    /// follow each other in one section. Takes time in proportion to the two texts.
    pub fn find(&self, quote: &Quote) -> Option<Found> {
        let mut effort = EFFORT * self.folded.words.len().max(1024);
        let all = 0..self.folded.words.len();
        if let Some(place) = self.place(quote, all.clone(), &mut effort) {
            return Some(Found { range: self.folded.range(self.source, place.text), omitted: 0 });
        }
        let (first, rest) = quote.parts.split_first()?;
        let mut begin = 0;
        for _ in 0..TRIES {
            let first = self.place(first, begin..all.end, &mut effort)?;
            begin = first.words.start + 1;
            if let Some(found) = self.joined(first, rest, &mut effort) {
                return Some(found);
            }
        }
        None
    }

    /// The place that begins with `first` and ends with the last of `rest`.
    fn joined(&self, first: Place, rest: &[Quote], effort: &mut usize) -> Option<Found> {
        let range = |text| self.folded.range(self.source, text);
        let begin = range(first.text.clone()).start;
        let (mut last, mut omitted) = (first, 0);
        for part in rest {
            let within = last.words.end..(last.words.end + APART).min(self.folded.words.len());
            let next = self.place(part, within, effort)?;
            let between = self.folded.text.get(last.text.end..next.text.start)?;
            let mut words = between.split(|c: char| !is_letter(c));
            let denies =
                words.any(|word| DENIALS.contains(&word.to_lowercase().as_str())) || between.contains("n't");
            if denies || between.contains([SECTION, TABLE, ROW, CELL]) {
                return None;
            }
            omitted += range(next.text.clone()).start.saturating_sub(range(last.text).end);
            last = next;
        }
        Some(Found { range: begin..range(last.text).end, omitted })
    }

    /// The first place of a quote without an ellipsis within these bytes of the words.
    fn place(&self, quote: &Quote, within: Range<usize>, effort: &mut usize) -> Option<Place> {
        let readings = if self.is_markdown { &quote.readings[..] } else { &quote.readings[..1] };
        readings.iter().find_map(|reading| {
            let words = reading.words.as_str();
            let other = other_case(words);
            std::iter::once(words).chain(other.as_deref()).find_map(|words| {
                let (finder, mut begin) = (Finder::new(words), within.start);
                while !words.is_empty() && *effort > 0 {
                    let found = finder.find(&self.folded.words.as_bytes()[begin..within.end])?;
                    *effort = effort.saturating_sub(words.len());
                    let found = begin + found..begin + found + words.len();
                    begin = found.start + 1;
                    if let Some(text) = self.compared(reading, found.clone()) {
                        return Some(Place { words: found, text });
                    }
                }
                None
            })
        })
    }

    /// The bytes of the text in which a quote stands whose words stand at `words`, if all between them is the same.
    fn compared(&self, quote: &Folded, words: Range<usize>) -> Option<Range<usize>> {
        let of = &self.folded;
        let (before, after) = (of.gap(words.start), of.gap(words.end));
        if self.is_inside(words.start) || self.is_inside(words.end) {
            return None;
        }
        let (first, last) = (quote.gap(0), quote.gap(quote.words.len()));
        let start = before.end - begins(&of.text[before.clone()], &quote.text[first])?;
        let letter = of.around(words.end).0?;
        let may_close = !letter.is_numeric() || quote.text.starts_with(['"', '\'']);
        let end = after.start + ends(letter, &of.text[after.clone()], &quote.text[last], may_close)?;
        if is_signed(&of.text[..start], &of.text[start..])
            || letter.is_numeric() && end == after.start && of.text[end..].starts_with(is_unit)
        {
            return None;
        }
        let mut crosses = false;
        let inner = quote.words.char_indices().skip(1).map(|(word, _)| word);
        for word in inner {
            let at = words.start + word;
            let (gap, other) = (&of.text[of.gap(at)], &quote.text[quote.gap(word)]);
            if gap != other {
                let (Some(last), Some(next)) = of.around(at) else { return None };
                // Two numbers with nothing but white space between them read as one; `B1` is none.
                let number = of.text[..of.gap(at).start]
                    .trim_end_matches(|c: char| c.is_numeric() || c == '.' || c == ',');
                let numbers = last.is_numeric() && next.is_numeric() && !number.ends_with(is_letter);
                crosses |= fits(gap, other, (last, next), numbers)?;
            }
        }
        // Cells of two rows are no row.
        let is_edge = |gap: &str| gap.contains(|c| is_divider(c) && c != CELL);
        let is_row = (before.start == 0 || is_edge(&of.text[before]))
            && (after.end == of.text.len() || is_edge(&of.text[after]));
        (!crosses || is_row).then_some(start..end)
    }

    /// Whether a place is inside a word or a number.
    fn is_inside(&self, word: usize) -> bool {
        let (Some(last), Some(next)) = self.folded.around(word) else { return false };
        self.folded.is_part(word) || joins(last, &self.folded.text[self.folded.gap(word)], next)
    }
}

fn is_unit(c: char) -> bool {
    matches!(c, '%' | '‰' | '°') || is_currency(c)
}

/// The words with a capital letter at the beginning in place of a small one, or the other way round.
fn other_case(words: &str) -> Option<String> {
    let mut rest = words.chars();
    let first = rest.next()?;
    let other: Vec<char> = match first.is_lowercase() {
        true => first.to_uppercase().collect(),
        false => first.to_lowercase().collect(),
    };
    let is_word = !rest.as_str().starts_with(char::is_uppercase);
    match other[..] {
        [other] if is_word && other != first && other.len_utf8() == first.len_utf8() => {
            Some(format!("{other}{}", rest.as_str()))
        }
        _ => None,
    }
}

/// How many bytes of `gap`, which stands before the first word of a passage, belong to a quote that begins with
/// `mark`. Quotation marks around the quote need not be there.
fn begins(gap: &str, mark: &str) -> Option<usize> {
    let mark = folded(mark, SPACES);
    let (written, bare) = (written(&mark), mark.trim_start_matches([' ', '"']));
    [mark.trim_start(), written.trim_start(), bare].into_iter().find_map(|mark| {
        let shown = forms(gap, SPACES).into_iter().any(|form| {
            form.strip_suffix(mark).is_some_and(|rest| !rest.ends_with(|c: char| c.is_ascii_digit()))
        });
        // What divides the text is no part of the passage.
        let own = gap.char_indices().rev().take(mark.chars().count()).take_while(|(_, c)| !is_mark(*c));
        shown.then(|| own.last().map_or(0, |(at, _)| gap.len() - at))
    })
}

/// The same behind the last word, which ends with the letter `last`.
fn ends(last: char, gap: &str, mark: &str, may_close: bool) -> Option<usize> {
    let mark = folded(mark, (last, ' '));
    let bare = mark.trim_end_matches([' ', '"']);
    let marks = [Some(mark.trim_end()), Some(bare).filter(|_| may_close)];
    marks.into_iter().flatten().find_map(|mark| {
        let shown = forms(gap, (last, ' ')).into_iter().any(|form| form.starts_with(mark));
        let own = gap.char_indices().take(mark.chars().count()).take_while(|(_, c)| !is_mark(*c));
        shown.then(|| own.last().map_or(0, |(at, c)| at + c.len_utf8()))
    })
}

fn is_mark(c: char) -> bool {
    is_divider(c) || c == '\n'
}

/// Whether `quote` says the same between two words as `gap` does in the source; true within if it crosses rows of a
/// table as if they were one. `numbers`: between two numbers.
fn fits(gap: &str, quote: &str, sides: (char, char), numbers: bool) -> Option<bool> {
    let quoted = folded(quote, sides);
    if is_divided(sides.0, gap, sides.1) && matches!(&*quoted, "" | "-" | "- ") {
        return Some(false);
    }
    if !gap.contains(is_divider) {
        return (folded(gap, sides) == quoted).then_some(false);
    }
    let [bare, commas, marked] = forms(gap, sides);
    let cells = gap.matches(CELL).count();
    let crosses = gap.contains([ROW, TABLE]);
    if marked == written(&quoted) {
        return Some(crosses && !quoted.contains('|'));
    }
    let is_same = cells > 0 && commas == quoted
        || cells < 2 && bare == quoted && !(numbers && quoted.trim().is_empty());
    is_same.then_some(crosses)
}

/// What a quote may have in place of a gap with dividers: white space, commas between cells, the marks of Markdown.
fn forms(gap: &str, sides: (char, char)) -> [String; 3] {
    let mut forms = [String::new(), String::new(), String::new()];
    let mut number = String::new();
    for c in gap.chars() {
        if c.is_ascii_digit() {
            number.push(c);
            continue;
        }
        let item = format!(" {number}{} ", if number.is_empty() { '-' } else { '.' });
        let all = match c {
            CELL => [" ", ", ", " | "],
            ROW => [" ", " ", " | | "],
            TABLE => [" ", " ", " | "],
            ITEM => [" ", " ", &item],
            SECTION => [" ", " ", " # "],
            c if is_divider(c) => [" "; 3],
            c => {
                forms.iter_mut().for_each(|form| form.push(c));
                continue;
            }
        };
        number.clear();
        if !forms[1].ends_with(", ") {
            forms[1].truncate(forms[1].trim_end().len());
        }
        forms.iter_mut().zip(all).for_each(|(form, shown)| form.push_str(shown));
    }
    forms.map(|form| folded(&form, sides))
}

/// What stands between two words, in one form: plain quotation marks, one space, one kind of dash. An apostrophe within
/// a word, and what may be a unit behind a number, stay.
fn folded(gap: &str, (last, next): (char, char)) -> String {
    let mut out = String::with_capacity(gap.len());
    let is_apostrophe = gap == "'" && is_letter(last) && is_letter(next);
    for (at, c) in gap.char_indices() {
        let is_unit = at == 0 && last.is_numeric();
        match c {
            ' ' | '\n' | '\u{a0}' if out.ends_with(' ') => {}
            '\n' | '\u{a0}' => out.push(' '),
            '–' => out.push('-'),
            '\'' if !is_apostrophe && !is_unit => out.push('"'),
            c => out.push(c),
        }
    }
    out
}

/// The marks of lists, headings and tables in a quote in the form that [`forms`] has.
fn written(gap: &str) -> String {
    let is_rule = |token: &&str| token.len() > 2 && token.bytes().all(|b| matches!(b, b'-' | b':'));
    let rules = gap.split(' ').filter(is_rule).count();
    let mut bars = 0;
    let last = gap.matches(' ').count();
    let tokens = gap.split(' ').enumerate().filter_map(|(at, token)| match token {
        // The line below the head of a table.
        token if rules > 0 && is_rule(&token) => None,
        "|" if rules > 0 => {
            bars += 1;
            (bars <= 2).then_some("|")
        }
        // With white space behind it: `+5` is no item.
        "*" | "+" | "•" | "‣" | "◦" if at < last => Some("-"),
        "##" | "###" | "####" => Some("#"),
        token => Some(token),
    });
    tokens.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
