//! How good answers are, summed over the questions of a set.

use crate::answer::{Answer, Quote};
use crate::load::{Gold, Question};

/// Quotations that a reader reads in any case.
const FIRST: usize = 3;
/// Words that a reader reads.
const WORDS: usize = 300;
/// The share of a gold quote that must stand in a quotation without a gap.
const SHARE: f64 = 0.75;

/// Sums over questions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Score {
    questions: f64,
    parts: f64,
    first: f64,
    within: f64,
    anywhere: f64,
    quotes: f64,
    from_gold: f64,
    words: f64,
    seconds: f64,
    unanswerable: f64,
    said: f64,
    wrongly_said: f64,
}

impl Score {
    /// Adds the answer to a question.
    pub fn add(&mut self, question: &Question, answer: &Answer) {
        self.seconds += answer.seconds;
        self.questions += 1.0;
        if question.parts.is_empty() {
            self.unanswerable += 1.0;
            self.said += f64::from(answer.says_nothing);
            return;
        }
        self.wrongly_said += f64::from(answer.says_nothing);
        let mut words = 0;
        let (mut within, mut rest) = (Vec::new(), answer.quotes.iter());
        while words < WORDS {
            let Some(quote) = rest.next() else { break };
            let own: Vec<&str> = quote.text.split_whitespace().collect();
            let text = own[..own.len().min(WORDS - words)].join(" ");
            words += own.len();
            within.push(Quote { text, path: quote.path.clone() });
        }
        for part in &question.parts {
            let is_in =
                |quotes: &[Quote]| part.gold.iter().any(|gold| quotes.iter().any(|quote| holds(quote, gold)));
            self.parts += 1.0;
            self.first += f64::from(is_in(&answer.quotes[..answer.quotes.len().min(FIRST)]));
            self.within += f64::from(is_in(&within));
            self.anywhere += f64::from(is_in(&answer.quotes));
        }
        let is_gold =
            |quote: &&Quote| question.parts.iter().flat_map(|p| &p.gold).any(|gold| gold.path == quote.path);
        self.from_gold += answer.quotes.iter().filter(is_gold).count() as f64;
        self.quotes += answer.quotes.len() as f64;
        self.words += answer.quotes.iter().map(|q| q.text.split_whitespace().count()).sum::<usize>() as f64;
    }

    fn share(part: f64, whole: f64) -> f64 {
        if whole > 0.0 { part / whole } else { 0.0 }
    }

    fn answerable(&self) -> f64 {
        self.questions - self.unanswerable
    }

    /// The share of the parts that the first three quotations answer.
    pub fn first(&self) -> f64 {
        Self::share(self.first, self.parts)
    }

    /// The share of the parts that the first 300 words answer.
    pub fn within(&self) -> f64 {
        Self::share(self.within, self.parts)
    }

    /// The share of the parts that any quotation answers.
    pub fn anywhere(&self) -> f64 {
        Self::share(self.anywhere, self.parts)
    }

    /// The share of the quotations that are from a document with gold.
    pub fn precision(&self) -> f64 {
        Self::share(self.from_gold, self.quotes)
    }

    /// Quotations of an answer.
    pub fn quotes(&self) -> f64 {
        Self::share(self.quotes, self.answerable())
    }

    /// Words that an answer quotes.
    pub fn words(&self) -> f64 {
        Self::share(self.words, self.answerable())
    }

    /// Seconds of a question.
    pub fn seconds(&self) -> f64 {
        Self::share(self.seconds, self.questions)
    }

    /// Questions without an answer of which this was said, all of them, and questions of which it was said wrongly.
    pub const fn not_found(&self) -> (f64, f64, f64) {
        (self.said, self.unanswerable, self.wrongly_said)
    }
}

/// The words of a text in lower case, without Markdown's addresses.
fn words(text: &str) -> Vec<String> {
    text.to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Whether the quotation holds the gold quote, or an unbroken part of it that is long enough.
fn holds(quote: &Quote, gold: &Gold) -> bool {
    if gold.quote.is_empty() {
        return quote.path == gold.path;
    }
    let (whole, part) = (words(&quote.text), words(&gold.quote));
    let mut longest = 0;
    let mut before = vec![0; whole.len() + 1];
    for word in &part {
        let mut runs = vec![0; whole.len() + 1];
        for (at, _) in whole.iter().enumerate().filter(|(_, other)| *other == word) {
            runs[at + 1] = before[at] + 1;
            longest = longest.max(runs[at + 1]);
        }
        before = runs;
    }
    longest > 0 && longest as f64 >= SHARE * part.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_compared_with_the_evidence() {
        let question: Question = serde_json::from_str(
            r#"{"id": "q", "question": "Who?", "parts": [
                {"gold": [{"path": "a.md", "quote": "The Wye is *long* today."}]}, {"gold": [{"path": "b.md"}]}]}"#,
        )
        .unwrap();
        let quote = |text: &str, path: &str| Quote { text: text.into(), path: path.into() };
        let filler = "word ".repeat(299);
        let quotes =
            vec![quote(&filler, "c.md"), quote("now the Wye is long, they say", "a.md"), quote("b", "b.md")];
        let mut score = Score::default();
        score.add(&question, &Answer { quotes, ..Answer::default() });
        assert_eq!((score.first(), score.within(), score.anywhere()), (1.0, 0.0, 1.0));
        assert_eq!((score.precision(), score.quotes(), score.words()), (2.0 / 3.0, 3.0, 307.0));
        let unanswerable = Question { parts: Vec::new(), ..question };
        score.add(&unanswerable, &Answer { says_nothing: true, ..Answer::default() });
        assert_eq!(score.not_found(), (1.0, 1.0, 0.0));
    }
}
