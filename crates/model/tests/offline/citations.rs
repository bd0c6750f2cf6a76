//! Every quotation is cited, and every citation holds when the role service looks for it.

use futures::TryStreamExt;
use tonic::Request;
use tree_agent_contract::Verdict;
use tree_agent_model::{Models, RoleServer};
use tree_agent_proto::Wire;
use tree_agent_proto::internal::v1::{aggregate_response, execute_response};

use super::*;

impl Runner {
    fn server(&self) -> RoleServer {
        RoleServer::new(Models::new("offline").unwrap(), self.tools.clone())
    }

    /// The artifacts of the same call of a role service, which checks them.
    pub(super) async fn checked_execute(&self, input: &ExecuteInput) -> Vec<ArtifactDraft> {
        let stream = self.server().call::<ExecuteInput>(Request::new(input.to_wire())).unwrap().into_inner();
        let said: Vec<_> = stream.try_collect().await.unwrap();
        let Some(execute_response::Message::Output(output)) = said.into_iter().next_back().unwrap().message
        else {
            panic!("no output");
        };
        ExecutorOutput::from_wire(output).unwrap().artifacts
    }

    /// See [`Self::checked_execute`].
    pub(super) async fn checked_aggregate(&self, input: &AggregateInput) -> Vec<ArtifactDraft> {
        let stream =
            self.server().call::<AggregateInput>(Request::new(input.to_wire())).unwrap().into_inner();
        let said: Vec<_> = stream.try_collect().await.unwrap();
        let Some(aggregate_response::Message::Output(output)) = said.into_iter().next_back().unwrap().message
        else {
            panic!("no output");
        };
        AggregatorOutput::from_wire(output).unwrap().artifacts
    }

    /// Keeps what the role service says of the citations of `artifacts`, which become `document`.
    pub(super) fn note_citations(&self, document: DocumentId, artifacts: &[ArtifactDraft]) {
        let text = artifacts[0].document_markdown.clone().unwrap();
        let mut cited = self.cited.as_ref().unwrap().lock().unwrap();
        cited.insert(document, (text, artifacts[0].citations.clone()));
    }
}

#[tokio::test]
async fn every_quotation_is_cited_and_every_citation_holds() {
    let rows: String = (0..12).map(|i| format!("| sluice {i} | opens at {i} metres |\n")).collect();
    let mut all = 0;
    for (objective, depth) in [
        ("What is said about the sluice?", 4),
        ("What is said about the sluice?", 0),
        ("Which sluice opens at 7 metres?", 4),
        ("Which command opens a sluice?", 4),
        ("When does the sluice open? What does a crane cost?", 4),
        (STORM, 4),
    ] {
        let mut runner = Runner::new(objective, 1);
        runner.budgets.max_depth = depth;
        runner.cited = Some(Mutex::default());
        for (path, body) in [
            ("works/table.md", format!("# Sluices\n\n| name | sluice opens |\n| --- | --- |\n{rows}")),
            (
                "works/code.md",
                "# Use\n\nOpen a sluice with:\n\n```sh\nsluice --open 3\nsluice --close\n```\n".to_owned(),
            ),
            ("works/long.txt", format!("the sluice needs oil {}", "and a clear head ".repeat(300))),
            (
                "works/quotes.md",
                "# Talk\n\n“Open the sluice,” she said — ‘now’ or never…\nThe slu\u{ad}ice’s gate\u{a0}stuck.\n".to_owned(),
            ),
        ] {
            runner.add(path, &body);
        }
        runner.run().await;
        for (text, citations) in runner.cited.as_ref().unwrap().lock().unwrap().values() {
            let quotations = text.matches("[^").count() - text.matches("\n[^").count();
            assert_eq!(citations.len(), quotations, "{text}");
            for citation in citations {
                assert_eq!(citation.verdict, Verdict::Verified, "{citation:?}\n{text}");
            }
            all += citations.len();
        }
    }
    assert!(all > 30, "{all}");
}

#[tokio::test]
async fn sources_that_disagree_are_told_with_both_sentences() {
    let mut runner = Runner::new("When was the beacon of Lund lit, and how tall is it?", 1);
    runner.cited = Some(Mutex::default());
    runner.add("beacon-2019.md", "# The beacon\n\nThe beacon of Lund was lit in 1931. It is 30 m tall.\n");
    runner
        .add("beacon-2024.md", "# The beacon of Lund\n\nThe beacon of Lund was lit in 1957. It is white.\n");
    runner.run().await;
    let told = "## Sources disagree\n\n- **1957 / 1931**: “The beacon of Lund was lit in 1957.” (beacon-2024.md, 2024) – \
                “The beacon of Lund was lit in 1931.” (beacon-2019.md, 2019). The newer source comes first.\n\n[^1]: ";
    let cited = runner.cited.as_ref().unwrap().lock().unwrap();
    let with: Vec<&String> =
        cited.values().map(|(text, _)| text).filter(|text| text.contains(told)).collect();
    assert_eq!(with.len(), 1, "the answer alone says so: {:?}", cited.values());
}
