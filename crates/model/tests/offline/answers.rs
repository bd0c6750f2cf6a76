//! What an answer shows, for each form of text and of question.

use super::{Runner, check_quotations, met, quoted};

#[tokio::test]
async fn what_is_not_there_is_said_first() {
    for question in [
        // A name that no document holds.
        "Which pilots does the Braxtec crane need?",
        // A year, and a kind of thing, that no passage gives.
        "What did a crane cost in 1987?",
        "In which year was the first pilot hired?",
        "How do submarines refuel plutonium?",
    ] {
        let done = Runner::new(question, 1).run().await;
        let first = done.document.lines().nth(2).unwrap();
        assert!(first.starts_with("**Not found: "), "{}", done.document);
        assert!(quoted(&done.document).len() <= 3 && !met(&done), "{}", done.document);
        assert_eq!(done.tree.lines().count(), 1);
    }
    // A title is no list of names.
    let title = Runner::new("When May A Pilot Refuse Quickly", 1).run().await;
    assert!(!title.document.contains("Not found"), "{}", title.document);
    let named = Runner::new("Which pilots does the Braxtec crane need?", 1).run().await;
    assert!(
        named.document.contains("Not found: no passage that was found names “Braxtec”."),
        "{}",
        named.document
    );
    let empty = Runner::new("What is the tidal range?", 1);
    for path in super::corpus().keys() {
        empty.documents.remove_source(empty.context.project_ids[0], path);
    }
    assert!(empty.run().await.document.contains("Not found: "));
}

#[tokio::test]
async fn each_clause_of_a_question_is_answered() {
    let runner = Runner::new("When may a pilot refuse? And what does a crane cost?", 1);
    let done = runner.run().await;
    let first: String = check_quotations(&runner, &done).into_iter().take(3).map(|(text, _)| text).collect();
    assert!(
        first.contains("A pilot may refuse") && first.to_lowercase().contains("crane"),
        "{}",
        done.document
    );
}

#[tokio::test]
async fn a_comparison_shows_both_sides() {
    let runner = Runner::new("Compare the gribble with the teredo", 1);
    for i in 0..9 {
        runner.add(
            &format!("gribble/{i}.md"),
            &format!("# Gribble {i}\n\nThe gribble, gribble {i}, eats wood.\n"),
        );
    }
    runner.add(
        "worm.md",
        &format!("# Worm\n\nThe teredo is a clam. {}\n", "It lives in timber for years. ".repeat(9)),
    );
    let quoted = check_quotations(&runner, &runner.run().await);
    let first: String = quoted.into_iter().take(3).map(|(text, _)| text).collect();
    assert!(first.contains("gribble") && first.contains("teredo"), "{first}");
}

#[tokio::test]
async fn lists_tables_and_code_keep_their_form() {
    let steps: String = (1..=12)
        .map(|i| format!("{i}. Turn the frobnicator valve {i} {}\n", "slowly and with care ".repeat(5)))
        .collect();
    let items: String =
        (1..=60).map(|i| format!("- The widget shop {i} sells widgets of size {i}\n")).collect();
    let rows: String =
        (1..=60).map(|i| format!("| gauge {i} | {i} bars of pressure on the inner hull |\n")).collect();
    for (path, body, question, expected) in [
        (
            "steps.md",
            format!("# Frobnicator\n\nTo stop the frobnicator:\n\n{steps}"),
            "How do I stop the frobnicator?",
            &["> To stop the frobnicator:\n>\n> 1. Turn", "> 12. Turn the frobnicator valve 12"][..],
        ),
        (
            "shops.md",
            format!("# Widgets\n\n{items}"),
            "Which widget shop sells size 3?",
            &["\n> - The widget shop 1 ", "] and ", " more\n"],
        ),
        (
            "table.md",
            format!("# Gauges\n\n| name | pressure |\n| --- | --- |\n{rows}"),
            "What pressure has gauge 58?",
            &["\n> | name | pressure |\n> | --- | --- |\n> | gauge", "| gauge 58 | 58 bars"],
        ),
        (
            "code.md",
            "# Flumen\n\nStart it like this:\n\n```sh\nmake flumen\n```\n".to_owned(),
            "How do I start flumen?",
            &["> Start it like this:\n>\n> ```sh\n> make flumen\n> ```\n>\n> [^1]\n"],
        ),
        ("main.rs", "fn flumen() {\n    start();\n}\n".to_owned(), "flumen", &["> ```text\n> fn flumen() {\n"]),
        (
            "港.md",
            "# 港の手引き\n\n嵐のとき、水先案内人は乗船を拒否できる。波の高さが三メートルを超えるときに限る。\n".to_owned(),
            "水先案内人はいつ拒否できるか",
            &["> 嵐のとき、水先案内人は乗船を拒否できる。波の高さが三メートルを超えるときに限る。 [^1]\n"],
        ),
    ] {
        let runner = Runner::new(question, 1);
        runner.add(path, &body);
        let done = runner.run().await;
        for part in expected {
            assert!(done.document.contains(part), "{path}: {part}\n{}", done.document);
        }
    }
}

