use std::sync::Arc;

use tree_agent_contract::event::{PromptDocument, UsageRecorded};
use tree_agent_contract::{RunContext, RunId, Scope};
use tree_agent_tools::{Caller, MemoryDocuments, ToolRegistry};

use super::*;
use crate::cite;

const HARBOURS: &str = "# Harbours\n\nThe north harbour stays open in a storm; its crane\nstops at force 8. \
                        It was opened in 1931.\n\n## South\n\nThe south harbour is closed in a storm.\n\n\
                        | pier | length |\n| --- | --- |\n| east pier | 120 m |\n";
const RUN: RunId = RunId(uuid::Uuid::from_u128(1));

/// The answer `text` after it was checked, when the call has seen the document at `seen` of two.
async fn checked(text: &str, seen: Option<usize>) -> (ArtifactDraft, [DocumentId; 2]) {
    let documents = MemoryDocuments::default();
    let project = documents.add_project("sea");
    let ids = [
        documents.add_source(project, "harbours.md", HARBOURS),
        documents.add_source(project, "tides.md", "# Tides\n\nThe tide turns twice a day in Avon.\n"),
    ];
    documents.add_source(project, "guide-2024.md", "The buoy of Lund was laid in 1998.\n");
    documents.add_source(project, "guide-2019.md", "The buoy of Lund was laid in 1989.\n");
    let own = DocumentId::derive(&[b"own"]);
    documents.add_artifact(
        RUN,
        own,
        "Child",
        &format!(
            "The lamp of the pier is green. The buoy is red.[^1] The quay is of oak.[^2] The mole is of granite.[^3] The \
             slip is of slate.[^4]\n\n[^1]: {0} \"y\"\n[^2]: x \"y\"\n[^3]: {0} \"y\" (doubted: the quote says 2, the \
             statement 3)\n[^4]: {0} \"y\" (nicht belegt: das Dokument enthält diese Worte nicht)\n",
            ids[0]
        ),
    );
    let context = RunContext { scope: Scope::Project, project_ids: vec![project] };
    let tools = ToolRegistry::new(Arc::new(documents));
    let (io, _updates) = RoleIo::new(tools.tool_set(Caller::new(RUN, context)), "execute");
    let shown = |id| PromptDocument { document_id: id, offset: 0, bytes: 9, size: 9 };
    let usage = UsageRecorded {
        model: "m".into(),
        input_tokens: 1,
        output_tokens: 1,
        cached_tokens: 0,
        cache_write_tokens: 0,
        cost_micros: 0,
        duration_ms: 1,
        purpose: "execute".into(),
        documents: seen.map(|at| ids[at]).into_iter().chain([own]).map(shown).collect(),
        prompt: None,
    };
    io.usage(usage, None).await;
    let mut drafts = [ArtifactDraft::document("answer", "Answer", text)];
    cite::check(&mut drafts, &io).await.unwrap();
    cite::support(&mut drafts, &io).await.unwrap();
    let [draft] = drafts;
    (draft, ids)
}

#[tokio::test]
async fn a_statement_without_a_source_gets_the_sentences_that_carry_it() {
    let text = "# Answer\n\nThe south harbour is closed in a storm. The north harbour stays open, but its crane stops \
                at force 8.\n\n- The tide turns twice a day.\n- Nobody knows the harbour master.\n\n\
                | pier | m |\n| --- | --- |\n| east pier | 120 m |\n";
    // Seen or searched for: the same sources.
    for seen in [Some(0), Some(1), None] {
        let (draft, [harbours, tides]) = checked(text, seen).await;
        let shown: Vec<_> = draft
            .citations
            .iter()
            .map(|one| (one.document_id, one.quote.as_str(), one.verdict, one.origin, one.support))
            .collect();
        let of = |id, quote| (id, quote, Verdict::Verified, Some(Origin::Found), Some(Support::Supported));
        assert_eq!(
            shown,
            [
                of(harbours, "The south harbour is closed in a storm."),
                of(harbours, "The north harbour stays open in a storm; its crane stops at force 8."),
                of(tides, "The tide turns twice a day in Avon."),
                of(harbours, "| east pier | 120 m |"),
            ]
        );
        let markdown = draft.document_markdown.unwrap();
        for part in [
            "closed in a storm.[^1] The north",
            "at force 8.[^2]\n",
            "twice a day.[^3]\n- Nobody knows the harbour master.\n",
            "| east pier | 120 m[^4] |\n",
        ] {
            assert!(markdown.contains(part), "{markdown}");
        }
        let note = format!("[^3]: {tides} \"The tide turns twice a day in Avon.\" (found afterwards)\n");
        assert!(markdown.contains(&note), "{markdown}");
        // What the page reads from the text is what is logged.
        let read: Vec<_> = footnotes::citations(&markdown).into_iter().map(|one| one.citation).collect();
        assert!(read.iter().zip(&draft.citations).all(|(a, b)| (&a.claim, &a.quote) == (&b.claim, &b.quote)));
    }
}

#[tokio::test]
async fn what_the_sources_contradict_is_doubted_and_what_a_role_says_alone_is_no_source() {
    let text = "The north harbour was opened in 1957.\n\nThe lamp of the pier is green.\n\nThe buoy is red.\n\nThe quay is \
                of oak.\n\nThe mole is of granite.\n\nThe slip is of slate.\n";
    let (draft, _) = checked(text, Some(0)).await;
    let [doubted, buoy] = &draft.citations[..] else { panic!("{:?}", draft.citations) };
    assert_eq!(doubted.verdict, Verdict::Doubted, "{doubted:?}");
    assert_eq!(doubted.doubt, "the quote says 1931, the statement 1957");
    assert_eq!(buoy.quote, "The buoy is red.");
    let markdown = draft.document_markdown.unwrap();
    assert!(markdown.contains("(doubted: the quote says 1931, the statement 1957)\n"), "{markdown}");
}

#[tokio::test]
async fn sources_of_a_statement_that_disagree_are_told_the_newer_first() {
    let (mut draft, _) = checked("The buoy of Lund was laid in 1989.\n", Some(0)).await;
    let [pair] = &draft.disagreements[..] else { panic!("{:?}", draft.disagreements) };
    let sides: Vec<_> = pair
        .sides
        .iter()
        .map(|side| (side.value.as_str(), side.dated.as_str(), side.passage.is_some()))
        .collect();
    assert_eq!(sides, [("1998", "2024", true), ("1989", "2019", true)]);
    cite::tell(std::slice::from_mut(&mut draft), "en");
    let markdown = draft.document_markdown.unwrap();
    let line = "- **1998 / 1989**: “The buoy of Lund was laid in 1998.” (guide-2024.md, 2024) – “The buoy of Lund was laid \
                in 1989.” (guide-2019.md, 2019). The newer source comes first.\n\n[^1]: ";
    assert!(markdown.contains(line), "{markdown}");
}
