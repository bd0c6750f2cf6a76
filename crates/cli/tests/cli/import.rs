//! Imports as processes: what is sent, what is removed, what hostile files cost, and what is left after a crash.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::support::dev::{Dev, code, lines, program, run, stderr, stdout, succeeded};
use crate::support::files::{docx_of, file_of, locked_docx, locked_pdf, paragraph, pdf_of, xlsx_of, zip_of};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::document_service_client::DocumentServiceClient;
use tree_agent_proto::v1::project_service_client::ProjectServiceClient;
use tree_agent_testkit::ports::Port;

fn put(dir: &Path, path: &str, bytes: impl AsRef<[u8]>) {
    let file = dir.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, bytes).unwrap();
}

/// An import of `dir` into the project "docs", as JSON.
fn import(server: &str, dir: &Path, more: &[&str]) -> Value {
    let args = [&["import", dir.to_str().unwrap(), "--project", "docs", "-o", "jsonl"], more].concat();
    lines(&succeeded(run(server, &args))).remove(0)
}

/// The documents of the project "docs" by path.
async fn documents(server: &str) -> BTreeMap<String, pb::Document> {
    let mut projects = ProjectServiceClient::connect(server.to_owned()).await.unwrap();
    let key = Some(pb::get_project_request::Key::Name("docs".into()));
    let project =
        projects.get_project(pb::GetProjectRequest { key }).await.unwrap().into_inner().project.unwrap();
    let mut client = DocumentServiceClient::connect(server.to_owned()).await.unwrap();
    let list = pb::ListDocumentsRequest {
        project_ids: vec![project.project_id],
        page_size: 1_000,
        ..Default::default()
    };
    let mut found = BTreeMap::new();
    for summary in client.list_documents(list).await.unwrap().into_inner().documents {
        let get = pb::GetDocumentRequest { document_id: summary.document_id, ..Default::default() };
        let document = client.get_document(get).await.unwrap().into_inner().document.unwrap();
        found.insert(summary.path, document);
    }
    found
}

fn paths(documents: &BTreeMap<String, pb::Document>) -> Vec<&str> {
    documents.keys().map(String::as_str).collect()
}

/// More than one document, in paragraphs.
fn long(word: &str, bytes: usize) -> String {
    let paragraph = format!("{}\n\n", format!("{word} ").repeat(100));
    paragraph.repeat(bytes / paragraph.len() + 1)
}

