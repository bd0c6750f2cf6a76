//! Forks: their rows, what they read of the runs before them, and what they take over when one of these is removed.

use std::collections::BTreeMap;

use async_trait::async_trait;
use tree_agent_contract::ids::EventId;
use tree_agent_contract::{DocumentId, NodeId, RunId, RunSpec};
use uuid::Uuid;

use super::inherited::{self, Inherited, Piece, Range};
use super::new_run::{self, NewRow};
use super::rows::{self, limit};
use super::sql::{Backend, Db, Param, Record};
use crate::error::StoreError;
use crate::ports::{
    Created, DocumentRecord, DocumentTail, DocumentVersion, Forks, NewFork, Page, PlacedDocument, Projection,
    Segment, StoredChunk, StoredDocument,
};
use crate::schema::Dialect;
use crate::text::clean_json;
use crate::types::{Json, JsonText, List, Time, json};

/// The columns of a [document](rows::stored_document) that a run wrote.
pub(crate) const DOCUMENT: &str = "d.id, d.type_key, d.run_id, d.path, d.title, d.body, d.props, d.created_at, \
     d.updated_at, d.dropped_bytes, d.base_seq, d.created_seq, d.parent_id, d.linked_seq, d.linked_at";

#[async_trait]
impl<S: Backend> Forks for S {
    async fn fork_run(&self, fork: NewFork) -> Result<Created, StoreError> {
        inherited::check(&fork)?;
        let made = fork.clone();
        if self.transaction_if(|is_new| *is_new, move |db| Box::pin(insert(db, made))).await? {
            return Ok(Created::New(fork.run_id));
        }
        self.with(move |db| Box::pin(existing(db, fork))).await
    }

    async fn segments(&self, run: RunId) -> Result<Vec<Segment>, StoreError> {
        self.with(move |db| Box::pin(segments(db, run))).await
    }

    async fn document_of(
        &self,
        run: RunId,
        id: DocumentId,
        at_seq: Option<u64>,
    ) -> Result<PlacedDocument, StoreError> {
        let document = self.snapshot(move |db| Box::pin(document(db, run, id, true))).await?;
        document.at(at_seq.unwrap_or(u64::MAX)).ok_or_else(|| StoreError::not_found("document", id))
    }

    async fn document_versions_of(
        &self,
        run: RunId,
        id: DocumentId,
        after: u64,
        limit: usize,
    ) -> Result<Page<DocumentVersion>, StoreError> {
        let document = self.snapshot(move |db| Box::pin(document(db, run, id, false))).await?;
        Ok(document.versions(after, limit))
    }

    async fn document_tail_of(
        &self,
        run: RunId,
        id: DocumentId,
        from: u64,
        max: usize,
    ) -> Result<DocumentTail, StoreError> {
        let document = self.snapshot(move |db| Box::pin(document(db, run, id, true))).await?;
        Ok(document.tail(from, max))
    }
}

/// Inserts the fork. False, and the transaction is to be rolled back, if the run or its request exists.
async fn insert<D: Db>(db: &mut D, fork: NewFork) -> Result<bool, StoreError> {
    let (parent, spec, event) = (fork.parent_run_id, &fork.spec, &fork.event);
    // Whoever removes the run waits for its forks.
    let lock = D::DIALECT.pick(" FOR KEY SHARE", "");
    let sql = format!(
        "SELECT head_seq, parent_seq, epoch, root_node_id, archived_at IS NOT NULL, COALESCE(segments, '[]') \
         FROM tree_agent_runs WHERE id = $1 AND deleted_at IS NULL{lock}"
    );
    let row = db.row(&sql, &[&parent.0]).await?.ok_or_else(|| StoreError::not_found("run", parent))?;
    if row.get(4)? {
        return Err(StoreError::Archived(parent));
    }
    inherited::check_parent(&fork, row.number(0)?, row.number(1)?)?;
    let shared = row.json(5, || format!("the segments of run {parent}"))?;
    let parts = json(&inherited::extended(parent, row.number(2)?, fork.parent_seq, shared))?;
    let (head, parent_seq, edits) = (event.seq as i64, fork.parent_seq as i64, json(&fork.edits)?);
    let mut new = NewRow::of(D::DIALECT, spec, row.get(3)?, event.timestamp)?;
    new.add("head_seq", head);
    new.add("parent_run_id", parent.0);
    new.add("parent_seq", parent_seq);
    new.add("fork_edits", edits);
    new.add("segments", parts);
    if !new.insert(db, fork.run_id, spec, event.timestamp, &fork.request_id).await? {
        return Ok(false);
    }
    let sql = "INSERT INTO tree_agent_events (run_id, seq, id, node_id, parent_node_id, event_type, payload, created_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let params: [&dyn Param; 8] = [
        &fork.run_id.0,
        &head,
        &EventId::of(fork.run_id, 0, event.seq).0,
        &event.node_id.0,
        &event.parent_node_id.map(|id| id.0),
        &event.body.event_type(),
        &JsonText(clean_json(event.payload_json())),
        &Time(event.timestamp),
    ];
    db.run(sql, &params).await?;
    let projection = Projection { run: Some(fork.row.clone()), ..Projection::default() };
    db.project(fork.run_id, 0, (event.seq, event.timestamp), &projection).await
}

