//! HTML as Markdown.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use encoding_rs::Encoding;
use htmd::element_handler::{HandlerResult, Handlers};
use htmd::{Element, HtmlToMarkdown, Node};
use markup5ever_rcdom::NodeData;
use tree_agent_contract::code::is_in;

use crate::table::{Cell, Row, cell_text, further_heads, markdown, sheet};
use crate::text::{decode, tidy, without_pictures};
use crate::{Converted, Fault, Reason};

/// Bytes of an HTML file in which it names its encoding.
const HEAD: usize = 1024;
/// Elements that hold no text for readers.
const HIDDEN: &[&str] =
    &["script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "embed", "input"];
/// Elements below so many others are plain text. The library would read what is nested again at each level.
const DEPTH: usize = 100;
/// Elements within so many others are not even parsed as such: the parser looks at all open ones for each.
const OPEN: usize = 500;
/// Elements that are open until their end.
const NESTING: &str = "article aside b blockquote code details div dl em fieldset figure font form footer header i main ol \
                       section span strong sub sup table u ul";
/// A longer cell of a table without headings serves the layout.
const LAYOUT_BYTES: usize = 100;
/// Columns that a cell spans at the most, and rows.
const SPAN: usize = 100;

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
        // Without words it says nothing; some only count readers.
        .add_handler(vec!["img"], |handlers: &dyn Handlers, element: Element<'_>| {
            let alt = attribute(element.node, "alt").is_some_and(|alt| !alt.trim().is_empty());
            if alt { handlers.fallback(element) } else { None }
        })
        .add_handler(vec!["math"], |_: &dyn Handlers, element: Element<'_>| {
            Some(attribute(element.node, "alttext").unwrap_or_else(|| raw(element.node)).into())
        })
        .add_handler(vec!["table"], table)
        .add_handler(vec!["pre"], |_: &dyn Handlers, element: Element<'_>| Some(fenced(element.node).into()))
        .add_handler(vec!["title"], move |handlers: &dyn Handlers, element: Element<'_>| {
            let mut title = found.lock().unwrap_or_else(PoisonError::into_inner);
            if title.is_empty() {
                let words = handlers.walk_children(element.node).content;
                *title = plain(&words);
            }
            None
        })
        .build();
    let tree = converter
        .html_to_tree(&shallow(&decode(bytes, declared(bytes))?))
        .map_err(|e| Fault::new(Reason::Broken, format!("broken: {e}")))?;
    let left_out = prune(&tree);
    let text = converter.tree_to_markdown(&tree);
    let title = title.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(Converted { title, text: tidy(&without_pictures(&text)), left_out })
}

/// A page without the tags of elements that are nested too deeply.
fn shallow(page: &str) -> String {
    let mut shallow = String::with_capacity(page.len());
    let (mut rest, mut open) = (page, 0_usize);
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        shallow.push_str(before);
        let name = tag[1..].trim_start_matches('/');
        let name = &name[..name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len())];
        let lower = name.to_ascii_lowercase();
        // What holds no tags is taken as it is. A sign that begins no tag, such as that in a < b, hides none behind it.
        let end = match lower.as_str() {
            _ if tag.starts_with("<!--") => tag.find("-->"),
            "script" | "style" if !tag.starts_with("</") => {
                let ends = |at: &usize| {
                    tag[at + 2..].get(..name.len()).is_some_and(|end| end.eq_ignore_ascii_case(name))
                };
                tag.match_indices("</").map(|(at, _)| at).find(ends)
            }
            "" => Some(1),
            _ => tag.find('>').map(|end| end + 1),
        };
        let end = end.unwrap_or(tag.len());
        let is_nesting = is_in(NESTING, &lower);
        let is_end = tag.starts_with("</");
        let is_kept = !is_nesting || open + usize::from(!is_end) <= OPEN;
        shallow.push_str(if is_kept { &tag[..end] } else { " " });
        if is_nesting {
            open = if is_end { open.saturating_sub(1) } else { open + 1 };
        }
        rest = &tag[end..];
    }
    shallow + rest
}

