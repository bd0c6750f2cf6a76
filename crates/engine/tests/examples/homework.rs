//! Homework, step by step.

use tree_agent_contract::homework::*;

use super::*;
use crate::world::Documents;

/// Homework that is driven by hand, with its documents.
struct Homework {
    hand: Hand,
    documents: Documents,
}

pub(super) fn task(branch: &str, title: &str) -> StepDraft {
    StepDraft {
        branch_id: Some(branch.into()),
        ..StepDraft::new(StepId::new(format!("{branch}-{title}")), title)
    }
}

pub(super) fn draft(rollup: &str) -> HomeworkDraft {
    HomeworkDraft {
        items: vec![PlanItem { title: "Find prices".into(), state: ItemState::Doing, note: String::new() }],
        rollup: rollup.into(),
        branches: Vec::new(),
        remaining: vec!["the discounts".into()],
        questions: Vec::new(),
    }
}

pub(super) fn planned(
    mode: PlannerMode,
    tasks: Vec<StepDraft>,
    homework: Option<HomeworkDraft>,
) -> CallOutput {
    let steps = (0..).zip(tasks).map(|(step_index, task)| StepDraft { step_index, ..task }).collect();
    let band = BandDraft { index: 0, goal: "find out".into(), parallelizable: true, steps };
    let plan = PlanDraft { summary: "look around".into(), bands: vec![band] };
    CallOutput::Plan(PlannerOutput {
        premises: None,
        mode,
        mode_reason: "because".into(),
        leaf_decision: None,
        plan: (mode == PlannerMode::Plan).then_some(plan),
        homework: homework.map(Box::new),
        scratchpad: notes(),
    })
}

impl Homework {
    fn new(budgets: Budgets) -> Self {
        let id = RunId(uuid::Uuid::from_u128(7));
        let spec = RunSpec { strategy: Strategy::Homework, budgets, ..RunSpec::new("What does it cost?") };
        let now = Timestamp::from_millis(1_000);
        let first = start(id, spec, now);
        let run = Run::replay(id, &first.events).expect("a fresh log replays");
        let mut documents = Documents::default();
        documents.write(first.documents);
        let mut homework = Self { hand: Hand { run, log: first.events, now, texts: Vec::new() }, documents };
        homework.feed(Input::Claimed);
        homework
    }

    fn feed(&mut self, input: Input) {
        // Far enough from the last change of any document that none has to wait.
        self.hand.now = self.hand.now.plus_millis(1_000);
        let decision = self.hand.run.handle(input, self.hand.now);
        self.hand.log.extend(decision.events);
        self.documents.write(decision.documents);
        self.documents.check();
    }

    fn brief(call: &RoleCall) -> &HomeworkBrief {
        let CallInput::Plan(input) = &call.input else { panic!("a planner is called: {call:?}") };
        input.homework.as_deref().expect("it is told of the homework")
    }

    /// The planner answers with tasks. Returns what it was told.
    fn plans(&mut self, rollup: &str, tasks: Vec<StepDraft>) -> HomeworkBrief {
        let call = self.hand.only();
        let told = Self::brief(&call).clone();
        self.feed(Input::Output(call.key, planned(PlannerMode::Plan, tasks, Some(draft(rollup)))));
        told
    }

    fn is_done(&mut self, rollup: &str) {
        let call = self.hand.only();
        self.feed(Input::Output(call.key, planned(PlannerMode::Done, vec![], Some(draft(rollup)))));
    }

    /// Every task that is due completes. Returns their inputs.
    fn executes(&mut self) -> Vec<ExecuteInput> {
        let due = self.hand.due();
        due.into_iter()
            .map(|call| {
                self.feed(Input::Output(call.key, CallOutput::Execute(executor_output("x"))));
                let CallInput::Execute(input) = call.input else { panic!("an executor is called") };
                *input
            })
            .collect()
    }

