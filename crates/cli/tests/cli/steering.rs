//! The commands to a live run as real processes: against a scripted server, and against one at work.

use std::io::Write;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::dev::{Dev, code, lines, program, run, stderr, stdout, succeeded};
use crate::support::fake::{Fake, Steered, document_id, log, run_id};
use serde_json::Value;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use tree_agent_contract::event::{
    BudgetSet, Event, EventBody, NodePaused, NodeReopened, PlanBandCreated, PlanCreated, StepCreated,
};
use tree_agent_contract::{BudgetChange, NodeId, PlanId, RunStatus, StepId};
use tree_agent_proto::v1 as pb;

fn root() -> NodeId {
    NodeId::root(run_id())
}

/// A run at work whose root has a plan, and that was steered.
fn steered_log() -> Vec<Event> {
    let mut events: Vec<Event> = log(RunStatus::Completed, false).into_iter().take(4).collect();
    let by = || ("ann".to_owned(), "r".to_owned());
    let plan_id = PlanId::of(root(), 1);
    let bodies: Vec<EventBody> = vec![
        {
            let (author, request_id) = by();
            NodeReopened { generation: 1, author, request_id, again: true, model: None, budget: None }.into()
        },
        PlanCreated {
            plan_id,
            version: 1,
            summary: Some("two offers".into()),
            mode_reason: None,
            iteration: None,
        }
        .into(),
        PlanBandCreated {
            plan_id,
            band_index: 0,
            step_ids: vec![StepId::new("s0")],
            goal: "read".into(),
            parallelizable: true,
        }
        .into(),
        step().into(),
        {
            let (author, request_id) = by();
            NodePaused { author, request_id, in_flight: Vec::new() }.into()
        },
        {
            let (author, request_id) = by();
            let change = BudgetChange { max_tokens: Some(5_000), ..BudgetChange::default() };
            BudgetSet { author, request_id, change, clamped: false }.into()
        },
    ];
    for body in bodies {
        let last = events.last().unwrap().clone();
        events.push(Event { seq: last.seq + 1, body, ..last });
    }
    events
}

fn step() -> StepCreated {
    StepCreated {
        step_id: StepId::new("s0"),
        band_index: 0,
        step_index: 0,
        title: "Read the first offer".into(),
        reason: String::new(),
        success_criteria: vec!["every cost is named".into()],
        strategy: None,
        search: None,
        branch_id: None,
        budget: None,
        deliverable: None,
        profile: None,
    }
}

async fn tree_agent(url: &str, args: &[&str], input: Option<&str>) -> Output {
    let mut command = program(url);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.unwrap_or_default().as_bytes()).unwrap();
    drop(stdin);
    tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap()
}

async fn serve() -> (Fake, String, String) {
    let (fake, url) = Fake::serve(steered_log(), vec![]).await;
    (fake, url, run_id().to_string())
}

