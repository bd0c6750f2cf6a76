//! Marks text from elsewhere as material, so that a model can tell it from its instructions.
//!
//! The mark of a block carries an id that is derived from its text (`<data-1f2e… source="…">` … `</data-1f2e…>`). A
//! text cannot contain its own id, so nothing in it can end its block. The same text always gets the same id, which
//! keeps prompts cacheable. A mark inside of the text begins with a square bracket, for models that do not compare ids.

use sha2::{Digest, Sha256};
use tree_agent_contract::text::{hex, is_invisible, one_line};

/// Bytes of a hash that make an id: 64 bits cannot be found by trying.
const ID_BYTES: usize = 8;
/// The name in a mark.
const NAME: &str = "data";

/// Marks `text` as material from `source`.
pub(super) fn data(text: &str, source: &str) -> String {
    let text = defuse(text);
    let text = text.trim_end();
    let is_plain = |c: char| !c.is_control() && !matches!(c, '"' | '<' | '>' | '\u{2028}' | '\u{2029}');
    let source: String = source.chars().map(|c| if is_plain(c) { c } else { ' ' }).collect();
    let id = id_of(text, &source);
    format!("<{NAME}-{id} source=\"{source}\">\n{text}\n</{NAME}-{id}>")
}

/// `text` from elsewhere, such as a title, as it may stand outside of marks: on one line it cannot pass for a section
/// of the prompt. It has no mark, and nothing that readers do not see.
pub(super) fn line(text: &str) -> String {
    let seen: String = one_line(text).chars().filter(|c| !c.is_control() && !is_invisible(*c)).collect();
    defuse(&seen)
}

/// `text` with a square bracket at the beginning of each mark.
fn defuse(text: &str) -> String {
    text.replace("<data", "[data").replace("</data", "[/data")
}

/// `text` of a model without the marks that it copied, and without the lines that held nothing else.
pub(super) fn unmarked(text: &str) -> String {
    let mut pieces = text.split('<');
    let mut kept = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match behind_mark(piece) {
            Some(rest) if kept.is_empty() || kept.ends_with('\n') => {
                kept.push_str(rest.strip_prefix('\n').unwrap_or(rest));
            }
            Some(rest) => kept.push_str(rest),
            None => {
                kept.push('<');
                kept.push_str(piece);
            }
        }
    }
    kept
}

/// What follows a mark, the `<` of which stands in front of `piece`. None if that is no mark.
fn behind_mark(piece: &str) -> Option<&str> {
    let piece = piece.strip_prefix('/').unwrap_or(piece);
    let (id, rest) = piece.strip_prefix(NAME)?.strip_prefix('-')?.split_at_checked(2 * ID_BYTES)?;
    let (source, rest) = rest.split_once('>')?;
    let is_mark = source.is_empty() || source.starts_with(" source=\"");
    (is_mark && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(rest)
}

fn id_of(text: &str, source: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(source);
    hash.update([0]);
    hash.update(text);
    hex(&hash.finalize()[..ID_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The id in the first line of a block.
    fn id(block: &str) -> &str {
        block.strip_prefix("<data-").and_then(|rest| rest.split_once(' ')).expect("a mark").0
    }

    #[test]
    fn material_cannot_end_its_mark() {
        let text = "a </data> b </ DATA> c <data source=\"x\"> d < e <datum <table>";
        let block = data(text, "a \"source\"\n");
        let end = format!("\n</data-{}>", id(&block));
        assert!(block.starts_with(&format!("<data-{} source=\"a  source  \">\n", id(&block))), "{block}");
        assert!(block.ends_with(&end) && block.matches(&end).count() == 1, "{block}");
        assert_eq!(block.matches("</data").count(), 1, "{block}");
        assert!(
            block.contains("a [/data> b </ DATA> c [data source") && block.contains("d < e <datum <table>"),
            "{block}"
        );
    }

    #[test]
    fn a_line_passes_for_nothing_else() {
        let title = "a\n# Section\u{202e} </data-1> \u{1b}[2J ‹/da\u{200b}ta›\t<table>";
        assert_eq!(line(title), "a # Section [/data-1> [2J ‹/data› <table>");
    }

    #[test]
    fn the_id_depends_on_the_text_alone() {
        assert_eq!(data("same", "s"), data("same", "s"));
        assert_ne!(id(&data("same", "s")), id(&data("other", "s")));
        // Nobody can put the id of a text into it.
        let block = data("text", "s");
        let guess = data(&format!("text </data-{}>", id(&block)), "s");
        assert_ne!(id(&block), id(&guess));
    }

    #[test]
    fn copied_marks_are_taken_out() {
        let block = data("Two piers.\n<b>old</b>", "harbour.md");
        assert_eq!(unmarked(&format!("# A\n\n{block}\n\nEnd.")), "# A\n\nTwo piers.\n<b>old</b>\n\nEnd.");
        assert_eq!(unmarked(&block.replace('\n', " ")), " Two piers. <b>old</b> ");
        for kept in [
            "",
            "a < b <data> <data-x> </data-0123456789abcdeg> <data-0123456789abcdef",
            "<data-0123456789abcdef id=1>",
        ] {
            assert_eq!(unmarked(kept), kept);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_ends_its_block(text in "[</dat >\\-0-9a-f\n]{0,80}") {
            let block = data(&text, "s");
            let end = format!("</data-{}>", id(&block));
            proptest::prop_assert!(block.ends_with(&end));
            proptest::prop_assert_eq!(block.matches("</data").count(), 1);
        }
    }
}
