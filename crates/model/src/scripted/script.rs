//! The grammar of scripted model names.

use std::fmt::Display;
use std::str::FromStr;

use tree_agent_contract::role::{RoleError, RoleErrorKind};
use tree_agent_contract::{StepSearch, limits};

/// The options of a script: key, values with the default, meaning.
pub const KEYS: &[(&str, &str, &str)] = &[
    ("fanout", "1 to 256 (4)", "steps of a band"),
    ("depth", "0 to 64 (3)", "nodes above this depth plan, nodes at it execute"),
    ("bands", "1 to 64 (1)", "bands of a plan"),
    (
        "search_steps",
        "0 to 256 (0)",
        "number of steps of each band that are searches; their topics have the fan-out and the depth of the script",
    ),
    ("search_depth", "1 to 64 (3)", "levels of topics of such a search"),
    ("search_nodes", "1 to 10000 (50)", "topics of such a search"),
    ("iterations", "1 to 100 (2)", "in homework, iterations after which the planner is done"),
    (
        "branches",
        "0 to 256 (0)",
        "in homework, branches that take turns, b0, b1, …; 0: as many as the fan-out, which is the number of tasks of an iteration; tasks are titled i1.b0, i1.b1, …",
    ),
    (
        "repeats",
        "0 to 256 (0)",
        "in homework, number of tasks of an iteration that repeat the last one of their branch",
    ),
    ("latency_ms", "0 to 86400000 (0)", "milliseconds that every call takes"),
    ("result_bytes", "1 to 262144 (500)", "bytes of a result's text; at most 16384 without artifacts"),
    ("artifacts", "none, json, document (none)", "where that text stands: in the summary, or in an artifact"),
    (
        "notes",
        "0 to 10000 (0)",
        "pieces of text (note 1, note 2, …) that every call writes while its latency passes",
    ),
    ("tools", "0 to 1000 (0)", "calls of list_documents that every call makes"),
    (
        "fail",
        "internal, rejected, overloaded, timeout, unreachable, provider_unreachable, invalid_output, hang, garbage (none; internal when another fail_ key is set)",
        "what the chosen calls do: end with this failure, never answer, or answer against the contract",
    ),
    ("fail_role", "plan, execute, aggregate, research, pick, any (execute)", "chooses calls of this role"),
    (
        "fail_titles",
        "texts separated by | (every title)",
        "chooses nodes whose title is one of these; children are titled s0, s1, … and s0.s2, … below them",
    ),
    ("fail_every", "1 to 1000000 (1)", "chooses one of this many nodes, by a hash of the title"),
    ("fail_attempts", "0 to 1000 (0)", "number of attempts that fail, counted from the first; 0: all"),
    (
        "fail_until_ms",
        "0 to 86400000 (0)",
        "milliseconds after the creation of the run at which failures end, which they say, like a quota; 0: never",
    ),
    ("replan", "0 or 1 (0)", "the root's aggregator asks once for another plan"),
    (
        "doubts",
        "0 to 32 (0)",
        "claims of the answer that a verifier doubts; it then asks for another plan if there can be one",
    ),
    (
        "cite",
        "0 to 128 (0)",
        "citations of every document artifact, of which every second one is false; their source is the first document of the context, for an aggregator the first one of its children",
    ),
    ("same_titles", "0 or 1 (0)", "in a search, every list of topics has the same titles"),
    (
        "bad_frontmatter",
        "0 to 3 (0)",
        "in a search, answers whose frontmatter breaks the schema before a good one, for the chosen nodes; 3 fail them",
    ),
    ("pick", "first, middle, last, parent, unknown (first)", "the topic that a search's picker names"),
    ("pick_again", "first, middle, last, parent, unknown (first)", "the same when it is asked again"),
];

