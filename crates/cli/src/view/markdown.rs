//! Markdown on a terminal.

use crossterm::style::{Attribute, Color};
use termimad::MadSkin;

use super::paint::Palette;
use super::printable::many_lines;

/// Longer lines are hard to read.
const COLUMNS: usize = 100;
/// Before each line of a quotation.
const QUOTE_BAR: &str = "│ ";

/// `markdown` with its headings, lists, tables and code laid out in `columns`; links stay as they were written. Nothing
/// of it steers the terminal: the library reads no entities, so what was left out beforehand does not come back.
pub(crate) fn render(markdown: &str, columns: usize, palette: Palette) -> String {
    let mut skin = MadSkin::no_style();
    if palette.colour {
        // Attributes and one colour look right on any background.
        skin.bold.add_attr(Attribute::Bold);
        skin.italic.add_attr(Attribute::Italic);
        skin.inline_code.set_fg(Color::Cyan);
        skin.code_block.set_fg(Color::Cyan);
        skin.headers.iter_mut().for_each(|heading| heading.add_attr(Attribute::Bold));
    }
    let columns = columns.min(COLUMNS);
    let text = many_lines(markdown).replace('\t', "    ");
    let laid_out = |text: &str, columns: usize| skin.text(text, Some(columns)).to_string();
    let (mut out, mut block, mut is_code) = (String::new(), String::new(), false);
    // The library knows no blocks of several lines within a quotation, so what is quoted is laid out by itself.
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let quoted = line.strip_prefix('>').map(|line| line.strip_prefix(' ').unwrap_or(line));
        is_code ^= quoted.is_some_and(|line| line.trim_start().starts_with("```"));
        match quoted {
            Some(line) if !is_code && goes_on(&block, line) => {
                block.truncate(block.trim_end().len());
                block.extend([" ", line.trim_start()]);
            }
            _ => block.push_str(quoted.unwrap_or(line)),
        }
        block.push('\n');
        if lines.peek().is_none_or(|next| next.starts_with('>') != quoted.is_some()) {
            match quoted {
                None => out.push_str(&laid_out(&block, columns)),
                Some(_) => {
                    let quoted = laid_out(&block, columns.saturating_sub(2));
                    quoted
                        .lines()
                        .for_each(|line| out.extend([format!("{QUOTE_BAR}{line}").trim_end(), "\n"]));
                }
            }
            block.clear();
            is_code = false;
        }
    }
    out
}

/// Whether `line` goes on with the paragraph at the end of `block`. The library takes every line for a paragraph.
fn goes_on(block: &str, line: &str) -> bool {
    const APART: [&str; 4] = ["#", "|", "```", "<"];
    const ITEMS: [&str; 4] = ["- ", "* ", "+ ", "[^"];
    let is_text = |line: &str| !line.is_empty() && !APART.iter().any(|mark| line.starts_with(mark));
    let is_number = |(number, text): (&str, &str)| {
        text.starts_with(' ') && number.len() < 4 && number.bytes().all(|b| b.is_ascii_digit())
    };
    let (above, line) = (block.lines().next_back().unwrap_or_default(), line.trim());
    let is_item =
        ITEMS.iter().any(|mark| line.starts_with(mark)) || line.split_once(['.', ')']).is_some_and(is_number);
    is_text(above.trim()) && !above.ends_with("  ") && is_text(line) && !is_item
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;
    use tree_agent_contract::text::{steers_terminal, width};

    use super::*;

    const TEXT: &str = "# A heading that is longer than the window is wide\n\nSome **bold** text with a \
        [link](docs/a.md) and `code`, 木木木木木木木木木木.\n\n- one\n  - two\n\n\
        > Quoted **text** that\n> is long enough.\n> - one\n>   more\n> 2. two [^1]\n>\n> ```\n> a  b\n> ```\n\n\
        | service | what it owns |\n| --- | --- |\n| gateway | the only public door of them all |\n\n\
        ```sh\nmake cluster REPLICAS=2 # two of each\n```\n\nhostile \x1b[2J\u{9b}31m &#27;[31m &#x202e; \u{202e}\x07\n";

    #[test]
    fn markdown_is_laid_out_in_the_window() {
        insta::assert_snapshot!(render(TEXT, 32, Palette { colour: false }));
    }

    #[test]
    fn only_colours_and_attributes_reach_the_terminal() {
        for columns in [20, 32, 80, 500] {
            let [plain, coloured] = [false, true].map(|colour| render(TEXT, columns, Palette { colour }));
            assert_eq!(strip_str(&coloured).to_string(), plain);
            assert!(!plain.chars().any(|c| steers_terminal(c) && c != '\n'), "{plain:?}");
            assert!(plain.lines().all(|line| width(line) <= columns.min(COLUMNS)), "{columns}:\n{plain}");
            let sequences: Vec<&str> = coloured.split('\x1b').skip(1).collect();
            let is_style = |rest: &&str| {
                rest.strip_prefix('[')
                    .and_then(|rest| rest.split_once('m'))
                    .is_some_and(|(codes, _)| codes.chars().all(|c| c.is_ascii_digit() || c == ';'))
            };
            assert!(!sequences.is_empty() && sequences.iter().all(is_style), "{coloured:?}");
        }
    }
}
