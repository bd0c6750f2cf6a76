//! What files are, by their names.

/// Endings of source code, settings and data.
const ENDINGS: &str = "bash bat bzl c cc cfg cjs clj cljs cmake conf cpp cr cs css cts cu cxx d dart el elm erl ex exs f90 \
    fish fs fsi fsx glsl go gradle graphql groovy h hcl hh hpp hrl hs hxx inc ini java jl js json jsonl jsx \
    kt kts less lisp lua m mjs ml mli mm mts ndjson nim nix pas php pl pm properties proto ps1 py pyi r \
    rb rkt rs sass scala scm scss sh sol sql svelte swift tcl tf toml ts tsx v vb vhd vhdl vue wat wgsl \
    yaml yml zig zsh";
/// Endings of Markdown.
pub const MARKDOWN: &str = "md markdown mdown mkd mkdn mdx";
/// Names of texts that usually have no ending.
pub const TEXT_NAMES: &str = "README CHANGELOG CHANGES NEWS LICENSE COPYING NOTICE AUTHORS CONTRIBUTING TODO";
/// Endings of HTML.
pub const HTML: &str = "html htm xhtml";
/// Endings of texts and slides of office programs, and of books.
pub const OFFICE: &str = "docx docm doc odt rtf epub pptx pptm ppsx ppt pps odp";
/// Endings of sheets.
pub const SHEET: &str = "xlsx xlsm xlsb xls ods csv tsv tab";
/// Endings of files that become Markdown when they are imported.
pub const CONVERTED: &[&str] = &[HTML, OFFICE, SHEET, "pdf eml"];
/// Names of source code that usually has no ending.
const NAMES: &str = "BUILD CONTAINERFILE DOCKERFILE GEMFILE JUSTFILE MAKEFILE RAKEFILE WORKSPACE";

/// Whether `name` is one of `names`, which have spaces between them.
pub fn is_in(names: &str, name: &str) -> bool {
    names.split(' ').any(|known| known == name)
}

/// Whether a file with this name, without its folders, is source code, settings or data: no text with headings, and in
/// which the first line that begins with # is no title.
pub fn is_code(name: &str) -> bool {
    match name.rsplit_once('.') {
        Some((_, ending)) => is_in(ENDINGS, &ending.to_ascii_lowercase()),
        None => is_in(NAMES, &name.to_ascii_uppercase()),
    }
}
