//! The planner program refuses settings that cannot work, all at once and before it binds anything.

use std::process::Command;

#[test]
fn every_bad_setting_is_named_at_once() {
    let output = Command::new(env!("CARGO_BIN_EXE_tree-agent-planner"))
        .env_remove("TREE_AGENT_DATABASE_URL")
        .env_remove("TREE_AGENT_ROLE_TOKEN")
        .env_remove("TREE_AGENT_ROLE_TOKEN_FILE")
        .env("TREE_AGENT_LISTEN", "nowhere")
        .env("TREE_AGENT_LEASE_MS", "1")
        .env("TREE_AGENT_EXECUTORS", "ftp://127.0.0.1:7402")
        .env("TREE_AGENT_MODEL", "no such model")
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{text}");
    for name in ["DATABASE_URL", "LISTEN", "LEASE_MS", "EXECUTORS", "MODEL", "ROLE_TOKEN"] {
        assert!(text.contains(&format!("TREE_AGENT_{name}: ")), "TREE_AGENT_{name} is missing in {text}");
    }
}
