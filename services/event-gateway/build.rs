//! Rebuilds this crate when the web UI changes, because its files are part of the program.

use std::path::Path;

fn main() {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist");
    // Cargo can watch only a folder that exists. If it cannot be created, the sources are read-only and do not change.
    let _ = std::fs::create_dir_all(&dist);
    println!("cargo:rerun-if-changed={}", dist.display());
}
