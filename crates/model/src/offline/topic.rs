//! What a topic of a search stands for, read from its title and from the titles above it.
//!
//! Titles are all that a research is told, so they say it: `operations/` is a folder, ``Backups
//! (`operations/backups.md`)`` a document, `Mentions of “lease”` a word that several documents share, and below a
//! document every title is a heading. Any other title, such as one that a person added, is a subject to search for.

/// What a topic stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    /// The documents below a folder; it ends in a slash.
    Folder(String),
    /// A document.
    Document(String),
    /// A part of a document: the headings from below the document down to it.
    Section(String, Vec<String>),
    /// The passages that mention a word.
    Word(String),
    /// Whatever is said about a subject.
    Subject(String),
}

const MENTIONS: &str = "Mentions of “";

impl Topic {
    /// What the last of `titles` stands for, which begin at the first level.
    pub(super) fn of(titles: &[String]) -> Self {
        let mut topic = None;
        for title in titles {
            topic = Some(match topic {
                Some(Self::Document(path)) => Self::Section(path, vec![title.clone()]),
                Some(Self::Section(path, mut headings)) => {
                    headings.push(title.clone());
                    Self::Section(path, headings)
                }
                _ => Self::read(title),
            });
        }
        topic.unwrap_or_else(|| Self::Subject(String::new()))
    }

    fn read(title: &str) -> Self {
        let document = || Some(title.strip_suffix("`)")?.rsplit_once(" (`")?.1.to_owned());
        let word = || Some(title.strip_prefix(MENTIONS)?.strip_suffix('”')?.to_owned());
        match (document(), word()) {
            (Some(path), _) => Self::Document(path),
            (_, Some(word)) => Self::Word(word),
            _ if title.ends_with('/') => Self::Folder(title.to_owned()),
            _ => Self::Subject(title.to_owned()),
        }
    }

    /// The title of a document whose first heading is `heading`.
    pub(super) fn document_title(heading: &str, path: &str) -> String {
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        let heading = if heading.is_empty() { name } else { heading };
        format!("{heading} (`{path}`)")
    }

    /// The title of the passages that mention `word`.
    pub(super) fn word_title(word: &str) -> String {
        format!("{MENTIONS}{word}”")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(titles: &[&str]) -> Topic {
        Topic::of(&titles.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn titles_say_what_they_stand_for() {
        let path = "ops/a (b).md";
        assert_eq!(of(&["ops/"]), Topic::Folder("ops/".into()));
        assert_eq!(of(&["ops/", "ops/deep/"]), Topic::Folder("ops/deep/".into()));
        let title = Topic::document_title("Backups (`old`)", path);
        assert_eq!(of(&["ops/", &title]), Topic::Document(path.into()));
        assert_eq!(of(&[&Topic::document_title("", path)]), Topic::Document(path.into()));
        let section = Topic::Section(path.into(), vec!["When/".into(), "Who".into()]);
        assert_eq!(of(&[&title, "When/", "Who"]), section);
        assert_eq!(of(&[&Topic::word_title("lease")]), Topic::Word("lease".into()));
        assert_eq!(of(&["By hand"]), Topic::Subject("By hand".into()));
        assert_eq!(of(&[]), Topic::Subject(String::new()));
    }
}
