//! What a file is, by its name.

use std::path::Path;

use serde::Serialize;
use tree_agent_contract::code::{HTML, MARKDOWN, OFFICE, SHEET, TEXT_NAMES, is_code, is_in};

/// A type of file that has text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// As it is.
    Markdown,
    /// As it is.
    Text,
    /// As it is; its title is the name of the file.
    Code,
    /// As Markdown.
    Html,
    /// As Markdown, page by page.
    Pdf,
    /// As Markdown.
    Office,
    /// As Markdown tables, sheet by sheet.
    Sheet,
    /// Its heads and its text.
    Mail,
}

const TEXT: &str = "txt text log rst rest adoc asciidoc org textile";
/// What programs write for themselves, though it is text: lock files, and what a guided search keeps in its folder.
const OF_PROGRAMS: &str =
    "package-lock.json npm-shrinkwrap.json packages.lock.json pnpm-lock.yaml node.json children.json";

impl Kind {
    /// The type of the file with this name; none for a type that is not known.
    pub fn of(file: &Path) -> Option<Self> {
        let name = file.file_name()?.to_string_lossy();
        let Some(extension) = file.extension() else {
            let name = name.to_ascii_uppercase();
            return is_in(TEXT_NAMES, &name)
                .then_some(Self::Text)
                .or_else(|| is_code(&name).then_some(Self::Code));
        };
        if is_in(OF_PROGRAMS, &name) {
            return None;
        }
        Self::of_extension(&extension.to_string_lossy().to_ascii_lowercase())
    }

    /// The type of files with this extension, in small letters.
    pub fn of_extension(extension: &str) -> Option<Self> {
        [
            (MARKDOWN, Self::Markdown),
            (TEXT, Self::Text),
            (HTML, Self::Html),
            ("pdf", Self::Pdf),
            (OFFICE, Self::Office),
            (SHEET, Self::Sheet),
            ("eml", Self::Mail),
        ]
        .into_iter()
        .find(|(extensions, _)| is_in(extensions, extension))
        .map(|(_, kind)| kind)
        .or_else(|| is_code(&format!(".{extension}")).then_some(Self::Code))
    }

    /// True if a file of this type is converted in a process of its own.
    pub const fn is_converted(self) -> bool {
        !matches!(self, Self::Markdown | Self::Text | Self::Code)
    }

    /// The type in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Markdown => "Markdown",
            Self::Text => "plain text",
            Self::Code => "source code",
            Self::Html => "HTML",
            Self::Pdf => "PDF",
            Self::Office => "office",
            Self::Sheet => "sheets",
            Self::Mail => "mail",
        }
    }
}

/// What a file of a type that is not known seems to be, by its name: why it is not read, and a glob by which a user can
/// ask for it nevertheless.
pub fn by_name(file: &Path) -> (String, Option<String>) {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let guess = mime_guess::from_path(file).first();
    let has = |kind: &str| guess.as_ref().is_some_and(|guess| guess.type_() == kind);
    match file.extension().map(|extension| extension.to_string_lossy()) {
        _ if is_in(OF_PROGRAMS, &name) => ("written by a program".to_owned(), Some(name.into_owned())),
        Some(_)
            if let Some(kind) = ["image", "audio", "video", "font"].into_iter().find(|kind| has(kind)) =>
        {
            (format!("no text: {kind}"), None)
        }
        Some(extension) => (format!("unknown type .{extension}"), Some(format!("*.{extension}"))),
        None => ("unknown type".to_owned(), Some(name.into_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_a_file_is() {
        let of = |name: &str| Kind::of(Path::new(name));
        for (name, kind) in [
            ("a/b.MD", Kind::Markdown),
            ("b.rst", Kind::Text),
            ("app.log", Kind::Text),
            ("license", Kind::Text),
            ("src/main.rs", Kind::Code),
            ("my.json", Kind::Code),
            ("my.CONF", Kind::Code),
            ("Dockerfile", Kind::Code),
            ("index.HTM", Kind::Html),
            ("a.pdf", Kind::Pdf),
            ("a.Docx", Kind::Office),
            ("data.csv", Kind::Sheet),
            ("a.eml", Kind::Mail),
        ] {
            assert_eq!(of(name), Some(kind), "{name}");
        }
        for (other, why) in [
            ("a.png", ("no text: image", None)),
            ("a.zip", ("unknown type .zip", Some("*.zip"))),
            ("package-lock.json", ("written by a program", Some("package-lock.json"))),
            ("Cargo.lock", ("unknown type .lock", Some("*.lock"))),
            ("plan", ("unknown type", Some("plan"))),
            ("a.md.orig", ("unknown type .orig", Some("*.orig"))),
        ] {
            let (found, glob) = by_name(Path::new(other));
            assert_eq!((of(other), (found.as_str(), glob.as_deref())), (None, why));
        }
    }
}
