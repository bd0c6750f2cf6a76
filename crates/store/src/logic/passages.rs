//! Passages: making them, finding them, and what they mean to a model.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tree_agent_contract::text::prefix;
use tree_agent_contract::{Document, DocumentId, RunContext, limits};
use tree_agent_retrieval::{Clause, Counts, Kind, Passage, chunk, default_title};
use uuid::Uuid;

use super::by_id;
use super::documents::{SOURCE, below, reached_by};
use super::rows::{document_summary, limit};
use super::sql::{Backend, Db, Filter, Record};
use super::vectors;
use crate::error::StoreError;
use crate::ports::{
    CANDIDATES, CheckedPassages, FoundPassages, PassageId, PassageQuery, Passages, StoredPassage,
};
use crate::schema::Dialect;
use crate::types::{List, json};

#[async_trait]
impl<S: Backend> Passages for S {
    async fn find_passages(&self, query: PassageQuery) -> Result<FoundPassages, StoreError> {
        self.snapshot(move |db| Box::pin(find(db, query))).await
    }

    async fn passages(&self, ids: &[PassageId]) -> Result<Vec<StoredPassage>, StoreError> {
        let ids = ids.to_vec();
        self.with(move |db| Box::pin(named(db, ids))).await
    }

    async fn check_passages(
        &self,
        after: Option<DocumentId>,
        limit: usize,
        mended: bool,
    ) -> Result<CheckedPassages, StoreError> {
        match mended {
            true => self.transaction(move |db| Box::pin(check(db, after, limit, true))).await,
            false => self.snapshot(move |db| Box::pin(check(db, after, limit, false))).await,
        }
    }
}

/// A passage to be written.
#[derive(Debug, Serialize)]
pub(super) struct NewPassage {
    ordinal: u32,
    start_byte: u64,
    kind: &'static str,
    headings: Vec<String>,
    head: String,
    hash: Uuid,
    body: String,
    #[serde(skip)]
    terms: Vec<String>,
}

/// The passages of a document.
pub(super) fn of(path: &str, title: &str, body: &str) -> Vec<NewPassage> {
    let pieces = chunk(path, body).into_iter();
    let new = (0..).zip(pieces).map(|(ordinal, piece)| {
        let (text, head, offset) = (&body[piece.range.clone()], &body[piece.head], piece.range.start);
        let passage =
            Passage { path, title, headings: &piece.headings, kind: piece.kind, head, text, offset };
        NewPassage {
            ordinal,
            start_byte: offset as u64,
            kind: piece.kind.as_str(),
            head: head.to_owned(),
            hash: text_hash(&passage.embedded()),
            body: text.to_owned(),
            terms: passage.terms(),
            headings: piece.headings,
        }
    });
    new.collect()
}

/// Names a text: the first half of its SHA-256.
pub fn text_hash(text: &str) -> Uuid {
    let mut half = [0; 16];
    half.copy_from_slice(&Sha256::digest(text)[..16]);
    Uuid::from_bytes(half)
}

/// Puts `new` in the place of the passages of a document. Vectors of texts that it still has stay.
pub(super) async fn replace<D: Db>(
    db: &mut D,
    document: DocumentId,
    project: Option<Uuid>,
    new: &[NewPassage],
) -> Result<(), StoreError> {
    let old = hashes(db, document).await?;
    db.run("DELETE FROM onto_passages WHERE document_id = $1", &[&document.0]).await?;
    let sql = D::DIALECT.pick(
        "INSERT INTO onto_passages (document_id, project_id, ordinal, start_byte, kind, headings, head, hash, body, words) \
         SELECT $1, $2, v.ordinal, v.start_byte, v.kind, v.headings, v.head, v.hash, v.body, CAST(w.words AS tsvector) \
         FROM jsonb_to_recordset($3) AS v \
         (ordinal integer, start_byte bigint, kind text, headings jsonb, head text, hash uuid, body text) \
         JOIN unnest(CAST($4 AS text[])) WITH ORDINALITY AS w (words, place) ON w.place = v.ordinal + 1",
        "INSERT INTO onto_passages (document_id, project_id, ordinal, start_byte, kind, headings, head, hash, body) \
         SELECT $1, $2, value ->> 'ordinal', value ->> 'start_byte', value ->> 'kind', value -> 'headings', \
         value ->> 'head', unhex(replace(value ->> 'hash', '-', '')), value ->> 'body' FROM json_each($3)",
    );
    let rows = json(&new)?;
    let words = List(new.iter().map(|passage| words(D::DIALECT, &passage.terms)).collect::<Vec<_>>());
    match D::DIALECT {
        Dialect::Postgres => db.run(sql, &[&document.0, &project, &rows, &words]).await?,
        Dialect::Embedded => {
            db.run(sql, &[&document.0, &project, &rows]).await?;
            // The cross join keeps the order. Otherwise the array would be read again for each passage.
            let sql = "INSERT INTO onto_passages_search (rowid, words) SELECT p.row, w.value FROM json_each($2) w \
                       CROSS JOIN onto_passages p WHERE p.document_id = $1 AND p.ordinal = w.key";
            db.run(sql, &[&document.0, &words]).await?;
        }
    }
    vectors::wait(db, document).await?;
    vectors::forget(db, old).await
}

