//! The document that a node of any role returns: a summary, further findings, gaps and numbered sources.

use std::collections::{BTreeMap, BTreeSet};

use super::rank::{Passage, Ranked};
use super::words::Term;
use super::{LABEL, hunt, short};

/// Number of findings in the summary.
pub(super) const LEADING: usize = 3;
/// Of fewer words nobody can tell whether a passage covers them well.
const FEW: usize = 3;
/// Replaces findings that are already in the summary.
const LED: &str = "- In the summary: ";

/// Findings that belong together.
pub(super) struct Section<'a> {
    /// Its heading.
    pub(super) title: &'a str,
    /// Best first.
    pub(super) findings: Vec<&'a Ranked>,
}

/// The parts of a document.
pub(super) struct Document<'a> {
    pub(super) title: &'a str,
    /// What the reader should know before the summary.
    pub(super) remark: Option<String>,
    /// In the order in which they are shown.
    pub(super) sections: Vec<Section<'a>>,
    /// If true, each section has a place in the summary and is shown even if nothing is left for it.
    pub(super) by_parts: bool,
    pub(super) gaps: &'a [String],
}

impl<'a> Document<'a> {
    /// The findings of the summary: the best, and if several sections answer well, the best of each.
    pub(super) fn leading(&self) -> Vec<&'a Ranked> {
        let best =
            self.sections.iter().filter_map(|s| s.findings.first()).map(|r| r.score).max().unwrap_or(0);
        let firsts = self.sections.iter().filter_map(|s| s.findings.first().copied());
        if self.by_parts {
            return firsts.collect();
        }
        let mut leading: Vec<&Ranked> = firsts.filter(|r| r.score * 2 >= best).collect();
        let mut rest: Vec<&Ranked> = self.sections.iter().flat_map(|s| s.findings.iter().copied()).collect();
        // Stable: ties keep the order of the sections.
        rest.sort_by_key(|r| std::cmp::Reverse(r.score));
        leading.truncate(LEADING);
        for finding in rest {
            if leading.len() < LEADING && !leading.iter().any(|l| std::ptr::eq(*l, finding)) {
                leading.push(finding);
            }
        }
        leading.sort_by_key(|r| std::cmp::Reverse(r.score));
        leading
    }

    /// The document as Markdown. Every finding is one quotation and the number of its source.
    pub(super) fn markdown(&self) -> String {
        let leading = self.leading();
        let mut sources = Sources::default();
        let mut text = format!(
            "# {}\n\n*By the {LABEL}. Every finding is a verbatim quotation; its number names the source.*\n\n## Summary\n\n",
            self.title
        );
        if let Some(remark) = &self.remark {
            text.push_str(&format!("*{remark}*\n\n"));
        }
        if leading.is_empty() {
            text.push_str("Nothing was found that answers the task.\n");
        }
        leading.iter().for_each(|r| text.push_str(&sources.line(&r.passage)));
        for section in &self.sections {
            let (led, further): (Vec<&Ranked>, Vec<&Ranked>) =
                section.findings.iter().copied().partition(|r| leading.iter().any(|l| std::ptr::eq(*l, *r)));
            if further.is_empty() && (led.is_empty() || !self.by_parts) {
                continue;
            }
            text.push_str(&format!("\n## {}\n\n", short(section.title, 300)));
            if !led.is_empty() {
                let mut numbers: Vec<usize> = led.iter().map(|r| sources.number(&r.passage)).collect();
                numbers.dedup();
                let numbers: Vec<String> = numbers.iter().map(|n| format!("[{n}]")).collect();
                text.push_str(&format!("{LED}{}\n", numbers.join(", ")));
            }
            further.iter().for_each(|r| text.push_str(&sources.line(&r.passage)));
        }
        text.push_str("\n## Gaps\n\n");
        if self.gaps.is_empty() {
            text.push_str("None that the rules can tell.\n");
        }
        self.gaps.iter().for_each(|gap| text.push_str(&format!("- {gap}\n")));
        text.push_str("\n## Sources\n\n");
        if sources.0.is_empty() {
            text.push_str("None.\n");
        }
        for (i, source) in sources.0.iter().enumerate() {
            text.push_str(&format!("{}. {source}\n", i + 1));
        }
        text
    }
}

/// Numbered in the order in which a reader meets them.
#[derive(Default)]
struct Sources(Vec<String>);

impl Sources {
    fn number(&mut self, passage: &Passage) -> usize {
        let source = passage.source();
        let known = self.0.iter().position(|s| *s == source);
        known.unwrap_or_else(|| {
            self.0.push(source);
            self.0.len() - 1
        }) + 1
    }

    fn line(&mut self, passage: &Passage) -> String {
        let number = self.number(passage);
        format!("- “{}” [{number}]\n", passage.shown())
    }
}

/// The passages of a document that [`Document::markdown`] wrote, each on one line.
pub(super) fn passages(body: &str) -> Vec<Passage> {
    let (findings, sources) = body.rsplit_once("\n## Sources\n").unwrap_or((body, ""));
    let sources: BTreeMap<&str, &str> = sources.lines().filter_map(|line| line.split_once(". ")).collect();
    let found = findings.lines().filter_map(|line| {
        let (text, number) = line.strip_prefix("- “")?.strip_suffix(']')?.rsplit_once("” [")?;
        let source = sources.get(number)?;
        Some((text, source.split_once(" › ").unwrap_or((source, ""))))
    });
    found
        .enumerate()
        .map(|(i, (text, (path, heading)))| Passage {
            text: text.to_owned(),
            path: path.to_owned(),
            heading: heading.to_owned(),
            position: i as u64,
            document_id: None,
        })
        .collect()
}

