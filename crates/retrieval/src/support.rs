//! Whether quotes say what a statement says: numbers with their units, dates, names and negations first, then words.
//!
//! It compares what can be compared, not the meaning. What it calls supported says the same of the same things in
//! mostly the same words. What it does not understand it leaves open.

use std::collections::HashSet;

use unicode_segmentation::UnicodeSegmentation;

mod numbers;
mod said;

pub use said::Said;

/// Of 100 words of a statement that matter, as many stand in its quotes at the least.
const SUPPORTED: usize = 65;
/// The same of a statement that says the contrary, or another number of the same.
const CLOSE: usize = 70;
/// The same without the name, of a statement that names somebody or something else.
const RENAMED: usize = 85;
/// Of 100 words of two sentences that disagree, as many of one stand in the other at the least.
const ALIKE: usize = 80;
/// The same of the other one, which may say more.
const SAID_MORE: usize = 50;
/// Words that both of them have at the least.
const SHARED: usize = 2;
/// Words with which a statement says that it was computed.
const COMPUTED: &str = "total sum altogether combined average mean difference ratio share twice double doubled half \
    halved triple tripled increase increased decrease decreased growth gap sums totals averages times insgesamt summe \
    durchschnitt anteil";

/// What quotes say of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// They say it.
    Supported,
    /// They say something else of the same: words of the quote, and of the statement.
    Contradicted {
        /// Words of the quote.
        quote: String,
        /// Words of the statement.
        statement: String,
    },
    /// A number is not quoted, and the statement says that it was computed.
    Computed,
    /// They say too little of it.
    Open,
}

/// The sentences of a text.
pub fn sentences(text: &str) -> Vec<Said> {
    text.unicode_sentences().map(Said::of).collect()
}

/// What the sentences of `quotes` say together of `statement`. `context` says what they are about, such as the headings
/// above them: its names and words need not be quoted, its numbers must be.
pub fn support(statement: &Said, quotes: &[&Said], context: &Said) -> Support {
    if statement.is_cut || quotes.is_empty() || quotes.iter().any(|said| said.is_cut) {
        return Support::Open;
    }
    let told: HashSet<&str> =
        quotes.iter().chain([&context]).flat_map(|said| said.words.iter().map(String::as_str)).collect();
    let share = statement.share(|word| told.contains(word));
    if let Some(found) = number(statement, quotes, share) {
        return found;
    }
    let mut codes: Vec<&String> = quotes.iter().chain([&context]).flat_map(|said| &said.codes).collect();
    for code in &statement.codes {
        match codes.iter().position(|known| *known == code) {
            Some(at) => drop(codes.swap_remove(at)),
            None => return Support::Open,
        }
    }
    if let Some(missing) = statement.names.iter().find(|name| !told.contains(name.as_str())) {
        let others: HashSet<&String> = quotes.iter().flat_map(|said| &said.names).collect();
        let mut foreign = others.into_iter().filter(|name| !statement.words.contains(*name));
        let rest = statement.share(|word| word == missing || told.contains(word));
        return match (foreign.next(), foreign.next()) {
            (Some(other), None) if rest >= RENAMED => Support::Contradicted {
                quote: quotes
                    .iter()
                    .find(|said| said.names.contains(other))
                    .map_or_else(|| other.clone(), |said| said.written(other)),
                statement: statement.written(missing),
            },
            _ => Support::Open,
        };
    }
    // What a statement begins with is mostly what it is about.
    let is_about_it = statement.first.as_ref().is_none_or(|first| told.contains(first.as_str()));
    if !is_about_it || share < SUPPORTED {
        return Support::Open;
    }
    denial(statement, quotes, share).unwrap_or(Support::Supported)
}

/// A sentence of a source, and what it is about, such as the headings above it and the title.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// The sentence.
    pub said: &'a Said,
    /// What it is about.
    pub context: &'a Said,
}

impl Told<'_> {
    fn tells(&self, word: &str) -> bool {
        self.said.words.contains(word) || self.context.words.contains(word)
    }
}

