//! Which files are source code, by their names.

/// Endings of source code, settings and data.
const ENDINGS: &str = "bash bat bzl c cc cfg cjs clj cljs cmake conf cpp cr cs css cts cu cxx d dart el elm erl ex exs f90 \
    fish fs fsi fsx glsl go gradle graphql groovy h hcl hh hpp hrl hs hxx ini java jl js json jsonl jsx \
    kt kts less lisp lua m mjs ml mli mm mts ndjson nim nix pas php pl pm properties proto ps1 py pyi r \
    rb rkt rs sass scala scm scss sh sol sql svelte swift tcl tf toml ts tsx v vb vhd vhdl vue wat wgsl \
    yaml yml zig zsh";
/// Names of source code that usually has no ending.
const NAMES: &str = "BUILD CONTAINERFILE DOCKERFILE GEMFILE JUSTFILE MAKEFILE RAKEFILE WORKSPACE";

/// Whether a file with this name, without its folders, is source code, settings or data: no text with headings, and in
/// which the first line that begins with # is no title.
pub fn is_code(name: &str) -> bool {
    let is_in = |names: &str, name: &str| names.split(' ').any(|known| known == name);
    match name.rsplit_once('.') {
        Some((_, ending)) => is_in(ENDINGS, &ending.to_ascii_lowercase()),
        None => is_in(NAMES, &name.to_ascii_uppercase()),
    }
}