    fn aggregates(&mut self) -> AggregateInput {
        let call = self.hand.only();
        self.feed(Input::Output(call.key, CallOutput::Aggregate(aggregator_output("all"))));
        let CallInput::Aggregate(input) = call.input else { panic!("an aggregator is called") };
        *input
    }

    fn texts(&self, kind: DocumentKind) -> Vec<&str> {
        self.documents.iter().filter(|d| d.kind == kind).map(|d| d.body.as_str()).collect()
    }

    fn refused(&self) -> Vec<(&str, &str)> {
        let refused = self.hand.log.iter().filter_map(|e| match &e.body {
            EventBody::TaskRefused(e) => Some((e.title.as_str(), e.reason.as_str())),
            _ => None,
        });
        refused.collect()
    }

    fn ends(&self) -> (RunStatus, bool) {
        let ending = self.hand.ending();
        (ending.status, ending.partial)
    }
}

#[test]
fn iterations_follow_each_other_until_the_planner_is_satisfied() {
    let mut homework = Homework::new(Budgets::default());
    let told =
        homework.plans("", vec![task("List prices", "Read the price list"), task("fees", "Find fees")]);
    assert_eq!((told.iteration, told.max_iterations, told.branches.len()), (1, 5, 0));
    let inputs = homework.executes();
    assert_eq!(inputs.len(), 2);
    let first = inputs[0].task.as_ref().expect("a task of homework");
    assert_eq!((first.branch_id.as_str(), first.iteration, first.rollup.as_str()), ("list-prices", 1, ""));
    assert!(inputs[0].call.scratchpad_tail.starts_with("## Iteration 1: Read the price list"));
    assert!(inputs[0].earlier.is_empty());

    let call = homework.hand.only();
    let told = Homework::brief(&call).clone();
    let item = |title: &str, state, note: &str| PlanItem { title: title.into(), state, note: note.into() };
    let fees = vec![BranchNote { branch_id: "Fees".into(), summary: "They are low.".into() }];
    let second = HomeworkDraft {
        items: vec![
            item("Find prices", ItemState::Done, ""),
            item("Compare", ItemState::Todo, "all of them"),
        ],
        rollup: "Prices are known.".into(),
        branches: fees.clone(),
        remaining: Vec::new(),
        questions: vec!["whose prices?".into()],
    };
    let tasks = vec![task("LIST prices", "Read the discounts")];
    homework.feed(Input::Output(call.key, planned(PlannerMode::Plan, tasks, Some(second))));
    assert_eq!((told.iteration, told.last.items.len()), (2, 1));
    let entries: Vec<_> = told.branches.iter().map(|b| (b.branch_id.as_str(), b.entries.len())).collect();
    assert_eq!(entries, [("list-prices", 1), ("fees", 1)]);
    assert_eq!(told.branches[0].entries[0].summary, "found it");
    let inputs = homework.executes();
    // The branch goes on in its own scratchpad.
    let again = inputs[0].task.as_ref().expect("a task of homework");
    assert_eq!((&again.branch_id, again.iteration), (&first.branch_id, 2));
    assert_eq!(
        (again.scratchpad_doc_id, again.rollup.as_str()),
        (first.scratchpad_doc_id, "Prices are known.")
    );
    assert_eq!(inputs[0].earlier.len(), 1);
    assert!(inputs[0].call.scratchpad_tail.contains("**Result:** found it"), "{:?}", inputs[0].call);

    let call = homework.hand.only();
    let last = HomeworkDraft { branches: fees, ..draft("Discounts are known.") };
    homework.feed(Input::Output(call.key, planned(PlannerMode::Done, vec![], Some(last))));
    let input = homework.aggregates();
    assert_eq!(input.children.len(), 3);
    assert_eq!(input.homework.expect("how it went").rollups, ["Prices are known.", "Discounts are known."]);
    assert_eq!(homework.ends(), (RunStatus::Completed, false));

    let branch = "## Iteration 1: Read the price list\n\n- noted\n\n**Result:** found it\n\n\
                  ## Iteration 2: Read the discounts\n\n- noted\n\n**Result:** found it\n\n";
    assert!(homework.texts(DocumentKind::HomeworkBranch).contains(&branch));
    let main = "- noted\n\nChanges of the plan:\n\n- new, doing: Find prices\n\nRemaining:\n\n- the discounts\n\n\
                ## Iteration 1\n\n- LIST: Read the price list\n- FEES: Find fees\n\n\
                - noted\n\n## Roll-up of iteration 1\n\nPrices are known.\n\n\
                - LIST, Read the price list: found it\n- FEES, Find fees: They are low.\n\n\
                Changes of the plan:\n\n- doing → done: Find prices\n- new, todo: Compare: all of them\n\n\
                Questions:\n\n- whose prices?\n\n## Iteration 2\n\n- LIST: Read the discounts\n\n\
                - noted\n\n## Roll-up of iteration 2\n\nDiscounts are known.\n\n\
                - LIST, Read the discounts: found it\n\nOther branches:\n\n- FEES: They are low.\n\n\
                Changes of the plan:\n\n- done → doing: Find prices\n- taken out: Compare\n\n\
                Remaining:\n\n- the discounts\n\n## Done\n\nbecause\n\n- noted\n";
    let root = homework.hand.run.graph().nodes()[0].id;
    let link = |branch: &str| format!("[{branch}](document:{})", DocumentId::branch(root, branch));
    let main = main.replace("LIST", &link("list-prices")).replace("FEES", &link("fees"));
    assert_eq!(homework.texts(DocumentKind::HomeworkScratchpad), [main]);
    let plan = "# Plan: What does it cost?\n\nAs of iteration 3.\n\n- [ ] Find prices (doing)\n\n\
                Remaining:\n\n- the discounts\n\n";
    assert_eq!(homework.texts(DocumentKind::HomeworkPlan), [plan]);
    let summaries = homework.texts(DocumentKind::HomeworkSummary);
    assert_eq!(summaries.len(), 2);
    assert!(
        summaries.iter().any(|s| s.starts_with("# Iteration 1\n\nPrices are known.\n\n## Read the price"))
    );
    let nodes = homework.hand.run.graph().nodes();
    assert_eq!(nodes[3].step_id.as_ref().map(StepId::as_str), Some("2.list-prices"));
}

