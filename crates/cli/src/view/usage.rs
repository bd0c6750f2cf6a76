//! Usage in a few words.

use tree_agent_contract::graph::Usage;

/// `12,345 tokens (1,000 cached, 500 written to caches), $0.0120, 3 tool calls`; none when nothing was used.
pub(crate) fn words(usage: &Usage) -> Option<String> {
    let mut parts = Vec::new();
    if usage.tokens() > 0 {
        let cached = match (usage.cached_tokens, usage.cache_write_tokens) {
            (0, 0) => String::new(),
            (read, 0) => format!(" ({} cached)", grouped(read)),
            (read, written) => format!(" ({} cached, {} written to caches)", grouped(read), grouped(written)),
        };
        parts.push(format!("{} tokens{cached}", grouped(usage.tokens())));
    }
    if usage.cost_micros > 0 {
        parts.push(dollars(usage.cost_micros));
    }
    match usage.tool_calls {
        0 => {}
        1 => parts.push("1 tool call".into()),
        n => parts.push(format!("{} tool calls", grouped(n))),
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The short form for a node's line: `12,345 tokens, $0.0120`; none for a node that used no model that counts.
pub(crate) fn short(usage: &Usage) -> Option<String> {
    words(&Usage { tool_calls: 0, cached_tokens: 0, cache_write_tokens: 0, ..*usage })
}

/// Millionths of a dollar, with as many digits as are useful.
pub(crate) fn dollars(micros: u64) -> String {
    match micros {
        0 => "$0".into(),
        1..10_000 => format!("${}.{:06}", 0, micros),
        10_000..1_000_000 => format!("$0.{:04}", micros / 100),
        _ => format!("${}.{:02}", grouped(micros / 1_000_000), micros % 1_000_000 / 10_000),
    }
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_used_is_shown() {
        assert_eq!(words(&Usage::default()), None);
        let usage = Usage {
            input_tokens: 1_200_000,
            output_tokens: 345,
            cached_tokens: 1_000,
            cache_write_tokens: 0,
            cost_micros: 12_345,
            model_calls: 4,
            duration_ms: 9,
            tool_calls: 1,
        };
        assert_eq!(words(&usage).unwrap(), "1,200,345 tokens (1,000 cached), $0.0123, 1 tool call");
        let written = Usage { cache_write_tokens: 500, ..usage };
        let words_of = words(&written).unwrap();
        assert!(
            words_of.starts_with("1,200,345 tokens (1,000 cached, 500 written to caches), "),
            "{words_of}"
        );
        for usage in [usage, written] {
            assert_eq!(short(&usage).unwrap(), "1,200,345 tokens, $0.0123");
        }
        assert_eq!(short(&Usage { tool_calls: 3, ..Usage::default() }), None);
        assert_eq!(
            [0, 7, 999_999, 1_000_000, 1_234_567_890].map(dollars),
            ["$0", "$0.000007", "$0.9999", "$1.00", "$1,234.56"]
        );
    }
}
