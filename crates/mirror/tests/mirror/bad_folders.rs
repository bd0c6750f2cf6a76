//! Folders with anything in them: a clear error with file, line and column, and nothing is changed.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use tree_agent_contract::search::Expansion;
use tree_agent_mirror::*;

use crate::support::*;

/// The folder of a whole search.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    complete(dir.path(), steps().len()).expect("it can be written");
    dir
}

/// The problems of `dir` in words; reading changes nothing.
fn problems(dir: &Path) -> Vec<String> {
    let error = open(dir).read().expect_err("it is malformed");
    assert!(error.to_string().contains("nothing was changed"), "{error}");
    let MirrorError::Malformed { problems, .. } = error else { panic!("{error:?}") };
    problems.0.iter().map(ToString::to_string).collect()
}

#[test]
fn malformed_files_are_named_with_line_and_column() {
    for (file, content, expected) in [
        (
            "children.json",
            "[\n  {\"title\": \"A\", \"slug\": \"a\"},\n]",
            "children.json:3:1: trailing comma",
        ),
        ("children.json", "", "children.json:1:0: EOF while parsing a value"),
        ("children.json", "{}", "children.json:1:0: invalid type: map, expected a sequence"),
        ("children.json", "[] x", "children.json:1:4: trailing characters"),
        ("children.json", "[{\"title\": \"A\"}]", "children.json:1:15: missing field `slug`"),
        (
            "children.json",
            "[{\"title\": 7, \"slug\": \"a\"}]",
            "children.json:1:12: invalid type: integer `7`",
        ),
        (
            "a/children.json",
            "[\n{\"title\": \"A\", \"slug\": \"../../etc\"}]",
            "a/children.json:2:35: \"../../etc\" is not a slug; \"etc\" would be one",
        ),
        (
            "a/children.json",
            "[{\"title\": \"A\", \"slug\": \"x/y\"}]",
            "a/children.json:1:30: \"x/y\" is not a slug; \"x-y\" would be one",
        ),
        ("a/children.json", "[{\"title\": \"A\", \"slug\": \"x\\u0000\"}]", "\"x\\0\" is not a slug"),
        (
            "a/children.json",
            "[{\"title\": \"A\", \"slug\": \".tree-agent\"}]",
            "\".tree-agent\" is not a slug; \"tree-agent\" would",
        ),
        ("a/children.json", "[{\"title\": \"A\", \"slug\": \"\"}]", "\"\" is not a slug"),
        ("a/children.json", "[{\"title\": \" \", \"slug\": \"x\"}]", "the title is empty"),
        ("a/children.json", "[{\"title\": \"a\\u001b[2J\", \"slug\": \"x\"}]", "control character U+001B"),
        (
            "a/children.json",
            "[{\"title\": \"A\", \"slug\": \"x\"},\n{\"title\": \"B\", \"slug\": \"x\"}]",
            "a/children.json: the slug \"x\" is listed twice",
        ),
        (
            "a/node.json",
            "{\"title\": \"A\", \"slug\": \"a\",\n \"status\": \"done\"}",
            "a/node.json:2:17: unknown variant `done`, expected one of `unexpanded`, `in-progress`, `expanded`, `leaf`",
        ),
        (
            "a/node.json",
            "{\"title\": \"A\", \"slug\": \"b\", \"status\": \"leaf\"}",
            "a/node.json: names the slug \"b\", but its folder is \"a\"",
        ),
        ("a/x/node.json", "null", "a/x/node.json:1:4: invalid type: null"),
    ] {
        let dir = folder();
        fs::write(dir.path().join(file), content).unwrap();
        let before = files(dir.path());
        let said = problems(dir.path());
        assert!(said.iter().any(|p| p.contains(expected)), "{content}\n{said:#?}\n{expected}");
        assert_eq!(files(dir.path()), before);
    }
}

#[test]
fn long_titles_and_files_are_refused() {
    let dir = folder();
    let title = "t".repeat(10_000);
    fs::write(
        dir.path().join("a/node.json"),
        format!("{{\"title\": \"{title}\", \"slug\": \"a\", \"status\": \"leaf\"}}"),
    )
    .unwrap();
    fs::write(dir.path().join("b/document.md"), vec![b'x'; 1024 * 1024 + 1]).unwrap();
    fs::write(dir.path().join("a/x/document.md"), b"good\nbad \xff").unwrap();
    let said = problems(dir.path());
    assert_eq!(said.len(), 3, "all of them are told: {said:#?}");
    assert!(said[0].contains("the title is 10000 bytes long; at most 1024"), "{said:#?}");
    assert!(said[1].starts_with("b/document.md: is 1048577 bytes long"), "{said:#?}");
    assert_eq!(said[2], "a/x/document.md:2:5: is not UTF-8 text");
}

#[test]
fn many_problems_are_counted() {
    let dir = folder();
    let names: Vec<String> = (0..50).map(|i| format!("n{i}")).collect();
    let list: Vec<String> =
        names.iter().map(|n| format!("{{\"title\": \"{n}\", \"slug\": \"{n}\"}}")).collect();
    fs::write(dir.path().join("children.json"), format!("[{}]", list.join(","))).unwrap();
    for name in &names {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("node.json"), "{").unwrap();
    }
    let error = open(dir.path()).read().unwrap_err().to_string();
    assert!(error.contains("50 problems") && error.contains("and 40 more"), "{error}");
}