#[test]
fn a_branch_logs_what_its_task_did_and_each_of_it_once() {
    let mut homework = Homework::new(Budgets { max_attempts: 1, ..Budgets::default() });
    homework.plans("", vec![task("a", "Read the list"), task("b", "Read the fees")]);
    let calls = homework.hand.due();
    for call in &calls {
        let asked = |id: &str| Input::Update(call.key, kept::asked(id, false));
        homework.feed(asked("t1"));
        homework.feed(Input::Update(call.key, kept::kept("t1", "tool-answers/a.json")));
        homework.feed(asked("t2"));
        let mut result = kept::result("t2");
        (result.ok, result.error) = (false, Some("no such list".into()));
        homework.feed(Input::Update(call.key, RoleUpdate::ToolCallResult(result)));
        homework.feed(asked("t3"));
    }
    let action = |kind, note: &str| Action { kind, note: note.into(), tool_name: None, tool_args: None };
    let output = ExecutorOutput {
        actions: vec![action(ActionKind::ToolCall, "look answered"), action(ActionKind::Document, "a table")],
        scratchpad: ScratchpadDraft::of("Looked.\n\n**Read.** found it\n".into()),
        ..executor_output("x")
    };
    homework.feed(Input::Output(calls[0].key, CallOutput::Execute(output)));
    homework.feed(Input::Failed(calls[1].key, RoleError::new(RoleErrorKind::Internal, "torn")));
    let did = "Tools:\n\n- `look` (query: pipes; to find out): answered\n\
               - `look` (query: pipes; to find out): failed: no such list\n\
               - `look` (query: pipes; to find out): failed: abandoned\n\n";
    let branches = homework.texts(DocumentKind::HomeworkBranch);
    for expected in [
        format!("{did}Actions:\n\n- document: a table\n\nLooked.\n\n**Read.** found it\n\n"),
        format!("{did}**Failed:** internal: torn\n\n"),
    ] {
        assert!(branches.iter().any(|text| text.ends_with(&format!("\n\n{expected}"))), "{branches:?}");
    }
    let answer = homework.documents.iter().find(|document| document.kind == DocumentKind::ToolAnswer);
    let props = &answer.expect("it is kept").props;
    assert_eq!((props.branch_id.as_deref(), props.iteration), (Some("a"), Some(1)));
}

