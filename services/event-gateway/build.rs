//! Builds this crate again when the web UI was built again: its files become part of the program.

use std::path::Path;

fn main() {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist");
    // Cargo can only watch a folder that exists. Where it cannot be created, the sources do not change either.
    let _ = std::fs::create_dir_all(&dist);
    println!("cargo:rerun-if-changed={}", dist.display());
}