#[tokio::test]
async fn an_answer_is_short_and_names_what_else_its_sources_hold() {
    let runner = Runner::new("What does the anchor weigh?", 1);
    let body: String = (0..40)
        .map(|i| {
            format!(
                "## Anchor {i}\n\nThe anchor of ship {i} weighs {i} tons. {}\n\n",
                "It is heavy. ".repeat(20)
            )
        })
        .collect();
    runner.add("anchors.md", &format!("# Anchors\n\n{body}"));
    let done = runner.run().await;
    let words: usize =
        check_quotations(&runner, &done).iter().map(|(text, _)| text.split_whitespace().count()).sum();
    assert!((200..=350).contains(&words), "{words}");
    let (_, more) = done.document.split_once("## More from the same sources\n\n").unwrap();
    assert_eq!(
        more.lines().take_while(|line| line.starts_with("- anchors.md › Anchors › Anchor ")).count(),
        5
    );
}

#[tokio::test]
async fn who_asks_for_all_learns_what_is_not_quoted() {
    let code: String = (0..64)
        .map(|i| format!("\n// Checks row {i} of the frobnicator report. {}\nfunction helper_{i}($v) {{\n    return $v;\n}}\n", "It is used by all. ".repeat(9)))
        .collect();
    for question in ["List all functions of the frobnicator helpers", "How many functions has helpers.php?"] {
        let runner = Runner::new(question, 1);
        runner.add("helpers.php", &format!("<?php\n{code}"));
        let done = runner.run().await;
        let line = done.document.lines().find(|line| line.starts_with("- helpers.php: ")).expect("a line");
        let (quoted, rest) =
            line["- helpers.php: ".len()..].split_once(" of 64 are quoted. The others: ").unwrap();
        let others = rest.split(", ").count();
        assert_eq!(quoted.parse::<usize>().unwrap() + others, 64, "{line}");
        assert!(!done.document.contains("Not found") && others > 40, "{}", done.document);
    }
}

#[tokio::test]
async fn a_row_far_down_a_table_has_its_head_and_a_record_its_path() {
    let rows: String = (0..9_000).map(|i| format!("| PX-{i:06} | {} kg |\n", i * 31 % 900)).collect();
    let records: Vec<String> =
        (0..4_000).map(|i| format!("{{\"id\":\"VS-{i:05}\",\"home\":\"Port {}\"}}", i % 211)).collect();
    for (path, body, question, expected) in [
        (
            "parcels.csv",
            format!("| Parcel | Weight |\n| --- | --- |\n{rows}"),
            "What is the weight of parcel PX-008123?",
            &["> | Parcel | Weight |\n> | --- | --- |\n> | PX-", "| PX-008123 | 713 kg |"][..],
        ),
        (
            "fleet.json",
            format!("{{\"vessels\":[{}]}}", records.join(",")),
            "What is the home of VS-03900?",
            &["### fleet.json › vessels[", "{\"id\":\"VS-03900\",\"home\":\"Port 102\"}"],
        ),
    ] {
        let runner = Runner::new(question, 1);
        runner.add(path, &body);
        let done = runner.run().await;
        for part in expected {
            assert!(
                done.document.contains(part),
                "{part}\n{}",
                &done.document[..done.document.len().min(3_000)]
            );
        }
    }
}