/// Takes out what browsers do not show and what leads to other places, flattens what is nested deeply, and says what
/// was taken out.
fn prune(tree: &Rc<Node>) -> Vec<String> {
    let (mut hidden, mut links) = (0, 0);
    let mut todo = vec![(tree.clone(), 0, false)];
    while let Some((node, depth, is_edge)) = todo.pop() {
        let is_edge = is_edge || matches!(tag(&node), "header" | "footer" | "aside");
        let mut children = node.children.borrow_mut();
        children.retain(|child| {
            let words = |child: &Rc<Node>| raw(child).split_whitespace().count();
            if is_hidden(child) {
                hidden += words(child);
                return false;
            }
            let leads = leads(child, is_edge);
            links += if leads { words(child) } else { 0 };
            !leads
        });
        if depth == DEPTH && !children.is_empty() {
            let words: Vec<String> = children.iter().map(raw).collect();
            let text = Node::new(NodeData::Text { contents: RefCell::new(words.join(" ").into()) });
            text.parent.set(Some(Rc::downgrade(&node)));
            *children = vec![text];
        }
        todo.extend(children.iter().map(|child| (child.clone(), depth + 1, is_edge)));
    }
    let left_out = [(hidden, "words that browsers hide"), (links, "words of links to other places")];
    left_out.iter().filter(|(words, _)| *words > 0).map(|(words, what)| format!("{words} {what}")).collect()
}

/// Whether browsers do not show an element, though it holds text.
fn is_hidden(node: &Rc<Node>) -> bool {
    let style = attribute(node, "style").unwrap_or_default().to_ascii_lowercase().replace(' ', "");
    let is_closed = tag(node) == "dialog" && attribute(node, "open").is_none();
    is_closed
        || attribute(node, "hidden").is_some()
        || style.contains("display:none")
        || style.contains("visibility:hidden")
}

/// Whether an element serves only to lead to other places: navigation, the sign beside a heading, and a list of links
/// at the edge of a page.
fn leads(node: &Rc<Node>, is_edge: bool) -> bool {
    let is_sign = || matches!(raw(node).trim(), "" | "¶" | "#" | "§");
    let is_place = |to: String| !to.starts_with("mailto:") && !to.starts_with("tel:");
    let is_link = |node: &Rc<Node>| tag(node) == "a" && attribute(node, "href").is_some_and(is_place);
    match tag(node) {
        "nav" => true,
        "a" => attribute(node, "href").is_some_and(|to| to.starts_with('#')) && is_sign(),
        "ul" | "ol" if is_edge => node.children.borrow().iter().all(|item| {
            item.children.borrow().iter().all(|child| is_link(child) || raw(child).trim().is_empty())
                && (tag(item) == "li" || raw(item).trim().is_empty())
        }),
        _ => attribute(node, "role").is_some_and(|role| role == "navigation"),
    }
}

/// The name of an element; empty for other nodes.
fn tag(node: &Node) -> &str {
    match &node.data {
        NodeData::Element { name, .. } => name.local.as_ref(),
        _ => "",
    }
}

/// Whether an element holds others that stand on lines of their own.
fn holds_blocks(node: &Rc<Node>) -> bool {
    let is_block = |child: &Rc<Node>| {
        matches!(tag(child), "table" | "ul" | "ol" | "div" | "p" | "h1" | "h2" | "h3" | "img" | "form")
    };
    node.children.borrow().iter().any(|child| is_block(child) || holds_blocks(child))
}

/// The value of an attribute.
fn attribute(node: &Rc<Node>, name: &str) -> Option<String> {
    let NodeData::Element { attrs, .. } = &node.data else { return None };
    let attrs = attrs.borrow();
    attrs.iter().find(|attr| attr.name.local.as_ref() == name).map(|attr| attr.value.to_string())
}

/// All text in `node` as it stands there.
fn raw(node: &Rc<Node>) -> String {
    let mut text = String::new();
    let mut todo = vec![node.clone()];
    while let Some(node) = todo.pop() {
        match &node.data {
            NodeData::Text { contents } => text.push_str(&contents.borrow()),
            NodeData::Element { name, .. } if name.local.as_ref() == "br" => text.push('\n'),
            NodeData::Element { name, .. } if HIDDEN.contains(&name.local.as_ref()) => continue,
            _ => {}
        }
        todo.extend(node.children.borrow().iter().rev().cloned());
    }
    text
}

/// Preformatted text as a block of code.
fn fenced(node: &Rc<Node>) -> String {
    let text = raw(node);
    let ticks = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(ticks.max(2) + 1);
    let first = node.children.borrow().first().cloned();
    let classes = std::iter::once(node).chain(&first).filter_map(|node| attribute(node, "class"));
    let classes = classes.collect::<Vec<_>>().join(" ");
    let language = classes.split_whitespace().find_map(|class| class.strip_prefix("language-"));
    format!("\n\n{fence}{}\n{}\n{fence}\n\n", language.unwrap_or_default(), text.trim_matches('\n'))
}

