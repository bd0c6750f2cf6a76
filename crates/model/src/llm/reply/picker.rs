//! The picker's answer: text with a path in `<output>` tags. Small models forget the tags; then the one topic that the
//! text names is meant.

use tree_agent_contract::role::{OfferedLeaf, PickInput, PickOutput};

use super::schema::Schema;
use super::{Reply, contract_errors, line};

/// Bytes of the reason that are kept.
const REASON: usize = 600;

/// Reads a pick.
#[derive(Debug)]
pub(in crate::llm) struct PickerReply;

impl Reply for PickerReply {
    type Input = PickInput;
    type Output = PickOutput;
    const WHOLE: &'static str = "answer: one sentence, and the path between <output> and </output>";

    fn schema() -> Option<&'static Schema> {
        None
    }

    fn read(text: &str, input: &PickInput, _shown: bool) -> Result<PickOutput, Vec<String>> {
        let path = PickOutput::path_in(text).filter(|path| !path.is_empty());
        let Some(path) = path.or_else(|| only_named(text, &input.leaves)) else {
            return Err(vec!["it names no path between <output> and </output>".to_owned()]);
        };
        let (before, after) = text.rsplit_once("<output>").unwrap_or((text, ""));
        let after = after.split_once("</output>").map_or("", |(_, after)| after);
        let reason = if before.trim().is_empty() { after } else { before };
        let output = PickOutput { path: path.to_owned(), reason: line(reason, REASON) };
        output.validate().map_err(|invalid| contract_errors(&invalid))?;
        Ok(output)
    }
}

/// The path of the one topic that `text` names, by its path, by the end of that, or by its title.
fn only_named<'a>(text: &str, leaves: &'a [OfferedLeaf]) -> Option<&'a str> {
    let text = text.to_lowercase();
    let end = |leaf: &'a OfferedLeaf| leaf.path.rsplit('/').next().unwrap_or(&leaf.path);
    let ways: [&dyn Fn(&'a OfferedLeaf) -> &'a str; 3] = [&|leaf| &leaf.path, &end, &|leaf| &leaf.title];
    ways.iter().find_map(|name| {
        let mut named = leaves.iter().filter(|leaf| has(&text, &name(leaf).to_lowercase()));
        named.next().filter(|_| named.next().is_none()).map(|leaf| &*leaf.path)
    })
}

/// Whether `name` stands in `text` by itself, and not as a part of another path.
fn has(text: &str, name: &str) -> bool {
    let goes_on = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '-' || c == '/');
    !name.is_empty()
        && text.match_indices(name).any(|(at, _)| {
            !goes_on(text[..at].chars().next_back()) && !goes_on(text[at + name.len()..].chars().next())
        })
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::role::PickOutput;

    use super::*;
    use crate::llm::tests::pick_input;

    fn read(text: &str) -> Result<PickOutput, Vec<String>> {
        PickerReply::read(text, &pick_input(), false)
    }

    #[test]
    fn the_path_is_read_and_the_rest_is_the_reason() {
        let pick = read("It is\nfundamental. <output>/a/b</output>").unwrap();
        assert_eq!((pick.path.as_str(), pick.reason.as_str()), ("a/b", "It is fundamental."));
        let pick = read("<output>a</output> Because.").unwrap();
        assert_eq!((pick.path.as_str(), pick.reason.as_str()), ("a", "Because."));
        let long = read(&format!("{}<output>a</output>", "word ".repeat(1_000))).unwrap();
        assert!(long.reason.len() <= REASON);
    }

    #[test]
    fn without_tags_the_one_topic_that_is_named_is_meant() {
        for named in ["The topic \"a/b\" is fundamental.", "Therefore: B.", "b"] {
            let pick = read(named).unwrap();
            assert_eq!((pick.path.as_str(), pick.reason.as_str()), ("a/b", named));
        }
        let leaf = |path: &str, title: &str| OfferedLeaf {
            path: path.into(),
            title: title.into(),
            ..pick_input().leaves.remove(0)
        };
        let leaves = [leaf("x/fees", "Fees"), leaf("y/fees", "Fees of y"), leaf("x/storms", "Storms")];
        for (text, path) in [
            ("first x/fees", Some("x/fees")),
            ("the fees, then", Some("x/fees")),
            ("the fees, not the storms", None),
            ("the fees of Y", None),
            ("storms before fees", None),
            ("storms, of course", Some("x/storms")),
            ("x/fees or x/storms", None),
            ("stormsurge", None),
        ] {
            assert_eq!(only_named(text, &leaves), path, "{text}");
        }
    }

    #[test]
    fn an_answer_without_a_path_is_told() {
        for bad in ["", "a", "a/b/c", "<output> </output>", "<output>a"] {
            assert!(read(bad).unwrap_err()[0].contains("<output>"), "{bad:?}");
        }
        assert!(read(&format!("<output>{}</output>", "x".repeat(10_000))).is_err());
    }
}
