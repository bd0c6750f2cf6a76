//! Says in the log once per run which context holds for its tools.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use tree_agent_contract::RunId;
use tree_agent_tools::ToolSet;

/// Runs that are remembered: more than one executor works for at the same time.
const RUNS: usize = 4_096;
/// The roles that work with tools on behalf of a node.
const PHASES: [&str; 2] = ["execute", "research"];

/// The runs whose context was logged here.
#[derive(Default)]
pub(crate) struct Applied(Mutex<Runs>);

#[derive(Default)]
struct Runs {
    known: BTreeSet<RunId>,
    oldest_first: VecDeque<RunId>,
}

impl Applied {
    /// Logs the context of the run of `tools` if this is its first call, and returns whether it is. The call does not
    /// wait for that.
    pub(crate) fn note(&self, phase: &str, tools: &ToolSet) -> bool {
        let run = tools.caller().run_id;
        let is_first =
            PHASES.contains(&phase) && self.0.lock().unwrap_or_else(PoisonError::into_inner).is_new(run);
        if is_first {
            let tools = tools.clone();
            tokio::spawn(async move { log(&tools).await });
        }
        is_first
    }
}

impl Runs {
    fn is_new(&mut self, run: RunId) -> bool {
        let is_new = self.known.insert(run);
        if is_new {
            self.oldest_first.push_back(run);
            if self.oldest_first.len() > RUNS {
                self.oldest_first.pop_front().map(|oldest| self.known.remove(&oldest));
            }
        }
        is_new
    }
}

async fn log(tools: &ToolSet) {
    tools.ready().await;
    let caller = tools.caller();
    let ids: Vec<String> = caller.context.project_ids.iter().map(ToString::to_string).collect();
    let (run, scope, projects, read_only) =
        (caller.run_id, caller.context.scope, ids.join(","), caller.read_only);
    match tools.specs().await {
        Ok(specs) => {
            tracing::info!(%run, %scope, projects, read_only, tools = specs.len(), "context applied");
        }
        Err(error) => {
            tracing::warn!(%run, %scope, projects, read_only, "the rules of the context cannot be read: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tree_agent_contract::{RunContext, ToolRules};
    use tree_agent_tools::{Caller, MemoryDocuments, SEARCH_DOCUMENTS, ToolRegistry};

    use super::*;

    /// What is logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn the_context_of_a_run_is_logged_once() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let _here = tracing::subscriber::set_default(subscriber);
        let documents = Arc::new(MemoryDocuments::default());
        let project = documents.add_project("p");
        let denied_tools = vec![SEARCH_DOCUMENTS.to_owned()];
        documents.set_rules(project, ToolRules { denied_tools, ..ToolRules::default() });
        let registry = ToolRegistry::new(documents);
        let tools = |run: u128| {
            let caller = Caller::new(RunId(uuid::Uuid::from_u128(run)), RunContext::project(project));
            registry.tool_set(caller)
        };
        let applied = Applied::default();
        applied.note("plan", &tools(3));
        for phase in ["execute", "execute", "research"] {
            applied.note(phase, &tools(1));
        }
        applied.note("research", &tools(2));
        let lines = || String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let offered = format!("tools={}", tools(1).specs().await.unwrap().len());
        let said = lines();
        let said: Vec<&str> = said.lines().collect();
        assert_eq!(said.len(), 2, "{said:?}");
        for (line, run) in said.iter().zip([1, 2]) {
            let run = format!("run={}", uuid::Uuid::from_u128(run));
            let projects = format!("projects=\"{project}\"");
            for part in ["context applied", &run, "scope=project", &projects, &offered] {
                assert!(line.contains(part), "{part}: {line}");
            }
        }
    }

    #[test]
    fn a_run_is_new_once_and_old_ones_are_forgotten() {
        let run = |n: usize| RunId(uuid::Uuid::from_u128(n as u128));
        let mut runs = Runs::default();
        assert!(runs.is_new(run(0)) && !runs.is_new(run(0)));
        assert!((1..=RUNS).all(|n| runs.is_new(run(n))));
        assert_eq!((runs.known.len(), runs.oldest_first.len()), (RUNS, RUNS));
        assert!(!runs.is_new(run(RUNS)) && runs.is_new(run(0)));
    }
}