#[test]
fn a_task_that_repeats_an_earlier_one_word_for_word_is_refused() {
    let mut homework = Homework::new(Budgets::default());
    homework.plans("", vec![task("a", "Read the price list"), task("b", "Read the price list")]);
    homework.executes();
    let criteria = vec!["names the currency".to_owned()];
    homework.plans(
        "Read.",
        vec![
            task("a", "Reading: the price list"),
            task("b", "Read the price list"),
            StepDraft { success_criteria: criteria, ..task("c", "Read the price list") },
            task("c", "Read the footnotes"),
        ],
    );
    let expected = [
        ("Read the price list", "repeats another task of this iteration"),
        ("Read the price list", "repeats \"Read the price list\" of iteration 1"),
        ("Read the footnotes", "the branch has a task in this iteration"),
    ];
    assert_eq!(homework.refused(), expected);
    assert_eq!(homework.executes().len(), 2, "other words and other criteria are other tasks");
    let told = homework.plans("Read again.", vec![task("a", "Read the price list")]);
    assert_eq!(told.refused.len(), 2);
    assert_eq!(told.refused[0].reason, expected[1].1);
    // All tasks were refused, and still the iteration counts.
    let call = homework.hand.only();
    let brief = Homework::brief(&call);
    assert_eq!((brief.iteration, brief.refused.len()), (4, 1));
    let main = homework.texts(DocumentKind::HomeworkScratchpad)[0];
    assert!(main.contains("- refused, `a`: Read the price list (repeats"), "{main}");
}

#[test]
fn a_failed_task_may_be_tried_again_and_then_nothing_is_lost() {
    let mut homework = Homework::new(Budgets { max_attempts: 1, ..Budgets::default() });
    homework.plans("", vec![task("a", "Read the list"), task("b", "Read the fees")]);
    let calls = homework.hand.due();
    let broken = RoleError::new(RoleErrorKind::Internal, "the list is torn");
    homework.feed(Input::Failed(calls[0].key, broken));
    homework.feed(Input::Output(calls[1].key, CallOutput::Execute(executor_output("x"))));
    let told = homework.plans("One failed.", vec![task("a", "Read the list")]);
    assert_eq!(told.branches[0].entries[0].status, NodeStatus::Failed);
    assert!(told.branches[0].entries[0].summary.contains("the list is torn"));
    assert_eq!(homework.refused(), []);
    homework.executes();
    homework.is_done("All read.");
    homework.aggregates();
    assert_eq!(homework.ends(), (RunStatus::Completed, false));
    let branches = homework.texts(DocumentKind::HomeworkBranch);
    assert!(
        branches.iter().any(|text| text.contains("**Failed:** internal: the list is torn")),
        "{branches:?}"
    );
}