#[tokio::test]
async fn only_changes_are_sent_and_only_what_the_import_wrote_is_removed() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = folder.path();
    put(dir, "a.md", "# Alpha\n\nThe first.");
    put(dir, "notes/b.txt", "The second.");
    put(dir, "src/main.rs", "#![forbid(unsafe_code)]\n# [test]\nfn main() {}\n");
    put(dir, "page.html", "<title>The page</title><h1>Hello</h1><p><a href='/x'>link</a>");
    put(dir, "paper.pdf", pdf_of(&["The lease decides.", "The fence holds."]));
    put(dir, "long.md", format!("# Long\n\n{}", long("wörd", 2_500_000)));
    put(dir, "logo.png", [0x89, b'P']);
    put(dir, "draft.md", "not yet");
    put(dir, ".gitignore", "draft.md\n");
    std::os::unix::fs::symlink("a.md", dir.join("link.md")).unwrap();
    let dev = Dev::start(data.path());
    let server = dev.server.as_str();

    let first = import(server, dir, &[]);
    let types: Value = serde_json::json!({ "markdown": 2, "text": 1, "code": 1, "html": 1, "pdf": 1 });
    assert_eq!(
        (&first["types"], &first["imported"], &first["unchanged"]),
        (&types, &8.into(), &0.into()),
        "{first}"
    );
    assert_eq!(first["reasons"], serde_json::json!({ "otherType": 1, "symbolicLink": 1 }));
    let stored = documents(server).await;
    let whole = [
        "a.md",
        "long.md",
        "long.md/part-02",
        "long.md/part-03",
        "notes/b.txt",
        "page.html",
        "paper.pdf",
        "src/main.rs",
    ];
    assert_eq!(paths(&stored), whole);
    let title = |path: &str| stored[path].summary.as_ref().unwrap().title.clone();
    assert_eq!((title("a.md"), title("page.html")), ("Alpha".into(), "The page".into()));
    assert_eq!((title("src/main.rs"), title("paper.pdf")), ("main.rs".into(), "paper.pdf".into()));
    assert_eq!(title("long.md/part-02"), "Long (part 2 of 3)");
    assert_eq!(stored["page.html"].body, "# Hello\n\n[link](/x)");
    assert!(stored["paper.pdf"].body.contains("The fence holds."), "{}", stored["paper.pdf"].body);
    assert!(stored["long.md/part-02"].body.ends_with(
        "Part 2 of 3. Previous: [part 1 of 3](<long.md>). Next: [part 3 of 3](<long.md/part-03>).\n"
    ));

    // Nothing has changed.
    for more in [&[][..], &["--prune"]] {
        let again = import(server, dir, more);
        assert_eq!((&again["imported"], &again["unchanged"]), (&0.into(), &6.into()), "{again}");
        assert_eq!((&again["removed"], &again["types"]), (&0.into(), &types));
    }
    let said = stdout(&succeeded(run(server, &["import", dir.to_str().unwrap(), "--project", "docs"])));
    assert!(
        said.contains("; 6 unchanged; files: 2 Markdown, 1 plain text, 1 source code, 1 HTML, 1 PDF;"),
        "{said}"
    );

    // A person writes documents, also where the import wrote before, and another import is into the same project.
    let mut client = DocumentServiceClient::connect(server.to_owned()).await.unwrap();
    for path in ["by-hand.md", "notes/b.txt"] {
        let request = pb::CreateDocumentRequest {
            project_id: first["projectId"].as_str().unwrap().into(),
            path: path.into(),
            body: "By hand.".into(),
            ..Default::default()
        };
        client.create_document(request).await.unwrap();
    }
    let other = tempfile::tempdir().unwrap();
    put(other.path(), "other.md", "Of the other folder.");
    import(server, other.path(), &["--prune"]);

    // One file changes, one shrinks, two go, one comes.
    put(dir, "a.md", "# Alpha\n\nThe first, again.");
    put(dir, "long.md", format!("# Long\n\n{}", long("wörd", 1_500_000)));
    put(dir, "new.md", "New.");
    fs::remove_file(dir.join("notes/b.txt")).unwrap();
    fs::remove_file(dir.join("paper.pdf")).unwrap();
    let third = import(server, dir, &[]);
    let counts = |done: &Value| ["imported", "unchanged", "removed"].map(|name| done[name].as_u64().unwrap());
    assert_eq!(counts(&third), [4, 2, 1], "the third part of the long file is gone: {third}");
    let stored = documents(server).await;
    assert_eq!(stored["a.md"].body, "# Alpha\n\nThe first, again.");
    assert!(
        stored.contains_key("paper.pdf") && !stored.contains_key("long.md/part-03"),
        "{:?}",
        paths(&stored)
    );
    assert!(stored["long.md/part-02"].body.contains("Part 2 of 2."));

    let pruned = import(server, dir, &["--prune"]);
    assert_eq!(counts(&pruned), [0, 5, 1], "{pruned}");
    let left = [
        "a.md",
        "by-hand.md",
        "long.md",
        "long.md/part-02",
        "new.md",
        "notes/b.txt",
        "other.md",
        "page.html",
        "src/main.rs",
    ];
    let stored = documents(server).await;
    assert_eq!(paths(&stored), left);
    assert_eq!(stored["notes/b.txt"].body, "By hand.");

    // A folder that has become empty removes nothing: it may be a disk that is not mounted.
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }
    let empty = run(server, &["import", dir.to_str().unwrap(), "--project", "docs", "--prune"]);
    assert_eq!(code(&empty), 2, "{}", stderr(&empty));
    assert_eq!(paths(&documents(server).await), left);
    assert_eq!(dev.terminate(), 0);
}

#[tokio::test]
async fn a_folder_keeps_its_name_when_it_moves() {
    let (data, parent) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (old, new) = (parent.path().join("old"), parent.path().join("new"));
    put(&old, "a.md", "a");
    put(&old, "b.md", "b");
    let dev = Dev::start(data.path());
    import(&dev.server, &old, &["--source", "handbook"]);
    fs::rename(&old, &new).unwrap();
    fs::remove_file(new.join("b.md")).unwrap();
    // Under its new path it is another folder, which has nothing to remove.
    assert_eq!(import(&dev.server, &new, &["--prune", "--source", "other"])["removed"], 0);
    import(&dev.server, &new, &["--source", "handbook", "--prune"]);
    assert_eq!(paths(&documents(&dev.server).await), ["a.md"]);
}

