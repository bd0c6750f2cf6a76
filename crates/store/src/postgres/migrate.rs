//! Checks and migrates the version of the schema.

use std::time::Duration;

use deadpool_postgres::tokio_postgres::{self, Client};

use super::connection::{Connection, map_error, parse};
use super::documents;
use crate::error::StoreError;
use crate::schema::{Dialect, HISTORY_TABLE};

/// The advisory lock of migrations. Any number works as long as every tree-agent uses the same.
const ADVISORY_LOCK: i64 = 0x7472_6565_2d61_6774;

pub(super) async fn check(connection: &mut Connection) -> Result<(), StoreError> {
    let there = format!("SELECT to_regclass('{HISTORY_TABLE}') IS NOT NULL");
    let there: bool = connection.query(&there, &[]).await?.iter().any(|row| row.get(0));
    let found = if there {
        let rows = connection.query(&version_sql(), &[]).await?;
        rows.first().map_or(0, |row| row.get(0))
    } else {
        0
    };
    let needed = Dialect::Postgres.version();
    match found.cmp(&needed) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => Err(StoreError::Broken {
            message: format!(
                "the database has schema version {found}, this version of tree-agent needs {needed}; run `tree-agent migrate`"
            ),
            source: None,
        }),
        std::cmp::Ordering::Greater => Err(newer(found)),
    }
}

pub(super) async fn run(url: &str) -> Result<usize, StoreError> {
    let (config, tls) = parse(url, Duration::from_secs(10))?;
    let (mut client, connection) = config.connect(tls).await.map_err(map_error)?;
    let connection = tokio::spawn(connection);
    let result = run_on(&mut client).await;
    // Closing the connection also releases the advisory lock.
    drop(client);
    let _ = connection.await;
    result
}

async fn run_on(client: &mut Client) -> Result<usize, StoreError> {
    client.execute("SELECT pg_advisory_lock($1)", &[&ADVISORY_LOCK]).await.map_err(map_error)?;
    let found = version(client).await.map_err(map_error)?;
    if found > Dialect::Postgres.version() {
        return Err(newer(found));
    }
    let report = Dialect::Postgres.runner()?.set_grouped(true).run_async(client).await;
    let report = report.map_err(|e| StoreError::broken("the database could not be migrated", e))?;
    documents::index_again(client).await?;
    Ok(report.applied_migrations().len())
}

async fn version(client: &Client) -> Result<i32, tokio_postgres::Error> {
    let there = format!("SELECT to_regclass('{HISTORY_TABLE}') IS NOT NULL");
    if !client.query_one(&there, &[]).await?.get::<_, bool>(0) {
        return Ok(0);
    }
    Ok(client.query_one(&version_sql(), &[]).await?.get(0))
}

fn version_sql() -> String {
    format!("SELECT COALESCE(max(version), 0)::int4 FROM {HISTORY_TABLE}")
}

fn newer(found: i32) -> StoreError {
    StoreError::Broken {
        message: format!(
            "the database has schema version {found}: it was written by a newer version of tree-agent (this one knows {}); use that version",
            Dialect::Postgres.version()
        ),
        source: None,
    }
}