/// Terms as the full-text index takes them: words with their places. They have letters and digits only.
fn words(dialect: Dialect, terms: &[String]) -> String {
    match dialect {
        Dialect::Postgres => {
            let placed = terms.iter().zip(1..).map(|(term, place)| format!("{term}:{place}"));
            placed.collect::<Vec<_>>().join(" ")
        }
        Dialect::Embedded => terms.join(" "),
    }
}

/// What the index is asked for a clause.
fn asked(dialect: Dialect, clause: &Clause) -> String {
    let pairs = clause.pairs.iter();
    match dialect {
        Dialect::Postgres => {
            let pairs = pairs.map(|[one, two]| format!("{one} <-> {two}"));
            std::iter::once(clause.term.clone()).chain(pairs).collect::<Vec<_>>().join(" | ")
        }
        Dialect::Embedded => {
            let pairs = pairs.map(|[one, two]| format!("\"{one} {two}\""));
            std::iter::once(format!("\"{}\"", clause.term)).chain(pairs).collect::<Vec<_>>().join(" OR ")
        }
    }
}

/// The hashes of the passages of a document.
pub(super) async fn hashes<D: Db>(db: &mut D, document: DocumentId) -> Result<Vec<Uuid>, StoreError> {
    let rows = db.rows("SELECT hash FROM onto_passages WHERE document_id = $1", &[&document.0]).await?;
    rows.iter().map(|row| row.get(0)).collect()
}

/// Where passages are looked for.
pub(super) struct Place {
    context: RunContext,
    path_prefix: String,
}

impl Place {
    pub(super) fn new(context: &RunContext, path_prefix: &str) -> Self {
        Self { context: context.clone(), path_prefix: path_prefix.to_owned() }
    }

    /// Adds the conditions for `onto_passages p`, and returns what is joined with it for them.
    pub(super) fn narrow(&self, filter: &mut Filter, dialect: Dialect) -> &'static str {
        filter.add("TRUE");
        reached_by(filter, dialect, "p.project_id", &self.context);
        below(filter, &self.path_prefix);
        if self.path_prefix.is_empty() { "" } else { " JOIN onto_sources d ON d.id = p.document_id" }
    }
}

