//! A process that dies, or whose disk fails, at any step.

use std::io;
use std::sync::{Arc, Mutex};

use tree_agent_contract::search::Expansion;
use tree_agent_mirror::*;

use crate::support::*;

/// Writes the search to a new folder on a disk that fails; the folder, the steps of the disk, and how it ended.
fn write_on(fails_at: usize, failure: Failure) -> (tempfile::TempDir, usize, Result<(), MirrorError>) {
    let dir = tempfile::tempdir().expect("a folder");
    let root = open(dir.path());
    let folder = root.read().expect("it is empty");
    let steps = Arc::new(Mutex::new(0));
    let disk = FailingDisk { fails_at, failure, steps: steps.clone() };
    let mut mirror = Mirror::new(root, &folder, Box::new(disk)).expect("nothing to remove");
    let outcome = write(&mut mirror, &crate::support::steps());
    let taken = *steps.lock().expect("one thread");
    (dir, taken, outcome)
}

/// The disk steps of the whole search, and the files that it leaves.
fn whole() -> (usize, Vec<(String, String)>) {
    let (dir, steps, outcome) = write_on(usize::MAX, Failure::CrashBefore);
    outcome.expect("nothing fails");
    (steps, files(dir.path()))
}

#[test]
fn a_search_is_written_in_the_layout() {
    let (_, files) = whole();
    let files_of = crate::support::files;
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "a/children.json",
            "a/document.md",
            "a/node.json",
            "a/x/children.json",
            "a/x/document.md",
            "a/x/node.json",
            "a/y/node.json",
            "b/children.json",
            "b/document.md",
            "b/node.json",
            "c/node.json",
            "children.json",
        ]
    );
    let dir = tempfile::tempdir().expect("a folder");
    complete(dir.path(), steps().len()).expect("it can be written at once");
    assert_eq!(files_of(dir.path()), files, "whatever the order of the writes");
    let dir = tempfile::tempdir().expect("a folder");
    let root = open(dir.path());
    let folder = root.read().expect("it is empty");
    let mut mirror = Mirror::new(root, &folder, Box::new(LocalDisk)).expect("nothing to remove");
    write(&mut mirror, &steps()).expect("the disk of this machine works");
    drop(mirror);
    assert_eq!(files_of(dir.path()), files, "on the disk of this machine");
    let folder = read(dir.path());
    let seen: Vec<(&str, Expansion)> = folder.nodes.iter().map(|n| (n.path.as_str(), n.state())).collect();
    use Expansion::{Expanded, Leaf, Unexpanded};
    assert_eq!(seen, [("a", Expanded), ("b", Leaf), ("c", Unexpanded), ("a/x", Leaf), ("a/y", Unexpanded)]);
    assert_eq!(folder.document(&folder.nodes[3]).unwrap().as_deref(), Some("# X\n"));
    assert!(folder.notices.is_empty(), "{:?}", folder.notices);
}

#[test]
fn after_a_crash_at_any_step_the_folder_is_whole_and_can_be_completed() {
    let (steps, expected) = whole();
    assert!(steps > 40, "{steps} steps");
    let last = crate::support::steps().len();
    for fails_at in 1..=steps {
        for failure in [Failure::CrashBefore, Failure::CrashAfter] {
            let (dir, _, outcome) = write_on(fails_at, failure);
            assert!(outcome.is_err(), "it died at step {fails_at}");
            let folder = read(dir.path());
            assert!(folder.notices.is_empty(), "step {fails_at}: {:?}", folder.notices);
            for node in &folder.nodes {
                let says = node.file.as_ref().map(|file| file.status);
                let finished = matches!(says, Some(Expansion::Expanded | Expansion::Leaf));
                assert!(!finished || node.is_complete(), "step {fails_at}: {node:?}");
            }
            assert_eq!(
                edits(&wanted(last), &folder),
                [],
                "step {fails_at}: it is behind, and nobody edited it"
            );
            drop(folder);
            complete(dir.path(), last).expect("it can be completed");
            assert_eq!(files(dir.path()), expected, "step {fails_at}, {failure:?}");
        }
    }
}

#[test]
fn a_full_disk_is_said_and_changes_nothing_that_was_written() {
    let (steps, expected) = whole();
    let last = crate::support::steps().len();
    for fails_at in 1..=steps {
        let (dir, _, outcome) = write_on(fails_at, Failure::Error(io::ErrorKind::StorageFull));
        let Err(error) = outcome else { continue };
        let message = error.to_string();
        assert!(
            message.contains("free some space") && message.contains(dir.path().to_str().unwrap()),
            "{message}"
        );
        let half = files(dir.path()).into_iter().find(|(name, _)| name.ends_with(".tmp"));
        assert_eq!(half, None, "step {fails_at}: what could not be written whole is gone");
        complete(dir.path(), last).expect("there is room again");
        assert_eq!(files(dir.path()), expected, "step {fails_at}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_said() {
    let (_dir, _, outcome) = write_on(1, Failure::Error(io::ErrorKind::PermissionDenied));
    let message = outcome.unwrap_err().to_string();
    assert!(message.contains("make it writable"), "{message}");
}

#[test]
fn what_is_on_the_disk_is_not_written_again() {
    let dir = tempfile::tempdir().expect("a folder");
    complete(dir.path(), steps().len()).expect("it can be written");
    let root = open(dir.path());
    let folder = root.read().expect("it can be read");
    let taken = Arc::new(Mutex::new(0));
    let disk = FailingDisk { fails_at: usize::MAX, failure: Failure::CrashBefore, steps: taken.clone() };
    let mut mirror = Mirror::new(root, &folder, Box::new(disk)).expect("nothing to remove");
    let (mut last, mut latest) = (steps(), Vec::new());
    // The last word on every node.
    while let Some(step) = last.pop() {
        let path = |step: &Step| match step {
            Step::Root(_) => "",
            Step::Node(path, ..) => path,
        };
        if !latest.iter().any(|other| path(other) == path(&step)) {
            latest.push(step);
        }
    }
    write(&mut mirror, latest.iter().rev()).expect("there is nothing to do");
    assert_eq!(*taken.lock().unwrap(), 0, "not one step of the disk");
    assert!(mirror.has_document("a", Digest::of("# A\n")) && !mirror.has_document("c", Digest::of("# A\n")));
}

#[test]
fn a_step_costs_the_same_however_large_the_tree_is() {
    let steps_of = |level: usize| {
        let dir = tempfile::tempdir().expect("a folder");
        let root = open(dir.path());
        let folder = root.read().expect("it is empty");
        let taken = Arc::new(Mutex::new(0));
        let disk = FailingDisk { fails_at: usize::MAX, failure: Failure::CrashBefore, steps: taken.clone() };
        let mut mirror = Mirror::new(root, &folder, Box::new(disk)).expect("nothing to remove");
        let children: Vec<ListedChild> = (0..level).map(|i| child(&format!("n{i}"))).collect();
        mirror.record_root(&children, None).expect("it can be written");
        for entry in &children {
            let record =
                Record { file: file(&entry.slug, Expansion::Unexpanded), document: None, children: None };
            mirror.record(&entry.slug, &record).expect("it can be written");
        }
        let before = *taken.lock().unwrap();
        let record =
            Record { file: file("n0", Expansion::Leaf), document: Some("# N\n"), children: Some(&[]) };
        mirror.record("n0", &record).expect("it can be written");
        *taken.lock().unwrap() - before
    };
    assert_eq!(steps_of(3), steps_of(300));
}
