//! The conversion trait, its scalars, and the macros that write the conversions of messages and enums.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};
use tree_agent_contract::error::FieldError;
use tree_agent_contract::ids::*;
use tree_agent_contract::sparse::Sparse;
use tree_agent_contract::time::Timestamp;

/// A contract type with a wire form.
pub trait Wire: Sized {
    /// The generated type of a message's field.
    type Pb;

    /// To the wire; always possible.
    fn to_wire(&self) -> Self::Pb;

    /// From the wire; the error names the field.
    fn from_wire(pb: Self::Pb) -> Result<Self, FieldError>;
}

/// Puts `name` before the path of an error from within that field.
pub(crate) fn within(name: &str, mut error: FieldError) -> FieldError {
    error.field = match error.field.as_str() {
        "" => name.to_owned(),
        inner if inner.starts_with('[') => format!("{name}{inner}"),
        inner => format!("{name}.{inner}"),
    };
    error
}

/// The error for an absent message.
pub(crate) fn missing() -> FieldError {
    FieldError::new("", "is required")
}

macro_rules! same {
    ($($t:ty),*) => {$(
        impl Wire for $t {
            type Pb = $t;
            fn to_wire(&self) -> $t { self.clone() }
            fn from_wire(pb: $t) -> Result<Self, FieldError> { Ok(pb) }
        }
    )*};
}
same!(bool, u32, u64, f64);

/// Postgres cannot store the NUL character. It is replaced where text enters, so that a process and the log have the
/// same text.
impl Wire for String {
    type Pb = String;
    fn to_wire(&self) -> String {
        self.clone()
    }
    fn from_wire(pb: String) -> Result<Self, FieldError> {
        Ok(if pb.contains('\0') { pb.replace('\0', "\u{fffd}") } else { pb })
    }
}

macro_rules! ids {
    ($($t:ty),*) => {$(
        impl Wire for $t {
            type Pb = String;
            // The same as `to_string`, without the cost of formatting, because each event has several ids.
            fn to_wire(&self) -> String { self.0.hyphenated().encode_lower(&mut [0; 36]).to_owned() }
            fn from_wire(pb: String) -> Result<Self, FieldError> { <$t>::parse_field("", &pb) }
        }
    )*};
}
ids!(RunId, NodeId, PlanId, ArtifactId, DocumentId, ProjectId);

impl Wire for StepId {
    type Pb = String;
    fn to_wire(&self) -> String {
        self.as_str().to_owned()
    }
    fn from_wire(pb: String) -> Result<Self, FieldError> {
        String::from_wire(pb).map(StepId::new)
    }
}

impl<T: Wire> Wire for Vec<T> {
    type Pb = Vec<T::Pb>;
    fn to_wire(&self) -> Self::Pb {
        self.iter().map(Wire::to_wire).collect()
    }
    fn from_wire(pb: Self::Pb) -> Result<Self, FieldError> {
        pb.into_iter()
            .enumerate()
            .map(|(i, v)| T::from_wire(v).map_err(|e| within(&format!("[{i}]"), e)))
            .collect()
    }
}

impl<T: Wire> Wire for Option<T> {
    type Pb = Option<T::Pb>;
    fn to_wire(&self) -> Self::Pb {
        self.as_ref().map(Wire::to_wire)
    }
    fn from_wire(pb: Self::Pb) -> Result<Self, FieldError> {
        pb.map(T::from_wire).transpose()
    }
}

impl<T: Wire> Wire for Box<T> {
    type Pb = T::Pb;
    fn to_wire(&self) -> Self::Pb {
        self.as_ref().to_wire()
    }
    fn from_wire(pb: Self::Pb) -> Result<Self, FieldError> {
        T::from_wire(pb).map(Box::new)
    }
}

impl<T: Wire + Copy + Default + PartialEq> Wire for Sparse<T> {
    type Pb = T::Pb;
    fn to_wire(&self) -> Self::Pb {
        self.get().to_wire()
    }
    fn from_wire(pb: Self::Pb) -> Result<Self, FieldError> {
        T::from_wire(pb).map(Self::from)
    }
}

impl Wire for Timestamp {
    type Pb = prost_types::Timestamp;
    fn to_wire(&self) -> Self::Pb {
        prost_types::Timestamp {
            seconds: self.0.div_euclid(1_000_000),
            nanos: (self.0.rem_euclid(1_000_000) * 1_000) as i32,
        }
    }
    fn from_wire(pb: Self::Pb) -> Result<Self, FieldError> {
        // The years 1 to 9999, as google.protobuf.Timestamp has it.
        let good = (-62_135_596_800..=253_402_300_799).contains(&pb.seconds)
            && (0..1_000_000_000).contains(&pb.nanos);
        match good {
            true => Ok(Timestamp(pb.seconds * 1_000_000 + i64::from(pb.nanos) / 1_000)),
            false => {
                Err(FieldError::new("", "is out of the range of timestamps, which are the years 1 to 9999"))
            }
        }
    }
}

