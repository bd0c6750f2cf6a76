//! Tables of HTML as tables of Markdown.
//!
//! The library loses cells: `td` of a row of headings, `th` of other rows, and all rows of a head but the first.

use std::rc::Rc;

use htmd::element_handler::{HandlerResult, Handlers};
use htmd::{Element, Node};
use markup5ever_rcdom::NodeData;

use super::nodes::{parent, tag};

/// Columns and rows that a cell can span. More empty cells help no reader.
const SPAN: usize = 100;

/// Writes a table that has headings. Other tables often serve the layout; they, and those within a cell, are text.
pub(super) fn table(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let mut table = Table::default();
    let is_within = std::iter::successors(parent(element.node), parent)
        .any(|node| matches!(tag(&node), Some("td" | "th")));
    if is_within || !has_headings(element.node) {
        return handlers.fallback(element);
    }
    table.read(handlers, element.node, false);
    Some(table.markdown().into())
}

#[derive(Default)]
struct Table {
    /// Captions, and whatever else stands between the rows.
    beside: Vec<String>,
    rows: Vec<Vec<String>>,
    /// The first row is of headings.
    is_headed: bool,
    /// For each column, how many of the next rows the cell above reaches into.
    reach: Vec<usize>,
}

impl Table {
    /// Adds what is in `node`: a table, or a section of it, which may be its head.
    fn read(&mut self, handlers: &dyn Handlers, node: &Rc<Node>, is_head: bool) {
        for child in node.children.borrow().iter() {
            match tag(child) {
                Some(section @ ("thead" | "tbody" | "tfoot")) => {
                    self.reach.clear();
                    self.read(handlers, child, section == "thead");
                }
                Some("tr") => self.read_row(handlers, child, is_head),
                _ => self.beside.extend(text(handlers, child)),
            }
        }
    }

    fn read_row(&mut self, handlers: &dyn Handlers, row: &Rc<Node>, is_head: bool) {
        let (mut cells, mut only_headings) = (Vec::new(), true);
        let mut reach = std::mem::take(&mut self.reach);
        for child in row.children.borrow().iter() {
            let Some(kind @ ("td" | "th")) = tag(child) else {
                self.beside.extend(text(handlers, child));
                continue;
            };
            only_headings &= kind == "th";
            while let Some(rows @ 1..) = reach.get_mut(cells.len()) {
                *rows -= 1;
                cells.push(String::new());
            }
            let (columns, rows) = (span(child, "colspan"), span(child, "rowspan"));
            reach.resize(reach.len().max(cells.len() + columns), 0);
            reach[cells.len()..cells.len() + columns].fill(rows - 1);
            cells.push(text(handlers, child).unwrap_or_default());
            cells.resize(cells.len() + columns - 1, String::new());
        }
        reach.iter_mut().skip(cells.len()).for_each(|rows| *rows = rows.saturating_sub(1));
        self.reach = reach;
        if cells.iter().all(String::is_empty) {
            return;
        }
        if self.rows.is_empty() {
            self.is_headed = is_head || only_headings;
        }
        self.rows.push(cells);
    }

    fn markdown(self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut markdown = String::from("\n\n");
        for text in self.beside {
            markdown.push_str(&text);
            markdown.push_str("\n\n");
        }
        let mut rows = self.rows.into_iter();
        if columns > 0 {
            let mut head = if self.is_headed { rows.next().unwrap_or_default() } else { Vec::new() };
            // Readers ignore cells beyond those of the head.
            head.resize(columns, String::new());
            write_row(&mut markdown, &head);
            write_row(&mut markdown, &vec!["---".to_owned(); columns]);
        }
        rows.for_each(|row| write_row(&mut markdown, &row));
        markdown.push('\n');
        markdown
    }
}

fn write_row(markdown: &mut String, cells: &[String]) {
    markdown.push('|');
    for cell in cells {
        markdown.push(' ');
        for (i, word) in cell.split_whitespace().enumerate() {
            markdown.push_str(if i > 0 { " " } else { "" });
            markdown.push_str(&word.replace('|', "\\|"));
        }
        markdown.push_str(" |");
    }
    markdown.push('\n');
}

