//! A guided search without a language model: topics are what speaks of the objective.

use tree_agent_contract::role::*;
use tree_agent_contract::search::SearchPrompts;
use tree_agent_model::{Offline, RoleModel};

use super::{Runner, context, quoted};

impl Runner {
    async fn research(&self, path: &[&str]) -> ResearchOutput {
        let form = if path.is_empty() { ResearchForm::Root } else { ResearchForm::Topic };
        let input = ResearchInput {
            call: context(self, path.last().unwrap_or(&self.objective.as_str())),
            form,
            path: path.iter().map(|title| (*title).to_owned()).collect(),
            siblings: vec![],
            outline: String::new(),
            session: None,
            prompts: SearchPrompts::default(),
            frontmatter_schema: None,
            max_children: 100,
            slug: String::new(),
        };
        let (output, _) = self.call("research", async |io| Offline.research(&input, io).await).await;
        output.validate(form).unwrap();
        output
    }
}

fn titles(output: &ResearchOutput) -> Vec<&str> {
    output.children.iter().map(|child| child.title.as_str()).collect()
}

#[tokio::test]
async fn topics_are_the_sources_of_what_speaks_of_the_objective_and_their_headings() {
    let runner = Runner::new("What does the anchor weigh?", 1);
    let body: String = (0..9)
        .map(|i| {
            format!("## Ship {i}\n\nThe anchor of it weighs {i} tons. {}\n\n", "It is heavy. ".repeat(30))
        })
        .collect();
    runner.add("anchors.md", &format!("# Anchors\n\n{body}"));
    let first = runner.research(&[]).await;
    assert_eq!(titles(&first)[0], "Anchors (`anchors.md`)");
    assert!(titles(&first).len() < super::corpus().len(), "{first:?}");
    let document = runner.research(&["Anchors (`anchors.md`)"]).await;
    let above = quoted(document.document_markdown.as_ref().unwrap());
    assert!(above.iter().all(|(text, path)| path == "anchors.md" && text.contains("weighs")), "{above:?}");
    let section = titles(&document)[0].to_owned();
    assert!(section.starts_with("Ship "), "{document:?}");
    let below = runner.research(&["Anchors (`anchors.md`)", &section]).await;
    let quoted = quoted(below.document_markdown.as_ref().unwrap());
    assert!(!quoted.is_empty() && quoted.iter().all(|quote| !above.contains(quote)), "{quoted:?}");
    assert!(below.children.is_empty());
    assert_eq!(first, runner.research(&[]).await);
}

#[tokio::test]
async fn a_topic_that_a_person_added_is_a_question_and_nothing_is_said() {
    let runner = Runner::new("zorblatt", 1);
    let first = runner.research(&[]).await;
    assert_eq!(titles(&first), ["zorblatt"]);
    let document = runner.research(&["zorblatt"]).await.document_markdown.unwrap();
    assert!(document.contains("**Not found: "), "{document}");
    let document = runner.research(&["The tidal range"]).await.document_markdown.unwrap();
    assert!(document.contains("1.4 metres at springs"), "{document}");
}