/// Writes a table row by row. The library would drop headings of rows, and rows of a head but the first. A table
/// without headings whose cells hold more than a few words serves the layout; it is text.
fn table(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let mut table = Table {
        handlers,
        has_names: false,
        is_layout: false,
        beside: String::new(),
        rows: Vec::new(),
        is_head: Vec::new(),
        in_head: 0,
        open: Vec::new(),
    };
    table.read(element.node, false);
    table.end_row();
    // A row of one cell above the head is a title.
    let is_title = |row: &Row| row.len() > 1 && row.iter().skip(1).all(|cell| cell.is_across);
    while table.rows.len() > 2 && is_title(&table.rows[0]) {
        let title = table.rows.remove(0);
        table.is_head.remove(0);
        table.in_head = table.in_head.saturating_sub(1);
        table.beside.push_str(&format!("{}\n\n", title[0].text));
    }
    let Table { rows, beside, is_head, .. } = &table;
    let width = rows.first().map_or(0, Vec::len);
    let is_even = width > 1 && rows.len() > 1 && rows.iter().all(|row| row.len() == width);
    if rows.is_empty() || !table.has_names && (table.is_layout || !is_even) {
        return handlers.fallback(element);
    }
    if !table.has_names {
        return Some(format!("\n\n{beside}{}\n\n", sheet(rows)).into());
    }
    let heads = is_head.iter().take_while(|is_head| **is_head).count();
    // A row of names is the head. Those below it are further names if what they name is spanned above.
    let heads = if table.in_head > 0 { table.in_head } else { heads.min(1 + further_heads(rows)) };
    Some(format!("\n\n{beside}{}\n\n", markdown(rows, heads.min(rows.len()))).into())
}

/// A table that is being read.
struct Table<'a> {
    handlers: &'a dyn Handlers,
    /// It has a heading.
    has_names: bool,
    /// A cell holds more than a few words.
    is_layout: bool,
    /// Its captions, as paragraphs.
    beside: String,
    rows: Vec<Row>,
    /// For each row, whether all its cells are headings.
    is_head: Vec<bool>,
    /// Rows of its head, if that is marked.
    in_head: usize,
    /// For each column a cell that spans further rows, and how many.
    open: Vec<(usize, Cell)>,
}

