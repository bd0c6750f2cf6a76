//! Wire forms of columns.

use std::error::Error;

use deadpool_postgres::tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use tree_agent_contract::Timestamp;

/// From the Unix epoch to Postgres' (2000-01-01), in microseconds.
const POSTGRES_EPOCH: i64 = 946_684_800_000_000;

/// A `timestamptz`, exact to the microsecond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Time(pub(super) Timestamp);

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

/// A `jsonb` as its JSON text, so that it is parsed once, into its own type.
#[derive(Clone, Debug)]
pub(super) struct Json(pub(super) Box<[u8]>);

impl<'a> FromSql<'a> for Json {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        match raw.split_first() {
            Some((1, text)) => Ok(Self(text.into())),
            _ => Err("unknown version of the jsonb wire form".into()),
        }
    }
    accepts!(JSONB);
}

/// JSON text that is written to a `jsonb` column.
#[derive(Debug)]
pub(super) struct JsonText(pub(super) String);

impl ToSql for JsonText {
    fn to_sql(&self, _: &Type, out: &mut bytes::BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&[1]);
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }
    accepts!(JSONB);
    to_sql_checked!();
}