#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    let outside = tempfile::tempdir().expect("a folder");
    fs::write(outside.path().join("document.md"), "secret").unwrap();
    // A file that is a link, a folder that is a link, and a circle.
    for (link, target) in [
        ("a/y/document.md", outside.path().join("document.md")),
        ("a/y/children.json", outside.path().join("nothing")),
        ("c", outside.path().to_owned()),
        ("a/y", "..".into()),
    ] {
        let dir = folder();
        let at = dir.path().join(link);
        if at.is_dir() {
            fs::remove_dir_all(&at).unwrap();
        }
        std::os::unix::fs::symlink(target, &at).unwrap();
        let said = problems(dir.path());
        assert!(said.len() == 1 && said[0].starts_with(&format!("{link}: is a symbolic link")), "{said:#?}");
    }
}

#[test]
fn what_is_no_file_is_not_opened() {
    let dir = folder();
    fs::create_dir(dir.path().join("c/document.md")).unwrap();
    fs::remove_dir_all(dir.path().join("b")).unwrap();
    fs::write(dir.path().join("b"), "").unwrap();
    assert_eq!(problems(dir.path()), ["b: is not a folder", "c/document.md: is not a file"]);
}

#[test]
fn missing_files_and_edits_by_hand_are_honoured() {
    let dir = folder();
    fs::remove_dir_all(dir.path().join("a/y")).unwrap();
    fs::remove_file(dir.path().join("b/node.json")).unwrap();
    fs::remove_file(dir.path().join("a/x/document.md")).unwrap();
    let added = "\u{feff}[{\"slug\": \"x\", \"title\": \"About x\"},\n{\"slug\": \"z\", \"title\": \"By hand / ..\", \"why\": 1}]";
    fs::write(dir.path().join("a/children.json"), added).unwrap();
    fs::create_dir(dir.path().join("notes")).unwrap();
    fs::write(dir.path().join("readme.txt"), "mine").unwrap();
    let folder = read(dir.path());
    let node = |path: &str| folder.nodes.iter().find(|n| n.path == path).expect("a node");
    assert!(node("b").is_complete() && node("b").state() == Expansion::Leaf, "its two files are there");
    assert!(!node("a/x").is_complete() && node("a/x").state() == Expansion::Unexpanded);
    assert_eq!(node("a/z").title(None), "By hand / ..");
    assert_eq!(node("a/z").state(), Expansion::Unexpanded);
    let said: Vec<String> = folder.notices.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["notes: is not listed in the children.json beside it and is left alone"]);
}

#[test]
fn what_a_power_failure_empties_counts_as_missing() {
    for content in ["", "\0\0\0\0"] {
        let dir = folder();
        fs::write(dir.path().join("a/y/node.json"), content).unwrap();
        fs::write(dir.path().join("b/document.md"), content).unwrap();
        let folder = read(dir.path());
        let said: Vec<String> = folder.notices.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "b/document.md: is empty, so its topic is not finished",
                "a/y/node.json: is empty, as after a power failure; it counts as missing",
            ]
        );
        let y = folder.nodes.iter().find(|n| n.path == "a/y").expect("its parent lists it");
        assert_eq!((y.state(), y.title(None)), (Expansion::Unexpanded, "About y"));
        drop(folder);
        complete(dir.path(), steps().len()).expect("it is written again");
        assert!(read(dir.path()).notices.is_empty());
    }
}

#[test]
fn the_title_that_was_edited_counts() {
    let node = |listed: &str, own: Option<&str>| FolderNode {
        path: "a".into(),
        slug: "a".into(),
        depth: 1,
        listed_title: listed.into(),
        file: own.map(|title| NodeFile {
            title: title.into(),
            slug: "a".into(),
            session_id: None,
            status: Expansion::Leaf,
        }),
        document: None,
        children: None,
    };
    for (listed, own, known, expected) in [
        ("A", Some("A"), Some("A"), "A"),
        ("B", Some("A"), Some("A"), "B"),
        ("A", Some("B"), Some("A"), "B"),
        ("B", Some("C"), Some("A"), "C"),
        ("B", None, Some("A"), "B"),
        ("A", Some("B"), None, "B"),
    ] {
        assert_eq!(node(listed, own).title(known), expected, "{listed} {own:?} {known:?}");
    }
}

#[test]
fn a_document_that_changes_under_its_reader_is_noticed() {
    let dir = folder();
    let folder = read(dir.path());
    fs::write(dir.path().join("a/document.md"), "other").unwrap();
    let error = folder.document(&folder.nodes[0]).unwrap_err().to_string();
    assert!(error.contains("a/document.md: was changed while it was read"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_file_breaks_the_reader(
        which in 0usize..4,
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            "[\\[\\]{}\",:a-z.\\\\ /\n0-9]{0,120}".prop_map(String::into_bytes),
        ],
    ) {
        static DIR: LazyLock<tempfile::TempDir> = LazyLock::new(folder);
        let dir = &*DIR;
        let file = ["children.json", "a/children.json", "a/node.json", "a/document.md"][which];
        let whole = fs::read(dir.path().join(file)).unwrap();
        fs::write(dir.path().join(file), &bytes).unwrap();
        if let Err(error) = open(dir.path()).read() {
            prop_assert!(error.to_string().contains(file), "{}", error);
        }
        prop_assert_eq!(fs::read(dir.path().join(file)).unwrap(), bytes);
        fs::write(dir.path().join(file), whole).unwrap();
    }
}