impl Table<'_> {
    /// Adds what is in `node`: a table, a section of it, or a row.
    fn read(&mut self, node: &Rc<Node>, is_head: bool) {
        for child in node.children.borrow().iter() {
            let NodeData::Element { name, .. } = &child.data else { continue };
            let tag = name.local.as_ref();
            self.has_names |= matches!(tag, "thead" | "th");
            match tag {
                "thead" | "tbody" | "tfoot" => self.read(child, tag == "thead"),
                "tr" => {
                    self.end_row();
                    self.rows.push(Vec::new());
                    self.is_head.push(true);
                    self.read(child, is_head);
                    if is_head {
                        self.in_head = self.rows.len();
                    }
                }
                "td" | "th" if !self.rows.is_empty() => {
                    if let Some(is_head) = self.is_head.last_mut() {
                        *is_head &= tag == "th";
                    }
                    self.cell(child);
                }
                _ => {
                    let text = self.handlers.handle(child).map(|caption| caption.content).unwrap_or_default();
                    self.beside.push_str(&format!("{}\n\n", text.trim()));
                }
            }
        }
    }

    /// Adds a cell to the last row, once for each column that it spans.
    fn cell(&mut self, node: &Rc<Node>) {
        self.spanned();
        let text = self.handlers.handle(node).map(|cell| cell.content).unwrap_or_default();
        let lines = text.lines().filter(|line| !line.starts_with("```"));
        let cell = Cell::new(cell_text(&lines.collect::<Vec<_>>().join(" ")));
        let span = |name| {
            let number = attribute(node, name).and_then(|number| number.trim().parse().ok());
            number.unwrap_or(1_usize).clamp(1, SPAN)
        };
        let (columns, rows) = (span("colspan"), span("rowspan"));
        self.is_layout |= cell.text.len() > LAYOUT_BYTES || holds_blocks(node);
        let Some(row) = self.rows.last_mut() else { return };
        for column in 0..columns {
            let at = row.len();
            row.push(if column == 0 { cell.clone() } else { cell.again(column, 0) });
            self.open.resize(self.open.len().max(at + 1), (0, Cell::default()));
            self.open[at] = (rows - 1, cell.again(column, 1));
        }
    }

    /// Adds the cells of rows above that the next columns of the last row belong to.
    fn spanned(&mut self) {
        let Some(row) = self.rows.last_mut() else { return };
        while let Some((rows @ 1.., cell)) = self.open.get_mut(row.len()) {
            *rows -= 1;
            row.push(cell.clone());
        }
    }

    /// Ends the last row. One without cells is none.
    fn end_row(&mut self) {
        if self.rows.pop_if(|row| row.is_empty()).is_some() {
            self.is_head.pop();
            return;
        }
        let Some(row) = self.rows.last() else { return };
        for column in row.len()..self.open.len() {
            self.spanned();
            if let Some(row) = self.rows.last_mut().filter(|row| row.len() == column) {
                row.push(Cell::default());
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
                "|  |  |\n| --- | --- |\n| Voltage | 230 volts |\n| Mass | 4 \\| 5 kilograms |",
            ),
            (
                "<table><thead><tr><td>Part<td>Price<tr><th>-<th>Euros</thead><tr><td>valve<td>3<td>spare</table>",
                "| Part / - | Price / Euros |  |\n| --- | --- | --- |\n| valve | 3 | spare |",
            ),
            (
                "<table><tr><td>Model<td>Flow<tr><td>P1<td>12</table>",
                "| Model | Flow |\n| --- | --- |\n| P1 | 12 |",
            ),
            (
                "<table><tr><th colspan=2>Prices<tr><th>Item<th>Euros<tr><td>Tea<td>2</table>",
                "Prices\n\n| Item | Euros |\n| --- | --- |\n| Tea | 2 |",
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
    fn a_cell_over_several_rows_and_columns_stands_in_each() {
        let page = "<table><tr><th rowspan=2>Ferry<th colspan=2>Leaves<tr><th>first<th>last\
                    <tr><td rowspan='2'>North<td>06:20<td>19:00<tr><td>07:20<tr><td>South<td colspan=2>never</table>";
        let table = "| Ferry | Leaves / first | Leaves / last |\n| --- | --- | --- |\n\
                     | North | 06:20 | 19:00 |\n| North | 07:20 |  |\n| South | never | never |";
        assert_eq!(html(page.as_bytes()).unwrap().text, table);
    }

    #[test]
    fn what_browsers_do_not_show_is_no_text() {
        let page = "<nav>Home</nav><h1>Piers<a class=headerlink href='#piers'>¶</a></h1><p hidden>old</p>\
                    <p style='Display: none'>gone</p><ul role=navigation><li>next</ul><p>Pier 4.</p>\
                    <img alt=Map src='data:image/png;base64,AAAA'>";
        let text = "# Piers\n\nPier 4.\n\n![Map](picture)";
        assert_eq!(html(page.as_bytes()).unwrap().text, text);
    }

    #[test]
    fn preformatted_text_is_code() {
        let page =
            "<p>Run<pre class=language-sh>ls <b>-l</b>\n# all\n</pre><p>or<pre><code>a ``` b</code></pre>";
        let text = "Run\n\n```sh\nls -l\n# all\n```\n\nor\n\n````\na ``` b\n````";
        assert_eq!(html(page.as_bytes()).unwrap().text, text);
    }

    #[test]
    fn what_is_nested_deeply_keeps_its_words() {
        let page = format!("{}deep{}<h2>End</h2>", "<ul><li>x ".repeat(60_000), "</ul>".repeat(60_000));
        let text = html(page.as_bytes()).unwrap().text;
        assert!(text.contains("deep") && text.ends_with("## End"), "{}", text.len());
        assert_eq!(text.matches('x').count(), 60_000);
    }

    #[test]
    fn scripts_and_open_links_do_not_count_as_nested() {
        let scripts = "<SCRIPT>if (i<div && j>k) {}</Script><!-- <div> --><a name=x>".repeat(600);
        let page = format!("{scripts}<ul><li>one<li>two</ul><table><tr><th>A<th>B<tr><td>1<td>2</table>");
        let text = html(page.as_bytes()).unwrap().text;
        assert!(text.ends_with("*   one\n*   two\n\n| A | B |\n| --- | --- |\n| 1 | 2 |"), "{text}");
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
    const BLOCKS: &str = "address article aside blockquote center dd details div dl dt fieldset figcaption figure \
        footer form h1 h2 h3 h6 header li main menu ol p pre section summary ul";

    /// Other elements whose text browsers show.
    const OTHERS: &str = "a abbr b bdi bdo body button caption cite code del dfn em i ins kbd label legend mark option output \
        q rp rt ruby s samp select small span strong sub sup table tbody td textarea tfoot th thead time tr \
        tt u var video font nobr br hr";
}