async fn find<D: Db>(db: &mut D, query: PassageQuery) -> Result<FoundPassages, StoreError> {
    let PassageQuery { query, context, path_prefix } = query;
    let place = Place { context, path_prefix };
    let mut filter = Filter::default();
    let joined = place.narrow(&mut filter, D::DIALECT);
    let all = format!("SELECT count(*) FROM onto_passages p{joined} WHERE {}", filter.sql());
    let all = db.row(&all, &filter.params()).await?;
    let mut counts =
        Counts { passages: all.map_or(Ok(0), |row| row.number(0))?, holding: vec![0; query.clauses.len()] };
    if query.clauses.is_empty() {
        return Ok(FoundPassages { counts, ..FoundPassages::default() });
    }
    // What a passage holds is a number with one bit for each clause. Of all that hold the same, those that begin their
    // documents are the best guess, and the hash of a text is the same in every store.
    let held = held(D::DIALECT, &place, &query.clauses);
    let sql = format!(
        "SELECT document_id, ordinal, held, total, place FROM (SELECT document_id, ordinal, held, \
         count(*) OVER (PARTITION BY held) AS total, \
         row_number() OVER (PARTITION BY held ORDER BY start_byte, hash, document_id) AS place \
         FROM ({}) f) r WHERE place <= {CANDIDATES}",
        held.0
    );
    let mut groups: BTreeMap<u64, (u64, Vec<(u64, PassageId)>)> = BTreeMap::new();
    for row in db.rows(&sql, &held.1.params()).await? {
        let (held, total) = (row.number(2)?, row.number(3)?);
        groups.entry(held).or_insert((total, Vec::new())).1.push((row.number(4)?, passage_id(&row)?));
    }
    let holds = |held: u64, clause: usize| held >> clause & 1 == 1;
    for (clause, holding) in counts.holding.iter_mut().enumerate() {
        *holding = groups.iter().filter(|(held, _)| holds(**held, clause)).map(|(_, (total, _))| total).sum();
    }
    let weights = counts.weights();
    let weight = |held: u64| {
        let held = weights.iter().enumerate().filter(|(clause, _)| holds(held, *clause));
        held.map(|(_, weight)| weight).sum::<i64>()
    };
    let total = groups.values().map(|(total, _)| total).sum();
    let mut best: Vec<(Reverse<i64>, u64, PassageId)> = groups
        .into_iter()
        .flat_map(|(held, (_, ids))| ids.into_iter().map(move |(place, id)| (held, place, id)))
        .map(|(held, place, id)| (Reverse(weight(held)), place, id))
        .collect();
    best.sort_unstable();
    best.truncate(CANDIDATES);
    let passages = named(db, best.into_iter().map(|(_, _, id)| id).collect()).await?;
    Ok(FoundPassages { passages, counts, total })
}

/// The statement for the passages that hold any of the clauses, with its parameters: document, ordinal, first byte,
/// hash, and what they hold.
fn held(dialect: Dialect, place: &Place, clauses: &[Clause]) -> (String, Filter) {
    let mut filter = Filter::default();
    let joined = place.narrow(&mut filter, dialect);
    let within = filter.sql();
    let mut parts = Vec::with_capacity(clauses.len());
    for (i, clause) in clauses.iter().enumerate() {
        let (bit, asked) = (1_u64 << i, filter.param(asked(dialect, clause)));
        parts.push(match dialect {
            Dialect::Postgres => format!(
                "SELECT p.document_id, p.ordinal, p.start_byte, p.hash, CAST({bit} AS bigint) AS bit \
                 FROM onto_passages p{joined} \
                 WHERE p.words @@ CAST(CAST({asked} AS text) AS tsquery) AND {within}"
            ),
            Dialect::Embedded => format!(
                "SELECT rowid AS row, {bit} AS bit FROM onto_passages_search WHERE onto_passages_search MATCH {asked}"
            ),
        });
    }
    let parts = parts.join(" UNION ALL ");
    let sql = match dialect {
        Dialect::Postgres => format!(
            "SELECT document_id, ordinal, start_byte, hash, bit_or(bit) AS held FROM ({parts}) c \
             GROUP BY document_id, ordinal, start_byte, hash"
        ),
        Dialect::Embedded => format!(
            "SELECT p.document_id, p.ordinal, p.start_byte, p.hash, m.held FROM (SELECT row, sum(bit) AS held FROM ({parts}) GROUP BY row) m \
             JOIN onto_passages p ON p.row = m.row{joined} WHERE {within}"
        ),
    };
    (sql, filter)
}

pub(super) fn passage_id(row: &impl Record) -> Result<PassageId, StoreError> {
    Ok(PassageId { document: DocumentId(row.get(0)?), ordinal: row.get::<i32>(1)?.cast_unsigned() })
}

