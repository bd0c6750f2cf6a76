//! Files of real programs, read as a worker reads them, against what people see in them (`tests/real/README.md`).

use std::collections::HashMap;
use std::fs;
use std::io::{Cursor, Read};
use std::path::Path;

use serde::Deserialize;
use tree_agent_contract::text::place;

use crate::{Converted, worker};

#[derive(Deserialize)]
struct Truth {
    file: String,
    words: String,
    #[serde(default)]
    cells: Vec<[String; 3]>,
    #[serde(default)]
    pages: Vec<(String, u32)>,
    #[serde(default)]
    sheets: Vec<String>,
    #[serde(default)]
    absent: Vec<String>,
    #[serde(default)]
    aside: Vec<(String, String)>,
    #[serde(default)]
    joined: Vec<String>,
}

#[test]
fn real_files_keep_their_words_cells_pages_and_sheets() {
    let truths: Vec<Truth> =
        serde_json::from_str(&fs::read_to_string(folder().join("truth.json")).unwrap()).unwrap();
    assert!(truths.len() > 40);
    let faults: Vec<String> = truths.iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Words of each part of an office file stand in the text, or in what is said of the file; what is hidden is counted.
#[test]
fn no_part_of_an_office_file_is_lost_without_a_word() {
    const NO_TEXT: &[&str] = &[
        "docProps/",
        "theme",
        "styles",
        "settings",
        "fontTable",
        "_rels",
        "[Content",
        "numbering",
        "slideMaster",
        "slideLayout",
        "notesMaster",
        "presProps",
        "viewProps",
        "tableStyles",
        "meta.xml",
        "META-INF",
        "manifest",
        "presentation.xml",
        "Configurations2",
        "webSettings",
        "layout-cache",
        "handoutMaster",
    ];
    let mut parts = 0;
    for entry in fs::read_dir(folder().join("files")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if ![".docx", ".pptx", ".odt"].iter().any(|ending| name.ends_with(ending)) {
            continue;
        }
        let read = read(&name);
        let all = format!("{} {}", read.text, read.left_out.join(" "));
        let deleted = read.left_out.iter().any(|what| what.contains("marked as deleted"));
        let mut archive = zip::ZipArchive::new(Cursor::new(fs::read(&path).unwrap())).unwrap();
        for part in archive.file_names().map(str::to_owned).collect::<Vec<_>>() {
            if NO_TEXT.iter().any(|no| part.contains(no)) || !part.ends_with(".xml") {
                continue;
            }
            let mut xml = String::new();
            archive.by_name(&part).unwrap().read_to_string(&mut xml).unwrap();
            parts += 1;
            for paragraph in xml.split('<').filter(|tag| !tag.starts_with("w:delText") || !deleted) {
                let (tag, text) = paragraph.split_once('>').unwrap_or_default();
                let is_text =
                    tag == "w:t" || tag.starts_with("w:t ") || tag == "a:t" || tag.starts_with("text:");
                let lost: Vec<_> =
                    tokens(text).into_iter().filter(|_| is_text).filter(|word| !holds(&all, word)).collect();
                assert!(
                    lost.is_empty() || deleted && part.starts_with("content"),
                    "{name}, {part}: {lost:?}"
                );
            }
        }
    }
    assert!(parts > 12, "{parts}");
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real"))
}

fn read(file: &str) -> Converted {
    let (_, extension) = file.rsplit_once('.').unwrap();
    worker::convert(extension, &fs::read(folder().join("files").join(file)).unwrap()).unwrap()
}

fn faults(truth: &Truth) -> Vec<String> {
    let read = read(&truth.file);
    let text = plain(&read.text);
    let said = format!("{text} {}", read.left_out.join(" "));
    let mut faults = Vec::new();
    let mut given: HashMap<String, usize> = HashMap::new();
    tokens(&text).into_iter().for_each(|word| *given.entry(word).or_default() += 1);
    for word in tokens(&truth.words) {
        match given.get_mut(&word) {
            Some(times @ 1..) => *times -= 1,
            _ => faults.push(format!("the word {word} is lost")),
        }
    }
    for [head, key, value] in &truth.cells {
        if !tables(&read.text).iter().any(|table| has_cell(table, head, key, value)) {
            faults.push(format!("{value} is not {head} of {key}"));
        }
    }
    for (phrase, page) in &truth.pages {
        let is_there = |(at, _): (usize, &str)| place(&read.text, at) == Some(&format!("Page {page}"));
        let first = phrase.split(' ').next().unwrap_or_default();
        let on_page = read.text.match_indices(first).filter(|hit| is_there(*hit));
        let has_phrase = |(at, _): (usize, &str)| {
            holds(&plain(&read.text[at..]).chars().take(200).collect::<String>(), phrase)
        };
        if !on_page.into_iter().any(has_phrase) {
            faults.push(format!("{phrase:?} is not on page {page}"));
        }
    }
    let sheets = truth.sheets.iter().filter(|sheet| !read.text.contains(&format!("<!-- Sheet {sheet} -->")));
    faults.extend(sheets.map(|sheet| format!("the sheet {sheet} is not marked")));
    faults.extend(
        truth.absent.iter().filter(|phrase| holds(&text, phrase)).map(|phrase| format!("{phrase:?} is text")),
    );
    for (kind, phrase) in &truth.aside {
        let is_named = holds(&said, phrase) || read.left_out.iter().any(|what| names(what, kind));
        if !is_named {
            faults.push(format!("the {kind} {phrase} is lost without a word"));
        }
    }
    faults.extend(
        truth.joined.iter().filter(|word| !text.contains(*word)).map(|word| format!("{word} is cut")),
    );
    faults.into_iter().map(|fault| format!("{}: {fault}", truth.file)).collect()
}

/// Whether a report names something of this kind.
fn names(what: &str, kind: &str) -> bool {
    what.contains(match kind {
        "hidden row" => "hidden row",
        "hidden column" => "hidden column",
        "hidden sheet" => "hidden sheet",
        "hidden slide" => "hidden slide",
        "picture" => "picture",
        "page without text" => "without text",
        "deleted text" => "marked as deleted",
        "formula without value" => "formulas of sheet",
        kind => kind,
    })
}

fn tables(text: &str) -> Vec<Vec<Vec<String>>> {
    let cells = |line: &str| {
        let line = line.replace("\\|", "\0");
        line.trim_matches('|')
            .split('|')
            .map(|cell| plain(&cell.replace('\0', "|")).trim().to_owned())
            .collect()
    };
    let lines: Vec<&str> = text.lines().collect();
    let groups = lines.chunk_by(|a, b| a.starts_with('|') == b.starts_with('|'));
    groups
        .filter(|group| group[0].starts_with('|'))
        .map(|group| group.iter().map(|line| cells(line)).collect())
        .collect()
}

/// Whether a row of the table has this key, and this value below this head.
fn has_cell(table: &[Vec<String>], head: &str, key: &str, value: &str) -> bool {
    // Dates may be written in the order of ISO.
    let turned = |wanted: &str| tokens(wanted).into_iter().rev().collect::<Vec<_>>();
    let same = |cell: &str, wanted: &str| tokens(cell) == tokens(wanted) || tokens(cell) == turned(wanted);
    table
        .iter()
        .skip(2)
        .filter(|row| row.iter().any(|cell| same(cell, key)))
        .any(|row| row.iter().zip(&table[0]).any(|(cell, name)| holds(name, head) && same(cell, value)))
}

/// Without the marks of Markdown.
fn plain(text: &str) -> String {
    text.replace("<br>", " ").replace("\\|", "|").replace("\\#", "#").replace('~', "")
}

fn tokens(text: &str) -> Vec<String> {
    let text = text.replace("&apos;", "'").replace("&amp;", "&");
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Whether the words of `phrase` stand in `text` one after the other.
fn holds(text: &str, phrase: &str) -> bool {
    let (text, phrase) = (tokens(text), tokens(phrase));
    phrase.is_empty() || text.windows(phrase.len()).any(|words| words == phrase)
}
