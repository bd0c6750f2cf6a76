//! HTML as Markdown.

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use encoding_rs::Encoding;
use htmd::element_handler::{HandlerResult, Handlers};
use htmd::{Element, HtmlToMarkdown, Node};
use markup5ever_rcdom::NodeData;

use crate::text::{decode, tidy};
use crate::{Converted, Fault, Reason};

/// Bytes of an HTML file in which it names its encoding.
const HEAD: usize = 1024;
/// Elements that hold no text for readers.
const HIDDEN: &[&str] = &[
    "script", "style", "noscript", "template", "svg", "math", "iframe", "object", "canvas", "embed", "input",
];

/// HTML as Markdown, with its headings, lists, tables and links.
pub(crate) fn html(bytes: &[u8]) -> Result<Converted, Fault> {
    let title = Arc::new(Mutex::new(String::new()));
    let found = title.clone();
    let converter = HtmlToMarkdown::builder()
        .skip_tags(HIDDEN.to_vec())
        // Without the tags, 10 to the 6th would be 106.
        .add_handler(vec!["sub", "sup"], |handlers: &dyn Handlers, element: Element<'_>| {
            let text = handlers.walk_children(element.node).content;
            let tag = element.tag;
            Some(if text.trim().is_empty() { text.into() } else { format!("<{tag}>{text}</{tag}>").into() })
        })
        .add_handler(vec!["q"], |handlers: &dyn Handlers, element: Element<'_>| {
            Some(format!("“{}”", handlers.walk_children(element.node).content).into())
        })
        .add_handler(vec!["table"], table)
        .add_handler(vec!["title"], move |handlers: &dyn Handlers, element: Element<'_>| {
            let mut title = found.lock().unwrap_or_else(PoisonError::into_inner);
            if title.is_empty() {
                let words = handlers.walk_children(element.node).content;
                *title = plain(&words);
            }
            None
        })
        .build();
    let text = converter
        .convert(&decode(bytes, declared(bytes))?)
        .map_err(|e| Fault::new(Reason::Broken, format!("broken: {e}")))?;
    let title = title.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(Converted { title, text: tidy(&text) })
}

/// Writes a table that has headings, row by row. The library would drop headings of rows, and rows of a head but the
/// first. Other tables often serve the layout; they are text.
fn table(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let mut table = Table { handlers, is_headed: false, beside: String::new(), rows: Vec::new() };
    table.read(element.node);
    let columns = table.rows.iter().map(Vec::len).max().unwrap_or(0);
    if !table.is_headed || columns == 0 {
        return handlers.fallback(element);
    }
    // Readers ignore cells beyond those of the head.
    table.rows[0].resize(columns, String::new());
    table.rows.insert(1, vec!["---".to_owned(); columns]);
    let rows: Vec<String> = table.rows.iter().map(|row| format!("| {} |\n", row.join(" | "))).collect();
    Some(format!("\n\n{}{}\n", table.beside, rows.concat()).into())
}

/// A table that is being read.
struct Table<'a> {
    handlers: &'a dyn Handlers,
    /// It has a heading.
    is_headed: bool,
    /// Its captions, as paragraphs.
    beside: String,
    rows: Vec<Vec<String>>,
}

impl Table<'_> {
    /// Adds what is in `node`: a table, a section of it, or a row.
    fn read(&mut self, node: &Rc<Node>) {
        for child in node.children.borrow().iter() {
            let NodeData::Element { name, .. } = &child.data else { continue };
            let tag = name.local.as_ref();
            self.is_headed |= matches!(tag, "thead" | "th");
            match (tag, self.rows.last_mut()) {
                ("thead" | "tbody" | "tfoot", _) => self.read(child),
                ("tr", _) => {
                    self.rows.push(Vec::new());
                    self.read(child);
                    self.rows.pop_if(|row| row.is_empty());
                }
                ("td" | "th", Some(row)) => {
                    let text = self.handlers.handle(child).map(|cell| cell.content).unwrap_or_default();
                    row.push(text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|"));
                }
                _ => {
                    let text = self.handlers.handle(child).map(|caption| caption.content).unwrap_or_default();
                    self.beside.push_str(&format!("{}\n\n", text.trim()));
                }
            }
        }
    }
}

