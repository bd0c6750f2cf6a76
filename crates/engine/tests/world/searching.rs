//! What the roles of a guided search answer.

use tree_agent_contract::StepSearch;
use tree_agent_contract::role::*;
use tree_agent_contract::search::{ChildDraft, tidy};
use tree_agent_contract::session::{SessionMessage, Speaker};

use super::{World, notes};

/// Words of titles. Few, so that branches come to the same topics.
const WORDS: [&str; 6] = ["query planner", "index", "cache", "vacuum", "overview", "log"];

impl World {
    /// A list of topics, some of which other branches list as well.
    pub(super) fn research_output(&mut self, input: &ResearchInput) -> ResearchOutput {
        let is_root = input.form == ResearchForm::Root;
        let fanout = usize::from(self.plan.fanout);
        let quiet = self.plan.failures == 0;
        let wanted = if quiet { fanout } else { usize::from(self.roll()) % (fanout + 1) };
        let number = wanted.max(usize::from(is_root));
        let drafts: Vec<ChildDraft> = (0..number)
            .map(|n| {
                let (a, b) = (usize::from(self.roll()), usize::from(self.roll()));
                let title = match quiet {
                    true => format!("{} {n}", input.path.join(" ")),
                    false => format!("{} {} {}", WORDS[a % 6], WORDS[b % 6], if a < 128 { a } else { 0 }),
                };
                ChildDraft { title, slug: None, score: (b < 128).then_some(b as f64 / 128.0) }
            })
            .collect();
        let tidied = tidy(drafts);
        let says = |speaker, text: &str| SessionMessage { speaker, text: text.into() };
        ResearchOutput {
            document_markdown: (!is_root).then(|| format!("# {}\n", input.call.title)),
            summary: "what is known about the index and the cache".into(),
            children: tidied.children,
            dropped: tidied.dropped,
            messages: match is_root {
                true => Vec::new(),
                false => vec![says(Speaker::User, "write"), says(Speaker::Assistant, "# written")],
            },
            scratchpad: notes(),
        }
    }

    /// The limits of step number `n` of a plan, if it is a search.
    pub(super) fn step_search(&mut self, n: usize) -> Option<StepSearch> {
        if !self.plan.search_steps {
            return None;
        }
        if self.plan.failures == 0 {
            return (n == 0).then_some(StepSearch { max_depth: 3, max_nodes: 20 });
        }
        let (is_search, max_depth, max_nodes) = (self.roll() < 90, self.roll() % 3, self.roll() % 9);
        is_search.then_some(StepSearch {
            max_depth: u32::from(max_depth) + 1,
            max_nodes: u32::from(max_nodes) + 1,
        })
    }

    /// Mostly one of the leaves that are offered.
    pub(super) fn pick_output(&mut self, input: &PickInput) -> PickOutput {
        assert!(!input.leaves.is_empty(), "a picker has a choice: {}", input.outline);
        for leaf in &input.leaves {
            assert!(
                input.outline.contains(leaf.title.as_str()),
                "{} is not in\n{}",
                leaf.title,
                input.outline
            );
        }
        let roll = self.roll();
        let path = match roll {
            0..=20 if self.plan.failures > 0 => "no/such/topic".to_owned(),
            21..=40 if self.plan.failures > 0 => {
                let topic = self.run.graph().nodes().iter().find(|node| node.topic.is_some());
                topic.and_then(|node| node.step_id.as_ref()).expect("a slug").to_string()
            }
            41..=44 if self.plan.failures > 0 => String::new(),
            _ => input.leaves[usize::from(roll) % input.leaves.len()].path.clone(),
        };
        PickOutput { path, reason: format!("rolled {roll}") }
    }
}