/// What a scripted model does: `scripted`, or `scripted:` and `key=value` pairs separated by commas. The keys are in
/// [`KEYS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Steps of a band.
    pub fanout: u32,
    /// Depth of the leaves.
    pub depth: u32,
    /// Bands of a plan.
    pub bands: u32,
    /// Steps of a band that are searches, the first ones.
    pub search_steps: u32,
    /// The limits of these searches.
    pub search: StepSearch,
    /// Iterations of homework after which its planner is done.
    pub iterations: u32,
    /// Branches of homework; 0: as many as the fan-out.
    pub branches: u32,
    /// Tasks of an iteration of homework that repeat the last one of their branch.
    pub repeats: u32,
    /// Milliseconds that every call takes.
    pub latency_ms: u64,
    /// Bytes of a result's text.
    pub result_bytes: usize,
    /// Where that text stands.
    pub artifacts: Artifacts,
    /// Pieces of text that every call streams.
    pub notes: u32,
    /// Tool calls of every call.
    pub tools: u32,
    /// What the chosen calls do.
    pub fail: Option<Fault>,
    /// The role whose calls are chosen; none for any.
    pub fail_role: Option<String>,
    /// The titles that are chosen; empty for every one.
    pub fail_titles: Vec<String>,
    /// One node in this many is chosen.
    pub fail_every: u64,
    /// The number of attempts that fail, counted from the first; 0: all.
    pub fail_attempts: u32,
    /// Milliseconds after the creation of the run at which the failures end; 0: they do not end by time.
    pub fail_until_ms: u64,
    /// Whether the root's aggregator asks once for another plan.
    pub replan: bool,
    /// Claims that a verifier doubts.
    pub doubts: u32,
    /// Citations of every document artifact.
    pub cite: u32,
    /// Whether every list of topics of a search has the same titles.
    pub same_titles: bool,
    /// Answers of a research whose frontmatter breaks the schema.
    pub bad_frontmatter: u32,
    /// The topic that a picker names.
    pub pick: Pick,
    /// The same when it is asked again.
    pub pick_again: Pick,
}

/// Which of the offered topics a scripted picker names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The first in breadth-first order.
    First,
    /// The one in the middle.
    Middle,
    /// The last.
    Last,
    /// The topic above the first, which is no leaf.
    Parent,
    /// None of them.
    Unknown,
}

impl Pick {
    const ALL: [Self; 5] = [Self::First, Self::Middle, Self::Last, Self::Parent, Self::Unknown];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Middle => "middle",
            Self::Last => "last",
            Self::Parent => "parent",
            Self::Unknown => "unknown",
        }
    }

    fn read(key: &str, value: &str) -> Result<Self, RoleError> {
        Self::ALL.into_iter().find(|pick| pick.as_str() == value).ok_or_else(|| {
            wrong(key, format!("is {value:?}; use one of {}", Self::ALL.map(Self::as_str).join(", ")))
        })
    }
}

/// Where the text of a scripted result stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Artifacts {
    /// In the summary; there are no artifacts.
    None,
    /// In a JSON artifact.
    Json,
    /// In a document.
    Document,
}

/// What a chosen call does instead of answering well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Ends with this failure.
    Error(RoleErrorKind),
    /// Never answers.
    Hang,
    /// Answers with something that breaks the contract.
    Garbage,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            fanout: 4,
            depth: 3,
            bands: 1,
            search_steps: 0,
            search: StepSearch::default(),
            iterations: 2,
            branches: 0,
            repeats: 0,
            latency_ms: 0,
            result_bytes: 500,
            artifacts: Artifacts::None,
            notes: 0,
            tools: 0,
            fail: None,
            fail_role: Some("execute".to_owned()),
            fail_titles: Vec::new(),
            fail_every: 1,
            fail_attempts: 0,
            fail_until_ms: 0,
            replan: false,
            doubts: 0,
            cite: 0,
            same_titles: false,
            bad_frontmatter: 0,
            pick: Pick::First,
            pick_again: Pick::First,
        }
    }
}

impl Script {
    /// What attempt number `attempt` of a call in `phase` for the node titled `title` does wrong.
    pub(super) fn fault_of(&self, phase: &str, title: &str, attempt: u32) -> Option<Fault> {
        let fault = self.fail?;
        let is_role = self.fail_role.as_deref().is_none_or(|role| role == phase);
        let chosen =
            is_role && self.chooses(title) && (self.fail_attempts == 0 || attempt <= self.fail_attempts);
        chosen.then_some(fault)
    }

    /// Branches of homework.
    pub(super) const fn branches(&self) -> u32 {
        if self.branches == 0 { self.fanout } else { self.branches }
    }

    /// True if the node titled `title` is one of those that faults are for.
    pub(super) fn chooses(&self, title: &str) -> bool {
        (self.fail_titles.is_empty() || self.fail_titles.iter().any(|t| t == title))
            && (self.fail_every == 1 || fnv(title).is_multiple_of(self.fail_every))
    }
}

