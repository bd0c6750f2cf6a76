//! Visible text in the form in which a quote and its source are compared.

use std::ops::Range;

use tree_agent_contract::citation::footnote_mark;
use tree_agent_contract::text::prefix;

use crate::letters::{is_letter, lowered, pieces, raised};
use crate::visible::{BLOCK, CELL, ITEM, LINE, Part, ROW, SECTION, Style, TABLE, read};

/// A text as it is seen, and where its characters come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folded {
    /// With one space for any white space, and with what divides it. Before [`ITEM`] stands the number of the item.
    pub(crate) text: String,
    /// Its letters and digits alone: what is searched. What stands between them is compared where they are found.
    pub(crate) words: String,
    /// Where each byte of the words stands in the text.
    at: Vec<u32>,
    /// Where the character of the source begins that a byte of the text belongs to.
    from: Vec<u32>,
    /// Where characters begin and end that the source writes in another way, such as `&amp;`, in order.
    wide: Vec<(u32, u32)>,
}

/// How a quote is read, which may be a part of its source or what is seen of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Plain,
    Markdown,
    /// Its links may be defined outside of it.
    Linked,
    /// Numbers of items may stand within a line.
    Numbered,
}

impl Folded {
    /// A source, of which what is beyond four gigabytes is left out. Links of it that are not defined in it are
    /// `linked`, or brackets.
    pub(crate) fn of(source: &str, is_markdown: bool, linked: bool) -> Self {
        let mut fold = Fold::new(prefix(source, u32::MAX as usize), None);
        fold.read(is_markdown, linked);
        fold.folded
    }

    /// A quote. What divides it is text as Markdown writes it.
    pub(crate) fn quote(quote: &str, reading: Reading) -> Self {
        let mut fold = Fold::new(quote, Some(reading));
        fold.read(reading != Reading::Plain, reading == Reading::Linked);
        fold.folded
    }

    /// Visible characters.
    pub(crate) fn letters(&self) -> usize {
        self.text.chars().filter(|c| !c.is_whitespace() && !is_divider(*c)).count()
    }

    /// What stands before the letter at this byte of the words, behind the letter before it. At the end: what is last.
    pub(crate) fn gap(&self, word: usize) -> Range<usize> {
        let last = self.words[..word].chars().next_back();
        let begin = last.map_or(0, |last| self.at[word - last.len_utf8()] as usize + last.len_utf8());
        begin..self.at.get(word).map_or(self.text.len(), |at| *at as usize)
    }

    /// The letters on both sides of a gap.
    pub(crate) fn around(&self, word: usize) -> (Option<char>, Option<char>) {
        let (before, after) = self.words.split_at(word);
        (before.chars().next_back(), after.chars().next())
    }

    /// Whether two letters are parts of one character of the source.
    pub(crate) fn is_part(&self, word: usize) -> bool {
        let of = |word: usize| self.at.get(word).map(|at| self.from[*at as usize]);
        word > 0 && of(word) == of(word - 1)
    }

    /// How much of the text comes from what is before byte `at` of the source.
    pub(crate) fn before(&self, at: usize) -> usize {
        self.text.floor_char_boundary(self.from.partition_point(|from| (*from as usize) < at))
    }

    /// The bytes of `source` that are shown in these bytes of the text.
    pub(crate) fn range(&self, source: &str, text: Range<usize>) -> Range<usize> {
        let last = self.from[text.end - 1];
        let wide = self.wide.partition_point(|(from, _)| *from < last);
        let end = match self.wide.get(wide).filter(|(from, _)| *from == last) {
            Some((_, end)) => *end as usize,
            None => source.ceil_char_boundary(last as usize + 1),
        };
        self.from[text.start] as usize..end
    }
}

/// True for what divides visible text.
pub(crate) const fn is_divider(c: char) -> bool {
    matches!(c, BLOCK..=SECTION)
}

struct Fold<'a> {
    folded: Folded,
    source: &'a str,
    quote: Option<Reading>,
    /// Marks of footnotes end here, and numbers of items.
    mark_end: usize,
    number_end: usize,
    /// A soft hyphen divides the word, which goes on behind the end of the line.
    is_divided: bool,
    /// The last digit is lowered.
    is_low: bool,
}

impl<'a> Fold<'a> {
    fn new(source: &'a str, quote: Option<Reading>) -> Self {
        let folded = Folded {
            text: String::with_capacity(source.len()),
            from: Vec::with_capacity(source.len()),
            ..Folded::default()
        };
        Self { folded, source, quote, mark_end: 0, number_end: 0, is_divided: false, is_low: false }
    }

