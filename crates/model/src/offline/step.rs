//! What a plan tells a step: the passages that it quotes, as criteria that people read, too.

use sha2::{Digest, Sha256};
use tree_agent_contract::DocumentId;
use tree_agent_contract::role::CallContext;
use tree_agent_contract::text::one_line;

use super::brief::Part;
use super::hits::Hit;

/// A passage that is to be read and quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pick {
    /// Its place among the passages of the whole question, from 1.
    pub(super) rank: u32,
    pub(super) document_id: DocumentId,
    pub(super) path: String,
    /// The headings above it, with ` › ` between them.
    pub(super) headings: String,
    pub(super) offset: usize,
    pub(super) bytes: usize,
    /// The beginning of the SHA-256 of its text, in hexadecimal.
    pub(super) hash: String,
    /// The head of the table whose rows it holds, if it does not hold it: its first line.
    pub(super) head: String,
}

impl Pick {
    pub(super) fn of(hit: &Hit) -> Self {
        Self {
            rank: hit.rank,
            document_id: hit.document_id,
            path: hit.path.clone(),
            headings: hit.place(),
            offset: hit.offset,
            bytes: hit.text.len(),
            hash: hash(&hit.text),
            head: hit.head.lines().next().unwrap_or_default().to_owned(),
        }
    }

    /// The criteria that name it.
    pub(super) fn criteria(&self) -> Vec<String> {
        let Self { rank, document_id, path, headings, offset, bytes, hash, head } = self;
        let headings = one_line(headings);
        let place = format!("{bytes} bytes at {offset} of {document_id}, {hash}");
        let of_table = (!head.is_empty()).then(|| format!("{HEAD}{rank}: {head}"));
        let passage = format!("Quotes passage {rank} of `{path}`, {place}: {headings}");
        std::iter::once(passage).chain(of_table).collect()
    }

    fn parse(criterion: &str) -> Option<Self> {
        let (rank, rest) = criterion.strip_prefix("Quotes passage ")?.split_once(" of `")?;
        let (path, rest) = rest.split_once("`, ")?;
        let (place, headings) = rest.split_once(": ").or_else(|| Some((rest.strip_suffix(':')?, "")))?;
        let (bytes, rest) = place.split_once(" bytes at ")?;
        let (offset, rest) = rest.split_once(" of ")?;
        let (document_id, hash) = rest.split_once(", ")?;
        let (offset, bytes): (usize, usize) = (offset.parse().ok()?, bytes.parse().ok()?);
        offset.checked_add(bytes)?;
        Some(Self {
            rank: rank.parse().ok()?,
            document_id: document_id.parse().ok()?,
            path: path.to_owned(),
            headings: headings.to_owned(),
            offset,
            bytes,
            hash: hash.to_owned(),
            head: String::new(),
        })
    }
}

/// Tells one text from another: the first four bytes of its SHA-256.
pub(super) fn hash(text: &str) -> String {
    Sha256::digest(text)[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The criterion that names a place which is not quoted.
pub(super) fn names(source: &str) -> String {
    format!("Names {}", one_line(source))
}

/// Begins the criterion that says in which table the rows of a passage stand.
const HEAD: &str = "Table of passage ";
/// Begins the criterion that says which part of a brief a step answers.
const ANSWERS: &str = "Answers: ";
/// Begins the criterion that says why meaning did not count.
const SEARCH: &str = "Search: ";

/// The criterion of a step that answers a part of a brief.
pub(super) fn answers(part: &Part) -> String {
    format!("{ANSWERS}{}", one_line(&part.question()))
}

/// The criterion that says why meaning did not count.
pub(super) fn searched(by_words: &str) -> String {
    format!("{SEARCH}{by_words}")
}

/// What the step of a node says.
#[derive(Default)]
pub(super) struct Told {
    /// The question that it answers by itself.
    pub(super) asked: Option<String>,
    /// The passages that it quotes.
    pub(super) picks: Vec<Pick>,
    /// The places that it names.
    pub(super) named: Vec<String>,
    /// Why meaning did not count.
    pub(super) by_words: Option<String>,
}

/// What the criteria of a node say.
pub(super) fn told(call: &CallContext) -> Told {
    let criteria = || call.success_criteria.iter();
    let mut picks: Vec<Pick> = criteria().filter_map(|c| Pick::parse(c)).collect();
    for (rank, head) in criteria().filter_map(|c| c.strip_prefix(HEAD)?.split_once(": ")) {
        let of = picks.iter_mut().find(|pick| pick.rank.to_string() == rank);
        of.into_iter().for_each(|pick| head.clone_into(&mut pick.head));
    }
    Told {
        picks,
        named: criteria().filter_map(|c| c.strip_prefix("Names ")).map(str::to_owned).collect(),
        by_words: criteria().find_map(|c| c.strip_prefix(SEARCH)).map(str::to_owned),
        asked: criteria().find_map(|c| c.strip_prefix(ANSWERS)).map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_criterion_says_all_of_a_passage() {
        for headings in ["", "Use: it › Of `b`, or c"] {
            let pick = Pick {
                rank: 3,
                document_id: DocumentId::derive(&[b"a"]),
                path: "docs/a b.md".into(),
                headings: headings.into(),
                offset: 12,
                bytes: 40,
                hash: hash("text"),
                head: String::new(),
            };
            assert_eq!(Pick::parse(&pick.criteria()[0]), Some(pick.clone()));
            assert_eq!(Pick { head: "| a |".into(), ..pick }.criteria()[1], "Table of passage 3: | a |");
        }
        let far = format!(
            "Quotes passage 1 of `a`, 5 bytes at {} of {}, 0a: ",
            usize::MAX,
            DocumentId::derive(&[b"a"])
        );
        for other in ["Quotes passage 1 of the text", &far] {
            assert_eq!(Pick::parse(other), None, "{other}");
        }
    }
}