#[test]
fn work_beyond_the_last_iteration_is_labelled_as_missing() {
    let mut homework = Homework::new(Budgets { max_iterations: 1, ..Budgets::default() });
    homework.plans("", vec![task("a", "Read the list")]);
    homework.executes();
    let told = homework.plans("Read.", vec![task("a", "Read the rest")]);
    assert!(told.is_last());
    assert!(homework.hand.messages().contains(&"guard:maxIterations"));
    homework.aggregates();
    assert_eq!(homework.ends(), (RunStatus::Completed, true));
    assert_eq!(homework.texts(DocumentKind::HomeworkSummary).len(), 1);
}

#[test]
fn without_a_planner_the_roll_up_lists_what_the_tasks_led_to() {
    let mut homework = Homework::new(Budgets { max_attempts: 1, ..Budgets::default() });
    homework.plans("", vec![task("a", "Read the list")]);
    homework.executes();
    let call = homework.hand.only();
    homework.feed(Input::Failed(call.key, RoleError::new(RoleErrorKind::Rejected, "no planner")));
    assert!(homework.hand.messages().contains(&"guard:replanFailed"));
    let input = homework.aggregates();
    let rollups = input.homework.expect("how it went").rollups;
    assert_eq!(rollups, ["1 of 1 tasks completed. Read the list: found it"]);
    assert_eq!(homework.ends(), (RunStatus::Completed, true));
}

#[test]
fn a_first_iteration_in_which_nothing_completes_is_told_with_its_error() {
    let mut homework = Homework::new(Budgets { max_attempts: 1, max_iterations: 1, ..Budgets::default() });
    homework.plans("", vec![task("a", "Read the list")]);
    let call = homework.hand.only();
    homework.feed(Input::Failed(call.key, RoleError::new(RoleErrorKind::Rejected, "no such list")));
    homework.is_done("Nothing.");
    let ending = homework.hand.ending();
    assert_eq!(ending.status, RunStatus::Failed);
    let reason = ending.reason.as_deref().unwrap_or_default();
    assert_eq!(reason, "its only task did not complete: rejected: no such list");
}

#[test]
fn a_planner_of_homework_keeps_to_its_contract() {
    let refuses = |output: CallOutput| {
        let mut homework = Homework::new(Budgets { max_attempts: 1, ..Budgets::default() });
        let call = homework.hand.only();
        homework.feed(Input::Output(call.key, output));
        homework.hand.ending().reason.clone().expect("why it failed")
    };
    for (output, expected) in [
        (planned(PlannerMode::Done, vec![], Some(draft(""))), "nothing has been done yet"),
        (planned(PlannerMode::Execute, vec![], Some(draft(""))), "must be \"plan\" or \"done\" in homework"),
        (planned(PlannerMode::Plan, vec![task("a", "t")], None), "homework: is required"),
        (
            planned(PlannerMode::Plan, vec![StepDraft::new(StepId::new("s"), "t")], Some(draft(""))),
            "branchId",
        ),
    ] {
        let reason = refuses(output);
        assert!(reason.contains(expected), "{reason}");
    }
    let mut tree = Hand::new(Budgets { max_attempts: 1, ..Budgets::default() });
    let call = tree.only();
    tree.feed(Input::Output(call.key, planned(PlannerMode::Done, vec![], None)));
    assert!(tree.ending().reason.as_deref().unwrap_or_default().contains("is an answer of homework"));
}

#[test]
fn a_preview_of_the_whole_homework_counts_a_plan_for_each_iteration() {
    let mut homework = Homework::new(Budgets::default());
    homework.plans("", vec![task("prices", "Read the price list"), task("fees", "Find fees")]);
    homework.executes();
    homework.plans("Prices are known.", vec![task("prices", "Read the discounts")]);
    homework.executes();
    homework.is_done("Discounts are known.");
    homework.aggregates();
    let root = homework.hand.run.graph().nodes()[0].id;
    let (preview, _) = homework.hand.run.fork(&[forks::retry(root)], homework.hand.now).expect("it fits");
    assert_eq!(preview.calls, [(CallKind::Plan, 3), (CallKind::Execute, 3), (CallKind::Aggregate, 1)]);
}