    fn read(&mut self, is_markdown: bool, linked: bool) {
        match is_markdown {
            true => read(self.source, linked, |part, range| match part {
                Part::Text(text, style) => self.text(text, style, range),
                Part::Divider(by) => self.divide(by, range.start),
            }),
            false => self.text(self.source, Style::Code, 0..self.source.len()),
        }
    }

    fn text(&mut self, text: &str, style: Style, range: Range<usize>) {
        let is_same = text.len() == range.len();
        if !is_same {
            self.folded.wide.push((range.start as u32, range.end as u32));
        }
        for (at, c) in text.char_indices() {
            let from = if is_same { range.start + at } else { range.start };
            if c == '[' && style == Style::Plain && from >= self.mark_end {
                // Whoever quotes a sentence leaves out its footnotes.
                self.mark_end = from + footnote_mark(&self.source[from..]).map_or(0, str::len);
            }
            if self.quote == Some(Reading::Numbered) && is_same && from >= self.number_end {
                let begins = self.folded.text.is_empty() || self.folded.text.ends_with([' ', LINE]);
                self.number_end = from + item_number(&text[at..]).filter(|_| begins).unwrap_or_default();
            }
            self.is_divided = c == '\u{ad}' || self.is_divided && c.is_whitespace();
            if from >= self.mark_end && !self.is_divided {
                self.character(c, style, from);
            }
        }
    }

    fn character(&mut self, c: char, style: Style, from: usize) {
        let is_gap = from < self.number_end;
        let last = self.folded.text.chars().next_back();
        let digit = lowered(c).or(Some(c).filter(|c| style == Style::Lowered && c.is_ascii_digit()));
        // `2)` is `2.` as well.
        let c = if c == ')' && from > 0 && from == self.number_end { '.' } else { c };
        match (digit, raised(c)) {
            // A number that is lowered behind another one is no part of it.
            (Some(digit), _) if last.is_none_or(|last| self.is_low || !last.is_numeric()) => {
                self.push(digit, from, is_gap);
                self.is_low = true;
                return;
            }
            (Some(digit), _) => ['_', digit].into_iter().for_each(|c| self.push(c, from, is_gap)),
            (None, Some(raised)) if style == Style::Raised => self.push(raised, from, is_gap),
            (None, None) if style == Style::Raised && !c.is_whitespace() => {
                ['^', c].into_iter().for_each(|c| self.push(c, from, is_gap));
            }
            _ => {
                if self.is_low && c.is_numeric() {
                    self.push('_', from, is_gap);
                }
                pieces(c, |piece| self.push(piece, from, is_gap));
            }
        }
        self.is_low = false;
    }

    fn divide(&mut self, by: char, from: usize) {
        let number = match by {
            ITEM => self.source[from..].chars().take_while(char::is_ascii_digit).collect(),
            _ => String::new(),
        };
        if self.quote.is_some() {
            let mark = match by {
                CELL if self.folded.text.trim_end().ends_with('|') => return,
                CELL | TABLE => " | ".to_owned(),
                ROW => " | | ".to_owned(),
                SECTION => " # ".to_owned(),
                ITEM if number.is_empty() => " - ".to_owned(),
                ITEM => format!(" {number}. "),
                _ => " ".to_owned(),
            };
            return mark.chars().for_each(|c| self.push(c, from, true));
        }
        if self.is_divided && by == LINE {
            return;
        }
        let last = self.folded.text.chars().next_back();
        let is_known = match by {
            LINE => last.is_some_and(|last| last == LINE || is_divider(last)),
            BLOCK => last.is_some_and(is_divider),
            CELL => matches!(last, Some(ROW | TABLE)),
            _ => false,
        };
        if !is_known {
            number.chars().chain([by]).for_each(|c| self.push(c, from, true));
        }
    }

    fn push(&mut self, c: char, from: usize, is_gap: bool) {
        let Folded { text, words, at, from: all, .. } = &mut self.folded;
        let is_space = |c: char| matches!(c, ' ' | LINE);
        // Of several spaces one counts, and none behind what divides.
        if is_space(c) && text.ends_with(|last| last == c || last == LINE || is_divider(last)) {
            return;
        }
        if is_letter(c) && !is_gap {
            words.push(c);
            at.extend(std::iter::repeat_n(text.len() as u32, c.len_utf8()));
        }
        text.push(c);
        all.extend(std::iter::repeat_n(from as u32, c.len_utf8()));
    }
}

/// The length of the number of an item, such as `2.`, at the beginning of `text`.
fn item_number(text: &str) -> Option<usize> {
    let digits = text.bytes().take(3).take_while(u8::is_ascii_digit).count();
    let is_number = digits > 0 && matches!(text.as_bytes()[digits..], [b'.' | b')', b' ', ..]);
    is_number.then_some(digits)
}
