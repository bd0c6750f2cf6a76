//! What the offline model finds, and what it says if it finds nothing or does not get to a step.

use super::*;

/// The sentence counts the documents of the context, and claims nothing of a single word.
#[tokio::test]
async fn nothing_found_is_said_of_so_many_documents() {
    for (documents, objective) in
        [(1, "Where is the zeppelin?"), (300, "Where do a zeppelin and a dirigible land?")]
    {
        let runner = Runner::new(objective, 1);
        let project = runner.documents.add_project("log");
        let runner = Runner { context: RunContext::project(project), ..runner };
        for i in 0..documents {
            runner.documents.add_source(project, &format!("log/{i:03}.md"), "# Log\n\nNothing of note.");
        }
        let done = runner.run().await;
        let named = if documents == 1 {
            "zeppelin in 1 document."
        } else {
            "zeppelin, dirigible and land in 300 documents."
        };
        let said = format!("Nothing was found about {named}");
        assert!(done.document.contains(&said), "{}", done.document);
    }
    // A step that reads one document speaks of that one.
    let runner = Runner::new("pipe", 1);
    let mut call = context(&runner, "What tides.md says about pipe");
    (call.depth, call.success_criteria) =
        (1, vec!["Quotes passages about pipe".into(), "Reads `operations/tides.md`".into()]);
    let leaf = ExecuteInput { task: None, call, earlier: vec![] };
    let (output, _) = runner.call("execute", async |io| Offline.execute(&leaf, io).await).await;
    assert_eq!(output.result.summary, "Nothing was found about pipe in 1 document.");
}

/// The documents of the others are read.
#[tokio::test]
async fn a_project_whose_documents_may_not_be_read_is_searched_all_the_same() {
    let mut runner = Runner::new("How do cranes in storms hold a zeppelin or a dirigible?", 1);
    runner.denies = true;
    let closed = runner.documents.add_project("closed");
    runner.documents.add_source(closed, "air.md", "# Air\n\nThe zeppelin is moored.");
    let denied_tools = vec!["read_document".to_owned()];
    runner.documents.set_rules(closed, ToolRules { denied_tools, ..ToolRules::default() });
    runner.context = RunContext::default();
    let done = runner.run().await;
    assert!(done.document.contains("Cranes stop at 18 metres"), "{}", done.document);
}

/// Without a search, what was read is quoted.
#[tokio::test]
async fn a_project_that_offers_no_search_is_read_all_the_same() {
    let mut runner = Runner::new("How do cranes in storms hold a zeppelin?", 1);
    runner.denies = true;
    let denied_tools = vec!["search_documents".to_owned()];
    runner
        .documents
        .set_rules(runner.context.project_ids[0], ToolRules { denied_tools, ..ToolRules::default() });
    let done = runner.run().await;
    assert!(done.document.contains("Cranes stop at 18 metres"), "{}", done.document);
}

/// However a document or a question spells a word, in what is read and in what is searched.
#[tokio::test]
async fn a_word_is_quoted_however_it_is_spelled() {
    for written in [
        "me\u{301}te\u{301}ore",
        "ｍéｔéｏｒｅ",
        "mé\u{ad}té\u{ad}ore",
        "mété\u{200b}ore",
        "mété**ore**",
        "m&eacute;t&eacute;ore",
        "mété[ore](https://example.com/x)",
        "[mété](x)ore",
    ] {
        for objective in ["What does the météore do?".to_owned(), format!("What does the {written} do?")] {
            for documents in [1, 250] {
                let runner = Runner::new(&objective, 1);
                let project = runner.context.project_ids[0];
                for i in 1..documents {
                    runner.documents.add_source(
                        project,
                        &format!("log/{i:03}.md"),
                        "# Log\n\nNothing of note.",
                    );
                }
                let body = format!("# Sky\n\nAt night the {written} falls into the sea.");
                runner.documents.add_source(project, "sky.md", &body);
                let done = runner.run().await;
                assert!(
                    done.document.contains(&format!("the {written} falls")),
                    "{written:?}: {}",
                    done.document
                );
            }
        }
    }
}

