//! What an import says: a line that grows on a terminal, the files that are left out, and the counts at the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

use serde::Serialize;
use tree_agent_contract::ProjectId;
use tree_agent_convert::Kind;

use super::folder::{Reason, Skipped};
use crate::context::Context;
use crate::screen::{FRAME, Live};
use crate::view::line::Line;
use crate::view::paint::{Paint, count};
use crate::view::printable::one_line;
use crate::view::usage::grouped;

/// Files that are named for one reason; further ones are only counted.
const NAMED: usize = 3;
/// Reasons that are named; further ones are only counted.
const REASONS: usize = 20;
/// Columns of the progress bar.
const BAR: usize = 24;

/// What an import did.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Imported {
    /// The project.
    pub(crate) project_id: ProjectId,
    /// Its name.
    pub(crate) project: String,
    #[serde(flatten)]
    pub(super) counts: Counts,
    /// The passages that the project now has.
    pub(super) passages: u64,
    /// How many of them can be found by meaning; none if the server makes no vectors.
    pub(super) embedded: Option<u64>,
}

/// What was counted.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    /// Documents written.
    pub(super) imported: usize,
    /// Files that the project holds as they are.
    pub(super) unchanged: usize,
    /// Documents removed.
    pub(super) removed: usize,
    /// Files left out, `otherTypes` among them.
    pub(super) skipped: usize,
    /// Files left out because of their type.
    pub(super) other_types: usize,
    /// Bytes of the documents written.
    pub(super) bytes: u64,
    /// Files written or unchanged, by type.
    pub(super) types: BTreeMap<Kind, usize>,
    /// Files left out, by reason.
    pub(super) reasons: BTreeMap<Reason, usize>,
    /// All files left out.
    pub(super) skipped_files: Vec<Skipped>,
    /// What is not in the documents of files that were written.
    pub(super) left_out: Vec<LeftOut>,
}

/// What of a file is not in its documents.
#[derive(Debug, Serialize)]
pub(super) struct LeftOut {
    path: String,
    what: String,
}

impl Imported {
    /// The summary in words.
    pub(crate) fn sentence(&self) -> String {
        let counts = &self.counts;
        let mut text = format!(
            "imported {} ({} bytes) into project {} ({})",
            count(counts.imported, "document"),
            grouped(counts.bytes),
            one_line(&self.project),
            self.project_id,
        );
        if counts.unchanged > 0 {
            let _ = write!(text, "; {} unchanged", grouped(counts.unchanged as u64));
        }
        if counts.removed > 0 {
            let _ = write!(text, "; {} removed", grouped(counts.removed as u64));
        }
        if !counts.types.is_empty() {
            let types =
                counts.types.iter().map(|(kind, n)| format!("{} {}", grouped(*n as u64), kind.name()));
            let _ = write!(text, "; files: {}", types.collect::<Vec<_>>().join(", "));
        }
        if counts.skipped > 0 {
            let reasons =
                counts.reasons.iter().map(|(why, n)| format!("{} {}", grouped(*n as u64), why.words()));
            let _ = write!(text, "; skipped: {}", reasons.collect::<Vec<_>>().join(", "));
        }
        if let Some(embedded) = self.embedded.filter(|embedded| *embedded < self.passages) {
            let all = count(self.passages as usize, "passage");
            let _ = write!(text, "; {} of {all} can be found by meaning so far", grouped(embedded));
        }
        text
    }
}

/// Follows an import: counts, names what is left out on stderr, and draws the progress on a terminal.
pub(super) struct Report<'a> {
    context: &'a Context,
    screen: Option<Screen>,
    /// What is counted so far.
    pub(super) counts: Counts,
}

struct Screen {
    live: Live,
    files: usize,
    done: usize,
    drawn: Option<Instant>,
}

impl<'a> Report<'a> {
    pub(super) fn new(context: &'a Context) -> Self {
        Self { context, screen: None, counts: Counts::default() }
    }

    /// Begins to draw, if stderr is a terminal. In a pipe and with `--quiet` there is no progress.
    pub(super) fn begin(&mut self, files: usize) {
        let out = &self.context.out;
        if out.can_draw() && !out.is_quiet() {
            let live = Live::begin(out.progress_palette()).ok();
            self.screen = live.map(|live| Screen { live, files, done: 0, drawn: None });
            self.draw();
        }
    }

    /// A file is done.
    pub(super) fn advance(&mut self) {
        if let Some(screen) = &mut self.screen {
            screen.done += 1;
            if screen.done == screen.files || screen.drawn.is_none_or(|drawn| drawn.elapsed() >= FRAME) {
                self.draw();
            }
        }
    }

    fn draw(&mut self) {
        let Some(screen) = &mut self.screen else { return };
        let (done, files) = (screen.done as u64, screen.files.max(1) as u64);
        let full = BAR * screen.done / screen.files.max(1);
        let mut line = Line::new("importing", Paint::Plain);
        line.after(format!("{}{}", "█".repeat(full), "░".repeat(BAR - full)), Paint::Plain);
        line.after(format!("{} of {} files", grouped(done), grouped(files)), Paint::Plain);
        for (n, words) in [(self.counts.imported, "written"), (self.counts.unchanged, "unchanged")] {
            if n > 0 {
                line.after(format!("{} {words}", grouped(n as u64)), Paint::Dim);
            }
        }
        // A terminal that is gone is nothing to fail for.
        if screen.live.draw(&[line]).is_err() {
            self.screen = None;
        } else {
            screen.drawn = Some(Instant::now());
        }
    }

    /// Counts a file that was written or is unchanged.
    pub(super) fn file(&mut self, kind: Kind) {
        *self.counts.types.entry(kind).or_default() += 1;
    }

