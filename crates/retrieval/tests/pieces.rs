//! Where pieces begin and end, and what comes with them.

use proptest::prelude::*;
use tree_agent_retrieval::{Kind, Piece, chunk, names};

fn texts<'a>(body: &'a str, pieces: &[Piece]) -> Vec<&'a str> {
    pieces.iter().map(|piece| &body[piece.range.clone()]).collect()
}

/// A sentence with what looks like an end, but is none.
fn sentence() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        4 => "[a-z]{2,9}",
        1 => prop::sample::select(vec![
            "approx. -25 °C", "e.g. this", "No. 5", "Dr. Kestrel", "1.5 mm", "-3.2", "§ 4.1", "J. Smith", "i.e. that",
            "(see vol. 2)", "Fig. 3", "vs. Others", "a.b.c", "in 2.0, say,", "`x.y`",
        ]).prop_map(str::to_owned),
    ];
    (prop::collection::vec((word, prop::sample::select(vec![" ", "\n"])), 1..30), "[.!?]").prop_map(
        |(words, end)| {
            let text: String = words.iter().map(|(word, gap)| format!("{word}{gap}")).collect();
            format!("So it {}{end}", text.trim_end())
        },
    )
}

fn lines(body: &str) -> Vec<String> {
    body.split_whitespace().map(str::to_owned).collect()
}

proptest! {
    #[test]
    fn a_piece_of_prose_begins_and_ends_at_a_sentence(
        paragraphs in prop::collection::vec(prop::collection::vec(sentence(), 1..25), 1..4),
        is_plain in any::<bool>(),
    ) {
        let body = paragraphs.iter().map(|sentences| sentences.join(" ")).collect::<Vec<_>>().join("\n\n");
        let path = if is_plain { "a.txt" } else { "a.md" };
        let mut expected = paragraphs.concat().into_iter();
        for text in texts(&body, &chunk(path, &body)) {
            let mut held = String::new();
            while held.len() < text.len() {
                let behind = text.len() - text[held.len()..].trim_start().len();
                held = text[..behind].to_owned() + &expected.next().unwrap();
            }
            prop_assert_eq!(held, text);
        }
        prop_assert!(expected.next().is_none());
    }

    #[test]
    fn items_and_rows_are_never_divided(
        items in prop::collection::vec((sentence(), any::<bool>()), 3..40),
        is_table in any::<bool>(),
    ) {
        let items: Vec<String> = items.into_iter().map(|(text, has_more)| {
            let text = text.replace('\n', if is_table { " " } else { "\n  " });
            let more = if has_more && !is_table { format!("\n\n  {}\n  - inner\n", text) } else { String::new() };
            if is_table { format!("| {text} | {} |", text.len()) } else { format!("- {text}{more}") }
        }).collect();
        let head = if is_table { "| What | Size |\n| --- | --- |\n" } else { "" };
        let body = format!("# T\n\n{head}{}\n", items.join("\n"));
        let pieces = chunk("a.md", &body);
        let held = texts(&body, &pieces);
        prop_assert_eq!(lines(&held.join("\n")), lines(&body["# T\n\n".len()..]));
        for item in &items {
            let item = item.trim_end();
            prop_assert!(held.iter().any(|text| text.contains(item)), "{} is divided: {:#?}", item, held);
        }
        for (piece, text) in pieces.iter().zip(&held).skip(1) {
            prop_assert!(text.starts_with(if is_table { "| " } else { "- So" }), "{}", text);
            prop_assert_eq!(&body[piece.head.clone()], head);
        }
    }
}

#[test]
fn a_sentence_that_is_too_long_is_cut_at_a_clause() {
    let clauses: String =
        (0..100).map(|n| format!("and the pump number {n} was inspected by somebody, ")).collect();
    let body = format!("It was cold, approx. below -25 °C today. Then {clauses}and that was all.");
    let pieces = chunk("a.md", &body);
    assert!(pieces.len() > 3);
    assert!(texts(&body, &pieces)[1..].iter().all(|text| text.starts_with("and ")));
    let word = format!("{} {}", "x".repeat(700), "y".repeat(700));
    assert_eq!(texts(&word, &chunk("a.md", &word)), word.split(' ').collect::<Vec<_>>());
}