/// What `node` says, if it says anything.
fn text(handlers: &dyn Handlers, node: &Rc<Node>) -> Option<String> {
    let text = handlers.handle(node)?.content.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Whether the table has a head or a cell that is a heading, apart from tables within its cells.
fn has_headings(node: &Rc<Node>) -> bool {
    node.children.borrow().iter().any(|child| match tag(child) {
        Some("thead" | "th") => true,
        Some("tbody" | "tfoot" | "tr") => has_headings(child),
        _ => false,
    })
}

/// How many columns or rows a cell spans.
fn span(cell: &Rc<Node>, attribute: &str) -> usize {
    let NodeData::Element { attrs, .. } = &cell.data else { return 1 };
    let attrs = attrs.borrow();
    let value = attrs.iter().find(|attr| attr.name.local.as_ref() == attribute);
    value.and_then(|attr| attr.value.trim().parse().ok()).unwrap_or(1).clamp(1, SPAN)
}

#[cfg(test)]
mod tests {
    use htmd::HtmlToMarkdown;

    use super::*;

    fn markdown(page: &str) -> String {
        let converter = HtmlToMarkdown::builder().add_handler(vec!["table"], table).build();
        converter.convert(page).unwrap().trim().to_owned()
    }

    #[test]
    fn a_table_keeps_every_cell_in_its_place() {
        for (page, table) in [
            (
                "<table><caption>Pumps</caption><thead><tr><th>Model</th><th>Flow</th></tr></thead>\
                 <tbody><tr><th scope=row>Grundfos</th><td>12 litres</td></tr></tbody>\
                 <tfoot><tr><th>Total</th><td>27 litres</td></tr></tfoot></table>",
                "Pumps\n\n| Model | Flow |\n| --- | --- |\n| Grundfos | 12 litres |\n| Total | 27 litres |",
            ),
            (
                "<table><tr><th>Voltage<td>230 volts<tr><th>Mass<td>4 | 5 kilograms</table>",
                "|  |  |\n| --- | --- |\n| Voltage | 230 volts |\n| Mass | 4 \\| 5 kilograms |",
            ),
            (
                "<table><thead><tr><td>Part<td>Price<tr><th>-<th>Euros</thead><tr><td>valve<td>3<td>spare</table>",
                "| Part | Price |  |\n| --- | --- | --- |\n| - | Euros |\n| valve | 3 | spare |",
            ),
            (
                "<table><tr><th colspan=2>Crane<th>Load<tr><td rowspan=2>tall<td>Liebherr<td>9<tr><td>Gottwald<td>8\
                 <tr><td>low<td>none</table>",
                "| Crane |  | Load |\n| --- | --- | --- |\n| tall | Liebherr | 9 |\n|  | Gottwald | 8 |\n| low | none |",
            ),
            (
                "<p>a<table><tr><th>Kind<td><table><tr><th>in<td>side</table><p>two<p>three</table>z",
                "a\n\n|  |  |\n| --- | --- |\n| Kind | in side two three |\n\nz",
            ),
        ] {
            assert_eq!(markdown(page), table, "{page}");
        }
    }

    #[test]
    fn a_span_without_bound_costs_little() {
        let page = "<table><tr><th colspan=999999999 rowspan=99999999999999999999>a<th rowspan=0>b</table>";
        let table = markdown(page);
        assert!(table.starts_with("| a |") && table.contains("| b |") && table.len() < 2_000, "{table}");
    }

    proptest::proptest! {
        #[test]
        fn no_text_of_a_table_is_lost(parts in proptest::collection::vec(0..12_usize, 1..60)) {
            const TAGS: [&str; 12] = [
                "<thead>", "<tbody>", "<tfoot>", "<tr>", "<th>", "<td>", "<td rowspan=2>", "<th colspan=3>", "</tr>",
                "<caption>", "<table>", "</table>",
            ];
            let mut page = String::from("<table>");
            for (i, part) in parts.iter().enumerate() {
                page.push_str(&format!("{}word{i}x ", TAGS[*part]));
            }
            let text = markdown(&page);
            for i in 0..parts.len() {
                proptest::prop_assert!(text.contains(&format!("word{i}x")), "word{i}x in {page}: {text}");
            }
        }
    }
}
