//! What decides how a text is read, and what that makes of it.

use tree_agent_contract::limits::TITLE_BYTES;
use tree_agent_retrieval::{Format, Kind, Piece, chunk, default_title};

const MANUAL: &str = "LS(1)                            User Commands                           LS(1)

NAME
       ls - list directory contents

DESCRIPTION
       List  information  about the FILEs. See approx. 3 of them:

   Sorting
       -a, --all
              do not ignore entries starting with .

              This is said in a second paragraph.

       -b     print escapes

GNU coreutils 9.1               September 2022                           LS(1)
";

const ASCIIDOC: &str = "git-reset(1)
============
:author: Nobody

NAME
----
git-reset - Reset current HEAD to the specified state

// A comment.

OPTIONS
-------
[[hard]]
-q::
--quiet::
\tBe quiet, only report errors.

--hard::
\tResets the index and working tree.
+
Undo a commit:
+
----
$ git reset --hard HEAD~3
----

.Ends
|===
|Name |Meaning

|hard |all of it
|===

include::more.txt[]

Undo it::
+
----------
$ git reset --soft HEAD^
== no heading
----------
";

const REST: &str = ".. _top:

==========
The basics
==========

Intro with a role :ref:`top` and code::

    $ make
    Not a title
    -----------

Options
-------

--all
    Takes all.

    Even more.

.. code-block:: sh

   make all

.. This is a comment

Deeper
~~~~~~

Text.
";

fn pieces(path: &str, body: &str) -> Vec<(Vec<String>, Kind, String)> {
    let owned = |Piece { headings, kind, range, .. }: Piece| (headings, kind, body[range].to_owned());
    chunk(path, body).into_iter().map(owned).collect()
}

/// The headings of the piece that holds `text`, and its kind.
fn holding(path: &str, body: &str, text: &str) -> (String, Kind) {
    let mut found = pieces(path, body).into_iter().filter(|(.., held)| held.contains(text));
    let (headings, kind, _) = found.next().unwrap_or_else(|| panic!("{path}: {text} is in no piece"));
    assert!(found.next().is_none(), "{text} is in two pieces");
    (headings.join(" › "), kind)
}

#[test]
fn the_name_decides_and_else_the_beginning_of_the_text() {
    for (path, body, format) in [
        ("a.md", ASCIIDOC, Format::Markdown),
        ("notes/today", "----", Format::Markdown),
        ("Report of 1.2 plans", "----", Format::Markdown),
        ("", "", Format::Markdown),
        ("report.DOCX", "", Format::Markdown),
        ("data.csv", "", Format::Markdown),
        ("page.html", "", Format::Markdown),
        ("a.adoc", "plain", Format::AsciiDoc),
        ("git-reset.txt", ASCIIDOC, Format::AsciiDoc),
        ("all.txt", "= All of it\n\nText.", Format::AsciiDoc),
        ("a.rst", "plain", Format::Rest),
        ("guide.txt", REST, Format::Rest),
        ("ls.1", MANUAL, Format::Manual),
        ("ls.txt", MANUAL, Format::Manual),
        ("a.txt", "# A comment\n\nText\n\n# More", Format::Plain),
        ("LICENSE", "Terms\n-----\n", Format::Plain),
        ("plan.xyz", "# x", Format::Plain),
        ("a.log", "12:00 started", Format::Code),
        ("git.conf", "# x", Format::Code),
        ("helpers.inc", "<?php", Format::Code),
        ("big.txt/part-02", ASCIIDOC, Format::AsciiDoc),
        ("big.json/part-13", "{", Format::Code),
        ("big.json/part-x", "{", Format::Markdown),
    ] {
        assert_eq!(Format::of(path, body), format, "{path}");
        assert_eq!(
            Format::of(path, "") == Format::Markdown,
            format == Format::Markdown,
            "{path}: the path alone"
        );
    }
}

#[test]
fn a_title_is_what_the_type_says_it_is() {
    let git = "git(1)\n======\n\nFILES\n-----\n\n----\n# A '#' or ';' character indicates a comment.\n----\n\n\
               linkgit:a[1] linkgit:b[1]\n";
    for (path, body, title) in [
        ("a/b.md", "intro\n## The plan ##\n# Later", "The plan"),
        ("a/b.md", "intro\n\nA plan\n======\n", "A plan"),
        ("a/b.md", "```sh\n# no title\n```\n\n# The `title`\n", "The title"),
        ("a/b.md", "#hashtag\nno heading", "b.md"),
        ("b.md", "#  ", "b.md"),
        ("git.txt", git, "git(1)"),
        ("git-reset.txt", ASCIIDOC, "git-reset(1)"),
        ("basics.rst", REST, "The basics"),
        ("ls.1", MANUAL, "LS(1)"),
        ("a.conf", "# A comment\nx = 1\n", "a.conf"),
        ("a.py", "# A comment\n", "a.py"),
        ("a/notes.txt", "# A comment\n\nText.\n", "notes.txt"),
        ("notes.txt", "The notes\n=========\n\nText.\n", "The notes"),
        ("notes.txt", "Some text.\n\nA section\n---------\n", "notes.txt"),
        ("notes.txt", "Some text:\n----------\n", "notes.txt"),
    ] {
        assert_eq!(default_title(path, body), title, "{path}");
    }
    assert!(default_title("b.md", &format!("# {}", "é".repeat(2_000))).len() <= TITLE_BYTES);
}

