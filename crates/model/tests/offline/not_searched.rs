//! What the offline model says of words and steps that it did not get to.

use super::*;

/// Only the words that a task is searched by are searched for. The others are named, wherever they stand.
#[tokio::test]
async fn words_that_are_not_searched_for_are_named() {
    let words: Vec<String> = (0..17).map(|i| format!("zeppelin{i}")).collect();
    let long = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft";
    let a_long_part = format!("pilots {} zeppelin; cranes", words.join("padding ").repeat(20));
    for (objective, named) in [
        (format!("Which cranes have {}?", words.join(" ")), "“zeppelin15” and “zeppelin16”"),
        (format!("When may the pilots of the {long} refuse?"), &*format!("“{long}”")),
        (format!("pilots; cranes; {long}"), &format!("“{long}”")),
        (
            "What does the zeppelin handbook say about:\n- the pilots\n- the cranes".into(),
            "“zeppelin” and “handbook”",
        ),
        (
            "In the zeppelin manual, what is the difference between the pilots and the cranes?".into(),
            "“zeppelin”",
        ),
        ("The zeppelin came.\n1) pilots\n2) cranes\nMind the gizmo.".into(), "“zeppelin”"),
        (a_long_part, "“zeppelin”"),
    ] {
        let ended = Runner::new(&objective, 3).homework(5).await;
        let done = Runner::new(&objective, 3).run().await;
        for document in [ended.document, done.document] {
            let said =
                document.lines().find(|line| line.contains("Words of the task that no step searched for"));
            let said = said.unwrap_or_else(|| panic!("{objective}: {document}"));
            assert!(named.split(" and ").all(|word| said.contains(word)), "{objective}: {said}");
        }
    }
    // The parts share one step, or stand in one that has no room for more words.
    let many: Vec<String> = (0..30).map(|i| format!("pilots w{i}")).chain(["zeppelin".into()]).collect();
    for budgets in [1, 2] {
        let mut runner = Runner::new(&many.join("; "), 1);
        (runner.budgets.max_steps_per_band, runner.budgets.max_bands_per_plan) = (budgets, 1);
        let done = runner.run().await;
        assert!(done.document.contains("Words of the task that "), "{}", done.document);
    }
    let done = Runner::new("When may a pilot refuse?", 3).run().await;
    assert!(!done.document.contains("searched for:"), "{}", done.document);
    // Homework has no room for all parts.
    let parts: Vec<String> = (0..60).map(|i| format!("pilots w{i}")).chain(["zeppelin".into()]).collect();
    let ended = Runner::new(&parts.join("; "), 1).homework(3).await;
    assert!(!ended.last.remaining.is_empty() && ended.document.contains("Not done: "), "{}", ended.document);
}

/// The words of a part that no step answers, whatever the reason, unless another part searched for them.
#[tokio::test]
async fn words_of_a_part_that_is_not_answered_are_named() {
    let gaps = |document: &str| document.split("## Gaps").nth(1).unwrap().to_owned();
    let objective = "When may a pilot refuse?\nWhat does a zeppelin crane cost?\nHow is water delivered?";
    for fails in [false, true] {
        let mut runner = Runner::new(objective, 3);
        *(if fails { &mut runner.fail } else { &mut runner.cuts }) = Some("zeppelin");
        for document in [runner.homework(5).await.document, runner.run().await.document] {
            let gaps = gaps(&document);
            let said = "Words of the task that no step searched for: “zeppelin”, “crane” and “cost”.";
            assert!(gaps.contains(said), "{document}");
            assert!(gaps.contains("What does a zeppelin crane cost"), "{document}");
        }
    }
    // Another part searches for one of them.
    let mut runner = Runner::new("Which pilot has a zeppelin? Who pays the zeppelin and the gizmo?", 3);
    runner.cuts = Some("gizmo");
    for document in [runner.homework(5).await.document, runner.run().await.document] {
        let gaps = gaps(&document);
        let not_searched = gaps.lines().find(|line| line.contains("searched for:")).unwrap();
        assert!(not_searched.contains("“gizmo”") && !not_searched.contains("zeppelin"), "{document}");
        assert!(gaps.contains("No document contains the word “zeppelin”."), "{document}");
    }
    // What one part has no room for, another searches for.
    let words: Vec<String> = (0..15).map(|i| format!("pilot{i}")).collect();
    let runner = Runner::new(&format!("cranes {} zeppelin; the zeppelin", words.join(" ")), 3);
    for document in [runner.homework(5).await.document, runner.run().await.document] {
        assert!(!document.contains("searched for:"), "{document}");
        assert!(document.contains("“zeppelin”"), "{document}");
    }
}

/// Parts that were planned and not done, of the task itself and of its steps, and steps that were to read documents.
#[tokio::test]
async fn steps_that_are_not_done_are_named() {
    let beginning = "the handbook of the harbour ".repeat(7);
    let parts = ["pilots", "cranes", "tides"].map(|word| format!("{beginning} {word}"));
    let mut runner = Runner::new(&parts.join("; "), 3);
    runner.cuts = Some("part-3");
    let done = runner.run().await;
    assert_eq!(done.document.matches("- Not done: What is said about the handbook").count(), 1);
    assert!(done.document.contains(" searched for: “tides”"), "{}", done.document);

    let mut runner =
        Runner::new("the pilots; the cranes; the tides; zeppelin d1; zeppelin d2; zeppelin d3", 3);
    (runner.budgets.max_steps_per_band, runner.budgets.max_bands_per_plan) = (2, 2);
    runner.cuts = Some("What is said about zeppelin d2");
    let done = runner.run().await;
    assert_eq!(done.document.matches("- Not done: What is said about zeppelin d2.").count(), 1);
    assert!(done.document.contains(" searched for: “d2”."), "{}", done.document);

    let mut runner = Runner::new("What happens in a storm: cranes, pilots, fairway and mooring lines?", 3);
    let steps = runner.run().await.tree.lines().count() - 1;
    runner.cuts = Some("pilots.md");
    let done = runner.run().await;
    let said = format!("- Not done: 1 of {steps} planned steps.");
    assert!(done.document.contains(&said), "{}\n{}", done.tree, done.document);
}

