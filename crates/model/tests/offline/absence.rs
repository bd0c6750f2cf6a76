//! What the offline model calls missing.

use super::*;

/// Absence is a count over the whole context, not over what was read.
#[tokio::test]
async fn a_word_is_called_missing_only_when_no_document_of_a_large_context_holds_it() {
    let mut runner = Runner::new("How do cranes in storms hold a pipe or a zeppelin?", 1);
    let project = runner.context.project_ids[0];
    for i in 0..260 {
        let body = "# Log\n\nThe cranes hold in storms, as ever.";
        runner.documents.add_source(project, &format!("log/{i:03}.md"), body);
    }
    for i in 0..169 {
        let body = "# Part\n\nThis part has a pipe of steel.";
        runner.documents.add_source(project, &format!("parts/{i:03}.md"), body);
    }
    let done = runner.run().await;
    assert!(done.document.contains("No document contains the word “zeppelin”."), "{}", done.document);
    assert!(!done.document.contains("“pipe”"), "169 documents do: {}", done.document);

    // A step that reads one document says nothing of the others.
    runner.objective = "pipe".into();
    let mut call = context(&runner, "What tides.md says about pipe");
    (call.depth, call.success_criteria) =
        (1, vec!["Quotes passages about pipe".into(), "Reads `operations/tides.md`".into()]);
    let leaf = ExecuteInput { task: None, call, earlier: vec![] };
    let (output, _) = runner.call("execute", async |io| Offline.execute(&leaf, io).await).await;
    let said = output.artifacts[0].document_markdown.as_ref().unwrap();
    assert!(said.contains("Nothing was found") && !said.contains("No document contains"), "{said}");
}

/// A project that offers no search is a part of the context all the same.
#[tokio::test]
async fn a_word_of_a_project_that_is_not_searched_is_not_called_missing() {
    let mut runner = Runner::new("How do cranes in storms hold a zeppelin or a dirigible?", 1);
    let closed = runner.documents.add_project("closed");
    runner.documents.add_source(closed, "air.md", "# Air\n\nThe zeppelin is moored.");
    let denied_tools = ["list_documents", "search_documents", "read_document"].map(str::to_owned).to_vec();
    runner.documents.set_rules(closed, ToolRules { denied_tools, ..ToolRules::default() });
    runner.context = RunContext::default();
    let done = runner.run().await;
    assert!(
        done.document.contains("No document contains the word “hold” or “dirigible”."),
        "{}",
        done.document
    );
    assert!(
        done.document.contains("no document with the word “zeppelin”, but not every"),
        "{}",
        done.document
    );
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
    assert!(done.document.contains("1 document contains the word “zeppelin”"), "{}", done.document);
}

/// Without a search, what was read is quoted, and nothing is called missing.
#[tokio::test]
async fn a_project_that_offers_no_search_is_read_all_the_same() {
    let mut runner = Runner::new("How do cranes in storms hold a zeppelin?", 1);
    runner.denies = true;
    let denied_tools = vec!["search_documents".to_owned()];
    runner
        .documents
        .set_rules(runner.context.project_ids[0], ToolRules { denied_tools, ..ToolRules::default() });
    let done = runner.run().await;
    assert!(
        done.document.contains("cranes") && !done.document.contains("No document contains"),
        "{}",
        done.document
    );
}

/// However a document or a question spells a word, in what is read and in what is searched.
#[tokio::test]
async fn a_word_that_is_spelled_in_another_way_is_not_called_missing() {
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
                assert!(!done.document.contains("No document contains"), "{written:?}: {}", done.document);
            }
        }
    }
}