#[test]
fn a_document_of_a_project_with_a_colon_in_its_name_is_found() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(folder.path(), "a.md", "Of the notes.");
    let dev = Dev::start(data.path());
    let server = dev.server.as_str();
    let import = |project: &str| {
        let args = ["import", folder.path().to_str().unwrap(), "--project", project, "-o", "jsonl"];
        lines(&succeeded(run(server, &args))).remove(0)
    };
    let project = import("notes: 2026:Q4");
    assert_eq!(stdout(&succeeded(run(server, &["doc", "notes: 2026:Q4:a.md"]))), "Of the notes.");
    let unknown = run(server, &["doc", "notes: 2027:a.md"]);
    assert_eq!(code(&unknown), 2);
    assert!(stderr(&unknown).contains("project \"notes\" does not exist"), "{}", stderr(&unknown));
    // The text may mean a document of either: the shorter name wins.
    import("notes");
    let shorter = run(server, &["doc", "notes: 2026:Q4:a.md"]);
    assert_eq!(code(&shorter), 2, "{}", stderr(&shorter));
    let by_id = format!("{}:a.md", project["projectId"].as_str().unwrap());
    assert_eq!(stdout(&succeeded(run(server, &["doc", &by_id]))), "Of the notes.");
}

#[tokio::test]
async fn a_run_in_this_process_mirrors_its_folder() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = folder.path().join("docs");
    put(&dir, "a.md", "# Leases\n\nA lease lasts five seconds.");
    put(&dir, "b.md", "# Fences\n\nA fence holds.");
    put(&dir, "c.rs", "fn lease() {}");
    let ask = |more: &[&str]| {
        let args = [
            "run",
            "How long?",
            "--local",
            "--dir",
            dir.to_str().unwrap(),
            "--data-dir",
            data.path().to_str().unwrap(),
        ];
        stderr(&succeeded(run("", &[&args, more].concat())))
    };
    assert!(ask(&[]).contains("imported 3 documents"));
    fs::remove_file(dir.join("b.md")).unwrap();
    let said = ask(&["--exclude", "*.rs"]);
    assert!(said.contains("; 1 unchanged; 2 removed"), "{said}");
    let dev = Dev::start(data.path());
    assert_eq!(paths(&documents(&dev.server).await), ["a.md"]);
}

/// What people have in their folders: text in any encoding, office documents, and what nothing can be read from. Each
/// is read, or named with the reason.
#[tokio::test]
async fn every_file_is_read_or_named() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = folder.path();
    let dev = Dev::start(data.path());
    let empty = run(&dev.server, &["import", dir.to_str().unwrap(), "--project", "docs"]);
    assert_eq!(code(&empty), 2);
    assert!(stderr(&empty).contains("holds nothing that can be imported"), "{}", stderr(&empty));

    let wide = "Größe".encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<_>>();
    for (path, bytes) in [
        ("utf16.txt", wide.clone()),
        ("mark.txt", [b"\xfe\xff".as_slice(), &wide].concat()),
        ("latin1.log", b"Die Gr\xf6\xdfe der Stra\xdfe".to_vec()),
        ("u\u{308}ber.md", "Größe".into()),
        ("line.txt", "Größe ".repeat(75_000).into()),
        ("my.docx", docx_of(&paragraph("Größe"))),
        ("my.xlsx", xlsx_of(&[("Maße", &[&["Was", "Wert"], &["Größe", "5"]])])),
        ("rows.csv", (0..100_000).map(|i| format!("{i},Größe,row {i}\n")).collect::<String>().into()),
        ("mail.eml", "From: a@example.org\r\nSubject: Größe\r\n\r\nHallo\r\n".into()),
        // Nothing can be read from these.
        ("binary.txt", b"\x7fELF\0\0".to_vec()),
        ("blank.txt", b" \n".to_vec()),
        ("plan.xyz", "Größe".into()),
        ("picture.png", b"\x89PNG".to_vec()),
        ("cut.docx", docx_of(&paragraph("text"))[..300].to_vec()),
        ("locked.docx", locked_docx()),
        ("locked.pdf", locked_pdf()),
        (
            "bomb.docx",
            zip_of(&[("[Content_Types].xml", b"<Types/>"), ("word/document.xml", &vec![b' '; 130 << 20])]),
        ),
        (
            "bomb.xlsx",
            zip_of(&[("[Content_Types].xml", b"<Types/>"), ("xl/workbook.xml", &vec![b' '; 130 << 20])]),
        ),
    ] {
        put(dir, path, bytes);
    }
    let done = import(&dev.server, dir, &[]);
    let stored = documents(&dev.server).await;
    let good =
        ["latin1.log", "line.txt", "mail.eml", "mark.txt", "my.docx", "my.xlsx", "rows.csv", "utf16.txt"];
    for good in good.into_iter().chain(["\u{fc}ber.md", "rows.csv/part-02"]) {
        assert!(stored[good].body.contains("Größe"), "{good}: {}", &stored[good].body[..80]);
    }
    let part = &stored["rows.csv/part-02"].body;
    assert!(part.starts_with("|  |  |  |\n| --- | --- | --- |\n| "), "{}", &part[..80]);
    let named: BTreeMap<&str, &str> = done["skippedFiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file["path"].as_str().unwrap(), file["reason"].as_str().unwrap()))
        .collect();
    let expected = [
        ("binary.txt", "notText"),
        ("blank.txt", "empty"),
        ("bomb.docx", "expands"),
        ("bomb.xlsx", "expands"),
        ("cut.docx", "broken"),
        ("locked.docx", "password"),
        ("locked.pdf", "password"),
        ("picture.png", "otherType"),
        ("plan.xyz", "otherType"),
    ];
    assert_eq!(named, BTreeMap::from(expected), "{done}");
    let asked =
        run(&dev.server, &["import", dir.to_str().unwrap(), "--project", "docs", "--include", "*.xyz"]);
    assert_eq!(code(&asked), 0, "{}", stderr(&asked));
    assert_eq!(documents(&dev.server).await["plan.xyz"].body, "Größe");
    let said = stderr(&run(&dev.server, &["import", dir.to_str().unwrap(), "--project", "docs"]));
    assert!(said.contains("skipped, needs a password: locked.docx, locked.pdf\n"), "{said}");
}

