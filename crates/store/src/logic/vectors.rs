//! What passages mean to a model, and the texts that wait for that.

use std::time::Duration;

use async_trait::async_trait;
use tree_agent_contract::{DocumentId, ProjectId, RunContext};
use uuid::Uuid;

use super::documents::{SOURCE, below, reached_by};
use super::passages::{Place, passage_id, stored};
use super::rows::limit;
use super::sql::{Backend, Db, Filter, Record};
use crate::error::StoreError;
use crate::ports::{PassageId, Unembedded, VectorMarks, Vectors};
use crate::schema::Dialect;
use crate::types::{List, now};

#[async_trait]
impl<S: Backend> Vectors for S {
    async fn find_unembedded(&self, model: &str) -> Result<(), StoreError> {
        let model = model.to_owned();
        self.transaction(move |db| Box::pin(find(db, model))).await
    }

    async fn take_unembedded(
        &self,
        model: &str,
        limit: usize,
        hold: Duration,
    ) -> Result<Vec<Unembedded>, StoreError> {
        let model = model.to_owned();
        self.transaction(move |db| Box::pin(take(db, model, limit, hold))).await
    }

    async fn count_unembedded(&self) -> Result<u64, StoreError> {
        self.with(move |db| {
            Box::pin(async move {
                let row = db.row("SELECT count(*) FROM onto_pending", &[]).await?;
                row.map_or(Ok(0), |row| row.number(0))
            })
        })
        .await
    }

    async fn put_vectors(&self, model: &str, vectors: Vec<(Uuid, Vec<i8>)>) -> Result<(), StoreError> {
        let model = model.to_owned();
        self.transaction(move |db| Box::pin(put(db, model, vectors))).await
    }

    async fn vector_marks(&self, model: &str, context: &RunContext) -> Result<VectorMarks, StoreError> {
        let (model, context) = (model.to_owned(), context.clone());
        self.with(move |db| Box::pin(marks(db, model, context))).await
    }

    async fn vectors(
        &self,
        model: &str,
        project: ProjectId,
        after: Option<PassageId>,
        limit: usize,
    ) -> Result<Vec<(PassageId, Option<Vec<i8>>)>, StoreError> {
        let model = model.to_owned();
        self.with(move |db| Box::pin(page(db, model, project, after, limit))).await
    }

    async fn embedded(
        &self,
        model: &str,
        context: &RunContext,
        path_prefix: &str,
    ) -> Result<u64, StoreError> {
        let (model, place) = (model.to_owned(), Place::new(context, path_prefix));
        self.with(move |db| Box::pin(embedded(db, model, place))).await
    }

    async fn documents_below(
        &self,
        context: &RunContext,
        path_prefix: &str,
    ) -> Result<Vec<DocumentId>, StoreError> {
        let (context, path_prefix) = (context.clone(), path_prefix.to_owned());
        self.with(move |db| Box::pin(documents_below(db, context, path_prefix))).await
    }
}

/// Lets the texts of a document wait that have no vector of any model. Those that have one of another model only are
/// found by [`find`]. In the order of the hashes, so that no two writers wait for each other.
pub(super) async fn wait<D: Db>(db: &mut D, document: DocumentId) -> Result<(), StoreError> {
    let sql = "INSERT INTO onto_pending (hash) SELECT DISTINCT p.hash FROM onto_passages p WHERE p.document_id = $1 \
               AND NOT EXISTS (SELECT 1 FROM onto_vectors v WHERE v.hash = p.hash) \
               ORDER BY p.hash ON CONFLICT DO NOTHING";
    db.run(sql, &[&document.0]).await
}

/// Removes the vectors of those of the texts that are gone, and lets these wait no longer.
pub(super) async fn forget<D: Db>(db: &mut D, hashes: Vec<Uuid>) -> Result<(), StoreError> {
    if hashes.is_empty() {
        return Ok(());
    }
    let hashes = List(hashes);
    for table in TABLES {
        let sql = format!("{} AND {}", orphans(table), D::DIALECT.any_id("hash", "$1"));
        db.run(&sql, &[&hashes]).await?;
    }
    Ok(())
}