/// FNV-1a: the same on every host and in every version, which `std`'s hasher does not promise.
pub(super) fn fnv(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

impl FromStr for Script {
    type Err = RoleError;

    /// Reads what stands after `scripted:`.
    fn from_str(text: &str) -> Result<Self, RoleError> {
        let mut script = Self::default();
        let mut chooses = false;
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| wrong(pair, "has no value; write key=value"))?;
            let (key, value) = (key.trim(), value.trim());
            chooses |= key.starts_with("fail_");
            match key {
                "fanout" => script.fanout = number(key, value, 1, 256)?,
                "depth" => script.depth = number(key, value, 0, 64)?,
                "bands" => script.bands = number(key, value, 1, limits::BANDS as u64)?,
                "search_steps" => script.search_steps = number(key, value, 0, 256)?,
                "search_depth" => script.search.max_depth = number(key, value, 1, 64)?,
                "search_nodes" => {
                    script.search.max_nodes = number(key, value, 1, limits::STEP_SEARCH_NODES)?;
                }
                "iterations" => script.iterations = number(key, value, 1, 100)?,
                "branches" => script.branches = number(key, value, 0, 256)?,
                "repeats" => script.repeats = number(key, value, 0, 256)?,
                "latency_ms" => script.latency_ms = number(key, value, 0, 86_400_000)?,
                "result_bytes" => script.result_bytes = number(key, value, 1, 256 * 1024)?,
                "artifacts" => {
                    script.artifacts = match value {
                        "none" => Artifacts::None,
                        "json" => Artifacts::Json,
                        "document" => Artifacts::Document,
                        _ => return Err(wrong(key, format!("is {value:?}; use none, json or document"))),
                    }
                }
                "notes" => script.notes = number(key, value, 0, 10_000)?,
                "tools" => script.tools = number(key, value, 0, 1_000)?,
                "fail" => {
                    script.fail = Some(match value {
                        "hang" => Fault::Hang,
                        "garbage" => Fault::Garbage,
                        kind => Fault::Error(
                            kind.parse().map_err(|e: String| wrong(key, format!("{e}, hang, garbage")))?,
                        ),
                    });
                }
                "fail_role" => {
                    script.fail_role = match value {
                        "any" => None,
                        "plan" | "execute" | "aggregate" | "research" | "pick" => Some(value.to_owned()),
                        _ => {
                            let known = "plan, execute, aggregate, research, pick or any";
                            return Err(wrong(key, format!("is {value:?}; use {known}")));
                        }
                    }
                }
                "fail_titles" => script.fail_titles = value.split('|').map(str::to_owned).collect(),
                "fail_every" => script.fail_every = number(key, value, 1, 1_000_000)?,
                "fail_attempts" => script.fail_attempts = number(key, value, 0, 1_000)?,
                "fail_until_ms" => script.fail_until_ms = number(key, value, 0, 86_400_000)?,
                "replan" => script.replan = number::<u64>(key, value, 0, 1)? == 1,
                "doubts" => script.doubts = number(key, value, 0, limits::VERIFIED as u64)?,
                "cite" => script.cite = number(key, value, 0, limits::CITATIONS as u64)?,
                "same_titles" => script.same_titles = number::<u64>(key, value, 0, 1)? == 1,
                "bad_frontmatter" => script.bad_frontmatter = number(key, value, 0, 3)?,
                "pick" => script.pick = Pick::read(key, value)?,
                "pick_again" => script.pick_again = Pick::read(key, value)?,
                _ => {
                    return Err(wrong(
                        key,
                        format!(
                            "is unknown; known are {}",
                            KEYS.iter().map(|(key, ..)| *key).collect::<Vec<_>>().join(", ")
                        ),
                    ));
                }
            }
        }
        if chooses && script.fail.is_none() && script.bad_frontmatter == 0 {
            script.fail = Some(Fault::Error(RoleErrorKind::Internal));
        }
        // Room for the key and the quotes of the JSON that the text stands in.
        let most = match script.artifacts {
            Artifacts::None => limits::TEXT_BYTES,
            Artifacts::Json => limits::JSON_BYTES - 64,
            Artifacts::Document => 256 * 1024,
        };
        if script.result_bytes > most {
            return Err(wrong(
                "result_bytes",
                format!("is {}; at most {most} with these artifacts", script.result_bytes),
            ));
        }
        Ok(script)
    }
}

fn number<T: TryFrom<u64>>(key: &str, value: &str, min: u64, max: u64) -> Result<T, RoleError> {
    value
        .parse::<u64>()
        .ok()
        .filter(|n| (min..=max).contains(n))
        .and_then(|n| T::try_from(n).ok())
        .ok_or_else(|| wrong(key, format!("is {value:?}; use a whole number from {min} to {max}")))
}

fn wrong(key: &str, message: impl Display) -> RoleError {
    RoleError::new(RoleErrorKind::Rejected, format!("scripted model: option {key:?} {message}"))
}
