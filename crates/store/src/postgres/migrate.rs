//! Checks and migrates the version of the schema.

use std::time::Duration;

use deadpool_postgres::tokio_postgres::{Client, Row};

use super::connection::{Connection, parse};
use super::failure::map_error;
use crate::error::StoreError;
use crate::schema::{Dialect, HISTORY_TABLE};

/// The advisory lock of migrations. Any number works as long as every tree-agent uses the same.
const ADVISORY_LOCK: i64 = 0x7472_6565_2d61_6774;

/// What the database is called in errors.
const PLACE: &str = "the database";
const IS_MIGRATED: &str = "SELECT to_regclass($1) IS NOT NULL";
/// The migrations that were applied.
const APPLIED: &str = "SELECT version, checksum::text FROM refinery_schema_history";

pub(super) async fn check(connection: &mut Connection) -> Result<(), StoreError> {
    let there = connection.query(IS_MIGRATED, &[&HISTORY_TABLE]).await?;
    let rows =
        if there.iter().any(|row| row.get(0)) { connection.query(APPLIED, &[]).await? } else { Vec::new() };
    let found = version(&rows)?;
    let needed = Dialect::Postgres.version();
    if found == needed {
        return Ok(());
    }
    Err(StoreError::Broken {
        message: format!(
            "{PLACE} has schema version {found}, this version of tree-agent needs {needed}; run `tree-agent migrate`"
        ),
        source: None,
    })
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
    if client.query_one(IS_MIGRATED, &[&HISTORY_TABLE]).await.map_err(map_error)?.get(0) {
        version(&client.query(APPLIED, &[]).await.map_err(map_error)?)?;
    }
    let report = Dialect::Postgres.runner()?.set_grouped(true).run_async(client).await;
    let report = report.map_err(|e| StoreError::broken("the database could not be migrated", e))?;
    Ok(report.applied_migrations().len())
}

fn version(applied: &[Row]) -> Result<i32, StoreError> {
    let applied: Vec<_> = applied.iter().map(|row| (row.get(0), row.get(1))).collect();
    Dialect::Postgres.version_of(PLACE, &applied)
}
