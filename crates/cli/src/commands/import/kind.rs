//! What a file is, by its name.

use std::path::Path;

use serde::Serialize;

/// A type of file that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Kind {
    /// Imported as it is.
    Markdown,
    /// Imported as it is.
    Text,
    /// Imported as it is, under the name of the file.
    Code,
    /// Imported as Markdown.
    Html,
    /// Its text is imported.
    Pdf,
}

const MARKDOWN: &str = "md markdown mdown mkd mkdn mdx";
const TEXT: &str = "txt text rst adoc asciidoc org textile";
/// Names of texts that usually have no extension.
const TEXT_NAMES: &str = "README CHANGELOG CHANGES NEWS LICENSE COPYING NOTICE AUTHORS CONTRIBUTING TODO";
const CODE: &str = "bash bat bzl c cc cjs clj cljs cmake cpp cr cs css cts cu cxx d dart el elm erl ex exs f90 fish fs \
    fsi fsx glsl go gradle graphql groovy h hcl hh hpp hrl hs hxx java jl js jsx kt kts less lisp lua m \
    mjs ml mli mm mts nim nix pas php pl pm proto ps1 py pyi r rb rkt rs sass scala scm scss sh sol sql \
    svelte swift tcl tf toml ts tsx v vb vhd vhdl vue wat wgsl yaml yml zig zsh";
/// Names of source code that usually has no extension.
const CODE_NAMES: &str = "BUILD CONTAINERFILE DOCKERFILE GEMFILE JUSTFILE MAKEFILE RAKEFILE WORKSPACE";
const HTML: &str = "html htm xhtml";
const PDF: &str = "pdf";

impl Kind {
    /// The type of the file with this name; none for a type that is not imported.
    pub(super) fn of(file: &Path) -> Option<Self> {
        let Some(extension) = file.extension() else {
            let name = file.file_name()?.to_string_lossy().to_ascii_uppercase();
            let is_in = |names: &str| names.split(' ').any(|known| known == name);
            return is_in(TEXT_NAMES)
                .then_some(Self::Text)
                .or_else(|| is_in(CODE_NAMES).then_some(Self::Code));
        };
        let extension = extension.to_string_lossy().to_ascii_lowercase();
        [
            (MARKDOWN, Self::Markdown),
            (TEXT, Self::Text),
            (CODE, Self::Code),
            (HTML, Self::Html),
            (PDF, Self::Pdf),
        ]
        .into_iter()
        .find(|(extensions, _)| extensions.split(' ').any(|known| known == extension))
        .map(|(_, kind)| kind)
    }

    /// The type in words.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Markdown => "Markdown",
            Self::Text => "plain text",
            Self::Code => "source code",
            Self::Html => "HTML",
            Self::Pdf => "PDF",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_a_file_is() {
        let of = |name: &str| Kind::of(Path::new(name));
        assert_eq!(of("a/b.MD"), Some(Kind::Markdown));
        assert_eq!(of("b.rst"), Some(Kind::Text));
        assert_eq!(of("license"), Some(Kind::Text));
        assert_eq!(of("src/main.rs"), Some(Kind::Code));
        assert_eq!(of("Dockerfile"), Some(Kind::Code));
        assert_eq!(of("index.HTM"), Some(Kind::Html));
        assert_eq!(of("a.pdf"), Some(Kind::Pdf));
        for other in
            ["a.png", "package-lock.json", "node.json", "data.csv", "Cargo.lock", "plan", "a.md.orig"]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