/// Marks that writers leave out, and scripts that put no spaces between words.
#[tokio::test]
async fn a_word_of_another_script_is_quoted() {
    for (word, body) in [
        ("كتاب", "هذا كِتَابٌ جديد."),
        ("كِتَاب", "هذا كتـــاب جديد."),
        ("שלום", "אמרתי שָׁלוֹם לכולם."),
        ("ꦗꦮ", "ꦧꦱꦗꦮ"),
        ("ᬩᬮᬶ", "ᬩᬲᬩᬮᬶ"),
        ("ꪒꪾ", "ꪼꪕꪒꪾ"),
        ("ㄇㄈ", "ㄅㄆㄇㄈ"),
        ("हिन्दी", "यह हिन्दी है।"),
    ] {
        for documents in [1, 250] {
            let runner = Runner::new(&format!("What does {word} mean?"), 1);
            let project = runner.context.project_ids[0];
            for i in 1..documents {
                runner.documents.add_source(project, &format!("log/{i:03}.md"), "# Log\n\nNothing of note.");
            }
            runner.documents.add_source(project, "word.md", &format!("# Page\n\n{body}"));
            let done = runner.run().await;
            assert!(done.document.contains(body), "{word}: {}", done.document);
        }
    }
}

#[tokio::test]
async fn a_word_of_a_heading_or_a_path_leads_to_what_stands_there() {
    for (path, body) in [
        ("a.md", "# The frobnicator\n\nOil it once a week, and never when it rains."),
        ("frobnicator.md", "Oil it once a week, and never when it rains."),
    ] {
        let runner = Runner::new("What does the frobnicator need?", 1);
        runner.documents.add_source(runner.context.project_ids[0], path, body);
        let done = runner.run().await;
        assert!(done.document.contains("- “Oil it once a week"), "{path}: {}", done.document);
        assert!(!done.document.contains("Nothing was found"), "{path}: {}", done.document);
    }
}

#[tokio::test]
async fn a_document_that_is_renamed_before_it_is_read_is_found() {
    let body = "The frobnix turns the crank every morning.";
    let budgets = Budgets { max_depth: 0, ..Budgets::default() };
    for added in [Some(("renamed.md", body)), None] {
        let objective = "What turns the frobnix crank?";
        let runner = Runner {
            added,
            removed: Some("crank.md"),
            budgets: budgets.clone(),
            ..Runner::new(objective, 1)
        };
        runner.documents.add_source(runner.context.project_ids[0], "crank.md", body);
        let done = runner.run().await;
        assert_eq!(done.document.contains(body), added.is_some(), "{}", done.document);
        assert!(!done.document.contains("no document that can be read"), "{}", done.document);
    }
}

/// Neither can all documents be read, nor can any be searched for.
#[tokio::test]
async fn documents_that_cannot_be_searched_are_read_as_far_as_they_may_be() {
    for (tool_calls, found) in [(7, false), (8, true), (60, true)] {
        let budgets = Budgets { max_tool_calls: Some(tool_calls), ..Budgets::default() };
        let runner = Runner { budgets, denies: true, ..Runner::new("Where is the frobnix?", 1) };
        let project = runner.documents.add_project("closed");
        let runner = Runner { context: RunContext::project(project), ..runner };
        runner.documents.add_source(project, "a.md", "The barge carries gravel.");
        runner.documents.add_source(project, "b.md", "The frobnix turns the crank.");
        let denied_tools = vec!["search_documents".to_owned()];
        runner.documents.set_rules(project, ToolRules { denied_tools, ..ToolRules::default() });
        let done = runner.run().await;
        assert_eq!(done.document.contains("The frobnix turns the crank."), found, "{}", done.document);
        assert!(!done.document.contains("no document that can be read"), "{tool_calls}: {}", done.document);
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

    let mut runner =
        Runner::new("the pilots; the cranes; the tides; zeppelin d1; zeppelin d2; zeppelin d3", 3);
    (runner.budgets.max_steps_per_band, runner.budgets.max_bands_per_plan) = (2, 2);
    runner.cuts = Some("What is said about zeppelin d2");
    let done = runner.run().await;
    assert_eq!(done.document.matches("- Not done: What is said about zeppelin d2.").count(), 1);

    let mut runner = Runner::new("What happens in a storm: cranes, pilots, fairway and mooring lines?", 3);
    let steps = runner.run().await.tree.lines().count() - 1;
    runner.cuts = Some("pilots.md");
    let done = runner.run().await;
    let said = format!("- Not done: 1 of {steps} planned steps.");
    assert!(done.document.contains(&said), "{}\n{}", done.tree, done.document);
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
