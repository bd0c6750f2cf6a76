//! Two vintages of one document: the report of this year and that of last year, a policy and its draft. The newer one
//! leads, and the older one is marked.

use tree_agent_contract::language::Sentence;
use tree_agent_contract::role::RoleError;

use super::hits::{Hit, distinct, search};
use super::question::is_year;
use crate::io::RoleIo;

/// Passages of the newer document that stand in for those of the older one.
const INSTEAD: usize = 2;
/// Bytes at the beginning of a document in which it says that it does not hold.
const BEGINNING: usize = 512;
/// Words in names of documents that do not hold any more, or not yet.
const RETIRED: [&str; 10] = [
    "archive",
    "archived",
    "draft",
    "entwurf",
    "superseded",
    "obsolete",
    "outdated",
    "deprecated",
    "withdrawn",
    "old",
];

/// What tells vintages apart.
#[derive(Debug, PartialEq, Eq)]
struct Vintage {
    /// What its name says without years and such words; the same for all vintages.
    family: String,
    /// The same of its folder.
    folder: String,
    is_retired: bool,
    year: Option<u16>,
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

impl Vintage {
    /// None for a record of one day, such as minutes: a later one does not replace it.
    fn of(hit: &Hit) -> Option<Self> {
        let path = hit.path.to_lowercase();
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let is_number = |word: &str| {
            word.trim_start_matches(|c: char| c.is_alphabetic()).bytes().all(|b| b.is_ascii_digit())
        };
        let is_retired = |word: &str| RETIRED.contains(&word);
        let numbers = words(stem)
            .filter(|word| is_number(word) && word.ends_with(|c: char| c.is_ascii_digit()))
            .count();
        let family = |name| -> String {
            words(name)
                .filter(|word| !is_retired(word) && !word.ends_with(|c: char| c.is_ascii_digit()))
                .collect()
        };
        let (family, folder) = (family(stem), family(folder));
        let title = hit.title.to_lowercase();
        let years = |text: &str| words(text).filter_map(year_in).max();
        let says_so = hit.offset < BEGINNING && says_retired(&hit.text);
        let retired = words(&path).chain(words(&title)).any(is_retired) || says_so;
        (numbers < 3 && !family.is_empty()).then(|| Self {
            family,
            folder,
            is_retired: retired,
            year: years(stem).or_else(|| years(&title)),
        })
    }

    /// Whether the same document replaces `other`.
    fn replaces(&self, other: &Self) -> bool {
        self.family == other.family
            && match (self.is_retired, other.is_retired) {
                (false, true) => true,
                (true, false) => false,
                _ => self.folder == other.folder && self.year > other.year && other.year.is_some(),
            }
    }
}

/// The year at the end of a word: `2023`, `fy2023`.
fn year_in(word: &str) -> Option<u16> {
    let digits = word.trim_start_matches(|c: char| c.is_alphabetic());
    is_year(digits).then(|| digits.parse().ok()).flatten()
}

/// Front matter or a first line that says so: `status: superseded`.
fn says_retired(text: &str) -> bool {
    let is_status = |line: &str| {
        let line = line.to_lowercase();
        line.trim_start_matches(|c: char| !c.is_alphanumeric()).starts_with("status")
            && words(&line).any(|word| RETIRED.contains(&word))
    };
    text.lines().take(8).any(is_status)
}

/// `hits` in which the newest vintage of each document leads. Passages of older ones come last and are marked; what the
/// newer one says stands in their place. A question that names the year of the older one means it.
pub(super) async fn newest_first(io: &RoleIo, question: &str, hits: Vec<Hit>) -> Result<Vec<Hit>, RoleError> {
    let vintages: Vec<Option<Vintage>> = hits.iter().map(Vintage::of).collect();
    let asked: Vec<u16> = words(question).filter_map(year_in).collect();
    let newer = |(vintage, path): (&Option<Vintage>, &str)| {
        let own = vintage.as_ref().filter(|own| own.year.is_none_or(|year| !asked.contains(&year)))?;
        let newer = vintages.iter().zip(&hits).filter_map(|(other, hit)| Some((other.as_ref()?, hit)));
        let newer = newer
            .filter(|(other, hit)| hit.path != path && other.replaces(own))
            .max_by_key(|(other, hit)| (other.year, &hit.path));
        newer.map(|(_, hit)| hit.path.clone())
    };
    let newer: Vec<Option<String>> =
        vintages.iter().zip(hits.iter().map(|hit| hit.path.as_str())).map(newer).collect();
    let (mut first, mut last): (Vec<Hit>, Vec<Hit>) = (Vec::new(), Vec::new());
    let mut led: Vec<&String> = Vec::new();
    for (hit, newer) in hits.iter().zip(&newer) {
        let Some(newer) = newer else {
            first.push(hit.clone());
            continue;
        };
        if !led.contains(&newer) {
            led.push(newer);
            first.extend(search(io, question, newer, INSTEAD, 0).await?.hits);
        }
        let note = Sentence::Older.of(io.language(), &[newer]);
        last.push(Hit { note, ..hit.clone() });
    }
    Ok(distinct(first.into_iter().chain(last)))
}