async fn named<D: Db>(db: &mut D, ids: Vec<PassageId>) -> Result<Vec<StoredPassage>, StoreError> {
    let list = D::DIALECT.pick(
        "unnest(CAST($1 AS uuid[]), CAST($2 AS integer[])) WITH ORDINALITY AS w (document_id, ordinal, place)",
        "(SELECT unhex(replace(a.value, '-', '')) AS document_id, b.value AS ordinal, a.key AS place \
         FROM json_each($1) a JOIN json_each($2) b ON b.key = a.key) w",
    );
    let sql = format!(
        "SELECT {SOURCE}, p.ordinal, p.start_byte, p.kind, p.headings, p.body, p.head FROM {list} \
         CROSS JOIN onto_passages p JOIN onto_sources d ON d.id = p.document_id \
         WHERE p.document_id = w.document_id AND p.ordinal = w.ordinal ORDER BY w.place"
    );
    let documents = List(ids.iter().map(|id| id.document.0).collect::<Vec<_>>());
    let ordinals = List(ids.iter().map(|id| id.ordinal.cast_signed()).collect::<Vec<_>>());
    db.rows(&sql, &[&documents, &ordinals]).await?.iter().map(stored).collect()
}

/// The columns of [`SOURCE`], then those of the passage.
pub(super) fn stored(row: &impl Record) -> Result<StoredPassage, StoreError> {
    let document = document_summary(row)?;
    let id = PassageId { document: document.id, ordinal: row.get::<i32>(10)?.cast_unsigned() };
    let what = || format!("passage {} of document {}", id.ordinal, id.document);
    let kind: String = row.get(12)?;
    let kind =
        Kind::named(&kind).ok_or_else(|| StoreError::broken(format!("{} is unknown", what()), kind))?;
    let headings = row.json(13, what)?;
    let (offset, text, head) = (row.number(11)?, row.get(14)?, row.get(15)?);
    Ok(StoredPassage { id, document, headings, kind, head, offset, text })
}

/// The title of a document that was given none, as versions before 0.3.0 found it: also in comments of code.
fn default_title_before_0_3<'a>(path: &'a str, body: &'a str) -> &'a str {
    let heading = body.lines().find_map(|line| {
        let text = line.trim_start_matches('#');
        let is_heading = (1..=6).contains(&(line.len() - text.len())) && text.starts_with([' ', '\t']);
        is_heading.then(|| text.trim().trim_end_matches('#').trim_end())
    });
    let title = heading.filter(|heading| !heading.is_empty());
    prefix(title.unwrap_or_else(|| path.rsplit('/').next().unwrap_or(path)), limits::TITLE_BYTES)
}

async fn check<D: Db>(
    db: &mut D,
    after: Option<DocumentId>,
    max: usize,
    mended: bool,
) -> Result<CheckedPassages, StoreError> {
    // No other writer changes a document between the reading of its body and the writing of its passages.
    let locked = if mended { D::DIALECT.pick(" FOR UPDATE", "") } else { "" };
    let sql = format!(
        "SELECT id FROM onto_sources WHERE type_key = 'document.source' AND id > $1 ORDER BY id LIMIT $2{locked}"
    );
    let after = after.map_or(Uuid::nil(), |id| id.0);
    let mut checked = CheckedPassages::default();
    for row in db.rows(&sql, &[&after, &limit(max)]).await? {
        let id = DocumentId(row.get(0)?);
        checked.last = Some(id);
        let document = by_id::latest(db, id).await?.document;
        let Document { path, body, .. } = &document;
        let is_default = document.title == default_title_before_0_3(path, body);
        let title = if is_default { default_title(path, body) } else { document.title.clone() };
        let new = of(path, &title, body);
        let sql =
            "SELECT ordinal, start_byte, hash FROM onto_passages WHERE document_id = $1 ORDER BY ordinal";
        let rows = db.rows(sql, &[&id.0]).await?;
        let known = rows.iter().map(|row| Ok((row.get(0)?, row.number(1)?, row.get(2)?)));
        let known: Vec<(i32, u64, Uuid)> = known.collect::<Result<_, StoreError>>()?;
        if !known.iter().copied().eq(new.iter().map(|p| (p.ordinal.cast_signed(), p.start_byte, p.hash))) {
            checked.differing.push(id);
        }
        // Also where nothing differs: the index of words is not compared.
        if mended {
            // Also with the same title: the project has changed, for those who keep what they read of it.
            db.run("UPDATE onto_sources SET title = $2 WHERE id = $1", &[&id.0, &title]).await?;
            replace(db, id, document.project_id.map(|id| id.0), &new).await?;
        }
    }
    Ok(checked)
}
