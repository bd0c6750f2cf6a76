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
