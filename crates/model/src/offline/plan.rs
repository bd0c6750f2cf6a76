//! The planner: each source of the passages that answer is a step.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::StepId;
use tree_agent_contract::role::{
    BandDraft, CallContext, Complexity, LeafDecision, PlanDraft, PlanInput, PlannerMode, PlannerOutput,
    PriorStep, RoleError, ScratchpadDraft, StepDraft,
};
use tree_agent_contract::text::{count, suffix};

use super::brief::{self, Part};
use super::evidence::{Evidence, gather, wait};
use super::execute::more;
use super::hits::Hit;
use super::step::{self, Pick, names, told};
use super::{question, room, short};
use crate::io::RoleIo;

/// Bytes of a title beyond which it is cut.
const TITLE: usize = 160;

/// Decides for a node, and plans if need be.
pub(super) async fn plan(input: &PlanInput, io: &RoleIo) -> Result<PlannerOutput, RoleError> {
    let call = &input.call;
    if !told(call).picks.is_empty() {
        return Ok(execute("The step names its passages."));
    }
    let budgets = &call.budgets;
    let width = width(call);
    let most = (width * budgets.max_bands_per_plan as usize).min(budgets.max_children_per_node as usize);
    if call.depth >= budgets.max_depth || most < 2 {
        return Ok(execute("The budget allows no deeper level."));
    }
    if call.finish.is_some() {
        return Ok(execute("A budget is nearly used up."));
    }
    let question = question(call);
    let parts = brief::parts(&question);
    if parts.len() > most {
        return Ok(execute("The brief has more parts than a plan may have steps."));
    }
    if !parts.is_empty() {
        let reason = format!("The brief has {}.", count(parts.len(), "part"));
        return Ok(delegate(parts.iter().map(of_part).collect(), reason, width, &input.prior_steps));
    }
    let found = gather(io, &question, None, wait(call), room(call)).await?;
    let sources = sources(&found, most);
    if let Some(missing) = found.missing {
        return Ok(execute(&format!("Not found: {missing}.")));
    }
    if let [_] = sources.as_slice() {
        return Ok(execute("What answers stands in one document."));
    }
    let (passages, documents) = (count(found.quoted.len(), "passage"), count(sources.len(), "document"));
    let reason = format!("{passages} of {documents} answer best.");
    Ok(delegate(sources, reason, width, &input.prior_steps))
}

/// Steps that one band may hold.
pub(super) fn width(call: &CallContext) -> usize {
    call.budgets.max_steps_per_band.min(call.budgets.max_children_per_node) as usize
}

fn execute(reason: &str) -> PlannerOutput {
    PlannerOutput {
        premises: None,
        homework: None,
        mode: PlannerMode::Execute,
        mode_reason: reason.to_owned(),
        leaf_decision: Some(LeafDecision {
            can_execute_directly: true,
            complexity: Complexity::Low,
            blockers: Vec::new(),
        }),
        plan: None,
        scratchpad: ScratchpadDraft::of(format!("**Plan.** {reason} No steps are needed.\n")),
    }
}

/// A source of the answer, or several of which there is no room for each.
pub(super) struct Source {
    /// Names it in the plan, the same for the same document.
    pub(super) id: String,
    /// Its title.
    pub(super) title: String,
    /// Why it is read.
    pub(super) reason: String,
    /// What is quoted from it.
    pub(super) criteria: Vec<String>,
}

/// The sources of what is quoted, at most `most`, in the order of their best passages.
pub(super) fn sources(found: &Evidence, most: usize) -> Vec<Source> {
    let titles = titles(found.quoted.iter().chain(&found.further));
    let mut groups: Vec<Vec<&Hit>> = Vec::new();
    for hit in &found.quoted {
        match groups.iter_mut().find(|group| group[0].document_id == hit.document_id) {
            Some(group) => group.push(hit),
            None => groups.push(vec![hit]),
        }
    }
    if groups.len() > most {
        let rest = groups.split_off(most - 1).into_iter().flatten().collect();
        groups.push(rest);
    }
    groups.into_iter().map(|group| of_group(&group, found, &titles)).collect()
}