/// Labels. Their keys and values are checked where they are read.
impl Wire for BTreeMap<String, String> {
    type Pb = BTreeMap<String, String>;
    fn to_wire(&self) -> Self::Pb {
        self.clone()
    }
    fn from_wire(pb: Self::Pb) -> Result<Self, FieldError> {
        Ok(pb)
    }
}

impl Wire for Map<String, Value> {
    type Pb = prost_types::Struct;
    fn to_wire(&self) -> Self::Pb {
        prost_types::Struct { fields: self.iter().map(|(k, v)| (k.clone(), value_to_wire(v))).collect() }
    }
    fn from_wire(pb: Self::Pb) -> Result<Self, FieldError> {
        pb.fields.into_iter().map(|(k, v)| Ok((String::from_wire(k)?, value_from_wire(v)?))).collect()
    }
}

fn value_to_wire(value: &Value) -> prost_types::Value {
    use prost_types::value::Kind;
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(b) => Kind::BoolValue(*b),
        Value::Number(n) => Kind::NumberValue(n.as_f64().unwrap_or_default()),
        Value::String(s) => Kind::StringValue(s.clone()),
        Value::Array(a) => {
            Kind::ListValue(prost_types::ListValue { values: a.iter().map(value_to_wire).collect() })
        }
        Value::Object(o) => Kind::StructValue(o.to_wire()),
    };
    prost_types::Value { kind: Some(kind) }
}

fn value_from_wire(value: prost_types::Value) -> Result<Value, FieldError> {
    use prost_types::value::Kind;
    Ok(match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(b)) => Value::Bool(b),
        Some(Kind::NumberValue(n)) => number(n),
        Some(Kind::StringValue(s)) => Value::String(Wire::from_wire(s)?),
        Some(Kind::ListValue(l)) => {
            Value::Array(l.values.into_iter().map(value_from_wire).collect::<Result<_, _>>()?)
        }
        Some(Kind::StructValue(s)) => Value::Object(Wire::from_wire(s)?),
    })
}

/// Protobuf's JSON numbers are doubles. Whole numbers within 2^53 become integers again, so that a count stays `7`.
fn number(n: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if n.fract() == 0.0 && n.abs() <= EXACT {
        return Value::Number(Number::from(n as i64));
    }
    Number::from_f64(n).map_or(Value::Null, Value::Number)
}

/// Writes the conversion of an enum: same variant names on both sides. `Unspecified` is refused, or means the variant
/// behind the semicolon.
macro_rules! wire_enum {
    ($($t:ty => $pb:ty { $($v:ident),* $(,)? $(; $default:ident)? })*) => {$(
        impl $crate::wire::Wire for $t {
            type Pb = i32;
            fn to_wire(&self) -> i32 {
                match self { $(<$t>::$v => <$pb>::$v as i32,)* }
            }
            fn from_wire(pb: i32) -> Result<Self, tree_agent_contract::error::FieldError> {
                match <$pb>::try_from(pb) {
                    $(Ok(<$pb>::$v) => Ok(<$t>::$v),)*
                    $(Ok(<$pb>::Unspecified) => Ok(<$t>::$default),)?
                    _ => Err(tree_agent_contract::error::FieldError::new("", format!(
                        "{pb} is not a value of the enum {}; use one of {}",
                        stringify!($pb).rsplit([' ', ':']).next().unwrap_or_default(),
                        [$(<$pb>::$v.as_str_name()),*].join(", "),
                    ))),
                }
            }
        }
    )*};
}

/// Writes the conversion of a message: same field names on both sides. A field marked
/// `[required]` is a message that must be present.
macro_rules! wire_message {
    ($($t:ty => $pb:ident { $($f:ident $([$req:ident])?),* $(,)? })*) => {$(
        impl $crate::wire::Wire for $t {
            type Pb = pb::$pb;
            fn to_wire(&self) -> Self::Pb {
                pb::$pb { $($f: wire_message!(@to self.$f $(, $req)?),)* }
            }
            fn from_wire(pb: Self::Pb) -> Result<Self, tree_agent_contract::error::FieldError> {
                Ok(Self { $($f: wire_message!(@from pb.$f $(, $req)?).map_err(|e| $crate::wire::within(stringify!($f), e))?,)* })
            }
        }
    )*};
    (@to $e:expr) => { $crate::wire::Wire::to_wire(&$e) };
    (@to $e:expr, required) => { Some($crate::wire::Wire::to_wire(&$e)) };
    (@from $e:expr) => { $crate::wire::Wire::from_wire($e) };
    (@from $e:expr, required) => { $e.ok_or_else($crate::wire::missing).and_then($crate::wire::Wire::from_wire) };
}

pub(crate) use {wire_enum, wire_message};

#[cfg(test)]
mod tests {
    use tree_agent_contract::RunStatus;

    use super::Wire;

    #[test]
    fn a_number_that_an_enum_lacks_is_refused_in_the_words_of_the_api() {
        let error = RunStatus::from_wire(99).unwrap_err().message;
        assert!(
            error.starts_with("99 is not a value of the enum RunStatus; use one of RUN_STATUS_QUEUED, "),
            "{error}"
        );
        assert!(!error.contains("pb"), "{error}");
    }
}
