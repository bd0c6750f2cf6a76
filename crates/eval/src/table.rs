//! The table in Markdown, and its place in a page.

use anyhow::Context;

use crate::score::Score;

/// A column: its heading, and its cell.
type Column = (&'static str, fn(&Score) -> String);

/// The figures of a row. A new measure is one line here and one sum in [`Score`].
const COLUMNS: &[Column] = &[
    ("gold cited", |s| share(s.gold_cited())),
    ("gold read", |s| s.gold_read().map_or_else(|| "–".to_owned(), share)),
    ("hops covered", |s| share(s.hop_coverage())),
    ("answer in text", |s| share(s.answer_in_text())),
    ("exact", |s| share(s.exact())),
    ("F1", |s| share(s.f1())),
    ("cited passages", |s| format!("{:.1}", s.cited())),
    ("verified citations", |s| s.verified().map_or_else(|| "–".to_owned(), share)),
    ("tool calls", |s| format!("{:.1}", s.tool_calls())),
    ("repeated calls", |s| share(s.duplicates())),
    ("tokens", |s| format!("{:.0}", s.tokens())),
    ("US$", |s| format!("{:.4}", s.dollars())),
    ("s", |s| format!("{:.3}", s.seconds())),
    ("slowest s", |s| format!("{:.3}", s.slowest())),
];

/// One row of a table.
pub struct Row {
    /// The way in which the questions were answered.
    pub way: String,
    /// The model; a dash without one.
    pub model: String,
    /// The scores of each part of the questions.
    pub scores: [Score; 3],
}

fn share(value: f64) -> String {
    format!("{value:.2}")
}

/// A table of one part of the questions: 0 for all, 1 for those at even and 2 for those at odd indices.
pub fn markdown(rows: &[Row], part: usize) -> String {
    let headings: Vec<&str> = COLUMNS.iter().map(|(heading, _)| *heading).collect();
    let mut text = format!("| way | model | {} |\n", headings.join(" | "));
    text.push_str(&format!("| --- | --- |{}\n", " ---: |".repeat(COLUMNS.len())));
    for row in rows {
        let cells: Vec<String> = COLUMNS.iter().map(|(_, cell)| cell(&row.scores[part])).collect();
        text.push_str(&format!("| {} | {} | {} |\n", row.way, row.model, cells.join(" | ")));
    }
    text
}

/// `page` with `text` between the marks of `section`.
///
/// # Errors
/// The page has no such marks.
pub fn replace(page: &str, section: &str, text: &str) -> anyhow::Result<String> {
    let (begin, end) = (format!("<!-- eval: {section} -->\n"), format!("<!-- eval: end of {section} -->"));
    let (before, rest) = page.split_once(&begin).with_context(|| format!("the page lacks {begin:?}"))?;
    let (_, after) = rest.split_once(&end).with_context(|| format!("the page lacks {end:?}"))?;
    Ok(format!("{before}{begin}{text}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_of_the_page_is_replaced() {
        let page = "# Page\n<!-- eval: world -->\nold\n<!-- eval: end of world -->\nprose\n";
        let new = replace(page, "world", "new\n").unwrap();
        assert_eq!(new, "# Page\n<!-- eval: world -->\nnew\n<!-- eval: end of world -->\nprose\n");
        assert!(replace(page, "other", "").is_err());
        let row = Row { way: "tree".into(), model: "offline".into(), scores: Default::default() };
        let table = markdown(&[row], 0);
        let columns: Vec<usize> = table.lines().map(|line| line.matches('|').count()).collect();
        assert_eq!(columns, [COLUMNS.len() + 3; 3]);
    }
}
