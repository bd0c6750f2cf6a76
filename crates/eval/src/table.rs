//! The table in Markdown, and its place in a page.

use anyhow::Context;

use crate::score::Score;

/// The marks around the table in its page.
const MARKS: [&str; 2] = ["<!-- eval -->\n", "<!-- eval: end -->"];

/// A row: the set, the strategy and the model, and the score.
pub type Row = (String, Score);

/// The table.
pub fn markdown(rows: &[Row]) -> String {
    let mut text =
        "| questions | first three | 300 words | anywhere | precision | quotes | words | not found | s |\n\
                    | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: |\n"
            .to_owned();
    for (name, score) in rows {
        let (said, all, wrongly) = score.not_found();
        text.push_str(&format!(
            "| {name} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} | {:.0} | {said} of {all}, {wrongly} wrongly | {:.2} |\n",
            score.first(),
            score.within(),
            score.anywhere(),
            score.precision(),
            score.quotes(),
            score.words(),
            score.seconds(),
        ));
    }
    text
}

/// `page` with `text` between the marks.
///
/// # Errors
/// The page has no marks.
pub fn replace(page: &str, text: &str) -> anyhow::Result<String> {
    let (before, rest) = page.split_once(MARKS[0]).context("the page has no mark for the table")?;
    let (_, after) = rest.split_once(MARKS[1]).context("the page has no mark for the end of the table")?;
    Ok(format!("{before}{}{text}{}{after}", MARKS[0], MARKS[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_page_is_replaced() {
        let text = markdown(&[("docs, tree".into(), Score::default())]);
        let columns: Vec<usize> = text.lines().map(|line| line.matches('|').count()).collect();
        assert_eq!(columns, [10; 3]);
        let page = replace("# Page\n<!-- eval -->\nold\n<!-- eval: end -->\nprose\n", &text).unwrap();
        assert_eq!(page, format!("# Page\n<!-- eval -->\n{text}<!-- eval: end -->\nprose\n"));
        assert!(replace("# Page\n", &text).is_err());
    }
}