/// A part that is too long for a step is cut between words: half a word is another word.
#[tokio::test]
async fn no_half_of_a_word_is_called_missing() {
    for letters in 0..12 {
        let padding = format!("{}{}", "pilot ".repeat(331), "x".repeat(letters));
        let runner = Runner::new(&format!("cranes; {padding} zeppelin Boiler-Valve zeppelin"), 3);
        for document in [runner.homework(5).await.document, runner.run().await.document] {
            let gaps = document.split("## Gaps").nth(1).unwrap();
            for quoted in gaps.split('“').skip(1).filter_map(|rest| rest.split('”').next()) {
                let is_whole = ["zeppelin", "Boiler-Valve", "x"].iter().any(|word| quoted.starts_with(word));
                assert!(is_whole, "{quoted}: {gaps}");
            }
        }
    }
}

/// A step that could make no more tool calls has not searched for its words.
#[tokio::test]
async fn words_that_could_not_be_searched_for_are_named() {
    for calls in [0, 1, 2, 3, 8, 12, 14, 16, 18, 20, 24, 30] {
        for objective in [
            "zeppelin cranes dirigible pilots",
            "Who has a zeppelin or cranes? Who has a dirigible or pilots?",
        ] {
            let mut runner = Runner::new(objective, 3);
            (runner.denies, runner.tool_calls) = (true, Some(calls));
            runner.budgets.max_tool_calls = Some(calls.max(1));
            let homework = runner.homework(4).await.document;
            for document in [homework, runner.run().await.document] {
                let gaps = document.split("## Gaps").nth(1).unwrap();
                for word in ["zeppelin", "dirigible"] {
                    let told = gaps.lines().filter(|line| line.contains(&format!("“{word}”"))).count();
                    assert_eq!(told, 1, "{calls} {objective} {word}: {document}");
                }
            }
        }
    }
}

/// A call is given the end of a scratchpad only.
#[tokio::test]
async fn notes_that_do_not_fit_are_found_out_again() {
    let tags = "cooling maintenance safety workshop overhaul hydraulics";
    let front = |body: &str| format!("---\ntags: {tags}\n---\n# Boiler\n\n{body}");
    for (documents, objective) in [
        (1, format!("Where is the boiler {tags} and the zeppelin?")),
        (3, format!("What do {tags} say of the zeppelin boiler number?")),
    ] {
        let runner = Runner::new(&objective, 3);
        let project = runner.context.project_ids[0];
        for i in 0..documents {
            let path = format!("handbook/operations/boilers/manual-of-boiler-{i}.md");
            runner.documents.add_source(
                project,
                &path,
                &front(&format!("The boiler number {i} runs at {i} bar.")),
            );
        }
        let done = runner.run().await;
        assert!(done.document.contains("The boiler number 0 runs"), "{}", done.document);
        assert!(done.document.contains("No document contains the word “zeppelin”."), "{}", done.document);
        for word in ["cooling", "overhaul", "hydraulics"] {
            assert!(done.document.contains(&format!("the word “{word}”")), "{word}: {}", done.document);
        }
    }
}

/// One look finds so many words.
#[tokio::test]
async fn words_beyond_one_look_are_looked_for_by_another() {
    let objective = "Which turbines drive machines whose furnaces heated pipelines before engines damaged gauges and \
                     a storage failure erased our database and the cafe?";
    let compounds = "Did machine-turbines, engine-furnaces, gauge-pipelines, valve-bridges or damage-storages erase \
                     the database in the cafe?";
    for objective in [objective, compounds] {
        let runner = Runner::new(objective, 3);
        let project = runner.context.project_ids[0];
        runner.documents.add_source(project, "store.md", "The data-base of the site is kept in a café.");
        for document in [runner.homework(5).await.document, runner.run().await.document] {
            for word in ["database", "cafe"] {
                let said = format!(
                    "no document with the word “{word}” as such. Similar spellings stand in store.md"
                );
                assert!(document.contains(&said), "{word}: {document}");
            }
        }
    }
}

/// Of a project that does not list its documents, search finds some.
#[tokio::test]
async fn documents_that_are_not_listed_are_found_by_search() {
    let mut runner = Runner::new("Where does the zirvane stand?", 3);
    runner.denies = true;
    let closed = runner.documents.add_project("closed");
    runner.documents.add_source(closed, "a.md", "# A\n\nThe zirvane stands in the hall.");
    let open = runner.context.project_ids[0];
    for i in 0..220 {
        runner.documents.add_source(open, &format!("log/{i:03}.md"), "# Log\n\nNothing of note.");
    }
    let denied_tools = vec!["list_documents".to_owned()];
    runner.documents.set_rules(closed, ToolRules { denied_tools, ..ToolRules::default() });
    let empty = runner.documents.add_project("empty");
    let beside_none =
        RunContext { scope: tree_agent_contract::Scope::MultiProject, project_ids: vec![closed, empty] };
    for context in [RunContext::default(), RunContext::project(closed), beside_none] {
        runner.context = context;
        for document in [runner.homework(5).await.document, runner.run().await.document] {
            assert!(document.contains("- “The zirvane stands in the hall.”"), "{document}");
            assert!(!document.contains("Nothing was found"), "{document}");
        }
    }
}