/// The same for all texts.
pub(super) async fn forget_all<D: Db>(db: &mut D) -> Result<(), StoreError> {
    for table in TABLES {
        db.run(&orphans(table), &[]).await?;
    }
    Ok(())
}

/// The tables that know texts by their hashes.
const TABLES: [&str; 2] = ["onto_vectors", "onto_pending"];

fn orphans(table: &str) -> String {
    format!(
        "DELETE FROM {table} WHERE NOT EXISTS (SELECT 1 FROM onto_passages p WHERE p.hash = {table}.hash)"
    )
}

async fn find<D: Db>(db: &mut D, model: String) -> Result<(), StoreError> {
    let sql = "INSERT INTO onto_pending (hash) SELECT DISTINCT p.hash FROM onto_passages p WHERE NOT EXISTS \
               (SELECT 1 FROM onto_vectors v WHERE v.hash = p.hash AND v.model = $1) \
               ORDER BY p.hash ON CONFLICT DO NOTHING";
    db.run(sql, &[&model]).await
}

async fn take<D: Db>(
    db: &mut D,
    model: String,
    max: usize,
    hold: Duration,
) -> Result<Vec<Unembedded>, StoreError> {
    let (now, hold) = (now().micros(), hold.as_micros() as i64);
    let taken = match D::DIALECT {
        Dialect::Postgres => {
            let sql = "UPDATE onto_pending SET held_until = clock_timestamp() + interval '1 microsecond' * $2 \
                       WHERE hash = ANY (ARRAY (SELECT hash FROM onto_pending WHERE held_until <= clock_timestamp() \
                       ORDER BY held_until LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING hash";
            db.rows(sql, &[&limit(max), &(hold as f64)]).await?
        }
        Dialect::Embedded => {
            let sql = "UPDATE onto_pending SET held_until = $2 WHERE hash IN (SELECT hash FROM onto_pending \
                       WHERE held_until <= $3 ORDER BY held_until LIMIT $1) RETURNING hash";
            db.rows(sql, &[&limit(max), &(now + hold), &now]).await?
        }
    };
    let taken: Vec<Uuid> = taken.iter().map(|row| row.get(0)).collect::<Result<_, _>>()?;
    if taken.is_empty() {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT {SOURCE}, p.ordinal, p.start_byte, p.kind, p.headings, p.body, p.head, p.hash FROM \
         (SELECT p.document_id, p.ordinal, \
         row_number() OVER (PARTITION BY p.hash ORDER BY p.document_id, p.ordinal) AS place FROM onto_passages p \
         WHERE {} AND NOT EXISTS (SELECT 1 FROM onto_vectors v WHERE v.hash = p.hash AND v.model = $1)) w \
         JOIN onto_passages p ON p.document_id = w.document_id AND p.ordinal = w.ordinal \
         JOIN onto_sources d ON d.id = p.document_id WHERE w.place = 1 ORDER BY p.document_id, p.ordinal",
        D::DIALECT.any_id("p.hash", "$2")
    );
    let rows = db.rows(&sql, &[&model, &List(taken.clone())]).await?;
    let texts =
        rows.iter().map(|row| Ok(Unembedded { hash: row.get(16)?, text: stored(row)?.ranked().embedded() }));
    let texts: Vec<Unembedded> = texts.collect::<Result<_, StoreError>>()?;
    // The others have their vectors, or are gone.
    let done: Vec<Uuid> =
        taken.into_iter().filter(|hash| texts.iter().all(|text| text.hash != *hash)).collect();
    wait_no_longer(db, done).await?;
    Ok(texts)
}

async fn wait_no_longer<D: Db>(db: &mut D, hashes: Vec<Uuid>) -> Result<(), StoreError> {
    let sql = format!("DELETE FROM onto_pending WHERE {}", D::DIALECT.any_id("hash", "$1"));
    db.run(&sql, &[&List(hashes)]).await
}

