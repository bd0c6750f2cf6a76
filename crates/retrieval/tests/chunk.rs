//! Pieces of documents.

use proptest::prelude::*;
use tree_agent_retrieval::{Kind, PIECE_BYTES, PIECES, Passage, Piece, Query, chunk, terms};

fn texts<'a>(body: &'a str, pieces: &[Piece]) -> Vec<&'a str> {
    pieces.iter().map(|piece| &body[piece.range.clone()]).collect()
}

/// Pieces are in order, apart, short enough, and hold something.
fn check(path: &str, body: &str) -> Vec<Piece> {
    let pieces = chunk(path, body);
    let mut end = 0;
    for piece in &pieces {
        assert!(
            piece.range.start >= end && piece.range.len() <= PIECE_BYTES,
            "{:?} after {end}",
            piece.range
        );
        let text = &body[piece.range.clone()];
        assert!(!text.is_empty() && text.trim() == text, "{text:?}");
        assert!(piece.headings.iter().all(|heading| heading.len() <= 200));
        end = piece.range.end;
        let Piece { headings, head, kind, .. } = piece;
        let head = &body[head.clone()];
        Passage { path, title: "", headings, kind: *kind, head, text, offset: piece.range.start }.terms();
    }
    pieces
}

proptest! {
    #[test]
    fn any_text_is_divided_in_order(body in ".{0,400}", path in "[a-z]{0,3}(\\.md|\\.txt|\\.rs)?") {
        check(&path, &body);
        prop_assert!(terms(&body).iter().all(|term| !term.is_empty() && term.chars().all(char::is_alphanumeric)));
        Query::new(&body);
    }

    #[test]
    fn any_markdown_is_divided_in_order(parts in prop::collection::vec(
        prop_oneof![
            Just("# "), Just("\n\n"), Just("- "), Just("| a | b |\n|---|---|\n"), Just("```\n"), Just("> "),
            Just("---\n"), Just("<div>"), Just("    "), Just("Leads:\n"), Just("é“"), Just("word "), Just("\r\n"),
            Just("[^1]: "), Just("1. "), Just("A longer sentence stands here, which says little. "),
        ],
        0..200,
    )) {
        check("a.md", &parts.concat());
    }

    #[test]
    fn every_word_is_in_a_piece(words in prop::collection::vec("[a-zé]{1,9}[.:]?(\n\n| |\n)", 0..400), ending in 0..3) {
        let (body, path) = (words.concat(), ["a.md", "a.txt", "a.py"][ending as usize]);
        let held = texts(&body, &check(path, &body)).join(" ");
        prop_assert_eq!(held.split_whitespace().collect::<Vec<_>>(), body.split_whitespace().collect::<Vec<_>>());
    }
}

#[test]
fn many_short_sections_are_put_together() {
    let body: String = (0..30_000).map(|n| format!("# s{n}\n\nword{n}x\n\n")).collect();
    let pieces = check("a.md", &body);
    assert!(pieces.len() <= PIECES, "{}", pieces.len());
    let held = texts(&body, &pieces).join(" ");
    assert!((0..30_000).all(|n| held.contains(&format!("word{n}x"))));
}

#[test]
fn short_paragraphs_join_below_one_heading() {
    let body = "# A\n\nOne.\n\nTwo.\n\n## B `x`\n\nThree.\n\n## C\n\n# D\n";
    let pieces = check("a.md", body);
    assert_eq!(texts(body, &pieces), ["One.\n\nTwo.", "Three.", "## C", "# D"]);
    assert_eq!(pieces[1].headings, ["A", "B x"]);
    assert_eq!(pieces[2].headings, ["A", "C"]);
}

#[test]
fn a_list_stays_with_the_sentence_that_leads_to_it() {
    let lead = format!("{} Do this:", "A sentence of some length. ".repeat(9));
    let body = format!("# Install\n\n{lead}\n\n1. one\n2. two\n");
    let pieces = check("a.md", &body);
    assert_eq!((pieces.len(), pieces[0].kind), (1, Kind::List));

    let items: String = (0..60).map(|n| format!("- The item {n} says something.\n")).collect();
    let body = format!("# Install\n\nDo this:\n\n{items}");
    let pieces = check("a.md", &body);
    assert!(pieces.len() > 1);
    assert_eq!(pieces[1].headings, ["Install", "Do this:"]);
    assert!(texts(&body, &pieces)[1..].iter().all(|text| text.starts_with("- The item")));
}

#[test]
fn rows_code_and_front_matter_are_kept_whole() {
    let rows: String = (0..80).map(|n| format!("| setting {n} | its value |\n")).collect();
    let code = "fn a() {\n\n    b();\n\n}\n".repeat(20);
    let body =
        format!("---\ntitle: X\n---\n\n# T\n\n| a | b |\n|---|---|\n{rows}\n```rust\n{code}```\n\n> Said.\n");
    let pieces = check("a.md", &body);
    let texts = texts(&body, &pieces);
    assert!(texts[0].starts_with("---") && texts[0].ends_with("---"), "{texts:?}");
    let tables: Vec<&&str> = texts.iter().filter(|text| text.starts_with('|')).collect();
    assert!(tables.len() > 1 && tables.iter().all(|text| text.ends_with('|')));
    assert!(pieces.iter().any(|piece| piece.kind == Kind::Code));
    let file = "fn one() {\n    a();\n\n    b();\n}\n\n".to_owned() + &"// A comment of a line.\n".repeat(30);
    for path in ["a.rs", "src/a.mts", "Dockerfile"] {
        assert_eq!(chunk(path, &file)[0].kind, Kind::Code, "{path}");
    }
    assert!(file[chunk("a.rs", &file)[0].range.clone()].contains("b();\n}"));
}

#[test]
fn a_page_ends_a_piece_and_its_mark_is_in_none() {
    let body = "<!-- Page 1 -->\n\n# Pumps\n\nOne.\n\n<!-- Page 2 -->\n\nTwo.\n\n<!-- Page 3 -->\n";
    let pieces = check("pumps.pdf", body);
    assert_eq!(texts(body, &pieces), ["One.", "Two."]);
    assert!(pieces.iter().all(|piece| piece.headings == ["Pumps"]));
}

#[test]
fn what_is_too_long_is_cut() {
    for (path, body) in [
        ("a.md", "x".repeat(600_000)),
        ("a.md", "é ".repeat(200_000)),
        ("a.csv", "a,b,c\n".repeat(100_000)),
        ("a.md", "| a |\n|---|\n".to_owned() + &"| b |\n".repeat(100_000)),
        ("a.md", "> ".repeat(20_000) + "- "),
        ("a.md", "[".repeat(50_000)),
        ("a.bin", "\u{1}\u{fffd}<&\\".repeat(50_000)),
        ("a.md", "<div>".repeat(20_000)),
    ] {
        assert!(!check(path, &body).is_empty(), "{path} {:?}", &body[..20]);
    }
}
