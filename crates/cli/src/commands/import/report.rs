//! What an import says: a line that grows on a terminal, the files that are left out, and the counts at the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use tree_agent_contract::ProjectId;

use super::folder::{Reason, Skipped};
use super::kind::Kind;
use crate::context::Context;
use crate::screen::{FRAME, Live};
use crate::view::line::Line;
use crate::view::paint::{Paint, count};
use crate::view::printable::one_line;
use crate::view::usage::grouped;

/// Files that are left out and named with the reason; further ones are only counted.
const NAMED: usize = 20;
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
        text
    }
}

/// Follows an import: counts, names what is left out on stderr, and draws the progress on a terminal.
pub(super) struct Report<'a> {
    context: &'a Context,
    dir: PathBuf,
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
    pub(super) fn new(context: &'a Context, dir: &Path) -> Self {
        Self { context, dir: dir.to_owned(), screen: None, counts: Counts::default() }
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

    /// Counts what is left out, and names it with the reason. Other types are only counted.
    pub(super) fn skip(&mut self, skipped: &Skipped) {
        let counts = &mut self.counts;
        counts.skipped += 1;
        *counts.reasons.entry(skipped.reason).or_default() += 1;
        if skipped.reason == Reason::OtherType {
            counts.other_types += 1;
        } else if counts.skipped - counts.other_types <= NAMED {
            let path = one_line(&self.dir.join(&skipped.path).to_string_lossy());
            self.context.out.warn(format!("skipped {path}: {}", one_line(&skipped.why)));
        }
    }

    /// Takes the progress away and says how many files more were left out.
    pub(super) fn finish(&mut self) {
        if let Some(mut screen) = self.screen.take() {
            let _ = screen.live.draw(&[]);
        }
        if let Some(more @ 1..) = (self.counts.skipped - self.counts.other_types).checked_sub(NAMED) {
            self.context.out.warn(format!("skipped {}", count(more, "further file")));
        }
    }
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
            reasons: BTreeMap::from([(Reason::NotText, 1), (Reason::OtherType, 3)]),
        };
        let project_id = ProjectId(uuid::Uuid::nil());
        let imported = Imported { project_id, project: "notes".into(), counts };
        assert_eq!(
            imported.sentence(),
            "imported 12 documents (1,234,567 bytes) into project notes (00000000-0000-0000-0000-000000000000); \
             3,188 unchanged; 2 removed; files: 3,198 Markdown, 1 PDF; skipped: 3 of other types, 1 binary or not UTF-8"
        );
        let json = serde_json::to_value(&imported).unwrap();
        assert_eq!(json["types"], serde_json::json!({ "markdown": 3_198, "pdf": 1 }));
        assert_eq!(json["reasons"], serde_json::json!({ "otherType": 3, "notText": 1 }));
        assert_eq!((&json["unchanged"], &json["otherTypes"]), (&3_188.into(), &3.into()));
    }
}
