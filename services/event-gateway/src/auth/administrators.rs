//! Which tokens are those of administrators.

use std::str::FromStr;

use serde_json::{Map, Value};

/// What the token of an administrator says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminClaim {
    /// The claim. Dots lead into objects, unless a claim has this very name.
    name: String,
    /// What it is or holds; none if it must be `true`.
    value: Option<String>,
}

impl FromStr for AdminClaim {
    type Err = String;

    /// Reads `NAME`, a claim that must be `true`, or `NAME=VALUE`, a claim that is this text, a list with this text, or
    /// a text in which it stands between blanks.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = match text.trim().split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (text.trim(), None),
        };
        if name.is_empty() || value == Some("") {
            return Err(format!("{text:?} is neither NAME nor NAME=VALUE, such as groups=tree-agent-admins"));
        }
        Ok(Self { name: name.to_owned(), value: value.map(str::to_owned) })
    }
}

impl AdminClaim {
    /// True if these claims are those of an administrator. A claim of another type is none.
    pub(super) fn is_in(&self, claims: &Map<String, Value>) -> bool {
        let nested = || {
            let (first, below) = self.name.split_once('.')?;
            below.split('.').try_fold(claims.get(first)?, |at, part| at.get(part))
        };
        let claim = claims.get(&self.name).or_else(nested);
        match (claim, &self.value) {
            (Some(Value::Bool(is)), None) => *is,
            (Some(Value::String(text)), Some(value)) => {
                text == value || text.split_ascii_whitespace().any(|word| word == value)
            }
            (Some(Value::Array(list)), Some(value)) => list.iter().any(|one| one.as_str() == Some(value)),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_makes_an_administrator_only_in_its_own_type() {
        let is = |claim: &str, claims: Value| {
            claim.parse::<AdminClaim>().unwrap().is_in(claims.as_object().unwrap())
        };
        assert!(is("admin", json!({ "admin": true })));
        assert!(is("groups=ops", json!({ "groups": ["dev", "ops"] })));
        assert!(is("scope = ops", json!({ "scope": "dev ops" })));
        assert!(is("role=ops team", json!({ "role": "ops team" })));
        assert!(is("realm_access.roles=ops", json!({ "realm_access": { "roles": ["ops"] } })));
        assert!(is("https://x.example/roles=ops", json!({ "https://x.example/roles": ["ops"] })));
        for (claim, claims) in [
            ("admin", json!({})),
            ("admin", json!({ "admin": false })),
            ("admin", json!({ "admin": "true" })),
            ("admin", json!({ "admin": 1 })),
            ("admin", json!({ "admin": ["true"] })),
            ("groups=ops", json!({ "groups": ["operators", ["ops"], { "ops": "ops" }] })),
            ("groups=ops", json!({ "groups": { "ops": true } })),
            ("groups=ops", json!({ "groups": true })),
            ("groups=ops", json!({ "groups": "operators" })),
            ("a.b=ops", json!({ "a": "ops" })),
            ("a.b=ops", json!({ "b": "ops" })),
        ] {
            assert!(!is(claim, claims.clone()), "{claim}: {claims}");
        }
        for bad in ["", "=", "=x", "x=", " "] {
            assert!(bad.parse::<AdminClaim>().is_err(), "{bad:?}");
        }
    }
}