/// Markdown without the backslashes before punctuation, on one line.
pub(crate) fn plain(markdown: &str) -> String {
    let mut plain = String::new();
    let mut rest = markdown.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\\' || !rest.peek().is_some_and(char::is_ascii_punctuation) {
            plain.push(c);
        }
    }
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The encoding that a page names in its head.
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD)]).to_ascii_lowercase();
    let (_, label) = head.split_once("charset=")?;
    let label = label.trim_start_matches(['"', '\'']);
    let label = label.split(|c: char| !c.is_ascii_alphanumeric() && !"-_:.".contains(c)).next()?;
    Encoding::for_label(label.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_keeps_its_headings_and_links() {
        let page = "<!doctype html><html><head><title>The\n lease &amp; my_more_*</title><style>b{}</style></head><body>\
                    <h1>Leases</h1><script>alert(1)</script><p>A <b>lease</b> is <a href=\"/fence.html\">fenced</a>.</p>\
                    <h2>Time</h2><ul><li>five seconds</li></ul><svg><title>no</title></svg></body></html>";
        let converted = html(page.as_bytes()).unwrap();
        assert_eq!(converted.title, "The lease & my_more_*");
        let expected = "# Leases\n\nA **lease** is [fenced](/fence.html).\n\n## Time\n\n*   five seconds";
        assert_eq!(converted.text, expected);
    }

    #[test]
    fn superscripts_and_quotes_are_kept() {
        let page = "<p>10<sup>6</sup> of CO<sub>2</sub>, the <q>undo</q> of un<script>x</script>do";
        let text = "10<sup>6</sup> of CO<sub>2</sub>, the “undo” of undo";
        assert_eq!(html(page.as_bytes()).unwrap().text, text);
    }

    #[test]
    fn a_table_keeps_every_cell() {
        for (page, table) in [
            (
                "<table><caption>Pumps</caption><thead><tr><th>Model</th><th>Flow</th></tr></thead>\
                 <tbody><tr><th scope=row>Grundfos</th><td>12 litres</td></tr></tbody>\
                 <tfoot><tr><th>Total</th><td>27 litres</td></tr></tfoot></table>",
                "Pumps\n\n| Model | Flow |\n| --- | --- |\n| Grundfos | 12 litres |\n| Total | 27 litres |",
            ),
            (
                "<table><tr><th>Voltage<td>230 volts<tr><th>Mass<td>4 | 5 kilograms</table>",
                "| Voltage | 230 volts |\n| --- | --- |\n| Mass | 4 \\| 5 kilograms |",
            ),
            (
                "<table><thead><tr><td>Part<td>Price<tr><th>-<th>Euros</thead><tr><td>valve<td>3<td>spare</table>",
                "| Part | Price |  |\n| --- | --- | --- |\n| - | Euros |\n| valve | 3 | spare |",
            ),
            (
                "<table><tr><td><table><tr><th>in<th>side</table><td>more</table>",
                "| in | side |\n| --- | --- |\n\nmore",
            ),
        ] {
            assert_eq!(html(page.as_bytes()).unwrap().text, table, "{page}");
        }
    }

    #[test]
    fn html_is_read_in_its_encoding() {
        for (bytes, text) in [
            ("<p>grün".as_bytes().to_vec(), "grün"),
            (b"<p>gr\xfcn".to_vec(), "grün"),
            (b"<meta charset='iso-8859-7'><p>\xe1\xe2".to_vec(), "αβ"),
            (
                [&[0xff, 0xfe][..], &"<p>grün".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>()]
                    .concat(),
                "grün",
            ),
        ] {
            assert_eq!(html(&bytes).unwrap().text, text);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_of_a_page_is_lost(parts in proptest::collection::vec((0..usize::MAX, 0..3_u8), 1..60)) {
            let tags: Vec<&str> = BLOCKS.split(' ').chain(OTHERS.split(' ')).collect();
            let mut page = String::new();
            for (i, (tag, close)) in parts.iter().enumerate() {
                let tag = tags[*tag % tags.len()];
                page.push_str(&match close {
                    0 => format!("<{tag}>word{i}x</{tag}>"),
                    1 => format!("<{tag}>word{i}x "),
                    _ => format!("</{tag}>word{i}x "),
                });
            }
            let text = html(page.as_bytes()).unwrap().text;
            for i in 0..parts.len() {
                proptest::prop_assert!(text.contains(&format!("word{i}x")), "word{i}x in {page}: {text}");
            }
        }
    }

    /// Elements whose text is on lines of its own.
    const BLOCKS: &str = "address article aside blockquote center dd details dialog div dl dt fieldset figcaption figure \
        footer form h1 h2 h3 h6 header li main menu nav ol p pre section summary ul";

    /// Other elements whose text browsers show.
    const OTHERS: &str = "a abbr b bdi bdo body button caption cite code del dfn em i ins kbd label legend mark option output \
        q rp rt ruby s samp select small span strong sub sup table tbody td textarea tfoot th thead time tr \
        tt u var video font nobr br hr";
}