/// The folder that all of `paths` stand in, with its slash; empty if there is none, or less than two different paths.
pub(super) fn common_folder<'a>(paths: impl IntoIterator<Item = &'a str>) -> &'a str {
    let mut paths = paths.into_iter();
    let Some(first) = paths.next() else { return "" };
    let (mut common, mut several) = (first, false);
    for path in paths {
        several |= path != first;
        let same = common.bytes().zip(path.bytes()).take_while(|(a, b)| a == b).count();
        common = &common[..common.floor_char_boundary(same)];
    }
    match common.rfind('/') {
        Some(slash) if several => &common[..=slash],
        _ => "",
    }
}

/// The words of a question, as a remark needs them.
pub(super) struct Asked<'a> {
    /// Those that passages were ranked by.
    pub(super) shown: &'a [&'a str],
    /// Those of them that are rare.
    pub(super) rare: BTreeSet<usize>,
    /// Those that no quoted passage holds.
    pub(super) unheld: &'a [&'a str],
}

/// The words of `terms` that stand in none of `passages`, nor in the headings above them.
pub(super) fn unheld<'a>(terms: &'a [Term], passages: &[Ranked]) -> Vec<&'a str> {
    let text = |r: &Ranked| format!("{} {}", r.passage.source(), r.passage.text);
    let held: BTreeSet<usize> = passages.iter().flat_map(|r| hunt::held(&text(r), terms)).collect();
    (0..terms.len()).filter(|i| !held.contains(i)).map(|i| terms[i].shown.as_str()).collect()
}

/// The remark on a question that the `best` passages do not answer as a whole: the first of them holds few of its
/// words, or all of them together hold few of its rare words.
pub(super) fn remark(best: &[&Ranked], asked: &Asked<'_>) -> Option<String> {
    const CARE: &str = "Take care: no passage answers the whole question.";
    let first = best.first()?;
    let named = |terms: &BTreeSet<usize>| -> String {
        let named: Vec<&str> = terms.iter().filter_map(|&i| asked.shown.get(i).copied()).collect();
        if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) }
    };
    let more = asked.unheld.iter().filter(|word| !asked.shown.contains(word)).count();
    let (held, all) = (first.terms.len(), asked.shown.len() + more);
    if all >= FEW && held * 3 <= all {
        let named = named(&first.terms);
        return Some(format!("{CARE} The best mentions {held} of its {all} key terms{named}."));
    }
    let held: BTreeSet<usize> =
        best.iter().flat_map(|r| r.terms.intersection(&asked.rare)).copied().collect();
    let rare = asked.rare.len() + asked.unheld.len();
    let is_weak = rare >= FEW && held.len() * 2 < rare;
    is_weak.then(|| {
        let (some, named) = (held.len(), named(&held));
        format!("{CARE} The best mention {some} of its {rare} rarest words{named}.")
    })
}

/// The first of `titles`, and how many more there are: at most `most` together.
pub(super) fn first_of(mut titles: Vec<String>, most: usize) -> Vec<String> {
    if titles.len() > most {
        let more = titles.split_off(most - 1).len();
        titles.push(format!("{more} more"));
    }
    titles
}

/// The gap for a step that was planned and not done.
pub(super) fn not_done(title: &str) -> String {
    let title = short(title, 300);
    let end = if title.ends_with(['.', '?', '!']) { "" } else { "." };
    format!("Not done: {title}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_common_if_all_paths_stand_in_it() {
        for (paths, expected) in [
            (&["ops/deep/a.md", "ops/deep/b.md"][..], "ops/deep/"),
            (&["ops/deep/a.md", "ops/deeper/b.md"], "ops/"),
            (&["ops/ä.md", "ops/å.md", "ops/ä.md"], "ops/"),
            (&["ops/a.md", "design/a.md"], ""),
            (&["ops/a.md", "ops/a.md"], ""),
            (&[], ""),
        ] {
            assert_eq!(common_folder(paths.iter().copied()), expected, "{paths:?}");
        }
    }

    #[test]
    fn a_remark_says_that_the_best_passages_are_weak() {
        let ranked = |terms: &[usize]| Ranked {
            passage: Passage {
                text: "text".to_owned(),
                path: "a.md".to_owned(),
                heading: String::new(),
                position: 0,
                document_id: None,
            },
            score: 1,
            terms: terms.iter().copied().collect(),
        };
        let shown = ["harbour", "pilot", "sprocket", "zirvane"];
        let unheld = ["dirigible", "frobnix", "zirvane"];
        let (common, rare) = (ranked(&[0, 1]), ranked(&[2]));
        let remark = |best: &[&Ranked], n: usize| {
            remark(best, &Asked { shown: &shown, rare: [1, 2, 3].into(), unheld: &unheld[..n] })
        };
        let weak = remark(&[&common], 0).unwrap();
        assert!(weak.ends_with("The best mention 1 of its 3 rarest words (pilot)."), "{weak}");
        assert_eq!(remark(&[&common, &rare], 0), None);
        let weak = remark(&[&common, &rare], 2).unwrap();
        assert!(weak.ends_with("The best mentions 2 of its 6 key terms (harbour, pilot)."), "{weak}");
        let few = remark(&[&rare], 0).unwrap();
        assert!(few.ends_with("The best mentions 1 of its 4 key terms (sprocket)."), "{few}");
        // A word that no passage holds counts once.
        let weak = remark(&[&rare], 3).unwrap();
        assert!(weak.ends_with("The best mentions 1 of its 6 key terms (sprocket)."), "{weak}");
    }
}