/// What stands in the way of the fork: itself, or another run.
async fn existing<D: Db>(db: &mut D, fork: NewFork) -> Result<Created, StoreError> {
    let id = new_run::existing(db, fork.run_id, &fork.spec.user_id, &fork.request_id).await?;
    let sql = "SELECT r.parent_run_id, r.spec, e.payload FROM tree_agent_runs r JOIN tree_agent_events e \
               ON e.run_id = r.id AND e.seq = r.parent_seq + 1 WHERE r.id = $1 AND r.parent_seq = $2";
    let Some(row) = db.row(sql, &[&id.0, &(fork.parent_seq as i64)]).await? else {
        return Err(StoreError::other_spec(id, &fork.request_id));
    };
    let spec = serde_json::from_slice::<RunSpec>(&row.get::<Json>(1)?.0).ok();
    let asked = serde_json::from_slice::<RunSpec>(json(&fork.spec)?.0.as_bytes()).ok();
    let is_same = row.get::<Option<Uuid>>(0)? == Some(fork.parent_run_id.0)
        && spec == asked
        && inherited::has_edits_of(&row.get::<Json>(2)?.0, &fork.event);
    if is_same { Ok(Created::Existing(id)) } else { Err(StoreError::other_spec(id, &fork.request_id)) }
}

/// The parts of the log before the first event that the run wrote itself; empty if it is no fork.
pub(crate) async fn segments<D: Db>(db: &mut D, run: RunId) -> Result<Vec<Segment>, StoreError> {
    let sql =
        "SELECT segments FROM tree_agent_runs WHERE id = $1 AND segments IS NOT NULL AND archived_at IS NULL";
    let row = db.row(sql, &[&run.0]).await?;
    row.map_or(Ok(Vec::new()), |row| row.json(0, || format!("the segments of run {run}")))
}

/// The parts of the log of a run, its own last, as the parameters 1 to 3 of a statement.
pub(crate) struct Parts {
    pub(crate) ranges: Vec<Range>,
    runs: List<Uuid>,
    after: List<i64>,
    until: List<i64>,
}

/// The parts of the log of a run.
pub(crate) async fn parts<D: Db>(db: &mut D, run: RunId) -> Result<Parts, StoreError> {
    let ranges = inherited::ranges(run, &segments(db, run).await?);
    Ok(Parts {
        runs: List(ranges.iter().map(|range| range.run.0).collect()),
        after: List(ranges.iter().map(|range| range.after).collect()),
        until: List(ranges.iter().map(|range| range.until).collect()),
        ranges,
    })
}

impl Parts {
    /// The parts as the table `s`.
    pub(crate) const fn from(dialect: Dialect) -> &'static str {
        dialect.pick(
            "unnest($1::uuid[], $2::int8[], $3::int8[]) WITH ORDINALITY AS s(run, after_seq, until_seq, n)",
            "(SELECT unhex(replace(value, '-', '')) AS run, json_extract($2, '$[' || key || ']') AS after_seq, \
             json_extract($3, '$[' || key || ']') AS until_seq, key + 1 AS n FROM json_each($1)) AS s",
        )
    }

    pub(crate) fn params(&self) -> [&dyn Param; 3] {
        [&self.runs, &self.after, &self.until]
    }

    pub(crate) fn is_fork(&self) -> bool {
        self.ranges.len() > 1
    }
}

