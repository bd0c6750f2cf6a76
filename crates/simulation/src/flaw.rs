//! Worlds that are broken on purpose: a checker that cannot fail is worthless.

/// A defect that a store or a gateway might have. The checker must report each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// An append is written whatever epoch and head it expects.
    NoFence,
    /// An append is fenced by its epoch alone, so that a repeated one is written again.
    NoHeadInFence,
    /// A repeated append is recognised by its seq alone, so another driver's events pass for the writer's own.
    DedupeBySeq,
    /// An append is sometimes confirmed without being written.
    LostWrite,
    /// The documents of a repeated append are written again.
    DocumentsTwice,
    /// The rows of an append are sometimes not written.
    LostRows,
    /// A claim keeps the epoch.
    SameEpoch,
    /// Leases end by the clock of the claiming driver.
    CallersClock,
    /// Leases of drivers that vanished never end.
    EternalLease,
    /// A command does not let a run be claimed that rests, or by a driver that is full.
    DeafToCommands,
    /// A stream uses only fan-out and does not read lost events from the log.
    TrustedFanout,
    /// Gateways compare heads too rarely.
    SeldomHeads,
    /// Roles answer a call with the answer to another call.
    MixedUpAnswers,
    /// Commands lose their request ids on the way to a driver.
    NamelessCommands,
    /// The reply to a command is sometimes forgotten, and the command comes again.
    ForgottenReplies,
    /// A fork has the documents of its parent as they are when it is made.
    ForksOfToday,
}

impl Flaw {
    /// All of them.
    pub const ALL: &[Flaw] = &[
        Flaw::NoFence,
        Flaw::NoHeadInFence,
        Flaw::DedupeBySeq,
        Flaw::LostWrite,
        Flaw::DocumentsTwice,
        Flaw::LostRows,
        Flaw::SameEpoch,
        Flaw::CallersClock,
        Flaw::EternalLease,
        Flaw::DeafToCommands,
        Flaw::TrustedFanout,
        Flaw::SeldomHeads,
        Flaw::MixedUpAnswers,
        Flaw::NamelessCommands,
        Flaw::ForgottenReplies,
        Flaw::ForksOfToday,
    ];

    /// True if only commands and forks of people show it.
    pub(crate) const fn is_about_commands(self) -> bool {
        matches!(self, Flaw::NamelessCommands | Flaw::ForgottenReplies | Flaw::ForksOfToday)
    }

    /// A part of the message of the check that is meant for this flaw.
    pub const fn sign(self) -> &'static str {
        match self {
            Flaw::NoFence => "is of epoch",
            Flaw::NoHeadInFence => "was written where",
            Flaw::DedupeBySeq => "though the log says",
            Flaw::LostWrite => "is not in the log",
            Flaw::DocumentsTwice => "scratchpad",
            Flaw::LostRows => "the log gives",
            Flaw::SameEpoch => "claimed with epoch",
            Flaw::CallersClock => "before the lease",
            Flaw::EternalLease => "nobody took it over",
            Flaw::DeafToCommands => "was not heard",
            Flaw::TrustedFanout => "came after event",
            Flaw::SeldomHeads => "after it was written",
            Flaw::MixedUpAnswers => "is recorded twice",
            Flaw::NamelessCommands => "and left no event",
            Flaw::ForgottenReplies => "and then",
            Flaw::ForksOfToday => "scratchpad",
        }
    }
}
