//! The executor program refuses a file of MCP servers that cannot work, before it binds anything.

use std::process::Command;

#[test]
fn every_problem_of_the_tools_file_is_named_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tools.toml");
    std::fs::write(
        &file,
        "[servers.Files]\ncommand = []\n[servers.web]\nurl = \"nowhere\"\ntimeout_seconds = 0\n",
    )
    .unwrap();
    for (path, parts) in [
        (
            file.display().to_string(),
            vec!["servers.Files ", "servers.Files.command", "servers.web.url", "servers.web.timeout_seconds"],
        ),
        ("/no/such/file".to_owned(), vec!["/no/such/file cannot be read"]),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_tree-agent-executor"))
            .env("TREE_AGENT_TOOLS_CONFIG", path)
            .env("TREE_AGENT_LISTEN", "127.0.0.1:0")
            .output()
            .expect("the program starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{text}");
        for part in parts {
            assert!(
                text.contains(&format!("TREE_AGENT_TOOLS_CONFIG: {part}")),
                "{part} is missing in {text}"
            );
        }
    }
}
