//! Compiles `proto/` without a protoc install: protox parses, prost and tonic generate.

use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    for package in ["treeagent/v1", "treeagent/internal/v1"] {
        for entry in std::fs::read_dir(root.join(package))? {
            files.push(entry?.path());
        }
    }
    files.retain(|f: &PathBuf| f.extension().is_some_and(|e| e == "proto"));
    files.sort();
    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_imports(true).include_source_info(true).open_files(&files)?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    // With the annotations of google.api, which the set as a value has not.
    std::fs::write(out.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;
    let descriptors = compiler.file_descriptor_set();
    // The paths of all public methods: `rights` has a row for each, or the build fails.
    let mut methods = Vec::new();
    for file in descriptors.file.iter().filter(|file| file.package() == "treeagent.v1") {
        for service in &file.service {
            let path = |name: &str| format!("/treeagent.v1.{}/{name}", service.name());
            methods.extend(service.method.iter().map(|method| path(method.name())));
        }
    }
    std::fs::write(out.join("methods.rs"), format!("&{methods:?}"))?;
    tonic_prost_build::configure()
        // Sorted, so that the same message is the same bytes.
        .btree_map(".")
        .codec_path("crate::codec::SmallBuffers")
        .compile_fds(descriptors)?;
    Ok(())
}
