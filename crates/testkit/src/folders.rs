//! What is in a folder.

use std::path::Path;

/// Every file below `dir` with its text, by path, without those in folders whose paths are `left_out`.
///
/// # Panics
/// If the folder cannot be read, or a file holds something other than text.
pub fn files(dir: &Path, left_out: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    fn walk(dir: &Path, at: &str, left_out: &dyn Fn(&str) -> bool, found: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(dir).expect("a folder") {
            let entry = entry.expect("an entry");
            let path = format!("{at}{}", entry.file_name().to_string_lossy());
            if !entry.file_type().expect("a type").is_dir() {
                found.push((path, std::fs::read_to_string(entry.path()).expect("text")));
            } else if !left_out(&path) {
                walk(&entry.path(), &format!("{path}/"), left_out, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(dir, "", &left_out, &mut found);
    found.sort();
    found
}
