//! Checks and migrates the version of the schema.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension};

use super::connection::map_error;
use super::documents;
use crate::error::StoreError;
use crate::schema::{Dialect, HISTORY_TABLE};

pub(super) fn run(connection: &mut Connection, data_dir: &Path) -> Result<(), StoreError> {
    let known = Dialect::Embedded.version();
    let found = version(connection).map_err(map_error)?;
    if found > known {
        return Err(StoreError::Broken {
            message: format!(
                "the data directory {} has schema version {found}: it was written by a newer version of tree-agent \
                 (this one knows {known}); use that version, or choose another data directory",
                data_dir.display()
            ),
            source: None,
        });
    }
    if found < known {
        Dialect::Embedded.runner()?.set_grouped(true).run(connection).map_err(|e| {
            StoreError::broken(format!("the data directory {} could not be migrated", data_dir.display()), e)
        })?;
    }
    let transaction = connection.transaction().map_err(map_error)?;
    documents::index_again(&transaction)?;
    transaction.commit().map_err(map_error)
}

fn version(connection: &Connection) -> Result<i32, rusqlite::Error> {
    let there = connection
        .query_row("SELECT 1 FROM sqlite_master WHERE name = ?1", [HISTORY_TABLE], |_| Ok(()))
        .optional()?;
    if there.is_none() {
        return Ok(0);
    }
    connection
        .query_row(&format!("SELECT COALESCE(max(version), 0) FROM {HISTORY_TABLE}"), [], |row| row.get(0))
}
