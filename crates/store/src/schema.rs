//! The migrations, compiled in, and what their version numbers mean to this binary.

use refinery::{Migration, Runner};

use crate::error::StoreError;

/// The table in which the runner notes what it applied.
pub(crate) const HISTORY_TABLE: &str = "refinery_schema_history";

const POSTGRES: &[(&str, &str)] = &[
    ("V1__initial", include_str!("../../../migrations/postgres/V1__initial.sql")),
    ("V2__run_usage", include_str!("../../../migrations/postgres/V2__run_usage.sql")),
    ("V3__document_offsets", include_str!("../../../migrations/postgres/V3__document_offsets.sql")),
    ("V4__partitions", include_str!("../../../migrations/postgres/V4__partitions.sql")),
    ("V5__document_room", include_str!("../../../migrations/postgres/V5__document_room.sql")),
    ("V6__run_lists", include_str!("../../../migrations/postgres/V6__run_lists.sql")),
    ("V7__project_requests", include_str!("../../../migrations/postgres/V7__project_requests.sql")),
    ("V8__driver_leases", include_str!("../../../migrations/postgres/V8__driver_leases.sql")),
    ("V9__failures", include_str!("../../../migrations/postgres/V9__failures.sql")),
    ("V30__document_chunks", include_str!("../../../migrations/postgres/V30__document_chunks.sql")),
    ("V31__commands", include_str!("../../../migrations/postgres/V31__commands.sql")),
    ("V32__requests", include_str!("../../../migrations/postgres/V32__requests.sql")),
    ("V33__spelling", include_str!("../../../migrations/postgres/V33__spelling.sql")),
    ("V34__sessions", include_str!("../../../migrations/postgres/V34__sessions.sql")),
    ("V35__project_rules", include_str!("../../../migrations/postgres/V35__project_rules.sql")),
    ("V36__document_tree", include_str!("../../../migrations/postgres/V36__document_tree.sql")),
    ("V38__replies", include_str!("../../../migrations/postgres/V38__replies.sql")),
    ("V39__forks", include_str!("../../../migrations/postgres/V39__forks.sql")),
    ("V41__project_revisions", include_str!("../../../migrations/postgres/V41__project_revisions.sql")),
];

const EMBEDDED: &[(&str, &str)] = &[
    ("V1__initial", include_str!("../../../migrations/embedded/V1__initial.sql")),
    ("V2__run_usage", include_str!("../../../migrations/embedded/V2__run_usage.sql")),
    ("V3__document_offsets", include_str!("../../../migrations/embedded/V3__document_offsets.sql")),
    ("V4__archives", include_str!("../../../migrations/embedded/V4__archives.sql")),
    ("V5__run_lists", include_str!("../../../migrations/embedded/V5__run_lists.sql")),
    ("V6__project_requests", include_str!("../../../migrations/embedded/V6__project_requests.sql")),
    ("V7__driver_leases", include_str!("../../../migrations/embedded/V7__driver_leases.sql")),
    ("V8__failures", include_str!("../../../migrations/embedded/V8__failures.sql")),
    ("V30__document_chunks", include_str!("../../../migrations/embedded/V30__document_chunks.sql")),
    ("V31__commands", include_str!("../../../migrations/embedded/V31__commands.sql")),
    ("V32__requests", include_str!("../../../migrations/embedded/V32__requests.sql")),
    ("V33__spelling", include_str!("../../../migrations/embedded/V33__spelling.sql")),
    ("V34__sessions", include_str!("../../../migrations/embedded/V34__sessions.sql")),
    ("V35__project_rules", include_str!("../../../migrations/embedded/V35__project_rules.sql")),
    ("V36__document_tree", include_str!("../../../migrations/embedded/V36__document_tree.sql")),
    ("V38__replies", include_str!("../../../migrations/embedded/V38__replies.sql")),
    ("V39__forks", include_str!("../../../migrations/embedded/V39__forks.sql")),
    ("V41__project_revisions", include_str!("../../../migrations/embedded/V41__project_revisions.sql")),
];

/// Which set of migrations.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dialect {
    /// `migrations/postgres`.
    Postgres,
    /// `migrations/embedded`.
    Embedded,
}

impl Dialect {
    const fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Dialect::Postgres => POSTGRES,
            Dialect::Embedded => EMBEDDED,
        }
    }

    /// The version that this binary works with: the number of its last migration.
    pub(crate) const fn version(self) -> i32 {
        let files = self.files();
        number(files[files.len() - 1].0)
    }

    /// A runner over every migration.
    pub(crate) fn runner(self) -> Result<Runner, StoreError> {
        let migrations = self
            .files()
            .iter()
            .map(|(name, sql)| Migration::unapplied(name, sql))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| StoreError::broken("a migration that is compiled in has a malformed name", e))?;
        Ok(Runner::new(&migrations))
    }
}

/// The number in the name of a migration, `V<number>__<words>`.
const fn number(name: &str) -> i32 {
    let (bytes, mut at, mut number) = (name.as_bytes(), 1, 0);
    while at < bytes.len() && bytes[at].is_ascii_digit() {
        number = number * 10 + (bytes[at] - b'0') as i32;
        at += 1;
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_in_the_order_of_their_numbers() {
        for dialect in [Dialect::Postgres, Dialect::Embedded] {
            let runner = dialect.runner().unwrap();
            let versions: Vec<_> = runner.get_migrations().iter().map(|m| m.version()).collect();
            assert!(versions.is_sorted_by(|a, b| a < b), "{dialect:?}: {versions:?}");
            assert_eq!(versions.last(), Some(&dialect.version()), "{dialect:?}");
        }
    }
}