#[tokio::test]
async fn each_part_of_a_brief_is_searched_and_answered_under_its_heading() {
    let brief = "You are preparing a note for the harbour board. Internal documents are available.\n\n\
                 1. Pilots. When may a pilot refuse to board?\n\n2. Cranes\n   (a) What does the first hour cost?\n   \
                 (b) Which Braxtec engine do they have?\n\nKeep it to one page.\n";
    for depth in [4, 0] {
        let mut runner = Runner::new(brief, 1);
        runner.budgets.max_depth = depth;
        let done = runner.run().await;
        let sections: Vec<&str> = done.document.split("\n## ").collect();
        assert!(
            sections[0].starts_with("# Pilots; Cranes\n") && !sections[0].contains("Not found"),
            "{}",
            done.document
        );
        for (section, heading, expected) in [
            (1, "1 Pilots: When may a pilot refuse to board?\n", "A pilot may refuse to board"),
            (2, "2 (a) Cranes: What does the first hour cost?\n", "costs 900 crowns"),
            (
                3,
                "2 (b) Cranes: Which Braxtec engine do they have?\n",
                "**Not found: no passage that was found names “Braxtec”",
            ),
        ] {
            let said = sections[section];
            assert!(said.starts_with(heading) && said.contains(expected), "{depth} {said}");
        }
        check_quotations(&runner, &done);
    }
}

#[tokio::test]
async fn the_newer_vintage_leads_and_the_older_one_is_marked() {
    let report = |year: u32, tugs: u32| {
        format!("# Report {year}\n\nThe tug fleet of the Lauvik yard had {tugs} tugs.\n")
    };
    for (older, newer) in [
        ("reports/report-2023.md", "reports/report_fy2024.md"),
        ("archive/tugs.md", "reports/tugs.md"),
        ("drafts/tugs-draft.md", "tugs.md"),
    ] {
        let answer = async |question: &str| {
            let runner = Runner::new(question, 1);
            runner.add(older, &report(2023, 4));
            runner.add(newer, &report(2024, 5));
            let document = runner.run().await.document;
            document
                .lines()
                .filter_map(|line| line.strip_prefix("### ").map(str::to_owned))
                .collect::<Vec<_>>()
        };
        let places = answer("How many tugs has the fleet of the Lauvik yard?").await;
        assert!(places[0].starts_with(newer), "{places:?}");
        let marked = places.iter().find(|place| place.starts_with(older));
        assert!(marked.is_none_or(|place| place.ends_with(&format!("older than {newer}"))), "{places:?}");
        // A question about that year means it.
        if older.contains("2023") {
            let places = answer("How many tugs had the fleet of the Lauvik yard in 2023?").await;
            assert!(places.iter().all(|place| !place.contains("older than")), "{places:?}");
        }
    }
}

#[tokio::test]
async fn sentences_of_an_answer_are_in_the_language_of_the_run() {
    let runner = Runner { language: "de", ..Runner::new("Was kostet der Kran im Hafen Trossheim?", 1) };
    runner.add("kran.md", "# Kran\n\nDer Kran im Hafen kostet 3 Euro.\n");
    let document = runner.run().await.document;
    assert!(document.contains("**Nicht gefunden: keine gefundene Stelle nennt „Trossheim“.**"), "{document}");
    for english in ["Not found", "By the", "The nearest", "## More", "## Gaps"] {
        assert!(!document.contains(english), "{english}: {document}");
    }
}
