//! Questions of several steps: what a passage names is where the next one is looked for.

use super::*;

pub(super) const DOCUMENTS: &[(&str, &str)] = &[
    ("braxtec.md", "# Braxtec\n\nBraxtec was founded by Ada Wellgard. It makes bells for trams.\n"),
    ("wellgard.md", "# Ada Wellgard\n\nAda Wellgard was born in Elmport and left it at the age of nine.\n"),
    ("elmport.md", "# Elmport\n\nTom Lund has been in office as the mayor of Elmport since the flood.\n"),
    ("holmby.md", "# Holmby\n\nInes Berg is the mayor of Holmby, a town that was founded in spring.\n"),
    ("trams.md", "# Trams\n\nMany a founder was born near a tram, says the town clerk of Holmby.\n"),
];

async fn answer(more: usize) -> Done {
    let runner = Runner::new("Who is the mayor of the town in which the founder of Braxtec was born?", 1);
    let project = runner.context.project_ids[0];
    for (path, body) in DOCUMENTS {
        runner.documents.add_source(project, path, body);
    }
    for i in 0..more {
        let body =
            format!("# Note {i}\n\nA founder of the town was born here, and so was its mayor number {i}.\n");
        runner.documents.add_source(project, &format!("notes/{i:03}.md"), &body);
    }
    runner.run().await
}

/// In a context that is read whole, and in one that is searched.
#[tokio::test]
async fn names_lead_from_document_to_document() {
    for more in [0, 260] {
        let done = answer(more).await;
        for (path, body) in &DOCUMENTS[..3] {
            let said = body.lines().last().unwrap();
            let sentence = said.split_once(". ").map_or(said, |(first, _)| first);
            assert!(done.document.contains(sentence), "{path} with {more} more: {}", done.document);
        }
        assert!(done.tree.contains("What elmport.md says about Elmport"), "{}", done.tree);
        // Every call costs a round trip and a document of the run.
        assert!(more == 0 || done.calls <= 75, "{} calls", done.calls);
        let sources = done.document.rsplit_once("## Sources").unwrap().1.lines().filter(|l| !l.is_empty());
        assert!(sources.count() <= 10, "{}", done.document);
    }
}
