//! Generates fictional worlds: people, firms, books, towns, provinces and rivers, and questions about them.
//!
//! Every fact stands in exactly one document: most often that of its subject, sometimes that of its object. So the gold
//! evidence of a question is known, and no model can know an answer from elsewhere. The same seed and size give the
//! same world.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use crate::names::{Names, of};
use crate::set::{Hop, Passage, Question, QuestionSet, path_of};

/// Hops of the longest question.
const MOST_HOPS: usize = 4;
/// One fact in so many stands in the document of its object.
const ELSEWHERE: usize = 4;

/// Sorts of things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Person,
    Firm,
    Book,
    Town,
    Province,
    River,
    /// Not a thing with a document: a year, a sea, a trade.
    Value,
}

/// How two things can belong together. `{s}` stands for the subject and `{o}` for the object.
struct Relation {
    of: Sort,
    to: Sort,
    /// The object as a phrase about the subject.
    phrase: &'static str,
    /// How a document says it.
    said: [&'static str; 2],
}

const RELATIONS: &[Relation] = &[
    Relation {
        of: Sort::Person,
        to: Sort::Town,
        phrase: "the town in which {s} was born",
        said: ["{s} was born in {o}.", "The birthplace of {s} is {o}."],
    },
    Relation {
        of: Sort::Person,
        to: Sort::Firm,
        phrase: "the firm that employs {s}",
        said: ["{s} works for {o} as an engineer.", "{o} employs {s} in its workshop."],
    },
    Relation {
        of: Sort::Person,
        to: Sort::Person,
        phrase: "the teacher of {s}",
        said: ["{s} was a pupil of {o}.", "{o} was the teacher of {s} for six years."],
    },
    Relation {
        of: Sort::Person,
        to: Sort::Value,
        phrase: "the year in which {s} was born",
        said: ["{s} was born in the year {o}.", "The year of birth of {s} is {o}."],
    },
    Relation {
        of: Sort::Firm,
        to: Sort::Person,
        phrase: "the founder of {s}",
        said: ["{s} was founded by {o}.", "{o} is the founder of {s}."],
    },
    Relation {
        of: Sort::Firm,
        to: Sort::Town,
        phrase: "the town in which {s} has its seat",
        said: ["{s} has its seat in {o}.", "The seat of {s} is a brick house in {o}."],
    },
    Relation {
        of: Sort::Book,
        to: Sort::Person,
        phrase: "the author of {s}",
        said: ["{s} is a novel by {o}.", "{o} wrote {s} in two winters."],
    },
    Relation {
        of: Sort::Town,
        to: Sort::River,
        phrase: "the river on which {s} lies",
        said: ["{s} lies on the river {o}.", "The river {o} flows through {s}."],
    },
    Relation {
        of: Sort::Town,
        to: Sort::Province,
        phrase: "the province to which {s} belongs",
        said: ["{s} belongs to the province of {o}.", "{s} is a town in the province of {o}."],
    },
    Relation {
        of: Sort::Town,
        to: Sort::Person,
        phrase: "the mayor of {s}",
        said: ["The mayor of {s} is {o}.", "{o} was elected mayor of {s}."],
    },
    Relation {
        of: Sort::Province,
        to: Sort::Town,
        phrase: "the capital of {s}",
        said: ["The capital of {s} is {o}.", "{o} is the capital of {s}."],
    },
    Relation {
        of: Sort::River,
        to: Sort::Value,
        phrase: "the sea into which {s} flows",
        said: ["{s} flows into the {o}.", "The mouth of {s} is on the {o}."],
    },
];

/// Sentences that are true of nobody in particular. Every document has some, so that none is told by its length.
const NOISE: &[&str] = &[
    "Visitors describe the weather in spring as mild.",
    "A small museum shows tools and maps of the last century.",
    "Most records of that time were lost in a fire.",
    "The annual fair draws crowds from far away.",
    "Historians disagree about the details.",
    "A bronze plaque was put up a few years ago.",
    "Several letters are kept in a private collection.",
    "The local newspaper has reported on it twice.",
    "Little is known about the early years.",
    "The archive is open to the public on Tuesdays.",
    "Old photographs show a narrow street and a tram.",
    "A song about it is still sung at weddings.",
];

struct Thing {
    sort: Sort,
    name: String,
    sentences: Vec<String>,
}

#[derive(Clone, Copy)]
struct Fact {
    relation: usize,
    object: usize,
    /// The thing whose document says so.
    place: usize,
}

/// A world with about `documents` documents and `questions` questions, a quarter of them for each number of hops.
///
/// # Panics
/// With fewer than 40 documents: so few hold no chain of four hops.
pub fn world(seed: u64, documents: usize, questions: usize) -> QuestionSet {
    assert!(documents >= 40, "a world has at least 40 documents");
    let mut rng = Rng::with_seed(seed);
    let mut things = people_the_world(&mut rng, documents);
    let facts = state_facts(&mut rng, &mut things);
    let (passages, place) = write_documents(&mut rng, &things);
    let mut made = Vec::new();
    let mut asked: BTreeSet<String> = BTreeSet::new();
    // Some draws end in a thing of which nothing more is known.
    for _ in 0..questions * 200 {
        if made.len() == questions {
            break;
        }
        let hops = made.len() % MOST_HOPS + 1;
        let Some((start, chain)) = draw_chain(&mut rng, &things, &facts, hops) else { continue };
        let question = ask(made.len(), start, &chain, &things, &place);
        if asked.insert(question.text.clone()) {
            made.push(question);
        }
    }
    QuestionSet {
        name: format!("generated world (seed {seed})"),
        source: "Made by the generator of `crates/eval`: fictional people, firms, books, towns, provinces and rivers."
            .to_owned(),
        passages,
        questions: made,
    }
}

fn people_the_world(rng: &mut Rng, documents: usize) -> Vec<Thing> {
    let mut names = Names::default();
    let mut things = Vec::new();
    let mut add = |sort, count: usize, name: &mut dyn FnMut() -> String| {
        for _ in 0..count {
            things.push(Thing { sort, name: name(), sentences: Vec::new() });
        }
    };
    let share = |percent: usize| (documents * percent / 100).max(2);
    add(Sort::Province, share(4), &mut || names.town(rng));
    add(Sort::River, share(8), &mut || names.river(rng));
    add(Sort::Town, share(20), &mut || names.town(rng));
    add(Sort::Firm, share(18), &mut || names.firm(rng));
    add(Sort::Book, share(15), &mut || names.book(rng));
    let rest = documents - [4, 8, 20, 18, 15].map(share).iter().sum::<usize>();
    add(Sort::Person, rest, &mut || names.person(rng));
    // Values have no document.
    for value in ["Grey Sea", "Northern Gulf", "Bay of Lanterns", "Sea of Reeds", "Long Strait"] {
        things.push(Thing { sort: Sort::Value, name: value.to_owned(), sentences: Vec::new() });
    }
    for year in 1861..=1960 {
        things.push(Thing { sort: Sort::Value, name: year.to_string(), sentences: Vec::new() });
    }
    things
}

/// Gives every thing its facts, and writes each into one document. The facts of a thing stand at its index.
fn state_facts(rng: &mut Rng, things: &mut [Thing]) -> Vec<Vec<Fact>> {
    let mut facts: Vec<Vec<Fact>> = things.iter().map(|_| Vec::new()).collect();
    for subject in 0..things.len() {
        let sort = things[subject].sort;
        for (relation, rule) in RELATIONS.iter().enumerate().filter(|(_, rule)| rule.of == sort) {
            let wanted = |i: usize, thing: &Thing| {
                let is_year = thing.name.parse::<u32>().is_ok();
                let fits = rule.to != Sort::Value || is_year == (rule.of == Sort::Person);
                i != subject && thing.sort == rule.to && fits
            };
            let choice: Vec<usize> =
                things.iter().enumerate().filter(|(i, thing)| wanted(*i, thing)).map(|(i, _)| i).collect();
            let object = choice[rng.usize(..choice.len())];
            let elsewhere = rule.to != Sort::Value && rng.usize(..ELSEWHERE) == 0;
            let place = if elsewhere { object } else { subject };
            let said = of(rng, &rule.said);
            let sentence = said.replace("{s}", &things[subject].name).replace("{o}", &things[object].name);
            things[place].sentences.push(capital(&sentence));
            facts[subject].push(Fact { relation, object, place });
        }
    }
    facts
}

/// The documents, and for each thing the index of its document.
fn write_documents(rng: &mut Rng, things: &[Thing]) -> (Vec<Passage>, BTreeMap<usize, usize>) {
    let (mut passages, mut place, mut taken) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    for (i, thing) in things.iter().enumerate().filter(|(_, thing)| thing.sort != Sort::Value) {
        let mut sentences = thing.sentences.clone();
        for _ in 0..2 + rng.usize(..3) {
            sentences.push(of(rng, NOISE).to_owned());
        }
        rng.shuffle(&mut sentences);
        sentences.dedup();
        place.insert(i, passages.len());
        passages.push(Passage {
            path: path_of(&thing.name, &mut taken),
            title: thing.name.clone(),
            text: sentences.join(" "),
        });
    }
    (passages, place)
}

/// A chain of `hops` facts that visits no thing and no document twice.
fn draw_chain(
    rng: &mut Rng,
    things: &[Thing],
    facts: &[Vec<Fact>],
    hops: usize,
) -> Option<(usize, Vec<Fact>)> {
    let start = rng.usize(..things.len());
    let (mut at, mut chain) = (start, Vec::new());
    let (mut seen, mut places) = (BTreeSet::from([start]), BTreeSet::new());
    for _ in 0..hops {
        let open = facts[at].iter().filter(|f| !seen.contains(&f.object) && !places.contains(&f.place));
        let open: Vec<&Fact> = open.collect();
        let fact = *open.get(rng.usize(..open.len().max(1)))?;
        chain.push(*fact);
        seen.insert(fact.object);
        places.insert(fact.place);
        at = fact.object;
    }
    Some((start, chain))
}

fn ask(
    number: usize,
    start: usize,
    chain: &[Fact],
    things: &[Thing],
    place: &BTreeMap<usize, usize>,
) -> Question {
    let mut phrase = things[start].name.clone();
    let (mut subject, mut hops) = (start, Vec::new());
    for fact in chain {
        let rule = &RELATIONS[fact.relation];
        let own = rule.phrase.replace("{s}", &things[subject].name);
        phrase = rule.phrase.replace("{s}", &phrase);
        hops.push(Hop {
            question: own,
            answer: things[fact.object].name.clone(),
            passage: place[&fact.place],
        });
        subject = fact.object;
    }
    let mut gold: Vec<usize> = hops.iter().map(|hop| hop.passage).collect();
    gold.sort_unstable();
    let word = if things[subject].sort == Sort::Person { "Who" } else { "What" };
    Question {
        id: format!("{}hop-{number}", chain.len()),
        text: format!("{word} is {phrase}?"),
        answers: vec![things[subject].name.clone()],
        gold,
        hops,
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{answer_words, contains, words};

    #[test]
    fn the_gold_evidence_of_every_question_holds_its_answers() {
        let set = world(7, 150, 40);
        assert_eq!((set.passages.len(), set.questions.len()), (150, 40));
        let paths: BTreeSet<&str> = set.passages.iter().map(|p| p.path.as_str()).collect();
        assert_eq!(paths.len(), set.passages.len());
        for (i, question) in set.questions.iter().enumerate() {
            assert_eq!(question.hops.len(), i % MOST_HOPS + 1, "{question:?}");
            assert_eq!(question.gold.len(), question.hops.len(), "{question:?}");
            for hop in &question.hops {
                let text = words(&set.passages[hop.passage].body());
                assert!(contains(&text, &answer_words(&hop.answer)), "{question:?}");
            }
            assert_eq!(question.answers[0], question.hops.last().unwrap().answer);
        }
    }

    #[test]
    fn a_seed_and_a_size_give_one_world() {
        assert_eq!(world(3, 60, 8), world(3, 60, 8));
        assert_ne!(world(3, 60, 8), world(4, 60, 8));
    }
}
