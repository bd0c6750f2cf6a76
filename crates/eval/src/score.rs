//! Compares an answer with the gold evidence.

use std::collections::BTreeSet;

use crate::set::Question;
use crate::text::{answer_words, contains};

/// What a run, or a baseline, came up with for one question.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// What a person reads.
    pub text: String,
    /// The passages that it names as sources, as indices.
    pub cited: BTreeSet<usize>,
    /// The passages that it read; none if reading is not recorded.
    pub read: Option<BTreeSet<usize>>,
    /// Tool calls, and those of them that repeat another of the run: the same tool and arguments.
    pub tool_calls: u64,
    /// See `tool_calls`.
    pub duplicates: u64,
    /// What it cites as data, and how much of that the role service found in the source.
    pub citations: u64,
    /// See `citations`.
    pub verified: u64,
    /// Tokens in and out.
    pub tokens: u64,
    /// Millionths of a US dollar.
    pub cost_micros: u64,
    /// Milliseconds from the creation of the run to its end.
    pub millis: f64,
}

/// Sums over the questions of one row of the table.
#[derive(Clone, Debug, Default)]
pub struct Score {
    questions: f64,
    gold: f64,
    gold_cited: f64,
    gold_read: Option<f64>,
    hops: f64,
    hops_covered: f64,
    answer_in_text: f64,
    exact: f64,
    f1: f64,
    cited: f64,
    tool_calls: f64,
    duplicates: f64,
    citations: f64,
    verified: f64,
    tokens: f64,
    cost_micros: f64,
    millis: f64,
    slowest: f64,
}

impl Score {
    /// Adds the answer to one question.
    pub fn add(&mut self, question: &Question, answer: &Answer) {
        self.questions += 1.0;
        self.gold += question.gold.len() as f64;
        let among = |set: &BTreeSet<usize>| question.gold.iter().filter(|i| set.contains(i)).count() as f64;
        self.gold_cited += among(&answer.cited);
        if let Some(read) = &answer.read {
            *self.gold_read.get_or_insert(0.0) += among(read);
        }
        // The question stands above the answer, and would lend it its words.
        let shown = answer.text.replace(&question.text, " ");
        let text = answer_words(&shown);
        self.hops += question.hops.len() as f64;
        let covers = |passage: usize, answer_: &str| {
            answer.cited.contains(&passage) && contains(&text, &answer_words(answer_))
        };
        self.hops_covered +=
            question.hops.iter().filter(|hop| covers(hop.passage, &hop.answer)).count() as f64;
        let golds: Vec<Vec<String>> = question.answers.iter().map(|a| answer_words(a)).collect();
        self.answer_in_text += f64::from(golds.iter().any(|gold| contains(&text, gold)));
        let short = answer_words(short_answer(&shown));
        self.exact += f64::from(golds.contains(&short));
        self.f1 += golds.iter().map(|gold| f1(&short, gold)).fold(0.0, f64::max);
        self.cited += answer.cited.len() as f64;
        self.tool_calls += answer.tool_calls as f64;
        self.duplicates += answer.duplicates as f64;
        self.citations += answer.citations as f64;
        self.verified += answer.verified as f64;
        self.tokens += answer.tokens as f64;
        self.cost_micros += answer.cost_micros as f64;
        self.millis += answer.millis;
        self.slowest = self.slowest.max(answer.millis);
    }

    fn share(part: f64, whole: f64) -> f64 {
        if whole > 0.0 { part / whole } else { 0.0 }
    }

    /// The share of all gold passages that are cited.
    pub fn gold_cited(&self) -> f64 {
        Self::share(self.gold_cited, self.gold)
    }

    /// The share of all gold passages that were read; none if reading is not recorded.
    pub fn gold_read(&self) -> Option<f64> {
        self.gold_read.map(|read| Self::share(read, self.gold))
    }

    /// The share of the hops whose passage is cited and whose answer stands in the text.
    pub fn hop_coverage(&self) -> f64 {
        Self::share(self.hops_covered, self.hops)
    }

    /// The share of the questions whose answer stands in the text.
    pub fn answer_in_text(&self) -> f64 {
        Self::share(self.answer_in_text, self.questions)
    }

