//! Forms of columns, in either database.

use std::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};

use deadpool_postgres::tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use rusqlite::types as sqlite;
use serde::Serialize;
use tree_agent_contract::Timestamp;

use crate::error::StoreError;
use crate::text::json_text;

/// From the Unix epoch to Postgres' (2000-01-01), in microseconds.
const POSTGRES_EPOCH: i64 = 946_684_800_000_000;

/// A `timestamptz`, exact to the microsecond. In SQLite the microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Time(pub(crate) Timestamp);

/// The clock of this process, which is that of stores in SQLite.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

impl ToSql for Time {
    fn to_sql(&self, _: &Type, out: &mut bytes::BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0.micros().saturating_sub(POSTGRES_EPOCH).to_be_bytes());
        Ok(IsNull::No)
    }
    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Time {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(Self(Timestamp(micros.saturating_add(POSTGRES_EPOCH))))
    }
    accepts!(TIMESTAMPTZ);
}

impl sqlite::ToSql for Time {
    fn to_sql(&self) -> rusqlite::Result<sqlite::ToSqlOutput<'_>> {
        Ok(self.0.micros().into())
    }
}

impl sqlite::FromSql for Time {
    fn column_result(value: sqlite::ValueRef<'_>) -> sqlite::FromSqlResult<Self> {
        value.as_i64().map(|micros| Self(Timestamp(micros)))
    }
}

/// A `jsonb` as its JSON text, so that it is parsed once, into its own type.
#[derive(Clone, Debug)]
pub(crate) struct Json(pub(crate) Box<[u8]>);

impl<'a> FromSql<'a> for Json {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        match raw.split_first() {
            Some((1, text)) => Ok(Self(text.into())),
            _ => Err("unknown version of the jsonb wire form".into()),
        }
    }
    accepts!(JSONB);
}

impl sqlite::FromSql for Json {
    fn column_result(value: sqlite::ValueRef<'_>) -> sqlite::FromSqlResult<Self> {
        value.as_str().map(|text| Self(text.as_bytes().into()))
    }
}

/// The JSON text of a value.
pub(crate) fn json(value: &impl Serialize) -> Result<JsonText, StoreError> {
    json_text(value).map(JsonText)
}

/// JSON text that is written to a `jsonb` column.
#[derive(Debug)]
pub(crate) struct JsonText(pub(crate) String);

impl ToSql for JsonText {
    fn to_sql(&self, _: &Type, out: &mut bytes::BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&[1]);
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }
    accepts!(JSONB);
    to_sql_checked!();
}

impl sqlite::ToSql for JsonText {
    fn to_sql(&self) -> rusqlite::Result<sqlite::ToSqlOutput<'_>> {
        Ok(self.0.as_str().into())
    }
}

/// An array. In SQLite a JSON list.
#[derive(Clone, Debug)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T: ToSql> ToSql for List<T> {
    fn to_sql(&self, ty: &Type, out: &mut bytes::BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.0.to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        <Vec<T> as ToSql>::accepts(ty)
    }

    to_sql_checked!();
}

impl<T: Serialize> sqlite::ToSql for List<T> {
    fn to_sql(&self) -> rusqlite::Result<sqlite::ToSqlOutput<'_>> {
        let text = serde_json::to_string(&self.0);
        text.map(Into::into).map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))
    }
}
