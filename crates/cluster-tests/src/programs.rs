//! Finds the programs under test.

use std::path::PathBuf;

/// The program `name`, from the same build as the calling test.
///
/// # Panics
/// If it is not built. The message names the command that builds it.
pub fn program(name: &str) -> PathBuf {
    // target/debug/deps/test-0123 asks for target/debug/name.
    let test = std::env::current_exe().expect("a process knows its program");
    let folder = test.ancestors().find(|folder| !folder.ends_with("deps") && folder.is_dir());
    let file = folder.expect("a program is in a folder").join(name);
    assert!(
        file.is_file(),
        "{} is not built; `cargo build --workspace --bins` builds it, and `cargo test --workspace` as well",
        file.display()
    );
    file
}
