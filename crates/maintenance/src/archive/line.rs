//! Whether the parts that an archive names are those of its log.

use tree_agent_contract::RunId;
use tree_agent_contract::event::RunForked;
use tree_agent_store::RunRecord;

/// Refuses segments that do not follow from the log: each is stored under the run itself and ends right before the
/// event `tree.run_forked` that names its writer. `forks` are these events with their places in the log.
pub(super) fn check(record: &RunRecord, forks: &[(u64, RunForked)]) -> Result<(), String> {
    let (run, segments) = (record.run_id, &record.segments);
    let mut origin = None;
    let mut before = 0;
    let mut writers: Vec<RunId> = vec![run];
    for (i, part) in segments.iter().enumerate() {
        if part.run != run {
            return Err(format!("has segments[{i}].run {}, which is not its own run {run}", part.run));
        }
        if part.until <= before || part.until >= record.head_seq {
            return Err(format!(
                "has segments[{i}].until {}; it must be after {before}, where the part before ends, and before the \
                 head {}",
                part.until, record.head_seq
            ));
        }
        if writers.contains(&part.writer) {
            return Err(format!("has segments[{i}].writer {} twice in its line", part.writer));
        }
        let Some((seq, fork)) = forks.get(i) else {
            return Err(format!(
                "has {} segments, but its log was forked {} times",
                segments.len(),
                forks.len()
            ));
        };
        if (fork.at_seq, *seq) != (part.until, part.until + 1) {
            return Err(format!(
                "has segments[{i}].until {}, but its log was forked with event {seq}, at event {}",
                part.until, fork.at_seq
            ));
        }
        if fork.source_run_id != part.writer {
            return Err(format!(
                "has segments[{i}].writer {}, but event {seq} says that the part is of run {}",
                part.writer, fork.source_run_id
            ));
        }
        // As the engine follows it: none means the source.
        let began = origin.unwrap_or(part.writer);
        if fork.origin_run_id.is_some_and(|named| named != began) {
            return Err(format!(
                "has segments[{i}] of a log that run {began} began, but event {seq} says otherwise"
            ));
        }
        origin = Some(fork.origin_run_id.unwrap_or(fork.source_run_id));
        before = part.until;
        writers.push(part.writer);
    }
    if forks.len() != segments.len() {
        return Err(format!("has {} segments, but its log was forked {} times", segments.len(), forks.len()));
    }
    Ok(())
}
