//! The migrations, compiled in, and what their version numbers mean to this binary.

use refinery::{Migration, Runner};

use crate::error::StoreError;

/// The table in which the runner notes what it applied.
pub(crate) const HISTORY_TABLE: &str = "refinery_schema_history";

/// Names and texts of migrations, in their order.
type Files = &'static [(&'static str, &'static str)];
const POSTGRES: Files = &[
    ("V1__initial", include_str!("../../../migrations/postgres/V1__initial.sql")),
    ("V2__0_3", include_str!("../../../migrations/postgres/V2__0_3.sql")),
];
const EMBEDDED: Files = &[
    ("V1__initial", include_str!("../../../migrations/embedded/V1__initial.sql")),
    ("V2__0_3", include_str!("../../../migrations/embedded/V2__0_3.sql")),
];

/// Which set of migrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `migrations/postgres`.
    Postgres,
    /// `migrations/embedded`.
    Embedded,
}

impl Dialect {
    const fn files(self) -> Files {
        match self {
            Dialect::Postgres => POSTGRES,
            Dialect::Embedded => EMBEDDED,
        }
    }

    /// The form of this dialect.
    pub(crate) const fn pick<T: Copy>(self, postgres: T, embedded: T) -> T {
        match self {
            Dialect::Postgres => postgres,
            Dialect::Embedded => embedded,
        }
    }

    /// The condition that `column` is one of the ids in the parameter `list`.
    pub(crate) fn any_id(self, column: &str, list: &str) -> String {
        match self {
            Dialect::Postgres => format!("{column} = ANY ({list})"),
            Dialect::Embedded => {
                format!("{column} IN (SELECT unhex(replace(value, '-', '')) FROM json_each({list}))")
            }
        }
    }

    /// The condition that `column` is one of the texts in the parameter `list`.
    pub(crate) fn any_text(self, column: &str, list: &str) -> String {
        match self {
            Dialect::Postgres => format!("{column} = ANY ({list})"),
            Dialect::Embedded => format!("{column} IN (SELECT value FROM json_each({list}))"),
        }
    }

    /// The version that this binary works with: the number of its last migration.
    pub(crate) const fn version(self) -> i32 {
        let files = self.files();
        number(files[files.len() - 1].0)
    }

    /// The version of a store with these migrations, by their numbers and checksums; `place` names it in errors.
    ///
    /// # Errors
    /// [`StoreError::Broken`] if a newer program made it, or one whose migrations were others.
    pub(crate) fn version_of(self, place: &str, applied: &[(i32, String)]) -> Result<i32, StoreError> {
        let runner = self.runner()?;
        let known = |version: i32| runner.get_migrations().iter().find(|m| m.version() == version);
        if applied
            .iter()
            .any(|(version, sum)| known(*version).is_some_and(|m| m.checksum().to_string() != *sum))
        {
            return Err(broken(format!(
                "{place} was made by an earlier version of tree-agent, whose tables this version does not read; use a \
                 new one, and bring your documents in again with `tree-agent import`"
            )));
        }
        let found = applied.iter().map(|(version, _)| *version).max().unwrap_or(0);
        if found > self.version() {
            return Err(broken(format!(
                "{place} has schema version {found}: it was written by a newer version of tree-agent (this one knows \
                 {}); use that version, or another place",
                self.version()
            )));
        }
        Ok(found)
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

fn broken(message: String) -> StoreError {
    StoreError::Broken { message, source: None }
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