/// The condition for rows of a table `d` with a row for each event that belong to the part `s`.
const EVENT_OF_PART: &str = "d.run_id = s.run AND d.seq > s.after_seq AND d.seq <= s.until_seq";

/// Nodes of a fork, with their parents. None if the run is no fork.
pub(crate) async fn nodes<D: Db>(
    db: &mut D,
    run: RunId,
) -> Result<Option<Vec<(NodeId, Option<NodeId>)>>, StoreError> {
    let parts = parts(db, run).await?;
    if !parts.is_fork() {
        return Ok(None);
    }
    let sql = format!(
        "SELECT d.node_id, d.parent_node_id FROM {} CROSS JOIN tree_agent_events d \
         WHERE {EVENT_OF_PART} AND d.event_type = 'tree.node_created' ORDER BY d.seq",
        Parts::from(D::DIALECT)
    );
    let found = db.rows(&sql, &parts.params()).await?;
    Ok(Some(inherited::nodes(found.iter().map(rows::node).collect::<Result<_, _>>()?)))
}

/// A document as the run has it.
pub(crate) async fn document<D: Db>(
    db: &mut D,
    run: RunId,
    id: DocumentId,
    with_texts: bool,
) -> Result<Inherited, StoreError> {
    let found = documents(db, run, Some(id), with_texts).await?.remove(&id);
    found.ok_or_else(|| StoreError::not_found("document", id))
}

/// The documents of a run as it has them, or one of them. Their texts are left out unless `with_texts`.
pub(crate) async fn documents<D: Db>(
    db: &mut D,
    run: RunId,
    only: Option<DocumentId>,
    with_texts: bool,
) -> Result<BTreeMap<DocumentId, Inherited>, StoreError> {
    let parts = parts(db, run).await?;
    let documents = rows_of(db, &parts, only, with_texts).await?;
    let ([runs, after, until], id) = (parts.params(), only.map(|id| id.0));
    let text = if with_texts { "d.body" } else { "''" };
    let sql = format!(
        "SELECT d.document_id, d.seq, d.start_byte, {text}, d.created_at, d.replaces, CAST(octet_length(d.body) AS bigint) \
         FROM {} CROSS JOIN tree_agent_document_chunks d \
         WHERE {EVENT_OF_PART} AND (d.document_id = $4 OR $4 IS NULL) ORDER BY d.document_id, d.seq",
        Parts::from(D::DIALECT)
    );
    let pieces = db.rows(&sql, &[runs, after, until, &id]).await?;
    let piece = |row: &D::Row| Ok(Piece { chunk: rows::chunk(row)?, bytes: row.number(6)? });
    let pieces = pieces.iter().map(piece).collect::<Result<_, StoreError>>()?;
    Ok(inherited::together(run, documents, pieces))
}

/// The rows of documents with their parts and the bytes of their bodies, in the order of the parts.
async fn rows_of<D: Db>(
    db: &mut D,
    parts: &Parts,
    only: Option<DocumentId>,
    with_texts: bool,
) -> Result<Vec<(Range, StoredDocument, u64)>, StoreError> {
    let ([runs, after, until], id) = (parts.params(), only.map(|id| id.0));
    let columns = if with_texts { DOCUMENT.to_owned() } else { DOCUMENT.replace("d.body", "''") };
    let sql = format!(
        "SELECT {columns}, CAST(octet_length(d.body) AS bigint), s.n FROM {} CROSS JOIN tree_agent_documents d \
         WHERE d.run_id = s.run AND d.created_seq > s.after_seq AND d.created_seq <= s.until_seq \
         AND (d.id = $4 OR $4 IS NULL) ORDER BY s.n",
        Parts::from(D::DIALECT)
    );
    let found = db.rows(&sql, &[runs, after, until, &id]).await?;
    let row = |row: &D::Row| {
        let range = parts.ranges[usize::try_from(row.get::<i64>(16)? - 1).unwrap_or_default()];
        Ok((range, rows::stored_document(row)?, row.number(15)?))
    };
    found.iter().map(row).collect()
}

/// What the rows of the documents of a run say, by id.
pub(crate) async fn records<D: Db>(db: &mut D, run: RunId) -> Result<Vec<DocumentRecord>, StoreError> {
    let parts = parts(db, run).await?;
    let documents = inherited::together(run, rows_of(db, &parts, None, false).await?, Vec::new());
    Ok(documents.into_values().map(|document| document.record()).collect())
}

