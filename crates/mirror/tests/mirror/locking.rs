//! Whose folder it is.

use std::fs;

use tree_agent_mirror::*;

use crate::support::*;

#[test]
fn the_second_process_is_told_who_holds_the_folder() {
    let dir = tempfile::tempdir().expect("a folder");
    let first = Root::open(dir.path(), "process 17 on host harbour").expect("it is free");
    let error = Root::open(dir.path(), "process 18 on host harbour").expect_err("it is taken");
    assert!(matches!(&error, MirrorError::InUse { holder, .. } if holder == "process 17 on host harbour"));
    assert!(error.to_string().contains("in use by process 17 on host harbour"), "{error}");
    drop(first);
    Root::open(dir.path(), "process 18 on host harbour").expect("it is free again");
}

#[test]
fn a_lock_whose_holder_has_not_written_its_name_is_still_a_lock() {
    let dir = tempfile::tempdir().expect("a folder");
    let _first = Root::open(dir.path(), "").expect("it is free");
    let error = Root::open(dir.path(), HOLDER).expect_err("it is taken");
    assert!(error.to_string().contains("another process"), "{error}");
}

#[test]
fn a_new_folder_is_made_with_those_above_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let root = open(&dir.path().join("a/b"));
    assert!(root.state_dir().is_dir() && root.read().unwrap().is_empty());
}

#[test]
fn what_is_not_ours_is_refused_and_stays_as_it_is() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("thesis.tex"), "years of work").unwrap();
    let error = Root::open(dir.path(), HOLDER).expect_err("it is not ours");
    assert!(error.to_string().contains("\"thesis.tex\""), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "not even a lock was written");

    let error = Root::open(&dir.path().join("thesis.tex"), HOLDER).expect_err("it is a file");
    assert!(matches!(error, MirrorError::NotAFolder(_)), "{error:?}");
    let error = Root::open(&dir.path().join("thesis.tex/below"), HOLDER).expect_err("it is a file");
    assert!(matches!(error, MirrorError::NotAFolder(_)), "{error:?}");
}

#[test]
fn a_folder_without_its_log_is_ours_by_its_first_level() {
    let dir = tempfile::tempdir().expect("a folder");
    complete(dir.path(), steps().len()).expect("it can be written");
    fs::remove_dir_all(dir.path().join(STATE_DIR)).unwrap();
    assert_eq!(read(dir.path()).nodes.len(), 5);
}

#[cfg(unix)]
#[test]
fn a_state_folder_that_leads_elsewhere_is_refused() {
    let (dir, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    fs::write(dir.path().join(CHILDREN_JSON), "[]").unwrap();
    std::os::unix::fs::symlink(other.path(), dir.path().join(STATE_DIR)).unwrap();
    let error = Root::open(dir.path(), HOLDER).expect_err("it is a link");
    assert!(matches!(error, MirrorError::InTheWay(_)), "{error:?}");
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
}

#[test]
fn a_folder_of_somebody_else_where_a_node_belongs_is_not_written_to() {
    let dir = tempfile::tempdir().expect("a folder");
    complete(dir.path(), 1).expect("the first level");
    fs::create_dir(dir.path().join("a")).unwrap();
    complete(dir.path(), 2).expect("an empty folder is taken");
    fs::create_dir(dir.path().join("b")).unwrap();
    fs::write(dir.path().join("b/notes.txt"), "mine").unwrap();
    let error = complete(dir.path(), 3).expect_err("something is in the way");
    assert!(error.to_string().contains("move it away"), "{error}");
    assert_eq!(fs::read_dir(dir.path().join("b")).unwrap().count(), 1);
}