/// Files that make the libraries panic, recurse, allocate and compute without bound, each beside a good one.
#[tokio::test]
async fn a_hostile_file_costs_only_itself() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = folder.path();
    put(dir, "good.pdf", pdf_of(&["The lease decides."]));
    put(dir, "good.html", "<h1>Good</h1>");
    put(dir, "garbage.pdf", [b"%PDF-1.7\n".as_slice(), &[0xfe; 5_000]].concat());
    // The page inherits from itself.
    let cycle = String::from_utf8(pdf_of(&["x"])).unwrap();
    let parent = "/Parent 2 0 R /MediaBox [0 0 612 792]";
    assert!(cycle.contains(parent));
    put(dir, "cycle.pdf", cycle.replace(parent, &format!("{:1$}", "/Parent 4 0 R", parent.len())));
    put(dir, "deep.html", "<div>".repeat(5_000));
    put(dir, "deep.pdf", file_of(&[[b"[".repeat(5_000_000), b"]".repeat(5_000_000)].concat()]));
    let dev = Dev::start(data.path());
    let done = import(&dev.server, dir, &[]);
    let stored = documents(&dev.server).await;
    for good in ["good.html", "good.pdf"] {
        assert!(stored.contains_key(good), "{done}: {:?}", paths(&stored));
    }
    assert_eq!(done["skipped"].as_u64().unwrap() + stored.len() as u64, 6, "{done}: {:?}", paths(&stored));
    assert!(!stored.contains_key("garbage.pdf"), "{done}");
    // What could not be read this time keeps what was imported before.
    put(dir, "good.pdf", b"%PDF-1.7 broken");
    let again = import(&dev.server, dir, &["--prune"]);
    assert_eq!(again["removed"], 0, "{again}");
    assert!(documents(&dev.server).await["good.pdf"].body.contains("lease"));
}

/// A PDF whose one page is a few bytes that grow to `bytes` of blanks when they are unpacked, twice.
fn bomb(bytes: usize) -> Vec<u8> {
    let pack = |bytes: &[u8]| {
        let mut zip = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zip.write_all(bytes).unwrap();
        zip.finish().unwrap()
    };
    let mut zip = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    let blanks = vec![b' '; 1 << 20];
    for _ in 0..bytes >> 20 {
        zip.write_all(&blanks).unwrap();
    }
    let content = pack(&zip.finish().unwrap());
    let head =
        format!("<< /Length {} /Filter [/FlateDecode /FlateDecode] >>\nstream\n", content.len()).into_bytes();
    let page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R /Resources << >> >>";
    file_of(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Count 1 /Kids [4 0 R] >>".to_vec(),
        b"<< >>".to_vec(),
        page.to_vec(),
        [head, content, b"\nendstream".to_vec()].concat(),
    ])
}

