//! How much a model reasons before it answers.

use std::str::FromStr;

use genai::chat::ReasoningEffort;

/// How much a model reasons. Each provider has its own words for it; those that a model does not know become the
/// nearest that it knows, or are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    XHigh,
    Max,
}

const NAMES: [(&str, Effort); 7] = [
    ("none", Effort::None),
    ("minimal", Effort::Minimal),
    ("low", Effort::Low),
    ("medium", Effort::Medium),
    ("high", Effort::High),
    ("xhigh", Effort::XHigh),
    ("max", Effort::Max),
];

impl Effort {
    /// Tokens that are left for reasoning besides those of the answer. Without an effort the provider chooses, most
    /// often a medium one.
    pub(super) const fn room(effort: Option<Self>) -> u32 {
        match effort {
            Some(Self::None) => 0,
            Some(Self::Minimal | Self::Low) => 8_192,
            Some(Self::Medium) | None => 16_384,
            Some(Self::High) => 32_768,
            Some(Self::XHigh | Self::Max) => 65_536,
        }
    }

    /// Its name, which is also OpenAI's.
    pub(super) fn name(self) -> &'static str {
        NAMES.iter().find(|(_, effort)| *effort == self).map_or("medium", |(name, _)| name)
    }

    /// The same in the words of the client library.
    pub(super) const fn asked(self) -> ReasoningEffort {
        match self {
            Self::None => ReasoningEffort::Zero,
            Self::Minimal => ReasoningEffort::Minimal,
            Self::Low => ReasoningEffort::Low,
            Self::Medium => ReasoningEffort::Medium,
            Self::High => ReasoningEffort::High,
            Self::XHigh => ReasoningEffort::XHigh,
            Self::Max => ReasoningEffort::Max,
        }
    }
}

impl FromStr for Effort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = NAMES.iter().find(|(name, _)| *name == text);
        named.map(|(_, effort)| *effort).ok_or_else(|| {
            let names = NAMES.map(|(name, _)| name).join(", ");
            format!("{text:?} is none of {names}")
        })
    }
}