/// Where a word stands in a document although its letters do not stand alone there.
#[tokio::test]
async fn a_word_among_signs_escapes_and_marks_is_not_called_missing() {
    for (body, word) in [
        ("The Zirvane™ works.", "Zirvane"),
        ("The Zirvane¹,² works.", "Zirvane"),
        ("The Zirvaneª works.", "Zirvane"),
        ("The Zirvane¼ works.", "Zirvane"),
        ("The №Zirvane works.", "Zirvane"),
        ("See [plan](Quarterly%20Zirvane.md) first.", "Zirvane"),
        ("See [plan](Mu%CC%88rvak.md) first.", "Mürvak"),
        ("Kırbakkale iyi.", "KIRBAKKALE"),
        ("KIRBAKKALE iyi.", "Kırbakkale"),
        ("The Zir<wbr />vane works.", "Zirvane"),
        ("The Zir<span title=\"a > b\">vane</span> works.", "Zirvane"),
        ("The [Zir](http://x \"a ) b\")vane works.", "Zirvane"),
        ("The <em>Zir</em >vane works.", "Zirvane"),
        ("The [Z](a(b)c)irvane works.", "Zirvane"),
        ("The [Zirvane](x)next works.", "Zirvane"),
        (r#"{"name": "sm\u00f6rvak"}"#, "smörvak"),
        ("It has 10,000 parts.", "10000"),
        ("It has 10000 parts.", "10,000"),
        ("The quarterlyZirvane works.", "Zirvane"),
        ("The Zir==va==ne works.", "Zirvane"),
        ("The Zir[^1]vane works.", "Zirvane"),
    ] {
        for documents in [1, 250] {
            let runner = Runner::new(&format!("What is {word}?"), 1);
            let project = runner.context.project_ids[0];
            for i in 1..documents {
                runner.documents.add_source(project, &format!("log/{i:03}.md"), "# Log\n\nNothing of note.");
            }
            runner.documents.add_source(project, "word.md", &format!("# Page\n\n{body}"));
            let done = runner.run().await;
            assert!(!done.document.contains("No document contains"), "{word} in {body}: {}", done.document);
        }
    }
}

/// No rule of spelling finds these words. The answer says where something similar stands, and does not call them
/// missing.
#[tokio::test]
async fn a_word_in_an_unknown_spelling_is_not_called_missing() {
    for (body, word) in [
        ("The Zir-\nvane works.", "Zirvane"),
        ("The 42Zirvane works.", "Zirvane"),
        ("The Z-i-r-v-a-n-e works.", "Zirvane"),
        ("The Zirväné works.", "Zirvane"),
        ("The Z i r v a n e s work.", "zirvanes"),
        ("The kelp4 works.", "kelp"),
    ] {
        for documents in [1, 250] {
            let runner = Runner::new(&format!("What does the {word} or a zeppelin do?"), 1);
            let project = runner.context.project_ids[0];
            for i in 1..documents {
                let body = "# Log\n\nKelpies are spirits of lakes.";
                runner.documents.add_source(project, &format!("log/{i:03}.md"), body);
            }
            runner.documents.add_source(project, "word.md", &format!("# Page\n\n{body}"));
            let done = runner.run().await;
            let said = format!(
                "Search found no document with the word “{word}” as such. Similar spellings stand in word.md."
            );
            assert!(done.document.contains(&said), "{word} in {body}: {}", done.document);
            let absent = "No document contains the word “zeppelin”.";
            assert!(done.document.contains(absent), "{word} in {body}: {}", done.document);
        }
    }
}

/// If one form of a word may stand somewhere, no other form is called missing.
#[tokio::test]
async fn no_form_of_a_word_is_missing_if_another_may_stand_somewhere() {
    for documents in [1, 250] {
        for objective in [
            "What is an email? Who sends emails?",
            "What do emails and an email cost?",
            "Compare the email of Rome with the emails of Oslo",
            "email; emails; boiler-email; boiler-emails",
            "What do boiler-emails and a boiler-email cost?",
        ] {
            let runner = Runner::new(objective, 3);
            let project = runner.context.project_ids[0];
            for i in 1..documents {
                runner.documents.add_source(project, &format!("log/{i:03}.md"), "# Log\n\nNothing of note.");
            }
            runner.documents.add_source(project, "word.md", "# Page\n\nThe boiler waits for an e-mail.");
            for document in [runner.homework(5).await.document, runner.run().await.document] {
                let absent = document.split("No document contains ").skip(1);
                let mut absent = absent.filter_map(|said| said.split('.').next());
                assert!(absent.all(|words| !words.contains("email")), "{objective}: {document}");
                assert!(document.contains("Similar spellings stand in word.md"), "{objective}: {document}");
            }
        }
    }
    // The ending of a compound is one, too.
    for (asked, stands) in [
        ("e-mails", "email"),
        ("e-mailed", "email"),
        ("x-rays", "xray"),
        ("xrays", "x-ray"),
        ("add-ons", "addon"),
        ("pop-ups", "popup"),
        ("log-ins", "login"),
        ("t-shirt", "tshirts"),
        ("cafés", "café"),
        ("café", "cafes"),
        ("gates", "gate"),
        ("e-bikes", "ebike"),
        ("e-bike", "ebikes"),
        ("crepes", "crêpe"),
        ("crepe", "crêpes"),
        ("valves", "42valve"),
        ("valve", "val-\nves"),
        ("boxes", "bo-\nx"),
        ("policy", "poli-\ncies"),
        ("images", "im-\nage"),
        ("ecoles", "école"),
        ("re-used", "reuse"),
        ("e-notes", "enote"),
        ("cells", "cell7"),
        ("selling", "sell2"),
        ("cliffs", "cliff9"),
        ("pulled", "pull2"),
        ("family", "fam-\nilies"),
        ("supply", "suppl-\nies"),
        ("CPUs", "C.P.U."),
        ("APIs", "API2"),
        ("taxis", "taxi7"),
        ("agreed", "ag-\nree"),
        ("shreds", "shreddi-\nng"),
        ("die", "d.y.i.n.g."),
    ] {
        let runner = Runner::new(&format!("Who has {asked}?"), 1);
        let project = runner.context.project_ids[0];
        runner.documents.add_source(
            project,
            "word.md",
            &format!("# Page\n\nThe boiler waits for a {stands}."),
        );
        let document = runner.run().await.document;
        assert!(!document.contains("No document contains"), "{asked}, {stands}: {document}");
    }
    // Each form is searched for: here `plan`, which is folded into `plane`.
    let runner = Runner::new("Where are the plane and the plan?", 1);
    let project = runner.context.project_ids[0];
    runner.documents.add_source(project, "log.md", "---\ntags: plan\n---\n# Log\n\nAll is calm.");
    let done = runner.run().await;
    assert!(done.document.contains("1 document contains the word “plan”"), "{}", done.document);
    assert!(done.document.contains("no document with the word “plane” as such"), "{}", done.document);
}

/// Marks that writers leave out, and scripts that put no spaces between words.
#[tokio::test]
async fn a_word_of_another_script_is_not_called_missing() {
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
            assert!(!done.document.contains("No document contains"), "{word}: {}", done.document);
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
    // A heading with nothing below it.
    let runner = Runner::new("What does the frobnicator need?", 1);
    runner.documents.add_source(runner.context.project_ids[0], "a.md", "# The frobnicator");
    let done = runner.run().await;
    assert!(!done.document.contains("No passage about"), "{}", done.document);
    assert!(done.document.contains("1 document contains the word “frobnicator”"), "{}", done.document);
}

/// A word that stands where no passage is taken from, such as front matter, is not called missing.
#[tokio::test]
async fn a_word_that_only_search_finds_is_not_called_missing() {
    let runner = Runner::new("What does the frobnicator need?", 1);
    let project = runner.context.project_ids[0];
    let body = "---\ntags: frobnicator\n---\n\n# A\n\nThe boiler is warm.";
    for i in 0..5 {
        runner.documents.add_source(project, &format!("part/{i}.md"), body);
    }
    let done = runner.run().await;
    let said = "Nothing was found. 5 documents contain the word “frobnicator”, but no passage of it was quoted: part/0.md, \
                part/1.md, part/2.md and 2 more.";
    assert!(done.document.contains(said), "{}", done.document);
    assert!(!done.document.contains("No document contains"), "{}", done.document);

    // Beside a word that is quoted and one that is nowhere.
    let runner = Runner { objective: "Does a boiler need a frobnicator or a zeppelin?".into(), ..runner };
    let done = runner.run().await;
    let gaps = done.document.split("## Gaps").nth(1).unwrap();
    assert!(gaps.contains("5 documents contain the word “frobnicator”"), "{gaps}");
    assert!(gaps.contains("No document contains the word “zeppelin”."), "{gaps}");
}

/// Each thing of a comparison is looked for by a step of its own, and the step that compares them looks for nothing.
#[tokio::test]
async fn a_comparison_names_what_is_missing() {
    for (objective, missing) in [
        ("Compare the zeppelin pilots and the frobnix cranes", "“zeppelin” or “frobnix”"),
        ("Compare the pilots with the cranes in Zorblattstadt", "“Zorblattstadt”"),
        ("What is the difference between the zeppelin pilots and the cranes?", "“zeppelin”"),
    ] {
        let done = Runner::new(objective, 3).run().await;
        let said = format!("No document contains the word {missing}.");
        assert!(done.document.contains(&said), "{objective}: {}", done.document);
    }
}

/// A step judges when it searches. A document may come later: while the run works, or before a fork that keeps the
/// step.
#[tokio::test]
async fn a_word_of_a_document_that_came_after_the_steps_is_not_called_missing() {
    let objective = "What is the zirvane? What does the pilot do? What is a frobnix?";
    for (body, said) in [
        (
            "The zirvane is a wind.",
            "1 document contains the word “zirvane”, but no passage of it was quoted: new.md.",
        ),
        (
            "A zir-vane.",
            "Search found no document with the word “zirvane” as such. Similar spellings stand in new.md.",
        ),
        ("The storm.", "No document contains the word “zirvane” or “frobnix”."),
    ] {
        let runner = Runner { added: Some(("new.md", body)), ..Runner::new(objective, 1) };
        let done = runner.run().await;
        assert!(done.document.contains(said), "{body}: {}", done.document);
        assert!(done.document.contains("“frobnix”.\n"), "{}", done.document);
        // What a step said in its own words is not repeated against it.
        let is_missing = said.starts_with("No document");
        assert_eq!(done.document.contains("the word “zirvane”."), is_missing, "{}", done.document);
    }
    // A root that does the work itself, by what its planner has found out.
    let added = Some(("new.md", "The zirvane of the harbour is a wind."));
    let budgets = Budgets { max_depth: 0, ..Budgets::default() };
    let runner = Runner { added, budgets, ..Runner::new("What is the zirvane of the harbour?", 1) };
    let done = runner.run().await;
    assert!(done.document.contains("“The zirvane of the harbour is a wind.”"), "{}", done.document);
    assert!(!done.document.contains("No document contains"), "{}", done.document);
    // What search finds and the letters do not show.
    let objective = "What does the pilot do? What is a dirigible-tank? What is zirvaning?";
    let added = Some(("new.md", "The tank of the dirigible leaks. They zirvane at night."));
    let done = Runner { added, ..Runner::new(objective, 1) }.run().await;
    assert!(!done.document.contains("No document contains"), "{}", done.document);
    // What was spelled differently before.
    for (objective, depth) in [
        ("What is the zirvanegate? What does the pilot do? What is a frobnix? What is a dirigible?", 3),
        ("What is the zirvanegate? What does the pilot do?", 3),
        ("What is the zirvanegate of the harbour?", 0),
        ("What is a zirvanegate?", 0),
        ("What is a zirvanegate?", 3),
    ] {
        let budgets =
            Budgets { max_depth: depth, max_bands_per_plan: 1, max_steps_per_band: 2, ..Budgets::default() };
        let added = Some(("new.md", "# New\n\nThe zirvanegate of the harbour is blue."));
        let runner = Runner { added, budgets, ..Runner::new(objective, 1) };
        runner.documents.add_source(
            runner.context.project_ids[0],
            "old.md",
            "An item oldzirvanegater is here.",
        );
        let done = runner.run().await;
        assert!(!done.document.contains("Search found no document"), "{objective}: {}", done.document);
        assert!(done.document.contains("zirvanegate"), "{objective}: {}", done.document);
    }
    // Words with which one look would exceed the length of a query.
    let long = |n: usize| format!("{}{n}zq", "abcdefghij".repeat(5));
    let objective = (0..16).map(long).collect::<Vec<_>>().join(" ");
    let done = Runner::new(&format!("What is {objective}?"), 1).run().await;
    assert!(done.document.contains("No document contains the word"), "{}", done.document);
    // Steps below steps.
    let objective = "What is the zirvane? What does the pilot do? What is a frobnix? What is a dirigible?";
    let budgets = Budgets { max_bands_per_plan: 1, max_steps_per_band: 2, ..Budgets::default() };
    let added = Some(("new.md", "Zirvane, frobnix, dirigible."));
    let done = Runner { added, budgets, ..Runner::new(objective, 1) }.run().await;
    assert!(done.tree.contains("    - "), "{}", done.tree);
    assert!(!done.document.contains("No document contains"), "{}", done.document);
    assert!(done.document.contains("1 document contains the word “frobnix”"), "{}", done.document);
}

/// Steps have missed words that are folded into one.
#[tokio::test]
async fn a_form_that_came_after_the_steps_is_not_called_missing() {
    for (objective, form, body) in [
        ("Who did lose the zirvane; where is the loss of quoxle", "loss", "The loss is large."),
        ("What is a zirvane car; who gives quoxle care", "care", "Take care."),
        ("What is a zirvane policy; what are quoxle policies", "policies", "Many policies."),
    ] {
        let done = Runner { added: Some(("new.md", body)), ..Runner::new(objective, 1) }.run().await;
        let absent = done.document.split("No document contains ").skip(1);
        let mut absent = absent.filter_map(|said| said.split('.').next());
        assert!(absent.all(|words| !words.contains(&format!("“{form}”"))), "{objective}: {}", done.document);
        assert!(done.document.contains("“quoxle”"), "{objective}: {}", done.document);
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
        for wrong in ["no document that can be read", "No document contains"] {
            assert!(!done.document.contains(wrong), "{tool_calls}: {}", done.document);
        }
    }
}

/// If no document holds all words of a query, search counts those that hold some of them.
#[tokio::test]
async fn a_compound_of_which_a_part_is_missing_is_missing() {
    for word in
        ["zeppelin-cranes", "cranes-zeppelin", "zeppelin_cranes", "zeppelin.cranes", "zep-pelin-cranes"]
    {
        let done = Runner::new(&format!("What is {word}?"), 1).run().await;
        let said = format!("No document contains the word “{word}”.");
        assert!(done.document.contains(&said), "{word}: {}", done.document);
    }
    // Documents hold each part, and one holds both, but not as one word.
    let runner = Runner::new("What is boiler-valve?", 1);
    let project = runner.context.project_ids[0];
    for (path, body) in
        [("a.md", "The boiler."), ("b.md", "The valve."), ("c.md", "The valve of the boiler.")]
    {
        runner.documents.add_source(project, path, body);
    }
    let said = "1 document has the words of “boiler-valve”, but no passage of it was quoted: c.md.";
    let done = runner.run().await;
    assert!(done.document.contains(said), "{}", done.document);
    let runner = Runner { objective: "What is boiler-gasket?".into(), ..runner };
    runner.documents.add_source(project, "d.md", "The gasket.");
    let done = runner.run().await;
    assert!(done.document.contains("No document contains the word “boiler-gasket”."), "{}", done.document);
    // A part in another spelling may be meant.
    runner.documents.add_source(project, "e.md", "The boiler, by e-mail.");
    for (word, said) in [
        (
            "boiler-email",
            "Search found no document with the word “boiler-email” as such. Similar spellings stand in e.md.",
        ),
        ("boiler-email-zeppelin", "No document contains the word “boiler-email-zeppelin”."),
        ("zeppelin-email", "No document contains the word “zeppelin-email”."),
    ] {
        let mut again = Runner::new(&format!("What is {word} or a dirigible?"), 1);
        again.documents = runner.documents.clone();
        (again.tools, again.context) = (ToolRegistry::new(again.documents.clone()), runner.context.clone());
        let done = again.run().await;
        let said_together = said.replace("”.", "” or “dirigible”.");
        let is_said = done.document.contains(said) || done.document.contains(&said_together);
        assert!(is_said, "{word}: {}", done.document);
    }
}

/// What a step knows of a word that only search finds is not lost when it quotes something else.
#[tokio::test]
async fn a_word_of_a_part_that_only_search_finds_is_named() {
    for objective in [
        "Where are the pilots and a barge? Where are the cranes?",
        "Compare the pilots of the barge and the cranes",
        "Where are the pilots? Where are the cranes? Where is the barge?",
    ] {
        let runner = Runner::new(objective, 3);
        let project = runner.context.project_ids[0];
        runner.documents.add_source(project, "log.md", "---\nvessel: barge\n---\n# Log\n\nAll is calm.");
        let said = "1 document contains the word “barge”, but no passage of it was quoted: log.md.";
        let ended = runner.homework(5).await;
        for document in [ended.document, runner.run().await.document] {
            assert_eq!(document.matches(said).count(), 1, "{objective}: {document}");
        }
    }
    // Another part quotes it.
    let runner = Runner::new("Which cranes have a barge? Where is the barge log?", 3);
    let project = runner.context.project_ids[0];
    runner.documents.add_source(project, "log.md", "# Log\n\nThe barge log is on the quay.");
    let done = runner.run().await;
    assert!(
        done.document.contains("barge log") && !done.document.contains("no passage of it"),
        "{}",
        done.document
    );
}

/// A question cannot pass for notes of the planner.
#[tokio::test]
async fn a_question_is_no_note() {
    for objective in [
        "Words that no document contains: pilots? Where are the cranes?",
        "By search: No document contains the word pilots? Where are the cranes?",
    ] {
        let done = Runner::new(objective, 3).run().await;
        assert!(!done.document.contains("No document contains the word “pilots"), "{}", done.document);
        assert!(
            !done.document.split("## Gaps").nth(1).unwrap().contains("contains the word pilots?"),
            "{}",
            done.document
        );
    }
}
