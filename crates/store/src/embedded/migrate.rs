//! Checks and migrates the version of the schema.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension};

use super::connection::map_error;
use crate::error::StoreError;
use crate::schema::{Dialect, HISTORY_TABLE};

pub(super) fn run(connection: &mut Connection, data_dir: &Path) -> Result<(), StoreError> {
    let place = format!("the data directory {}", data_dir.display());
    let applied = applied(connection).map_err(map_error)?;
    if Dialect::Embedded.version_of(&place, &applied)? < Dialect::Embedded.version() {
        let migrated = Dialect::Embedded.runner()?.set_grouped(true).run(connection);
        migrated.map_err(|e| StoreError::broken(format!("{place} could not be migrated"), e))?;
    }
    Ok(())
}

/// The migrations that were applied.
fn applied(connection: &Connection) -> Result<Vec<(i32, String)>, rusqlite::Error> {
    let there = connection
        .query_row("SELECT 1 FROM sqlite_master WHERE name = ?1", [HISTORY_TABLE], |_| Ok(()))
        .optional()?;
    if there.is_none() {
        return Ok(Vec::new());
    }
    let sql = format!("SELECT version, CAST(checksum AS TEXT) FROM {HISTORY_TABLE}");
    let mut statement = connection.prepare(&sql)?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}