/// What two sentences of different sources say of the same thing, if that differs in one value: a number, a name, or
/// yes and no.
pub fn differ(a: Told<'_>, b: Told<'_>) -> Option<[String; 2]> {
    if a.said.is_cut || b.said.is_cut || a.said.codes != b.said.codes {
        return None;
    }
    let shared = a.said.words().iter().filter(|word| b.said.words.contains(*word)).count();
    let alike = |one: Told<'_>, other: Told<'_>, but: Option<&String>| {
        one.said.share(|word| but.is_some_and(|but| but == word) || other.tells(word))
    };
    if shared < SHARED {
        return None;
    }
    let mut others: Vec<_> = b.said.numbers.iter().collect();
    let mut own = Vec::new();
    for number in &a.said.numbers {
        let of = others.iter().position(|other| number.follows_from(other) || other.follows_from(number));
        match of {
            Some(at) => drop(others.swap_remove(at)),
            None => own.push(number),
        }
    }
    let lacks = |one: Told<'_>, other: Told<'_>| -> Vec<String> {
        one.said.names.iter().filter(|name| !other.tells(name)).cloned().collect()
    };
    let (names, other_names) = (lacks(a, b), lacks(b, a));
    let is_same = |one: Option<&String>, other: Option<&String>| {
        let (one, other) = (alike(a, b, one), alike(b, a, other));
        one.max(other) >= ALIKE && one.min(other) >= SAID_MORE
    };
    match (&own[..], &others[..], &names[..], &other_names[..]) {
        ([one], [other], [], []) if one.is_of_the_same(other) && is_same(None, None) => {
            Some([one.text.clone(), other.text.clone()])
        }
        ([], [], [one], [other]) if shared > SHARED && is_same(Some(one), Some(other)) => {
            Some([a.said.written(one), b.said.written(other)])
        }
        ([], [], [], []) if is_same(None, None) => {
            let denies = |one: &Said, other: &Said| {
                let denial =
                    one.denials.iter().find(|denial| !denial.is_in(other) && denial.is_about(other))?;
                Some([denial.text.clone(), denial.word.clone()])
            };
            denies(a.said, b.said).or_else(|| denies(b.said, a.said).map(|[text, word]| [word, text]))
        }
        _ => None,
    }
}

/// What quotes say if they lack a number of the statement. Each of theirs is used once.
fn number(statement: &Said, quotes: &[&Said], share: usize) -> Option<Support> {
    let mut others: Vec<_> = quotes.iter().flat_map(|said| &said.numbers).collect();
    let mut missing = Vec::new();
    for number in &statement.numbers {
        match others.iter().position(|other| number.follows_from(other)) {
            Some(at) => drop(others.swap_remove(at)),
            None => missing.push(number),
        }
    }
    let first = missing.first()?;
    others.retain(|other| first.is_of_the_same(other));
    Some(match (&missing[..], &others[..]) {
        // With other words, or several other numbers, it would be another thing that is counted.
        ([number], [other]) if share >= CLOSE => {
            Support::Contradicted { quote: other.text.clone(), statement: number.text.clone() }
        }
        _ if statement.is_any(COMPUTED) => Support::Computed,
        _ => Support::Open,
    })
}

/// What quotes say if they deny what the statement does not, or the other way round. The sentence that says most of it
/// decides.
fn denial(statement: &Said, quotes: &[&Said], share: usize) -> Option<Support> {
    let nearest = quotes.iter().max_by_key(|said| statement.share(|word| said.words.contains(word)))?;
    let contradicts = |quote: &str, statement: &str| match share >= CLOSE {
        true => Support::Contradicted { quote: quote.to_owned(), statement: statement.to_owned() },
        false => Support::Open,
    };
    if let Some(own) = statement.denials.iter().find(|own| !own.is_in(nearest)) {
        return Some(match own.is_about(nearest) {
            true => contradicts(&own.word, &own.text),
            false => Support::Open,
        });
    }
    let denies = |denial: &&said::Denial| {
        !denial.is_in(statement) && denial.of.iter().any(|word| statement.words.contains(word))
    };
    let denial = nearest.denials.iter().find(denies)?;
    Some(match denial.is_about(statement) {
        true => contradicts(&denial.text, &denial.word),
        false => Support::Open,
    })
}

#[cfg(test)]
mod tests;