/// A page of the rows of a run's documents, by id. Only these are read.
pub(crate) async fn document_rows<D: Db>(
    db: &mut D,
    run: RunId,
    after: Option<DocumentId>,
    max: usize,
) -> Result<Vec<StoredDocument>, StoreError> {
    let sql = format!(
        "SELECT {DOCUMENT} FROM tree_agent_documents d WHERE d.run_id = $1 AND d.created_seq > $2 \
         AND d.created_seq <= $3 AND (d.id > $4 OR $4 IS NULL) ORDER BY d.id LIMIT $5"
    );
    let after = after.map(|id| id.0);
    // Of each document the row of the latest part counts.
    let mut found = BTreeMap::new();
    for part in parts(db, run).await?.ranges {
        let params: [&dyn Param; 5] = [&part.run.0, &part.after, &part.until, &after, &limit(max)];
        for row in db.rows(&sql, &params).await? {
            let stored = rows::stored_document(&row)?;
            found.insert(stored.document.id, inherited::row(run, part.until, stored));
        }
    }
    Ok(found.into_values().take(max).collect())
}

/// A page of the chunks of a run's documents, by document and event. Only these are read.
pub(crate) async fn chunks<D: Db>(
    db: &mut D,
    run: RunId,
    mut after: (DocumentId, i64),
    max: usize,
) -> Result<Vec<StoredChunk>, StoreError> {
    let parts = parts(db, run).await?;
    let mut chunks = Vec::new();
    // Most often once: few chunks belong to no document, or to a text that is no longer kept.
    loop {
        let left = max.saturating_sub(chunks.len());
        let page = next_chunks(db, &parts, after, left).await?;
        if !parts.is_fork() {
            return Ok(page);
        }
        let is_last = page.len() < left;
        let Some(last) = page.last() else { return Ok(chunks) };
        after = (last.document_id, last.seq as i64);
        let bases = bases(db, &parts, &page).await?;
        chunks.extend(inherited::of_documents(page, &bases));
        if is_last || chunks.len() >= max {
            return Ok(chunks);
        }
    }
}

/// The next chunks of all parts, whatever document they belong to.
async fn next_chunks<D: Db>(
    db: &mut D,
    parts: &Parts,
    after: (DocumentId, i64),
    max: usize,
) -> Result<Vec<StoredChunk>, StoreError> {
    let sql = "SELECT document_id, seq, start_byte, body, created_at, replaces FROM tree_agent_document_chunks \
               WHERE run_id = $1 AND seq > $2 AND seq <= $3 AND (document_id, seq) > ($4, $5) \
               ORDER BY document_id, seq LIMIT $6";
    let mut page = Vec::new();
    for part in &parts.ranges {
        let params: [&dyn Param; 6] =
            [&part.run.0, &part.after, &part.until, &after.0.0, &after.1, &limit(max)];
        for row in db.rows(sql, &params).await? {
            page.push(rows::chunk(&row)?);
        }
    }
    page.sort_by_key(|chunk| (chunk.document_id, chunk.seq));
    page.truncate(max);
    Ok(page)
}

/// The events that the bodies of the documents of these chunks belong to.
async fn bases<D: Db>(
    db: &mut D,
    parts: &Parts,
    chunks: &[StoredChunk],
) -> Result<BTreeMap<DocumentId, i64>, StoreError> {
    let mut ids: Vec<Uuid> = chunks.iter().map(|chunk| chunk.document_id.0).collect();
    ids.dedup();
    let sql = format!(
        "SELECT d.id, d.base_seq, s.until_seq FROM {} CROSS JOIN tree_agent_documents d WHERE d.run_id = s.run \
         AND d.created_seq > s.after_seq AND d.created_seq <= s.until_seq AND {} ORDER BY s.n",
        Parts::from(D::DIALECT),
        D::DIALECT.any_id("d.id", "$4"),
    );
    let [runs, after, until] = parts.params();
    let mut bases = BTreeMap::new();
    for row in db.rows(&sql, &[runs, after, until, &List(ids)]).await? {
        bases.insert(DocumentId(row.get(0)?), row.get::<i64>(1)?.min(row.get(2)?));
    }
    Ok(bases)
}

