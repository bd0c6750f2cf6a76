//! What counts as evidence, and how a task is divided so that no part of it is forgotten.

use super::*;

/// A run over `documents` alone, beside the corpus.
async fn answer(objective: &str, documents: &[(&str, &str)], depth: u32) -> Done {
    let mut runner = Runner::new(objective, 1);
    let project = runner.documents.add_project("evidence");
    for (path, body) in documents {
        runner.documents.add_source(project, path, body);
    }
    runner.context = RunContext::project(project);
    runner.budgets.max_depth = depth;
    runner.run().await
}

#[tokio::test]
async fn a_list_of_links_is_not_quoted() {
    let documents = [
        ("index.md", "# Index\n\n- [The zirvane manual](zirvane.md)\n- [The harbour manual](harbour.md)\n"),
        ("harbour.md", "# Harbour\n\nThe harbour is closed at night. See also the zirvane of the harbour.\n"),
    ];
    let done = answer("Where is the zirvane of the harbour?", &documents, 3).await;
    assert!(done.document.contains("“The harbour is closed at night.”"), "{}", done.document);
    assert!(!done.document.contains("manual"), "{}", done.document);
}

#[tokio::test]
async fn a_question_about_one_of_two_things_looks_for_both() {
    let documents = [
        ("elm.md", "# Elm Bridge\n\nElm Bridge was opened in the year 1831 by the town.\n"),
        ("oak.md", "# Oak Bridge\n\nOak Bridge was opened in the year 1790 by the mill.\n"),
        ("ash.md", "# Ash Bridge\n\nAsh Bridge was never opened, says the town.\n"),
    ];
    let done = answer("Which bridge is older, Elm Bridge or Oak Bridge?", &documents, 3).await;
    assert!(done.tree.contains("How Elm Bridge and Oak Bridge compare"), "{}", done.tree);
    for quoted in ["1831", "1790"] {
        assert!(done.document.contains(quoted), "{}", done.document);
    }
}

#[tokio::test]
async fn a_thing_of_a_thing_of_a_thing_takes_one_step_after_the_other() {
    let documents = [
        ("box.md", "# Box\n\nThe box in the hall has a lid that is made of tin, says the smith.\n"),
        ("tin.md", "# Lid\n\nA lid of tin has the colour of rain, which nobody likes much.\n"),
        ("hall.md", "# Hall\n\nThe hall is closed at night, and so is the yard behind it.\n"),
    ];
    let done = answer("What is the colour of the lid of the box?", &documents, 3).await;
    let (first, second) =
        ("What is said about the lid of the box", "What is said about the colour of the lid");
    let at = |title: &str| done.tree.find(title).unwrap_or_else(|| panic!("{title}: {}", done.tree));
    assert!(at(first) < at(second), "{}", done.tree);
    assert!(done.document.contains("the colour of rain"), "{}", done.document);
}

/// Also by a node that may not plan.
#[tokio::test]
async fn every_part_of_a_task_has_its_share() {
    let mut documents: Vec<(String, String)> = (0..30)
        .map(|i| {
            (
                format!("bell/{i:02}.md"),
                format!("# Bell {i}\n\nBell number {i} of the tower is rung at {i} past noon.\n"),
            )
        })
        .collect();
    documents.push(("pilot.md".to_owned(), "# Pilot\n\nThe pilot sleeps on board.\n".to_owned()));
    let documents: Vec<(&str, &str)> = documents.iter().map(|(p, b)| (p.as_str(), b.as_str())).collect();
    for depth in [0, 3] {
        let done =
            answer("When is each bell of the tower rung past noon?; the pilot", &documents, depth).await;
        assert!(done.document.contains("The pilot sleeps on board."), "depth {depth}: {}", done.document);
        assert!(done.document.contains("of the tower is rung"), "depth {depth}: {}", done.document);
    }
}

#[tokio::test]
async fn titles_leave_out_the_folder_that_all_documents_stand_in() {
    let documents = [
        ("guide/ops/a.md", "# A\n\nThe sprocket is oiled once a week by the smith of the yard.\n"),
        ("guide/ops/b.md", "# B\n\nNobody may touch the sprocket when it rains in the yard.\n"),
        ("guide/c.md", "# C\n\nThe sprocket was bought from a mill that has closed since.\n"),
    ];
    let done = answer("What is said about the sprocket?", &documents, 0).await;
    assert!(!done.document.contains("## guide/"), "{}", done.document);
    assert!(done.document.contains("guide/ops/a.md"), "a source keeps its path: {}", done.document);
    let done = answer("What is said about the sprocket?", &documents, 3).await;
    assert!(!done.tree.contains("guide/"), "{}", done.tree);
}

#[tokio::test]
async fn passages_without_the_rare_words_of_a_question_are_called_weak() {
    let documents = [
        ("a.md", "# A\n\nThe harbour is closed at night, and nobody may enter it by boat.\n"),
        ("b.md", "# B\n\nA boat may leave the harbour in the morning, if it has paid.\n"),
    ];
    let done = answer("Does the zirvane marmot whistle in the harbour boat?", &documents, 3).await;
    assert!(done.document.contains("no passage answers the whole question"), "{}", done.document);
}