    /// Counts what is left out, and keeps its name and the reason.
    pub(super) fn skip(&mut self, skipped: Skipped) {
        let counts = &mut self.counts;
        counts.skipped += 1;
        *counts.reasons.entry(skipped.reason).or_default() += 1;
        counts.other_types += usize::from(skipped.reason == Reason::OtherType);
        counts.skipped_files.push(skipped);
    }

    /// Keeps what of a file that was written is not in its documents.
    pub(super) fn left_out(&mut self, path: &str, what: String) {
        if !what.is_empty() {
            self.counts.left_out.push(LeftOut { path: path.to_owned(), what });
        }
    }

    /// Takes the progress away and names what was left out, by reason.
    pub(super) fn finish(&mut self) {
        if let Some(mut screen) = self.screen.take() {
            let _ = screen.live.draw(&[]);
        }
        self.counts.skipped_files.sort_by(|a, b| a.path.cmp(&b.path));
        skipped(&self.counts.skipped_files).iter().for_each(|line| self.context.out.warn(line));
        let left_out = &mut self.counts.left_out;
        left_out.sort_by(|a, b| a.path.cmp(&b.path));
        for LeftOut { path, what } in left_out.iter().take(REASONS) {
            self.context.out.warn(format!("not read of {}: {}", one_line(path), one_line(what)));
        }
        if let Some(more @ 1..) = left_out.len().checked_sub(REASONS) {
            self.context
                .out
                .warn(format!("not read of {more} more files: parts of them (-o json lists all)"));
        }
    }
}

/// What was left out, a line for each reason.
fn skipped(files: &[Skipped]) -> Vec<String> {
    let mut by_why: BTreeMap<(Reason, &str), Vec<&str>> = BTreeMap::new();
    for file in files {
        by_why.entry((file.reason, &file.why)).or_default().push(&file.path);
    }
    let more = |n: usize| match n {
        0 => String::new(),
        n => format!(" and {} more (-o json lists all)", grouped(n as u64)),
    };
    let line = |((_, why), paths): (&(Reason, &str), &Vec<&str>)| {
        let first: Vec<_> = paths.iter().take(NAMED).map(|path| one_line(path)).collect();
        format!("skipped, {}: {}{}", one_line(why), first.join(", "), more(paths.len() - first.len()))
    };
    let mut lines: Vec<String> = by_why.iter().take(REASONS).map(line).collect();
    let unsaid: usize = by_why.values().skip(REASONS).map(Vec::len).sum();
    if unsaid > 0 {
        lines.push(format!("skipped, for other reasons:{}", more(unsaid).replacen(" and", "", 1)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_by_type_and_by_reason() {
        let counts = Counts {
            imported: 12,
            unchanged: 3_188,
            removed: 2,
            skipped: 4,
            other_types: 3,
            bytes: 1_234_567,
            types: BTreeMap::from([(Kind::Pdf, 1), (Kind::Markdown, 3_198)]),
            reasons: BTreeMap::from([(NOT_TEXT, 1), (Reason::OtherType, 3)]),
            skipped_files: vec![skipped("a.bin", NOT_TEXT, "not text: binary")],
            left_out: vec![LeftOut { path: "b.pdf".into(), what: "page 2 without text".into() }],
        };
        let project_id = ProjectId(uuid::Uuid::nil());
        let imported =
            Imported { project_id, project: "notes".into(), counts, passages: 9, embedded: Some(4) };
        assert_eq!(
            imported.sentence(),
            "imported 12 documents (1,234,567 bytes) into project notes (00000000-0000-0000-0000-000000000000); \
             3,188 unchanged; 2 removed; files: 3,198 Markdown, 1 PDF; skipped: 3 of other types, 1 not text; \
             4 of 9 passages can be found by meaning so far"
        );
        let json = serde_json::to_value(&imported).unwrap();
        assert_eq!(json["types"], serde_json::json!({ "markdown": 3_198, "pdf": 1 }));
        assert_eq!(json["reasons"], serde_json::json!({ "otherType": 3, "notText": 1 }));
        assert_eq!((&json["unchanged"], &json["otherTypes"]), (&3_188.into(), &3.into()));
        let named = serde_json::json!([{ "path": "a.bin", "reason": "notText", "why": "not text: binary" }]);
        assert_eq!(json["skippedFiles"], named);
        assert_eq!(json["leftOut"], serde_json::json!([{ "path": "b.pdf", "what": "page 2 without text" }]));
    }

    #[test]
    fn what_is_left_out_is_named_by_reason() {
        let mut files: Vec<_> =
            (0..15).map(|i| skipped(&format!("{i:02}.png"), Reason::OtherType, "no text: image")).collect();
        files.push(skipped("a\nb", NOT_TEXT, "not text: binary"));
        let lines = [
            "skipped, no text: image: 00.png, 01.png, 02.png and 12 more (-o json lists all)",
            "skipped, not text: binary: a b",
        ];
        assert_eq!(super::skipped(&files), lines);
        let broken = |i| skipped(&format!("{i}.pdf"), NOT_TEXT, &format!("broken: {i}"));
        let many: Vec<_> = (0..REASONS + 2).map(broken).collect();
        assert_eq!(super::skipped(&many)[REASONS], "skipped, for other reasons: 2 more (-o json lists all)");
    }

    const NOT_TEXT: Reason = Reason::NoText(tree_agent_convert::Reason::NotText);

    fn skipped(path: &str, reason: Reason, why: &str) -> Skipped {
        Skipped { path: path.to_owned(), reason, why: why.to_owned() }
    }
}
