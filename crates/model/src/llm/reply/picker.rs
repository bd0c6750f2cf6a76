//! The picker's answer: text with a path in `<output>` tags.

use tree_agent_contract::role::{PickInput, PickOutput};

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

    fn read(text: &str, _input: &PickInput, _shown: bool) -> Result<PickOutput, Vec<String>> {
        let path = PickOutput::path_in(text).filter(|path| !path.is_empty());
        let Some(path) = path else {
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
    fn an_answer_without_a_path_is_told() {
        for bad in ["", "a/b", "<output> </output>", "<output>a"] {
            assert!(read(bad).unwrap_err()[0].contains("<output>"), "{bad:?}");
        }
        assert!(read(&format!("<output>{}</output>", "x".repeat(10_000))).is_err());
    }
}