async fn put<D: Db>(db: &mut D, model: String, vectors: Vec<(Uuid, Vec<i8>)>) -> Result<(), StoreError> {
    // Writers take turns here, so revisions are in the order of commits.
    let sql = "INSERT INTO onto_vector_models (model, revision) VALUES ($1, 1) \
               ON CONFLICT (model) DO UPDATE SET revision = onto_vector_models.revision + 1";
    db.run(sql, &[&model]).await?;
    let hashes = vectors.iter().map(|(hash, _)| *hash).collect();
    let sql = "INSERT INTO onto_vectors (hash, model, vector) SELECT $1, $2, $3 \
               WHERE EXISTS (SELECT 1 FROM onto_passages p WHERE p.hash = $1) \
               ON CONFLICT (hash, model) DO UPDATE SET vector = EXCLUDED.vector";
    for (hash, vector) in vectors {
        let bytes: Vec<u8> = vector.into_iter().map(i8::cast_unsigned).collect();
        db.run(sql, &[&hash, &model, &bytes]).await?;
    }
    wait_no_longer(db, hashes).await
}

async fn marks<D: Db>(db: &mut D, model: String, context: RunContext) -> Result<VectorMarks, StoreError> {
    let sql = "SELECT revision FROM onto_vector_models WHERE model = $1";
    let model = db.row(sql, &[&model]).await?.map_or(Ok(0), |row| row.number(0))?;
    let mut filter = Filter::default();
    filter.add("TRUE");
    reached_by(&mut filter, D::DIALECT, "id", &context);
    let sql = format!("SELECT id, revision FROM onto_projects WHERE {} ORDER BY id", filter.sql());
    let rows = db.rows(&sql, &filter.params()).await?;
    let projects = rows.iter().map(|row| Ok((ProjectId(row.get(0)?), row.number(1)?)));
    Ok(VectorMarks { model, projects: projects.collect::<Result<_, StoreError>>()? })
}

async fn page<D: Db>(
    db: &mut D,
    model: String,
    project: ProjectId,
    after: Option<PassageId>,
    max: usize,
) -> Result<Vec<(PassageId, Option<Vec<i8>>)>, StoreError> {
    let sql = "SELECT p.document_id, p.ordinal, v.vector FROM onto_passages p \
               LEFT JOIN onto_vectors v ON v.hash = p.hash AND v.model = $1 \
               WHERE p.project_id = $2 AND (p.document_id, p.ordinal) > ($3, $4) \
               ORDER BY p.document_id, p.ordinal LIMIT $5";
    let (document, ordinal) = after.map_or((Uuid::nil(), -1), |id| (id.document.0, id.ordinal.cast_signed()));
    let rows = db.rows(sql, &[&model, &project.0, &document, &ordinal, &limit(max)]).await?;
    let signed = |bytes: Vec<u8>| bytes.into_iter().map(u8::cast_signed).collect();
    rows.iter().map(|row| Ok((passage_id(row)?, row.get::<Option<Vec<u8>>>(2)?.map(signed)))).collect()
}

async fn embedded<D: Db>(db: &mut D, model: String, place: Place) -> Result<u64, StoreError> {
    let mut filter = Filter::default();
    let model = filter.param(model);
    let joined = place.narrow(&mut filter, D::DIALECT);
    let sql = format!(
        "SELECT count(*) FROM onto_passages p JOIN onto_vectors v ON v.hash = p.hash AND v.model = {model}{joined} \
         WHERE {}",
        filter.sql()
    );
    let row = db.row(&sql, &filter.params()).await?;
    row.map_or(Ok(0), |row| row.number(0))
}

async fn documents_below<D: Db>(
    db: &mut D,
    context: RunContext,
    path_prefix: String,
) -> Result<Vec<DocumentId>, StoreError> {
    let mut filter = Filter::default();
    filter.add("d.type_key = 'document.source'");
    reached_by(&mut filter, D::DIALECT, "d.project_id", &context);
    below(&mut filter, &path_prefix);
    let sql = format!("SELECT d.id FROM onto_sources d WHERE {}", filter.sql());
    let rows = db.rows(&sql, &filter.params()).await?;
    rows.iter().map(|row| row.get(0).map(DocumentId)).collect()
}
