//! Lists of topics: what a role proposes, and what a node has.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::slug;
use crate::error::Checks;
use crate::limits;
use crate::text::{one_line, truncate};

/// A topic below another: one entry of `children.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildEntry {
    /// What it is about, on one line.
    pub title: String,
    /// Its name in paths, unique among its siblings.
    pub slug: String,
    /// How much it promises, from 0 to 1, in the judgement of the research that found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// A topic as a model proposes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildDraft {
    /// What it is about.
    pub title: String,
    /// A proposal for its slug. It is made from the title if absent.
    pub slug: Option<String>,
    /// From 0 to 1.
    pub score: Option<f64>,
}

/// A list that keeps the rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicList {
    /// At most [`SEARCH_CHILDREN`](limits::SEARCH_CHILDREN).
    pub children: Vec<ChildEntry>,
    /// Entries that were left out: empty titles, titles that stand in the list already, and those beyond the limit.
    pub dropped: u32,
}

/// Makes a list of topics of what a model proposed.
pub fn tidy(drafts: impl IntoIterator<Item = ChildDraft>) -> TopicList {
    let (mut titles, mut slugs) = (BTreeSet::new(), BTreeSet::new());
    let mut tidied = TopicList::default();
    for draft in drafts {
        let title = clean_title(&draft.title);
        let is_new = !title.is_empty() && !titles.contains(&title.to_lowercase());
        if !is_new || tidied.children.len() == limits::SEARCH_CHILDREN {
            tidied.dropped = tidied.dropped.saturating_add(1);
            continue;
        }
        let wanted = draft.slug.as_deref().filter(|slug| !slug.trim().is_empty()).unwrap_or(&title);
        let slug = slug::unique(wanted, |slug| slugs.contains(slug));
        titles.insert(title.to_lowercase());
        slugs.insert(slug.clone());
        let score = draft.score.filter(|score| score.is_finite()).map(|score| score.clamp(0.0, 1.0));
        tidied.children.push(ChildEntry { title, slug, score });
    }
    tidied
}

/// `title` on one line, without control characters, in at most [`TITLE_BYTES`](limits::TITLE_BYTES).
pub fn clean_title(title: &str) -> String {
    let visible: String = title.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    truncate(&one_line(&visible), limits::TITLE_BYTES).into_owned()
}

/// Checks a list of topics that a role answered with.
pub(crate) fn check(children: &[ChildEntry], c: &mut Checks) {
    c.range("children", children.len() as u64, 0..=limits::SEARCH_CHILDREN as u64);
    let mut slugs = BTreeSet::new();
    for (i, child) in children.iter().enumerate() {
        let at = format_args!("children[{i}]");
        c.text(format_args!("{at}.title"), &child.title, limits::TITLE_BYTES);
        c.require(!child.title.contains(char::is_control), format_args!("{at}.title"), || {
            "has a control character".into()
        });
        if let Err(message) = slug::check(&child.slug) {
            c.require(false, format_args!("{at}.slug"), || message);
        }
        c.require(slugs.insert(child.slug.as_str()), format_args!("{at}.slug"), || {
            format!("{:?} is used twice; slugs must be unique among siblings", child.slug)
        });
        let in_range = child.score.is_none_or(|score| (0.0..=1.0).contains(&score));
        c.require(in_range, format_args!("{at}.score"), || "must be between 0 and 1".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(title: &str) -> ChildDraft {
        ChildDraft { title: title.into(), ..ChildDraft::default() }
    }

    #[test]
    fn a_list_is_made_to_keep_the_rules() {
        let named = ChildDraft { title: "OAuth".into(), slug: Some("../../etc".into()), score: Some(7.0) };
        let drafts = [
            draft(" Query\n planning "),
            draft(""),
            draft("query  Planning"),
            draft("Query: planning!"),
            named,
        ];
        let TopicList { children, dropped } = tidy(drafts);
        let shown: Vec<_> = children.iter().map(|c| (c.title.as_str(), c.slug.as_str(), c.score)).collect();
        assert_eq!(
            shown,
            [
                ("Query planning", "query-planning", None),
                ("Query: planning!", "query-planning-2", None),
                ("OAuth", "etc", Some(1.0)),
            ]
        );
        assert_eq!(dropped, 2);
        let mut checks = Checks::default();
        check(&children, &mut checks);
        checks.finish().expect("what is tidied keeps the rules");
    }

    #[test]
    fn a_list_is_capped_and_says_so() {
        let many = (0..limits::SEARCH_CHILDREN + 5).map(|i| draft(&format!("Topic {i}")));
        let tidied = tidy(many);
        assert_eq!((tidied.children.len(), tidied.dropped), (limits::SEARCH_CHILDREN, 5));
        let long = tidy([draft(&"x".repeat(10_000))]);
        assert!(long.children[0].title.len() <= limits::TITLE_BYTES && long.children[0].slug.len() == 60);
    }

    #[test]
    fn a_list_that_breaks_a_rule_names_the_entry() {
        let entry =
            |title: &str, slug: &str| ChildEntry { title: title.into(), slug: slug.into(), score: None };
        let mut checks = Checks::default();
        let scored = ChildEntry { score: Some(1.5), ..entry("d", "d") };
        check(&[entry("a", "a"), entry("b\u{7}", "a"), entry("", "A B"), scored], &mut checks);
        let errors = checks.finish().unwrap_err().0;
        let fields: Vec<_> = errors.iter().map(|e| e.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "children[1].title",
                "children[1].slug",
                "children[2].title",
                "children[2].slug",
                "children[3].score"
            ]
        );
    }
}