#[test]
fn asciidoc_has_sections_code_and_items_with_their_labels() {
    let held = |text| holding("git-reset.txt", ASCIIDOC, text);
    assert_eq!(held("Reset current HEAD"), ("git-reset(1) › NAME".into(), Kind::Text));
    for text in ["--quiet::\n\tBe quiet", "Undo a commit:\n+\n----\n$ git reset --hard HEAD~3", "--hard::"] {
        assert_eq!(held(text), ("git-reset(1) › OPTIONS".into(), Kind::List), "{text}");
    }
    assert_eq!(held("|hard |all of it").0, "git-reset(1) › OPTIONS");
    let table = "= T\n\n|===\n|Name |Meaning\n\n|hard |all of it\n|===\n";
    assert_eq!(
        pieces("a.adoc", table),
        [(vec!["T".to_owned()], Kind::Table, "|Name |Meaning\n\n|hard |all of it".to_owned())]
    );
    assert_eq!(held("Undo it::\n+\n----------\n$ git").0, "git-reset(1) › OPTIONS");
    for unseen in [":author:", "A comment", "[[hard]]"] {
        assert!(pieces("a.adoc", ASCIIDOC).iter().all(|(.., text)| !text.contains(unseen)), "{unseen}");
    }
    let code = "= T\n\nRun this:\n\n----\n$ git reset --hard HEAD~3\n----\n\n+\n\nAnd that, ".to_owned();
    let code = code + &"A sentence of it. ".repeat(20) + "\n\n----\n$ alone\n----\n";
    assert_eq!(holding("a.adoc", &code, "$ alone"), ("T".into(), Kind::Code));
    assert!(pieces("a.adoc", &code).iter().all(|(headings, ..)| headings.len() == 1));
}

#[test]
fn what_belongs_to_a_label_has_it_when_it_is_cut() {
    let long = |n: usize| format!("Paragraph {n} is about this option. ").repeat(21);
    for (path, body) in [
        ("a.adoc", format!("= T\n\n-h::\n--hard::\n\t{}\n+\n{}\n\n--soft::\n\tLess.\n", long(1), long(2))),
        ("a.rst", format!("Ti\n==\n\n--hard\n    {}\n\n    {}\n\n--soft\n    Less.\n", long(1), long(2))),
        (
            "a.1",
            format!(
                "T(1)  x  T(1)\n\n       --hard\n              {}\n\n              {}\n\n       --soft  Less.\n",
                long(1),
                long(2)
            ),
        ),
    ] {
        let found = pieces(path, &body);
        assert!(found[0].2.contains("--hard") && found[0].2.contains("Paragraph 1"), "{path} {found:?}");
        assert_eq!(found[0].0.len(), 1, "{path}");
        let second = found.iter().find(|(.., text)| text.starts_with("Paragraph 2"));
        let second = second.unwrap_or_else(|| panic!("{path} {found:#?}"));
        assert_eq!(second.0[1], "--hard", "{path}");
        assert!(
            found.iter().all(|(.., text)| !text.starts_with("--soft") || text.contains("Less.")),
            "{path}"
        );
    }
}

#[test]
fn restructured_text_has_titles_literal_code_and_no_comments() {
    let held = |text| holding("a.rst", REST, text);
    assert_eq!(held("Not a title\n    ----").0, "The basics");
    assert_eq!(held("Even more.").0, "The basics › Options");
    assert!(held("Takes all.").1 == Kind::List);
    assert_eq!(held("make all"), ("The basics › Options".into(), Kind::List));
    assert_eq!(held("Text.").0, "The basics › Options › Deeper");
    assert!(pieces("a.rst", REST).iter().all(|(.., text)| !text.contains("This is a comment")));
    let code = "Ti\n==\n\n.. code:: sh\n\n   $ x\n   ===\n\n   $ y\n\nText.\n";
    assert_eq!(pieces("a.rst", code)[0].2.lines().next(), Some("$ x"));
}

#[test]
fn manual_pages_have_sections_and_plain_text_only_those_that_cannot_be_mistaken() {
    assert_eq!(holding("ls.1", MANUAL, "list directory contents").0, "LS(1) › NAME");
    assert_eq!(
        holding("ls.1", MANUAL, "second paragraph"),
        ("LS(1) › DESCRIPTION › Sorting".into(), Kind::List)
    );
    let plain = "1.  Introduction\n\n   It begins.\n\n2.1 The limits\n\nSome + more\n+ and a line\n\n\
                 1. Buy milk\n\n2. Buy bread.\n\n\
                 $ git reset --hard HEAD~3\n----\nName   Value\n------------\n\nOVER IT\n=======\n\nEnd.\n";
    assert_eq!(holding("a.txt", plain, "It begins.").0, "1. Introduction");
    assert_eq!(holding("a.txt", plain, "and a line").0, "1. Introduction › 2.1 The limits");
    assert_eq!(holding("a.txt", plain, "2. Buy bread.").0, "1. Introduction › 2.1 The limits");
    assert_eq!(holding("a.txt", plain, "$ git reset").0, "1. Introduction › 2.1 The limits");
    assert_eq!(holding("a.txt", plain, "End.").0, "OVER IT");
}