/// The process that converts a PDF, as the import starts it.
fn converter(limits: &[&str]) -> tokio::process::Child {
    tokio::process::Command::new(env!("CARGO_BIN_EXE_tree-agent"))
        .args(["_convert-file", "pdf"])
        .args(limits)
        .env_clear()
        .env("MIMALLOC_ARENA_RESERVE", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("the program starts")
}

/// The exit code of the process that converts a PDF, and what it says; no code if it was ended from outside.
async fn convert(file: &[u8], limits: &[&str]) -> (Option<i32>, String) {
    let mut worker = converter(limits);
    worker.stdin.take().unwrap().write_all(file).await.unwrap();
    let output = worker.wait_with_output().await.unwrap();
    (output.status.code(), stdout(&output))
}

#[tokio::test]
async fn a_conversion_has_so_much_memory_and_time() {
    // Within the limits it is only a blank page.
    assert_eq!(convert(&bomb(8 << 20), &[]).await.0, Some(0));
    assert_eq!(convert(&bomb(256 << 20), &["--seconds", "1"]).await.0, None);
    let (code, why) = convert(b"no PDF", &[]).await;
    assert_eq!(code, Some(0));
    assert!(why.starts_with("{\"Err\":{\"reason\":\"broken\",\"why\":\"broken: "), "{why}");
    #[cfg(target_os = "linux")]
    {
        // It limits itself before it reads.
        let worker = converter(&[]);
        let limits = format!("/proc/{}/limits", worker.id().unwrap());
        let is_limited = |line: &str| line.starts_with("Max address space") && line.contains(" 1073741824 ");
        while !fs::read_to_string(&limits).expect("it waits for the file").lines().any(is_limited) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Files that take long enough to be interrupted.
fn many(dir: &Path, number: usize) {
    for i in 0..number {
        put(
            dir,
            &format!("{:02}/{i}.md", i % 50),
            format!("# Note {i}\n\nThe lease of note {i} lasts {i} seconds.\n"),
        );
    }
}

/// Waits until the project holds some documents, and says how many.
async fn some(server: &str, at_least: u64) -> u64 {
    let mut projects = ProjectServiceClient::connect(server.to_owned()).await.unwrap();
    loop {
        let key = Some(pb::get_project_request::Key::Name("docs".into()));
        // The project may not be there yet.
        let count = match projects.get_project(pb::GetProjectRequest { key }).await {
            Ok(answer) => answer.into_inner().project.unwrap().document_count,
            Err(status) => {
                assert_eq!(status.code(), tonic::Code::NotFound, "{status}");
                0
            }
        };
        if count >= at_least {
            return count;
        }
    }
}

#[tokio::test]
async fn an_import_that_is_killed_is_completed_by_the_next() {
    const FILES: usize = 3_000;
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = folder.path();
    many(dir, FILES);
    put(dir, "00/long.md", long("word", 3_000_000));
    let port = Port::claim().unwrap();
    let address = format!("127.0.0.1:{}", port.number());
    let mut dev = Dev::start_on(&address, data.path());
    let args = ["import", dir.to_str().unwrap(), "--project", "docs", "--quiet"];
    let start = |server: &str| {
        program(server)
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts")
    };

    // The client is killed.
    let mut importing = start(&dev.server);
    some(&dev.server, 20).await;
    importing.kill().unwrap();
    importing.wait().unwrap();
    let had = some(&dev.server, 20).await;
    assert!(had < FILES as u64, "it was killed midway: {had}");

    // The server is killed. The client notices and says so.
    let mut importing = start(&dev.server);
    some(&dev.server, had + 20).await;
    dev.child.kill().unwrap();
    dev.child.wait().unwrap();
    assert_eq!(importing.wait().unwrap().code(), Some(5), "the server is unreachable");
    drop(dev);
    let dev = Dev::start_on(&address, data.path());
    let had = some(&dev.server, had + 20).await;
    assert!(had < FILES as u64, "it was killed midway: {had}");

    let done = import(&dev.server, dir, &["--prune"]);
    let (imported, unchanged) = (done["imported"].as_u64().unwrap(), done["unchanged"].as_u64().unwrap());
    assert!(unchanged >= had - 4 && imported >= FILES as u64 - unchanged, "{had} were there: {done}");
    assert_eq!(some(&dev.server, 0).await, FILES as u64 + 3, "{done}");
    let again = import(&dev.server, dir, &["--prune"]);
    assert_eq!((&again["imported"], &again["removed"]), (&0.into(), &0.into()), "{again}");
    assert_eq!(again["unchanged"], FILES + 1);
    assert_eq!(dev.terminate(), 0);
}
