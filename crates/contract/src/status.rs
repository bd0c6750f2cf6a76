//! Statuses of runs, nodes and steps, and the two roles a node can show.

use serde::{Deserialize, Serialize};

macro_rules! named_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $text)] $variant,)* }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The name used in events, JSON and tables.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($text => Ok($name::$variant),)*
                    other => Err(format!("{other:?} is none of {}", [$($text),*].join(", "))),
                }
            }
        }
    };
}
pub(crate) use named_enum;

named_enum! {
    /// The status of a run. `completed`, `failed` and `cancelled` are final; the log of a fork may hold that of the run
    /// before it.
    RunStatus {
        /// Written, not yet claimed by a driver.
        Queued = "queued",
        /// A driver owns it.
        Running = "running",
        /// Held by its user: no new work starts.
        Paused = "paused",
        /// The root holds its result (perhaps a partial one).
        Completed = "completed",
        /// The root failed.
        Failed = "failed",
        /// Ended by its user.
        Cancelled = "cancelled",
    }
}

impl RunStatus {
    /// True if nothing will be appended any more.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

named_enum! {
    /// What a node is doing now. One that is `completed`, `failed` or `cancelled` goes on only if it is reopened.
    NodeStatus {
        /// Deciding whether to execute or to decompose.
        Planning = "planning",
        /// Creating children for a band of its plan.
        Delegating = "delegating",
        /// Doing leaf work.
        Executing = "executing",
        /// For children, for a free place in its band, or for a retry.
        Waiting = "waiting",
        /// Reading what children returned and writing the synthesis.
        Aggregating = "aggregating",
        /// Ended with a result.
        Completed = "completed",
        /// Ended with an error.
        Failed = "failed",
        /// Held up by something outside the run, such as an unreachable role service.
        Blocked = "blocked",
        /// Ended without a result because the run was cancelled or out of budget.
        Cancelled = "cancelled",
    }
}

impl NodeStatus {
    /// True if the node has ended.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

named_enum! {
    /// The role a node shows: roles are states, not types.
    Role {
        /// Decomposes.
        Planner = "planner",
        /// Performs or aggregates.
        Executor = "executor",
    }
}

named_enum! {
    /// The status of a step of a plan.
    StepStatus {
        /// Its band has not opened, or it waits for a free place.
        Pending = "pending",
        /// Its node is at work.
        Running = "running",
        /// Its node completed.
        Completed = "completed",
        /// Its node failed.
        Failed = "failed",
        /// It ended without a result (cancelled or out of budget).
        Cancelled = "cancelled",
    }
}

impl StepStatus {
    /// True if the step has ended.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

named_enum! {
    /// How well a completed node did.
    Outcome {
        /// Everything that was asked for.
        Success = "success",
        /// Only a part: a child failed, or a limit or budget was reached.
        Partial = "partial",
    }
}
