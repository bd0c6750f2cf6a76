//! Characters that a text writes with codes: percent escapes of addresses, and the escapes of JSON, YAML and source
//! code.

use std::borrow::Cow;

/// An address within an address is escaped again.
const LAYERS: usize = 3;

/// What the escape of a control character is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Controls {
    /// White space: `\n` divides words.
    Divide,
    /// Nothing special: `\n` may be the beginning of a name in a path.
    Stay,
}

/// `word` with the characters that its escapes stand for: `%C3%BC`, `\u00fc`, `\u{fc}`, `\U000000fc`, `\xfc` and
/// `\303\274`. Escapes that stand for no character stay.
pub(super) fn decoded(word: &str, controls: Controls) -> Cow<'_, str> {
    let mut word = Cow::Borrowed(word);
    for _ in 0..LAYERS {
        let next = match word.contains(['%', '\\']) {
            true => layer(&word, controls),
            false => break,
        };
        if next == word {
            break;
        }
        word = Cow::Owned(next);
    }
    word
}

fn layer(word: &str, controls: Controls) -> String {
    let mut out = String::with_capacity(word.len());
    let mut bytes: Vec<u8> = Vec::new();
    let mut at = 0;
    while let Some(c) = word[at..].chars().next() {
        match escape(&word[at..], controls) {
            Some((Escaped::Byte(byte), length)) => {
                bytes.push(byte);
                at += length;
                continue;
            }
            Some((Escaped::Char(decoded), length)) => {
                flush(&mut bytes, &mut out);
                out.push(decoded);
                at += length;
            }
            None => {
                flush(&mut bytes, &mut out);
                out.push(c);
                at += c.len_utf8();
            }
        }
    }
    flush(&mut bytes, &mut out);
    out
}

/// Escaped bytes are UTF-8; if they are not, each is a character of Latin 1.
fn flush(bytes: &mut Vec<u8>, out: &mut String) {
    match std::str::from_utf8(bytes) {
        Ok(text) => out.push_str(text),
        Err(_) => out.extend(bytes.iter().map(|byte| char::from(*byte))),
    }
    bytes.clear();
}

enum Escaped {
    Byte(u8),
    Char(char),
}

/// The escape at the start of `text`, and its length.
fn escape(text: &str, controls: Controls) -> Option<(Escaped, usize)> {
    let mut chars = text.chars();
    let mark = chars.next().filter(|c| matches!(c, '%' | '\\'))?;
    let kind = chars.next()?;
    let after = &text[1 + kind.len_utf8()..];
    let behind = |(c, length): (char, usize)| (Escaped::Char(c), length + 2);
    match (mark, kind) {
        ('%', 'u' | 'U') => unit(after, "%u").map(behind),
        ('%', _) => byte(&text[1..]).map(|byte| (Escaped::Byte(byte), 3)),
        (_, 'x') => match byte(after) {
            Some(byte) => Some((Escaped::Byte(byte), 4)),
            None => braced(after).map(behind),
        },
        (_, 'u') => braced(after).or_else(|| unit(after, "\\u")).map(behind),
        (_, 'U') => number(after, 8).and_then(char::from_u32).map(|c| (Escaped::Char(c), 10)),
        // A backslash that is escaped escapes nothing.
        (_, '\\') => Some((Escaped::Char('\\'), 2)),
        (_, digit) => match octal(&text[1..]) {
            Some(byte) => Some((Escaped::Byte(byte), 4)),
            None => {
                let control = matches!(digit, 'n' | 't' | 'r' | 'f' | 'v' | 'b' | 'a' | '0');
                (control && controls == Controls::Divide).then_some((Escaped::Char(' '), 2))
            }
        },
    }
}

/// The byte of three octal digits.
fn octal(text: &str) -> Option<u8> {
    let digits = text.get(..3).filter(|digits| digits.bytes().all(|b| matches!(b, b'0'..=b'7')))?;
    u8::from_str_radix(digits, 8).ok()
}

/// The byte of two hexadecimal digits.
fn byte(text: &str) -> Option<u8> {
    number(text, 2).and_then(|n| u8::try_from(n).ok())
}

/// The number of exactly `digits` hexadecimal digits.
fn number(text: &str, digits: usize) -> Option<u32> {
    let digits = text.get(..digits).filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u32::from_str_radix(digits, 16).ok()
}

/// A character in braces: `{fc}`.
fn braced(text: &str) -> Option<(char, usize)> {
    let text = text.strip_prefix('{')?;
    let digits = text.bytes().take(7).position(|b| b == b'}')?;
    Some((number(text, digits).and_then(char::from_u32)?, digits + 2))
}

/// A character of one unit of UTF-16, or of two of which the second follows behind `mark`.
fn unit(text: &str, mark: &str) -> Option<(char, usize)> {
    let first = number(text, 4)?;
    if let Some(c) = char::from_u32(first) {
        return Some((c, 4));
    }
    let second = number(text.get(4..)?.strip_prefix(mark)?, 4)?;
    let mut pair = char::decode_utf16([u16::try_from(first).ok()?, u16::try_from(second).ok()?]);
    Some((pair.next()?.ok()?, 8 + mark.len()))
}