    /// The share of the questions whose short answer is exactly the gold answer.
    pub fn exact(&self) -> f64 {
        Self::share(self.exact, self.questions)
    }

    /// Overlap of the words of the short answer with those of the gold answer, the mean over questions.
    pub fn f1(&self) -> f64 {
        Self::share(self.f1, self.questions)
    }

    /// Cited passages a question.
    pub fn cited(&self) -> f64 {
        Self::share(self.cited, self.questions)
    }

    /// The share of the tool calls that repeat another of their run.
    pub fn duplicates(&self) -> f64 {
        Self::share(self.duplicates, self.tool_calls)
    }

    /// The share of the citations whose quote stands in its source; none if there are no citations.
    pub fn verified(&self) -> Option<f64> {
        (self.citations > 0.0).then(|| self.verified / self.citations)
    }

    /// Tool calls a question.
    pub fn tool_calls(&self) -> f64 {
        Self::share(self.tool_calls, self.questions)
    }

    /// Tokens a question.
    pub fn tokens(&self) -> f64 {
        Self::share(self.tokens, self.questions)
    }

    /// US dollars a question.
    pub fn dollars(&self) -> f64 {
        Self::share(self.cost_micros, self.questions) / 1e6
    }

    /// Seconds a question.
    pub fn seconds(&self) -> f64 {
        Self::share(self.millis, self.questions) / 1e3
    }

    /// Seconds of the slowest question.
    pub fn slowest(&self) -> f64 {
        self.slowest / 1e3
    }
}

/// The short answer in a text: what stands after the last `Answer:`, else the first line that is no heading, emphasis
/// or blank, without quotation marks and the number of its source.
pub fn short_answer(text: &str) -> &str {
    let said = text.lines().rev().find_map(|line| {
        let line = line.trim().trim_start_matches(['*', '-', ' ']);
        Some(line.strip_prefix("Answer:")?.trim_start_matches('*').trim())
    });
    said.unwrap_or_else(|| {
        let body = text.lines().map(str::trim).find(|l| !l.is_empty() && !l.starts_with(['#', '*']));
        let body = body.unwrap_or_default().trim_start_matches("- ").trim_start_matches('“');
        body.rsplit_once("” [").map_or(body, |(quoted, _)| quoted)
    })
}

/// The harmonic mean of precision and recall of `given` by words.
fn f1(given: &[String], gold: &[String]) -> f64 {
    let mut left = given.to_vec();
    let mut shared = 0.0;
    for word in gold {
        if let Some(at) = left.iter().position(|w| w == word) {
            left.swap_remove(at);
            shared += 1.0;
        }
    }
    if shared == 0.0 { 0.0 } else { 2.0 * shared / (given.len() + gold.len()) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::Hop;

    #[test]
    fn an_answer_is_compared_with_the_evidence() {
        let hop = |answer: &str, passage| Hop { question: String::new(), answer: answer.into(), passage };
        let question = Question {
            id: "q".into(),
            text: "What is the river of the town of Ada?".into(),
            answers: vec!["The Wye".into()],
            gold: vec![0, 1],
            hops: vec![hop("Elm", 0), hop("Wye", 1)],
        };
        let text = "# What is the river of the town of Ada?\n\n- “Elm lies on the Wye.” [1]\n";
        let answer = Answer {
            text: text.into(),
            cited: [1].into(),
            tool_calls: 4,
            duplicates: 1,
            citations: 5,
            verified: 4,
            ..Answer::default()
        };
        let mut score = Score::default();
        score.add(&question, &answer);
        assert_eq!((score.gold_cited(), score.gold_read(), score.hop_coverage()), (0.5, None, 0.5));
        assert_eq!((score.answer_in_text(), score.exact(), score.duplicates()), (1.0, 0.0, 0.25));
        assert_eq!((score.verified(), Score::default().verified()), (Some(0.8), None));
        assert!((score.f1() - 2.0 / 5.0).abs() < 1e-9, "{}", score.f1());
        let said = Answer { text: "Because of that.\n**Answer:** the Wye".into(), ..answer };
        let mut score = Score::default();
        score.add(&question, &said);
        assert_eq!((score.exact(), score.f1()), (1.0, 1.0));
    }
}