/// The source of `group`, with what else was `found` in it.
pub(super) fn of_group(group: &[&Hit], found: &Evidence, titles: &BTreeMap<String, String>) -> Source {
    let paths: BTreeSet<&str> = group.iter().map(|hit| hit.path.as_str()).collect();
    let title = titles.get(&group[0].path).unwrap_or(&group[0].title);
    let quoted: Vec<Hit> = group.iter().map(|hit| (*hit).clone()).collect();
    let criteria = group.iter().flat_map(|hit| Pick::of(hit).criteria());
    Source {
        id: slug(&group[0].path),
        title: match paths.len() {
            1 => short(title, TITLE),
            n => format!("{} and {} more", short(title, TITLE), n - 1),
        },
        reason: format!("It holds {} of those that answer best.", count(group.len(), "passage")),
        criteria: criteria
            .chain(more(&quoted, &found.further).iter().map(|place| names(place)))
            .chain(found.by_words.as_deref().map(step::searched))
            .collect(),
    }
}

/// The title of each document of `hits`, by its path, which stands behind a title that several have.
pub(super) fn titles<'a>(hits: impl Iterator<Item = &'a Hit>) -> BTreeMap<String, String> {
    // A title may be Markdown, with badges behind it.
    let is_mark = |c: char| c.is_whitespace() || matches!(c, '*' | '_' | '`' | '!');
    let plain =
        |hit: &'a Hit| hit.title.split(['[', '<', '&']).next().unwrap_or_default().trim_matches(is_mark);
    let titles: BTreeMap<&str, &str> = hits.map(|hit| (hit.path.as_str(), plain(hit))).collect();
    let is_shared = |title: &str| titles.values().filter(|other| **other == title).count() > 1;
    let shown = |(path, title): (&&str, &&str)| {
        let shown = match *title {
            "" => (*path).to_owned(),
            title if is_shared(title) => format!("{title} ({path})"),
            title => title.to_owned(),
        };
        ((*path).to_owned(), shown)
    };
    titles.iter().map(shown).collect()
}

/// A step id that is the same whenever the same document is named.
fn slug(path: &str) -> String {
    let name: String = path.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    format!("quote-{}", suffix(&name, 96))
}

/// The step that answers a part of a brief.
pub(super) fn of_part(part: &Part) -> Source {
    Source {
        id: slug(&part.label),
        title: short(&part.title(), TITLE),
        reason: "It is a part of the brief.".to_owned(),
        criteria: vec![step::answers(part)],
    }
}

fn delegate(sources: Vec<Source>, reason: String, width: usize, prior: &[PriorStep]) -> PlannerOutput {
    let n = sources.len();
    let summary = format!("Do {}, then merge.", count(n, "step"));
    let lines: String = sources.iter().map(|source| format!("- {}\n", source.title)).collect();
    let mut used = BTreeSet::new();
    let mut bands: Vec<BandDraft> = Vec::new();
    for (i, source) in sources.into_iter().enumerate() {
        if i % width == 0 {
            let goal = "Quote what answers".to_owned();
            bands.push(BandDraft {
                index: (i / width) as u32,
                goal,
                parallelizable: true,
                steps: Vec::new(),
            });
        }
        let step = step(source, (i % width) as u32, &mut used, prior);
        bands.last_mut().into_iter().for_each(|band| band.steps.push(step.clone()));
    }
    PlannerOutput {
        premises: None,
        homework: None,
        mode: PlannerMode::Plan,
        leaf_decision: Some(LeafDecision {
            can_execute_directly: false,
            complexity: if n > 4 { Complexity::High } else { Complexity::Medium },
            blockers: Vec::new(),
        }),
        scratchpad: ScratchpadDraft::of(format!("**Plan.** {reason} {summary}\n{lines}")),
        plan: Some(PlanDraft { summary, bands }),
        mode_reason: reason,
    }
}

fn step(source: Source, step_index: u32, used: &mut BTreeSet<String>, prior: &[PriorStep]) -> StepDraft {
    // A step of an earlier plan keeps its title.
    let is_other = |id: &str| prior.iter().any(|p| p.id.as_str() == id && p.title != source.title);
    let ids = std::iter::once(source.id.clone()).chain((2..).map(|n| format!("{}-{n}", source.id)));
    let id = ids.into_iter().find(|id| !used.contains(id) && !is_other(id)).unwrap_or_default();
    used.insert(id.clone());
    StepDraft {
        reason: source.reason,
        success_criteria: source.criteria,
        step_index,
        ..StepDraft::new(StepId::new(id), source.title)
    }
}
