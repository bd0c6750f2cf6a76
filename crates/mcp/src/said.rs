//! What an assistant reads. Some clients show it only the text, others only the data (Claude Code 2.1 and Codex 0.171).
//! So each has the whole answer.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tree_agent_proto::v1::{NodeStatus, RunStatus, WaitReason};
use tree_agent_proto::{Wire, v1 as pb};

use crate::calls::Said;

/// The longest quote in an answer, in characters.
const QUOTE: usize = 600;

fn usd(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// The name of an enum value without that of the enum, in small letters.
fn plain(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_ascii_lowercase()
}

fn status(status: RunStatus) -> String {
    plain(status.as_str_name(), "RUN_STATUS_")
}

pub(crate) fn started(run: &pb::Run, warnings: &[String]) -> Said {
    let mut text = format!("Started run {}. Call wait_research with it until it has ended.", run.run_id);
    for warning in warnings {
        let _ = write!(text, "\nNote: {warning}");
    }
    Said { text, data: json!({ "run": run.run_id, "status": status(run.status()), "warnings": warnings }) }
}

/// How far a run is, such as "12 of 31 steps, $0.41 of $2.00, slowest: Pricing, 40 s".
pub(crate) fn progress(run: &pb::Run, reason: WaitReason, graph: Option<&pb::Graph>) -> Said {
    let usage = run.usage.unwrap_or_default();
    let most = run.budgets.and_then(|budgets| budgets.max_cost_micros);
    let mut parts = vec![format!("{} of {} steps", run.ended_node_count, run.node_count)];
    match most {
        Some(most) => parts.push(format!("${:.2} of ${:.2}", usd(usage.cost_micros), usd(most))),
        None if usage.cost_micros > 0 => parts.push(format!("${:.2}", usd(usage.cost_micros))),
        None => {}
    }
    let slowest = graph.and_then(slowest);
    if let Some((title, seconds)) = &slowest {
        parts.push(format!("slowest: {title}, {seconds} s"));
    }
    let (state, next) = match (reason, run.status()) {
        (WaitReason::NeedsPerson, _) => (
            "It is paused until a person says how to go on".to_owned(),
            "ask the user, then steer_research: approve, guide, resume or stop",
        ),
        (WaitReason::Ended, RunStatus::Completed) => {
            let partial = if run.partial { ", with less than was asked for" } else { "" };
            (format!("It has ended{partial}"), "research_result")
        }
        (WaitReason::Ended, RunStatus::Failed) => {
            (format!("It has failed: {}", run.error()), "start_research again, once the cause is mended")
        }
        (WaitReason::Ended, ended) => {
            (format!("It is {}", status(ended)), "research_result has what there is")
        }
        (_, RunStatus::Paused) => {
            let until = graph.and_then(|graph| graph.goes_on_at).map(|at| format!(" until {at}"));
            (format!("It is paused{}", until.unwrap_or_default()), "wait_research again later")
        }
        (_, live) => (format!("It is {}", status(live)), "wait_research again"),
    };
    let text = format!("{state}: {}. Next: {next}, since {}.", parts.join(", "), run.head_seq);
    let data = json!({
        "run": run.run_id, "status": status(run.status()), "partial": run.partial, "error": run.error,
        "text": text, "since": run.head_seq, "stepsEnded": run.ended_node_count, "steps": run.node_count,
        "costUsd": usd(usage.cost_micros), "maxCostUsd": most.map(usd),
        "needsPerson": reason == WaitReason::NeedsPerson,
        "slowest": slowest.map(|(title, seconds)| json!({ "title": title, "seconds": seconds })),
        "next": next,
    });
    Said { text, data }
}

/// The node at work whose work began first, and for how many seconds it has been at it.
fn slowest(graph: &pb::Graph) -> Option<(String, i64)> {
    let works = [NodeStatus::Planning, NodeStatus::Executing, NodeStatus::Aggregating];
    let at_work = graph.nodes.iter().filter(|node| works.contains(&node.status()));
    let began = at_work.filter_map(|node| Some((node.started_at?.seconds, &node.title)));
    let (since, title) = began.min_by_key(|(since, _)| *since)?;
    // The clock of the server may be another one.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs() as i64;
    Some((title.clone(), (now - since).max(0)))
}

pub(crate) fn result(result: &pb::GetResultResponse) -> Said {
    let state = status(result.status());
    let is_live = matches!(result.status(), RunStatus::Queued | RunStatus::Running | RunStatus::Paused);
    let mut text = match (is_live, &*result.text, &*result.summary) {
        (true, ..) => format!("The run is {state}. Call wait_research until it has ended."),
        (_, "", "") => format!("The run is {state} and has no answer: {}", result.error()),
        (_, "", summary) => summary.to_owned(),
        (_, text, _) => text.to_owned(),
    };
    if result.partial {
        let _ = write!(text, "\n\nThe run ended with less than was asked for: {}", result.error());
    }
    for sides in &result.disagreements {
        let sides: Vec<_> = sides
            .sides
            .iter()
            .map(|s| format!("{} ({})", s.value, name(&s.source_path, &s.source_title)))
            .collect();
        let _ = write!(text, "\n\nSources disagree: {}", sides.join(" and "));
    }
    // Beside a text it says nothing that an assistant needs.
    let payload = result.result.as_ref().filter(|_| result.text.is_empty());
    let payload = payload.and_then(|result| result.json_payload.clone());
    let payload = payload.and_then(|payload| Map::from_wire(payload).ok()).map(Value::Object);
    if let Some(payload) = &payload {
        let _ = write!(text, "\n\n{payload}");
    }
    let counts = result.citations.as_ref().map(counts);
    let data = json!({
        "run": result.run_id, "status": state, "partial": result.partial, "error": result.error,
        "title": result.title, "text": text, "document": result.document_id, "statements": counts,
        "models": result.models, "costUsd": usd(result.usage.unwrap_or_default().cost_micros), "json": payload,
    });
    Said { text, data }
}

fn counts(counts: &pb::CitationCounts) -> Value {
    json!({
        "found": counts.found, "notFound": counts.not_found, "supported": counts.supported,
        "contradicted": counts.contradicted, "doubted": counts.doubted, "notChecked": counts.not_checked,
    })
}

fn name<'a>(path: &'a str, title: &'a str) -> &'a str {
    if path.is_empty() { title } else { path }
}

fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

pub(crate) fn citations(claims: &[pb::CitedClaim], limit: usize, all: Option<&pb::CitationCounts>) -> Said {
    let mut text = String::new();
    let mut rows = Vec::new();
    for claim in claims.iter().take(limit) {
        let citation = claim.citation.clone().unwrap_or_default();
        let passage = citation.passage.clone().unwrap_or_default();
        let verdict = plain(citation.verdict().as_str_name(), "VERDICT_");
        let support = citation.support.map(|_| plain(citation.support().as_str_name(), "SUPPORT_"));
        let source = name(&citation.source_path, &citation.source_title);
        let (quote, at) = (cut(&citation.quote, QUOTE), &passage.place);
        let doubt = if citation.doubt.is_empty() { String::new() } else { format!(" ({})", citation.doubt) };
        let _ = writeln!(
            text,
            "[{}] {}\n    {source} {at}: \"{quote}\" {verdict}{doubt}",
            claim.index, citation.claim
        );
        rows.push(json!({
            "statement": citation.claim, "quote": quote, "document": citation.document_id, "source": source,
            "place": at, "heading": passage.heading, "verdict": verdict, "support": support,
            "doubt": citation.doubt, "stale": claim.stale,
        }));
    }
    if claims.is_empty() {
        text = "There is no such quote.".into();
    } else if claims.len() > limit {
        let _ = writeln!(text, "{} more; name a part of the text with containing.", claims.len() - limit);
    }
    let data = json!({ "citations": rows, "total": claims.len(), "statements": all.map(counts) });
    Said { text, data }
}

pub(crate) fn projects(projects: &pb::ListProjectsResponse, models: Option<&pb::ListModelsResponse>) -> Said {
    let mut text = String::new();
    for project in &projects.projects {
        let about =
            if project.description.is_empty() { String::new() } else { format!(": {}", project.description) };
        let _ = writeln!(text, "{} ({} documents){about}", project.name, project.document_count);
    }
    if projects.projects.is_empty() {
        text = "There is no project. `tree-agent import FOLDER --project NAME` makes one.\n".into();
    } else if !projects.next_page_token.is_empty() {
        text.push_str("There are more.\n");
    }
    let all = models.iter().flat_map(|models| &models.models);
    let usable: Vec<_> = all.filter(|model| model.usable).map(|model| &*model.name).collect();
    let usual = models.map(|models| &*models.default_model);
    text += &match usual {
        Some(usual) => format!("Models: {}; {usual} if none is named.", usable.join(", ")),
        None => "The models are not known now.".to_owned(),
    };
    let rows = projects.projects.iter().map(|project| {
        json!({
            "project": project.project_id, "name": project.name, "description": project.description,
            "documents": project.document_count,
        })
    });
    let rows: Vec<_> = rows.collect();
    Said { text, data: json!({ "projects": rows, "models": usable, "defaultModel": usual }) }
}

pub(crate) fn hits(found: &pb::SearchDocumentsResponse) -> Said {
    let mut text = String::new();
    let mut rows = Vec::new();
    for hit in &found.hits {
        let document = hit.document.clone().unwrap_or_default();
        let source = name(&document.path, &document.title);
        let headings = hit.headings.join(" › ");
        let _ = writeln!(text, "{source} {headings} (document {})\n{}\n", document.document_id, hit.passage);
        rows.push(json!({
            "document": document.document_id, "source": source, "headings": hit.headings, "passage": hit.passage,
            "score": hit.score,
        }));
    }
    if rows.is_empty() {
        text = "Nothing was found. Try other words.".into();
    }
    Said { text, data: json!({ "passages": rows }) }
}

pub(crate) fn document(document: &pb::Document, from: usize, most: usize, characters: usize) -> Said {
    let summary = document.summary.clone().unwrap_or_default();
    let part: String = document.body.chars().skip(from).take(most).collect();
    let end = from + part.chars().count();
    let more = end < characters;
    let rest =
        if more { format!("\n\n[{characters} characters; go on with from: {end}]") } else { String::new() };
    let data = json!({
        "document": summary.document_id, "source": name(&summary.path, &summary.title), "from": from, "end": end,
        "text": part, "characters": characters, "more": more,
    });
    Said { text: part + &rest, data }
}

/// A plan that a person is asked to look at.
pub(crate) fn plan(root: &pb::GraphNode, review: &pb::Review) -> String {
    let plan = root.plan.clone().unwrap_or_default();
    let mut text = format!("The plan of \"{}\": {}\n", cut(&root.title, 200), plan.summary);
    for step in plan.bands.iter().flat_map(|band| &band.steps) {
        let _ = writeln!(text, "- {}", step.title);
    }
    let premises = review.premises.clone().unwrap_or_default();
    for (what, list) in [("Assumed", &premises.assumptions), ("Left out", &premises.left_out)] {
        list.iter().for_each(|one| {
            let _ = writeln!(text, "{what}: {one}");
        });
    }
    if let Some(cost) = review.estimate.as_ref().and_then(|estimate| estimate.cost_micros) {
        let _ = writeln!(text, "It can cost ${:.2} at the most.", usd(cost));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_is_only_data_is_told_whole() {
        let payload = json!({ "depth": 12 }).as_object().cloned().unwrap_or_default();
        let envelope = pb::TreeAgentResult { json_payload: Some(payload.to_wire()), ..Default::default() };
        let mut answer =
            pb::GetResultResponse { summary: "Depths.".into(), result: Some(envelope), ..Default::default() };
        answer.set_status(RunStatus::Completed);
        let said = result(&answer);
        assert!(said.text.starts_with("Depths.") && said.text.contains("12"), "{}", said.text);
        assert_eq!(said.data["json"]["depth"].as_f64(), Some(12.0));
    }

    #[test]
    fn the_slowest_is_the_one_that_has_worked_longest_by_now() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
        let node = |title: &str, status: NodeStatus, ago: Option<i64>| {
            let started_at = ago.map(|ago| prost_types::Timestamp { seconds: now - ago, nanos: 0 });
            pb::GraphNode { title: title.into(), status: status.into(), started_at, ..Default::default() }
        };
        let nodes = vec![
            node("done", NodeStatus::Completed, Some(900)),
            node("not begun", NodeStatus::Planning, None),
            node("old", NodeStatus::Executing, Some(40)),
            node("new", NodeStatus::Executing, Some(3)),
        ];
        let (title, seconds) = slowest(&pb::Graph { nodes, ..Default::default() }).expect("two are at work");
        assert!(title == "old" && (40..50).contains(&seconds), "{title} {seconds}");
    }
}