#[test]
fn a_heading_comes_with_the_table_or_the_list_that_is_all_below_it() {
    let body = "# Prices\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n# Steps\n\n- one\n- two\n";
    let pieces = chunk("a.md", body);
    assert_eq!(
        pieces.iter().map(|piece| (&*piece.headings[0], piece.kind)).collect::<Vec<_>>(),
        [("Prices", Kind::Table), ("Steps", Kind::List)]
    );
    assert!(pieces[0].head.is_empty(), "the head is in it");
}

#[test]
fn the_head_of_a_table_is_at_most_a_kibibyte() {
    let columns: String = (0..200).map(|n| format!(" column {n} |")).collect();
    let rows: String = (0..90).map(|n| format!("| row {n} of a table that is long |\n")).collect();
    let body = format!("|{columns}\n|{}\n{rows}", "---|".repeat(200));
    let pieces = chunk("a.md", &body);
    let head = &body[pieces.last().unwrap().head.clone()];
    assert!(
        head.starts_with("| column 0 |") && head.ends_with("| column 85 ") && head.len() <= 1024,
        "{head}"
    );
}

#[test]
fn a_record_of_json_is_whole_and_has_its_path() {
    let records: Vec<String> = (0..9_000)
        .map(|n| format!(r#"{{"id":"VS-{n:05}","name":"Vessel \"{n}\", [2]","dues":{n}}}"#))
        .collect();
    let body = format!(
        r#"{{"vessels":[{}],"limits":{{"maxDepth":4,"notes":["{}"]}},"a b":{{"c":[[1,2],"{}"]}},"end":null}}"#,
        records.join(","),
        "A long note. ".repeat(110),
        "x, ".repeat(500),
    );
    let pieces = chunk("fleet.json", &body);
    let texts = texts(&body, &pieces);
    assert!(texts.iter().all(|text| text.len() <= 1_200));
    let place = |text: &str| {
        let at =
            texts.iter().position(|held| held.contains(text)).unwrap_or_else(|| panic!("{text} is divided"));
        (pieces[at].headings.join(" › "), texts[at])
    };
    for n in [0, 7_400, 8_999] {
        let (path, text) = place(&records[n]);
        let (first, last) =
            path.strip_prefix("vessels[").unwrap().strip_suffix(']').unwrap().split_once('…').unwrap();
        assert!((first.parse().unwrap()..=last.parse().unwrap()).contains(&n), "{path}");
        assert!(text.starts_with(r#"{"id":"VS-"#) && text.ends_with('}'), "{text}");
    }
    assert_eq!(place(r#""maxDepth":4"#).0, "limits.maxDepth");
    assert_eq!(place("A long note. A").0, "limits.notes[0]");
    assert_eq!(place("[1,2]").0, r#"["a b"].c[0]"#);
    assert_eq!(place(r#""end":null"#).0, "end");
    assert_eq!(texts.concat().matches("VS-").count(), 9_000, "nothing is there twice");
}

#[test]
fn small_and_broken_json_is_kept() {
    let small = r#"{"a": [1, 2], "b": "c"}"#;
    assert_eq!(texts(small, &chunk("a.json", small)), [small]);
    let broken = format!("// A comment\n{small}\n");
    assert_eq!(texts(&broken, &chunk("a.json", &broken)), [broken.trim()]);
    let long: String = (0..200).map(|n| format!("  {{\"n\": {n}}},\n")).collect();
    let cut_off = format!("[\n{long}  {{\"n\": \"begun");
    let held = texts(&cut_off, &chunk("a.json", &cut_off)).concat();
    assert_eq!((held.matches("\"n\"").count(), held.ends_with("begun")), (201, true));
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    chunk("a.json", &deep);
}

#[test]
fn code_has_the_names_of_what_it_defines() {
    let rust = "//! Leases.\n\npub struct Lease<T> {\n    owner: T,\n}\n\n\
                impl<T> Lease<T> {\n    fn inner() {}\n}\n\npub(crate) const fn renew() {}\n";
    assert_eq!(names("a.rs", rust), ["struct Lease", "impl Lease", "renew"]);
    for (path, line, name) in [
        ("a.php", "function helper_7($value) {", "helper_7"),
        ("a.php", "abstract class Cart extends Base", "class Cart"),
        ("a.inc", "interface Payable", "interface Payable"),
        ("a.py", "async def main():", "main"),
        ("a.py", "class Lease:", "class Lease"),
        ("a.go", "func (s *Store) Put(key string) error {", "Put"),
        ("a.go", "type Store struct {", "type Store"),
        ("a.js", "export default function* walk() {", "walk"),
        ("a.ts", "export const LIMIT = 3;", "const LIMIT"),
        ("a.sql", "CREATE TABLE IF NOT EXISTS runs (", "table runs"),
        ("a.sql", "create or replace function tick() returns", "tick"),
        ("a.rb", "module Lease", "module Lease"),
        ("a.lua", "local function go(x)", "go"),
        ("a.cpp", "enum class Colour : int {", "class Colour"),
    ] {
        assert_eq!(names(path, line), [name], "{line}");
    }
    for (path, line) in [
        ("a.py", "class of things that matter"),
        ("a.py", "    def inner(self):"),
        ("a.yaml", "type: object"),
        ("a.toml", "type = \"x\""),
        ("a.rs", "// fn old() {}"),
        ("a.py", "type of the value."),
        ("a.md", "function x() {"),
    ] {
        assert_eq!(names(path, line), [] as [&str; 0], "{line}");
    }
    let body: String = (0..64)
        .map(|n| {
            format!(
                "/** {} */\nfunction helper_{n}() {{\n\n    return {n};\n}}\n\n",
                "Formats a value. ".repeat(20)
            )
        })
        .collect();
    let pieces = chunk("helpers.php", &body);
    let defined: Vec<String> =
        pieces.iter().flat_map(|piece| piece.headings[0].split(", ").map(str::to_owned)).collect();
    assert_eq!(defined, names("helpers.php", &body));
    let long = format!("fn long() {{\n{}}}\n", "    step();\n\n".repeat(300));
    assert!(chunk("a.rs", &long).iter().all(|piece| piece.headings == ["long"]));
    assert!(
        texts(&long, &chunk("a.rs", &long)).iter().all(|text| text.ends_with(['}', ';'])),
        "cut between lines"
    );
}

#[test]
fn a_large_document_is_cut_in_time() {
    let start = std::time::Instant::now();
    for (path, body) in [
        ("a.md", "# T\n\nText of it.\n\n".repeat(20_000)),
        ("a.txt", "A sentence of no. 5. ".repeat(50_000)),
        ("a.txt", "a. ".repeat(100_000)),
        ("a.adoc", "a::\n+\n----\nb\n\n".repeat(20_000)),
        ("a.adoc", (4..3_000).map(|n| "-".repeat(n) + "\n\n").collect()),
        ("a.rst", ".. note::\n\n  x::\n\n    y\n\n".repeat(20_000)),
        ("a.1", format!("A(1) x A(1)\n{}", "       -a     b\n".repeat(20_000))),
        ("a.json", format!("[{}1]", "{\"a\":[1,2,3]},".repeat(100_000))),
        ("a.json", "x".repeat(1_000_000)),
        ("a.rs", "fn a() {}\n\n".repeat(20_000)),
    ] {
        chunk(path, &body);
        let took = start.elapsed();
        assert!(took.as_secs() < 60, "{path} {} after {took:?}", &body[..20]);
    }
}
