//! A folder that is behind its log, and one that somebody edited.

use std::fs;
use std::path::Path;

use tree_agent_mirror::*;

use crate::support::*;

fn edits_of(change: impl FnOnce(&Path)) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a folder");
    let last = steps().len();
    complete(dir.path(), last).expect("it can be written");
    change(dir.path());
    edits(&wanted(last), &read(dir.path())).iter().map(ToString::to_string).collect()
}

#[test]
fn a_folder_behind_its_log_was_not_edited() {
    let last = steps().len();
    for n in 0..=last {
        let dir = tempfile::tempdir().expect("a folder");
        complete(dir.path(), n).expect("it can be written");
        assert_eq!(edits(&wanted(last), &read(dir.path())), [], "after {n} steps");
    }
    assert_eq!(edits_of(|dir| fs::remove_dir_all(dir.join("a/y")).unwrap()), [""; 0], "its parent was first");
}

#[test]
fn edits_are_found() {
    let put =
        |file: &'static str, text: &'static str| move |dir: &Path| fs::write(dir.join(file), text).unwrap();
    let remove = |file: &'static str| move |dir: &Path| fs::remove_file(dir.join(file)).unwrap();
    assert_eq!(edits_of(put("a/document.md", "# Mine\n")), ["a/document.md: was edited"]);
    assert_eq!(edits_of(put("c/document.md", "# Mine\n")), ["c/document.md: was added"]);
    assert_eq!(edits_of(remove("b/document.md")), ["b/document.md: was removed"]);
    assert_eq!(edits_of(remove("b/children.json")), ["b/children.json: was removed"]);
    let list =
        r#"[{"title":"About a","slug":"a"},{"title":"About b","slug":"b"},{"title":"Mine","slug":"mine"}]"#;
    assert_eq!(edits_of(put("children.json", list)), ["children.json: was edited"]);
    assert_eq!(edits_of(put("c/children.json", "[]")), ["c/children.json: was added"]);
    let node = |title: &str, session: &str, status: &str| {
        format!(r#"{{"title":"{title}","slug":"b","sessionId":"{session}","status":"{status}"}}"#)
    };
    for (text, expected) in [
        (node("Mine", "session-of-b", "leaf"), vec!["b/node.json: has another title"]),
        (node("About b", "mine", "leaf"), vec!["b/node.json: has another session"]),
        (node("About b", "session-of-b", "expanded"), vec!["b/node.json: has another status"]),
        (node("About b", "session-of-b", "unexpanded"), vec![]),
    ] {
        assert_eq!(edits_of(|dir| fs::write(dir.join("b/node.json"), &text).unwrap()), expected, "{text}");
    }
}

#[test]
fn the_empty_list_of_a_search_that_failed_is_no_edit_of_the_next() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("children.json"), "[]").unwrap();
    assert_eq!(edits(&Wanted::default(), &read(dir.path())), []);
    fs::write(dir.path().join("children.json"), r#"[{"title":"Mine","slug":"mine"}]"#).unwrap();
    assert_eq!(edits(&Wanted::default(), &read(dir.path())).len(), 1);
}

#[test]
fn the_overview_of_an_earlier_search_is_no_edit() {
    let put = |dir: &Path| fs::write(dir.join("overview.md"), "# Overview\n").unwrap();
    assert_eq!(edits_of(put), [""; 0]);
    let dir = tempfile::tempdir().expect("a folder");
    complete(dir.path(), 1).expect("it can be written");
    put(dir.path());
    let wanted = Wanted { document: Some(Digest::of("# Another\n")), ..wanted(1) };
    assert_eq!(edits(&wanted, &read(dir.path()))[0].to_string(), "overview.md: was edited");
}

#[test]
fn how_a_file_is_formatted_is_no_edit() {
    let compact =
        r#"[{"slug":"a","title":"About a"},{"slug":"b","title":"About b"},{"slug":"c","title":"About c"}]"#;
    assert_eq!(edits_of(|dir| fs::write(dir.join("children.json"), compact).unwrap()), [""; 0]);
}

#[test]
fn lists_of_plans_grow_until_their_node_is_finished() {
    let dir = tempfile::tempdir().expect("a folder");
    complete(dir.path(), 6).expect("it can be written");
    let mut wanted = wanted(6);
    wanted.children.as_mut().unwrap().push(child("d"));
    let said = |wanted: &Wanted| edits(wanted, &read(dir.path())).len();
    assert_eq!(said(&wanted), 1, "the list of a search is written once");
    wanted.lists_grow = true;
    assert_eq!(said(&wanted), 0);
    wanted.children.as_mut().unwrap().remove(0);
    assert_eq!(said(&wanted), 1, "it grows at its end only");
}