fn last(fake: &Fake) -> Steered {
    fake.0.lock().unwrap().steered.last().expect("a command arrived").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_says_what_a_command_would_do() {
    let (fake, url, run) = serve().await;
    let node = root().to_string();
    let output = tree_agent(&url, &["retry", &run[28..], &node[..8], "--dry-run"], None).await;
    let text = "re-runs 3 nodes, about 7 calls, about $0.12; reuses 41\nnote: it rains\n";
    assert_eq!((code(&output), &*stdout(&output)), (0, text), "{}", stderr(&output));
    let Steered::Retry(request) = last(&fake) else { panic!("no retry") };
    assert!(request.validate_only && request.node_id == node);
    let output = tree_agent(&url, &["pause", &run, "--dry-run", "-o", "json"], None).await;
    let printed: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&printed["runId"], &printed["preview"]["seq"]), (&Value::from(&*run), &Value::from(9)));
    assert_eq!(printed["preview"]["calls"]["execute"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_sends_what_was_asked_for() {
    let (fake, url, run) = serve().await;
    let node = root().to_string();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "from a file\n").unwrap();
    let path = file.path().to_str().unwrap();
    let succeed = async |args: &[&str], input: Option<&str>| {
        let output = tree_agent(&url, args, input).await;
        assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
        stdout(&output)
    };

    assert_eq!(succeed(&["pause", &run], None).await, format!("run {run} is paused (event 57)\n"));
    let Steered::Pause(pause) = last(&fake) else { panic!("no pause") };
    assert!(pause.node_id.is_empty() && !pause.now && !pause.request_id.is_empty());
    assert_eq!(pause.run_id, run);
    succeed(&["pause", &run, &node, "--now", "--expected-seq", "9"], None).await;
    let Steered::Pause(pause) = last(&fake) else { panic!("no pause") };
    assert!(pause.node_id == node && pause.now && pause.expected_seq == Some(9));
    assert_eq!(succeed(&["resume", &run, &node], None).await, format!("node {node} goes on (event 57)\n"));

    for (args, input, text) in [
        (&["be brief", "--subtree", "--restart"][..], None, "be brief"),
        (&["-"], Some("from stdin\n"), "from stdin"),
        (&["--file", path], None, "from a file"),
    ] {
        succeed(&[&["guide", &run, &node], args].concat(), input).await;
        let Steered::Guide(guide) = last(&fake) else { panic!("no guidance") };
        assert_eq!((&*guide.text, guide.subtree, guide.restart), (text, args.len() == 3, args.len() == 3));
    }

    succeed(&["stop", &run, &node, "--discard"], None).await;
    assert!(matches!(last(&fake), Steered::Stop(stop) if stop.discard));

    let retry = ["retry", &run, &node, "--guidance", "g", "--model", "fast", "--max-tokens", "9"];
    succeed(&retry, None).await;
    let Steered::Retry(request) = last(&fake) else { panic!("no retry") };
    assert_eq!((&*request.guidance, &*request.model), ("g", "fast"));
    assert_eq!(request.budget.unwrap().max_tokens, Some(9));
    fake.0.lock().unwrap().fork = Some("f".into());
    assert!(succeed(&["retry", &run, &node], None).await.contains("has ended; f goes on from its end"));

    let budget = [
        "budget",
        &run,
        "--max-tokens",
        "none",
        "--max-cost",
        "0.5",
        "--max-time",
        "10m",
        "--max-nodes",
        "7",
    ];
    let printed = succeed(&[&budget[..], &["-o", "json"]].concat(), None).await;
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let Steered::SetBudget(request) = last(&fake) else { panic!("no budget") };
    let change = pb::BudgetChange {
        max_tokens: Some(0),
        max_cost_micros: Some(500_000),
        max_wall_clock_ms: Some(600_000),
        max_nodes: Some(7),
        ..Default::default()
    };
    assert_eq!(request.change, Some(change));
    assert_eq!((&printed["seq"], &printed["requestId"]), (&57.into(), &Value::from(request.request_id)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_answer_is_lost_is_given_again_with_its_request_id() {
    let (fake, url, run) = serve().await;
    fake.0.lock().unwrap().steering_failures.push_back(Status::unavailable("the answer was lost"));
    let output = tree_agent(&url, &["pause", &run], None).await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let steered = fake.0.lock().unwrap().steered.clone();
    assert_eq!(steered.len(), 2);
    assert_eq!(steered[0], steered[1]);

    let details = ErrorDetails::with_error_info("COMMAND_UNANSWERED", "treeagent.v1", []);
    let unanswered = Status::with_error_details(Code::Unavailable, "no driver has answered", details);
    fake.0.lock().unwrap().steering_failures = vec![unanswered; 4].into();
    let output = tree_agent(&url, &["pause", &run], None).await;
    assert_eq!(code(&output), 5, "{}", stderr(&output));
    assert!(stderr(&output).contains("no driver has answered"), "{}", stderr(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_told_once() {
    let (fake, url, run) = serve().await;
    for (status, reason) in [(Code::Aborted, "CHANGED_SINCE"), (Code::FailedPrecondition, "RUN_ENDED")] {
        let details = ErrorDetails::with_error_info(reason, "treeagent.v1", []);
        let refused = Status::with_error_details(status, "look again", details);
        fake.0.lock().unwrap().steering_failures.push_back(refused);
        let before = fake.0.lock().unwrap().steered.len();
        let output = tree_agent(&url, &["pause", &run], None).await;
        assert_eq!((code(&output), &*stderr(&output)), (2, "error: look again\n"), "{reason}");
        assert_eq!(fake.0.lock().unwrap().steered.len(), before + 1, "{reason}");
    }
    let output = tree_agent(&url, &["budget", &run], None).await;
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("--max-tokens"), "{}", stderr(&output));
    assert_eq!(code(&tree_agent(&url, &["guide", &run, &root().to_string()], None).await), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_shown_and_edited_as_yaml() {
    let (fake, url, run) = serve().await;
    let node = root().to_string();
    let shown = tree_agent(&url, &["plan", "show", &run, &node], None).await;
    assert_eq!(code(&shown), 0, "{}", stderr(&shown));
    let shown = stdout(&shown);
    for part in ["seq: 10", "title: \"Read the first offer\"", "- \"every cost is named\"", "id: \"s0\""] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
    let edited = format!("{shown}      - title: Read the second offer\n");
    let output = tree_agent(&url, &["plan", "edit", &run, &node, "--file", "-"], Some(&edited)).await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let Steered::EditPlan(request) = last(&fake) else { panic!("no edit") };
    assert_eq!(request.expected_seq, Some(10));
    let steps = &request.plan.as_ref().unwrap().bands[0].steps;
    let names: Vec<_> = steps.iter().map(|step| (&*step.step_id, &*step.title)).collect();
    assert_eq!(names, [("s0", "Read the first offer"), ("", "Read the second offer")]);

    let before = fake.0.lock().unwrap().steered.len();
    let output = tree_agent(&url, &["plan", "edit", &run, &node, "-f", "-"], Some("bands: x\n")).await;
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("stdin: the plan cannot be read in line 1"), "{}", stderr(&output));
    assert_eq!(fake.0.lock().unwrap().steered.len(), before);
    let json = stdout(&tree_agent(&url, &["plan", "show", &run, &node, "-o", "json"], None).await);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["bands"][0]["steps"][0]["stepId"], "s0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_was_edited_for_a_dry_run_is_kept_and_named() {
    let (fake, url, run) = serve().await;
    let folder = tempfile::tempdir().unwrap();
    let editor = folder.path().join("editor");
    std::fs::write(&editor, "#!/bin/sh\necho '      - title: One more thing' >> \"$1\"\n").unwrap();
    let edit = async |exit: i32, more: &'static [&'static str]| {
        let mut command = program(&url);
        command.args(["plan", "edit", &run, &root().to_string()]).args(more).env_remove("VISUAL");
        command.env("EDITOR", format!("sh {}", editor.display())).env("TMPDIR", folder.path());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        assert_eq!(code(&output), exit, "{}", stderr(&output));
        let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
        let kept: Vec<_> = files.filter(|file| file.extension().is_some_and(|e| e == "yaml")).collect();
        (kept, stderr(&output))
    };
    let (kept, said) = edit(0, &["--dry-run"]).await;
    assert_eq!(kept.len(), 1, "{said}");
    assert!(said.contains(&format!("send it with --file {}", kept[0].display())), "{said}");
    let file = kept[0].to_str().unwrap();
    let sent = tree_agent(&url, &["plan", "edit", &run, &root().to_string(), "--file", file], None).await;
    assert_eq!(code(&sent), 0, "{}", stderr(&sent));
    let Steered::EditPlan(request) = last(&fake) else { panic!("no edit") };
    assert_eq!((request.expected_seq, request.validate_only), (Some(10), false));
    assert_eq!(request.plan.unwrap().bands[0].steps[1].title, "One more thing");
    std::fs::remove_file(file).unwrap();
    assert_eq!(edit(0, &[]).await.0.len(), 0, "what was sent needs no file");
    std::fs::write(&editor, "exit 1\n").unwrap();
    assert_eq!(edit(1, &[]).await.0.len(), 0, "nobody needs a plan that was not edited");
    std::fs::write(&editor, "echo >> \"$1\"; echo '# mine' >> \"$1\"; exit 1\n").unwrap();
    let (kept, said) = edit(1, &[]).await;
    assert!(said.contains(&format!("the edited plan is kept in {}", kept[0].display())), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_and_trees_show_who_did_what() {
    let (_, url, run) = serve().await;
    let output = tree_agent(&url, &["graph", &run], None).await;
    let text = stdout(&output);
    assert!(text.contains("‖ paused") && text.contains("↺ reopened"), "{text}");
    let watched = tree_agent(&url, &["watch", &run, "--give-up-after", "1s"], None).await;
    let text = stdout(&watched);
    for part in
        ["‖ why?  paused by ann", "budgets changed by ann: at most 5,000 tokens", "↺ why?  done again by ann"]
    {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

/// Runs the program until what it prints holds `part`.
fn wait_for(server: &str, args: &[&str], part: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let output = run(server, args);
        let text = stdout(&output);
        if code(&output) == 0 && text.contains(part) {
            return text;
        }
        assert!(Instant::now() < deadline, "{args:?} does not print {part:?}:\n{text}{}", stderr(&output));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_run_at_work_is_steered() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path());
    let server = dev.server.as_str();
    let model = "scripted:fanout=2,depth=1,latency_ms=2000";
    let id =
        stdout(&succeeded(run(server, &["run", "Compare", "--model", model, "--detach"]))).trim().to_owned();
    // The call of the planner is in flight then, and a pause lets it end. Before that there would be no plan to edit.
    wait_for(server, &["events", &id, "-o", "jsonl"], "\"planning\"");
    succeeded(run(server, &["pause", &id]));
    // Again, which changes nothing.
    succeeded(run(server, &["pause", &id]));
    let root = lines(&succeeded(run(server, &["graph", &id, "-o", "jsonl"])))[0]["nodes"][0]["id"].clone();
    let root = root.as_str().unwrap();

    wait_for(server, &["plan", "show", &id, root], "bands:");
    let dry = succeeded(run(server, &["guide", &id, root, "be brief", "--dry-run"]));
    assert!(stdout(&dry).starts_with("concerns 1 node"), "{}", stdout(&dry));
    succeeded(run(server, &["guide", &id, root, "be brief"]));
    succeeded(run(server, &["budget", &id, "--max-nodes", "50"]));
    let editor = data.path().join("editor");
    std::fs::write(&editor, "#!/bin/sh\necho '      - title: One more thing' >> \"$1\"\n").unwrap();
    let mut edit = program(server);
    edit.args(["plan", "edit", &id, root])
        .env_remove("VISUAL")
        .env("EDITOR", format!("sh {}", editor.display()));
    succeeded(edit.output().unwrap());
    succeeded(run(server, &["resume", &id]));
    succeeded(run(server, &["watch", &id, "-q"]));

    let tree = stdout(&succeeded(run(server, &["graph", &id])));
    assert!(tree.contains("One more thing"), "{tree}");
    let types: Vec<Value> = lines(&succeeded(run(server, &["events", &id, "-o", "jsonl"])));
    let has = |name: &str| types.iter().filter(|event| event["type"] == name).count();
    for name in [
        "tree.node_paused",
        "tree.node_resumed",
        "tree.guidance_added",
        "tree.budget_set",
        "tree.plan_edited",
    ] {
        assert_eq!(has(name), 1, "{name}");
    }
    let late = run(server, &["pause", &id]);
    assert_eq!(code(&late), 2);
    assert!(stderr(&late).contains("fork it"), "{}", stderr(&late));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_is_previewed_and_sent_with_its_edits_in_order() {
    let (fake, url, run) = serve().await;
    let node = root().to_string();
    let file = tempfile::NamedTempFile::new().unwrap();
    let shown = stdout(&tree_agent(&url, &["plan", "show", &run, &node], None).await);
    std::fs::write(file.path(), shown).unwrap();
    let plan = file.path().to_str().unwrap();
    let output = tree_agent(&url, &["fork", &run[28..], "--at", "4", "--dry-run"], None).await;
    let text = "re-runs 3 nodes, about 7 calls, about $0.12; reuses 41\nnote: it rains\n\
        note: 1 document of its projects has changed since; the fork reads what is there today\n";
    let text = format!("{text}  {}\n", document_id());
    assert_eq!((code(&output), &*stdout(&output)), (0, &*text), "{}", stderr(&output));
    let Steered::Fork(request) = last(&fake) else { panic!("no fork") };
    assert!(request.validate_only && request.edits.is_empty() && request.at_seq == Some(4));
    let output = tree_agent(&url, &["fork", &run, "--dry-run"], None).await;
    assert!(stderr(&output).contains("later, add --at 9"), "{}", stderr(&output));
    let output = tree_agent(&url, &["fork", &run, "--dry-run", "-o", "json"], None).await;
    let printed: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        (&printed["preview"]["reusedNodes"], &printed["changedDocumentCount"]),
        (&41.into(), &1.into())
    );

    fake.0.lock().unwrap().fork = Some("f".into());
    let args = [
        &["fork", &run, "--name", "again", "--guide", &node, "be brief", "--retry", &node][..],
        &["--plan", &node, plan, "--max-tokens", "none", "--model", "fast"],
    ];
    let output = tree_agent(&url, &args.concat(), None).await;
    assert_eq!(stdout(&output), format!("run f goes on from run {run}\n"), "{}", stderr(&output));
    assert!(stderr(&output).contains("tree-agent watch f"), "{}", stderr(&output));
    let Steered::Fork(request) = last(&fake) else { panic!("no fork") };
    assert!(!request.validate_only && !request.request_id.is_empty() && request.at_seq.is_none());
    assert_eq!((&*request.run_id, &*request.display_name), (&*run, "again"));
    use pb::fork_edit::Edit;
    let edits: Vec<Edit> = request.edits.into_iter().filter_map(|edit| edit.edit).collect();
    let [Edit::Model(model), Edit::Budget(budget), Edit::Plan(plan), Edit::Retry(retry), Edit::Guide(guide)] =
        &edits[..]
    else {
        panic!("{edits:?}")
    };
    assert_eq!((&**model, budget.change.unwrap().max_tokens), ("fast", Some(0)));
    assert_eq!((&plan.node_id, plan.plan.as_ref().unwrap().bands.len()), (&node, 1));
    assert_eq!((&retry.node_id, &*guide.text, guide.subtree), (&node, "be brief", true));

    // All limits of a run, and those of a node: of what it does again, or of what it goes on with.
    let nodes = ["--max-nodes", "2000", "--max-parallel-steps", "2", "--max-time", "10m"];
    let budget = ["--budget", &node[..8], "max-tokens=40000,max-cost=0.5"];
    for retry in [&["--retry", &node[..8]][..], &[]] {
        let output = tree_agent(&url, &[&["fork", &run][..], &nodes, &budget, retry].concat(), None).await;
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let Steered::Fork(request) = last(&fake) else { panic!("no fork") };
        let edits: Vec<Edit> = request.edits.into_iter().filter_map(|edit| edit.edit).collect();
        let change = pb::BudgetChange {
            max_nodes: Some(2_000),
            max_parallel_steps: Some(2),
            max_wall_clock_ms: Some(600_000),
            ..Default::default()
        };
        assert_eq!(edits[0], Edit::Budget(pb::BudgetEdit { node_id: String::new(), change: Some(change) }));
        let limits = match &edits[1] {
            Edit::Budget(pb::BudgetEdit { node_id, change: Some(change) }) if retry.is_empty() => {
                (node_id, change.max_tokens, change.max_cost_micros)
            }
            Edit::Retry(pb::RetryEdit { node_id, budget: Some(budget), .. }) if !retry.is_empty() => {
                (node_id, budget.max_tokens, budget.max_cost_micros)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!((limits, edits.len()), ((&node, Some(40_000), Some(500_000)), 2));
    }
    let wrong = tree_agent(&url, &["fork", &run, "--budget", &node, "max-nodes=3"], None).await;
    assert_eq!(code(&wrong), 2);
    assert!(stderr(&wrong).contains("'--max-nodes' found; give max-tokens"), "{}", stderr(&wrong));

    let details = ErrorDetails::with_bad_request_violation("request_id", "was used before");
    let answer = Status::with_error_details(Code::AlreadyExists, "request_id was used before", details);
    fake.0.lock().unwrap().steering_failures.push_back(answer);
    let refused = tree_agent(&url, &["fork", &run], None).await;
    assert!(code(&refused) != 0 && stderr(&refused).contains("was used before"), "{}", stderr(&refused));
    let output = tree_agent(&url, &["fork", &run, "-o", "json"], None).await;
    let printed: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&printed["forkRunId"], &printed["runId"]), (&"f".into(), &Value::from(&*run)));
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_stand_below_the_run_that_they_fork() {
    let (fake, url, run) = serve().await;
    {
        let mut state = fake.0.lock().unwrap();
        state.others = vec!["who?".into()];
        state.fork_edits = vec!["retries a node".into(), "model fast".into()];
    }
    let output = tree_agent(&url, &["runs", "--tree"], None).await;
    let text = stdout(&output);
    let rows: Vec<&str> = text.lines().collect();
    assert!(rows.len() == 3 && rows[1].contains(&run), "{text}");
    assert!(rows[2].contains("└ forked at event 4: retries a node; model fast — who?"), "{text}");
    let output = tree_agent(&url, &["runs", "--tree", "-o", "jsonl"], None).await;
    let runs: Vec<Value> = lines(&output);
    assert_eq!(
        (&runs[0]["runId"], &runs[1]["fork"]["parentRunId"]),
        (&Value::from(&*run), &Value::from(&*run))
    );
    assert_eq!(code(&tree_agent(&url, &["runs", "--tree", "--watch"], None).await), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_read_and_followed_as_a_run_has_it() {
    let (fake, url, run) = serve().await;
    let id = document_id().to_string();
    for (args, seq) in [(&[][..], None), (&["--at", "3"], Some(3))] {
        let args = [&["doc", &id, "--run", &run[28..]][..], args].concat();
        let output = tree_agent(&url, &args, None).await;
        assert_eq!((code(&output), &*stdout(&output)), (0, "# Because\n"), "{}", stderr(&output));
        let read = fake.0.lock().unwrap().read.pop().expect("it was asked for");
        assert_eq!((read.run_id, read.at_seq), (run.clone(), seq));
    }
    let output = tree_agent(&url, &["doc", &id, "--run", &run, "--follow"], None).await;
    assert_eq!((code(&output), &*stdout(&output)), (0, "# Because\n"), "{}", stderr(&output));
    assert!(fake.0.lock().unwrap().followed.iter().all(|asked| asked.run_id == run));
    tree_agent(&url, &["doc", &id], None).await;
    assert_eq!(fake.0.lock().unwrap().read.pop().expect("it was asked for").run_id, "");
}