/// Gives the forks of a run all that they share with it, before it is removed. Forks of such a fork read it there.
///
/// While this waits for a fork that somebody forks, that one becomes another holder. Each that was found is locked and
/// holds nothing of the run any more, so there are none in the end. Whoever forks them from then on waits for this.
pub(crate) async fn materialise<D: Db>(db: &mut D, run: RunId) -> Result<(), StoreError> {
    loop {
        let holders = holders(db, run).await?;
        if holders.is_empty() {
            return Ok(());
        }
        for fork in holders {
            let mut parts = segments(db, fork).await?;
            for range in inherited::take_over(fork, &mut parts, run) {
                copy(db, fork, range).await?;
            }
            let sql = "UPDATE tree_agent_runs SET segments = $2 WHERE id = $1";
            db.run(sql, &[&fork.0, &json(&parts)?]).await?;
        }
    }
}

/// The forks of which a part is stored under the run.
async fn holders<D: Db>(db: &mut D, run: RunId) -> Result<Vec<RunId>, StoreError> {
    let sql = D::DIALECT.pick(
        "SELECT id FROM tree_agent_runs WHERE segments @> $1 AND id <> $2 AND archived_at IS NULL \
         ORDER BY created_at, id FOR UPDATE",
        "SELECT id FROM tree_agent_runs WHERE parent_run_id IS NOT NULL AND id <> $2 AND archived_at IS NULL \
         AND EXISTS (SELECT 1 FROM json_each(segments) p WHERE p.value ->> 'run' = json_extract($1, '$[0].run')) \
         ORDER BY created_at, id",
    );
    let part = json(&serde_json::json!([{"run": run}]))?;
    rows::run_ids(&db.rows(sql, &[&part, &run.0]).await?)
}

async fn copy<D: Db>(db: &mut D, fork: RunId, range: Range) -> Result<(), StoreError> {
    for sql in [
        "INSERT INTO tree_agent_events (run_id, seq, id, node_id, parent_node_id, event_type, payload, created_at) \
         SELECT $1, seq, id, node_id, parent_node_id, event_type, payload, created_at FROM tree_agent_events \
         WHERE run_id = $2 AND seq > $3 AND seq <= $4",
        "INSERT INTO tree_agent_documents (run_id, id, type_key, path, title, body, props, created_at, updated_at, dropped_bytes, \
         base_seq, created_seq, parent_id, linked_seq, linked_at) SELECT $1, id, type_key, path, title, body, props, created_at, \
         updated_at, dropped_bytes, CASE WHEN base_seq < $4 THEN base_seq ELSE $4 END, created_seq, \
         CASE WHEN linked_seq <= $4 THEN parent_id END, CASE WHEN linked_seq <= $4 THEN linked_seq END, \
         CASE WHEN linked_seq <= $4 THEN linked_at END FROM tree_agent_documents \
         WHERE run_id = $2 AND created_seq > $3 AND created_seq <= $4 ON CONFLICT (run_id, id) DO NOTHING",
        "INSERT INTO tree_agent_document_chunks (run_id, document_id, seq, start_byte, body, replaces, created_at) \
         SELECT $1, document_id, seq, start_byte, body, replaces, created_at FROM tree_agent_document_chunks \
         WHERE run_id = $2 AND seq > $3 AND seq <= $4",
        "INSERT INTO tree_agent_sessions (run_id, id, node_id, parent_session_id, messages, created_at) \
         SELECT $1, id, node_id, parent_session_id, messages, created_at FROM tree_agent_sessions \
         WHERE run_id = $2 AND CAST($3 AS bigint) >= -1 AND created_at <= (SELECT max(e.created_at) \
         FROM tree_agent_events e WHERE e.run_id = $1 AND e.seq <= $4) ON CONFLICT (run_id, id) DO NOTHING",
    ] {
        db.run(sql, &[&fork.0, &range.run.0, &range.after, &range.until]).await?;
    }
    Ok(())
}

/// The row of a fork that comes back from its archive.
pub(crate) async fn restore<D: Db>(
    db: &mut D,
    run: RunId,
    parts: &[Segment],
    edits: &[String],
) -> Result<(), StoreError> {
    let Some(last) = parts.last() else { return Ok(()) };
    let sql = "UPDATE tree_agent_runs SET parent_run_id = $2, parent_seq = $3, fork_edits = $4, segments = $5 WHERE id = $1";
    let (edits, parts) = (json(&edits)?, json(&parts)?);
    db.run(sql, &[&run.0, &last.writer.0, &(last.until as i64), &edits, &parts]).await
}
