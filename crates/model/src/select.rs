//! Finds the model that a name means.

use std::sync::Arc;

use tree_agent_contract::role::{RoleError, RoleErrorKind};

use crate::RoleModel;
use crate::offline::Offline;
use crate::scripted::{Script, Scripted};

/// The models that a service can use.
#[derive(Clone)]
pub struct Models {
    default: Arc<dyn RoleModel>,
}

impl Models {
    /// Every built-in model, with `default` for calls that name none. The name is checked at once.
    pub fn new(default: &str) -> Result<Self, RoleError> {
        Ok(Self { default: find(default)? })
    }

    /// The built-in models, with one of the caller's own for calls that name none.
    pub fn with_default(default: Arc<dyn RoleModel>) -> Self {
        Self { default }
    }

    /// The model called `name`; the default for the empty name. An unknown name or a malformed script is
    /// [`RoleErrorKind::Rejected`].
    pub fn resolve(&self, name: &str) -> Result<Arc<dyn RoleModel>, RoleError> {
        if name.trim().is_empty() { Ok(self.default.clone()) } else { find(name) }
    }
}

fn find(name: &str) -> Result<Arc<dyn RoleModel>, RoleError> {
    let (family, options) = name.trim().split_once(':').unwrap_or((name.trim(), ""));
    match family {
        "offline" if options.is_empty() => Ok(Arc::new(Offline)),
        "scripted" => Ok(Arc::new(Scripted::new(options.parse::<Script>()?))),
        _ => Err(RoleError::new(
            RoleErrorKind::Rejected,
            format!("model {name:?} is unknown; use \"offline\", or \"scripted:fanout=4,depth=3\""),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_wrong_ones_named() {
        let models = Models::new("offline").unwrap();
        for good in ["", " ", "offline", "scripted", "scripted:", "scripted:fanout=2"] {
            assert!(models.resolve(good).is_ok(), "{good:?}");
        }
        for bad in ["gpt", "offline:x=1", "scripted:fanout=two"] {
            let error = models.resolve(bad).map(|_| ()).unwrap_err();
            assert_eq!(error.kind, RoleErrorKind::Rejected, "{bad:?}");
        }
        assert!(Models::new("nope").is_err());
    }
}
