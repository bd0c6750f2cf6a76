//! Every quotation is cited, and every citation holds when the role service looks for it.

use std::collections::BTreeSet;

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

/// The quotations that a document shows, without the numbers of their sources.
fn quotations(document: &str) -> Vec<&str> {
    document.lines().filter_map(|line| Some(line.strip_prefix("- “")?.rsplit_once("” [")?.0)).collect()
}

fn varied(runner: &Runner) {
    let rows: String = (0..12).map(|i| format!("| sluice {i} | opens at {i} metres |\n")).collect();
    let items: String = (0..400).map(|i| format!("sluice{i},")).collect();
    for (path, body) in [
        ("works/table.md", format!("# Sluices\n\n| name | sluice opens |\n| --- | --- |\n{rows}")),
        ("works/code.md", "# Use\n\n```sh\nsluice --open 3\nsluice --close\n```\n\n    sluice --help\n".to_owned()),
        (
            "works/page.html",
            "<html><body><h1>The sluice</h1><p>Open the <b>sluice</b> &amp; wait,\nthen close it.</p></body></html>"
                .to_owned(),
        ),
        ("works/long.txt", format!("{items}the sluice needs oil {}", "and a clear head ".repeat(300))),
        ("works/one-word.txt", format!("sluice {} sluice", "ä".repeat(3_000))),
        (
            "works/quotes.md",
            "# Talk\n\n“Open the sluice,” she said — ‘now’ or never…\nThe slu\u{ad}ice’s gate\u{a0}stuck.\n".to_owned(),
        ),
        ("works/short.md", "# Notes\n\n- sluice\n- a sluice\n- The sluice is shut at night.\n".to_owned()),
        ("works/marks.md", "The **sluice** is [old](x.md), `sluice_1` is not.\n".to_owned()),
    ] {
        runner.documents.add_source(runner.context.project_ids[0], path, &body);
    }
}

#[tokio::test]
async fn every_quotation_is_cited_and_every_citation_holds() {
    let mut all = BTreeSet::new();
    for (objective, depth) in [
        ("What is said about the sluice?", 4),
        ("What is said about the sluice?", 0),
        ("Which sluice opens at 7 metres?", 4),
        ("sluice --help, sluice --close", 4),
        ("Why does the sluice need oil and a clear head?", 4),
        ("Compare the sluice and the crane", 4),
        ("When does the sluice open? What does a crane cost?", 4),
        ("What happens in a storm: cranes, pilots, fairway and mooring lines?", 4),
    ] {
        let mut runner = Runner::new(objective, 1);
        runner.cited = Some(Default::default());
        runner.budgets.max_depth = depth;
        varied(&runner);
        let done = runner.run().await;
        let cited = runner.cited.take().unwrap().into_inner().unwrap();
        let mut verified = 0;
        all.extend(cited.values().flat_map(|(_, citations)| citations.iter().map(|c| c.claim.clone())));
        for (text, citations) in cited.values() {
            for citation in citations {
                assert_eq!(citation.verdict, Verdict::Verified, "{objective}: {citation:?}");
                assert!(text.contains(&citation.claim), "{objective}: {citation:?}");
                // A chain: what is quoted of another artifact is a claim there, which is cited itself.
                if let Some((_, theirs)) = cited.get(&citation.document_id) {
                    assert!(theirs.iter().any(|c| c.claim == citation.quote), "{objective}: {citation:?}");
                }
                verified += 1;
            }
            let claims: Vec<&str> = citations.iter().map(|c| c.claim.as_str()).collect();
            for quotation in quotations(text) {
                let letters = quotation.chars().filter(|c| !c.is_whitespace()).count();
                // What begins or ends within a word is no quote, nor is what could stand anywhere.
                let is_cut = quotation.starts_with('ä') || quotation.ends_with('ä');
                assert!(
                    letters < 8 || is_cut || claims.contains(&quotation),
                    "{objective}: {quotation:?} is not cited by {claims:?}"
                );
            }
        }
        assert!(verified > 0, "{objective}: {}", done.document);
        let root = done.outcome.result.unwrap().document_ids[0];
        let to_artifacts = cited[&root].1.iter().all(|citation| cited.contains_key(&citation.document_id));
        assert_eq!(to_artifacts, done.tree.lines().count() > 1, "{objective}: {}", done.tree);
    }
    for part in ["| opens at 0 metres", "sluice --help", "<b>sluice</b>", "sluice needs oil", "‘now’ or"]
    {
        assert!(all.iter().any(|claim| claim.contains(part)), "{part:?} is never cited: {all:?}");
    }
}
