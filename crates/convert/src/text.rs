//! Text in any encoding.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

use crate::{Fault, Reason};

/// The text of a file without a byte order mark: in the encoding of that mark, else as UTF-8, else as `declared`, else
/// as it looks.
pub(crate) fn decode(bytes: &[u8], declared: Option<&'static Encoding>) -> Result<String, Fault> {
    let is_utf8 = || str::from_utf8(bytes).is_ok_and(|text| !text.contains('\0'));
    let encoding = match Encoding::for_bom(bytes) {
        Some((encoding, _)) => encoding,
        None if is_utf8() => UTF_8,
        None => declared.unwrap_or_else(|| guess(bytes)),
    };
    let (text, _, is_faulty) = encoding.decode(bytes);
    let controls = text.chars().filter(|c| c.is_control() && !"\n\r\t\u{c}\u{1b}".contains(*c)).count();
    // No text has a NUL; logs of terminals and old formats have some other control characters.
    if is_faulty && encoding != UTF_8 || text.contains('\0') || controls > text.len() / 32 {
        return Err(Fault::new(Reason::NotText, "not text: binary"));
    }
    match text.trim().is_empty() {
        true => Err(Fault::new(Reason::Empty, "empty")),
        false => Ok(text.into_owned()),
    }
}

/// The encoding of bytes that are not UTF-8. Of the two bytes of UTF-16, the higher one is often zero; other encodings
/// have no zeros.
fn guess(bytes: &[u8]) -> &'static Encoding {
    let zeros = |odd: usize| bytes.iter().skip(odd).step_by(2).filter(|byte| **byte == 0).count();
    match (zeros(0), zeros(1)) {
        (0, 0) => {
            let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
            detector.feed(bytes, true);
            detector.guess(None, Utf8Detection::Deny)
        }
        (high, low) if high > low => UTF_16BE,
        _ => UTF_16LE,
    }
}

/// `text` in which pictures that stand in it, as base64, are a word.
pub(crate) fn without_pictures(text: &str) -> String {
    const BASE64: &str = ";base64,";
    /// Bytes between `data:` and the mark: a type of media with parameters.
    const TYPE: usize = 100;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(BASE64) {
        let (before, after) = rest.split_at(at);
        let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '%');
        match before.rfind("data:").filter(|begin| at - begin <= TYPE) {
            Some(begin) => {
                out.push_str(&before[..begin]);
                out.push_str("picture");
                rest = after[BASE64.len()..].trim_start_matches(is_base64);
            }
            None => {
                out.push_str(&rest[..at + BASE64.len()]);
                rest = &after[BASE64.len()..];
            }
        }
    }
    out + rest
}

/// Without control characters, blanks at the ends of lines, and more than one empty line in a row.
pub(crate) fn tidy(text: &str) -> String {
    let mut tidied = String::with_capacity(text.len());
    let mut empty = 0;
    for line in text.lines() {
        let line = line.replace(|c: char| c.is_control() && c != '\t', "");
        let line = line.trim_end();
        empty = if line.is_empty() { empty + 1 } else { 0 };
        if empty < 2 {
            tidied.push_str(line);
            tidied.push('\n');
        }
    }
    tidied.trim_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_in_its_encoding() {
        let text = "Grüße aus Köln, für 5 €.\r\nÜber größere Straßen.\n";
        let wide = |order: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(order).collect::<Vec<_>>();
        let with = |mark: &[u8], bytes: &[u8]| [mark, bytes].concat();
        let (little, big) = (wide(u16::to_le_bytes), wide(u16::to_be_bytes));
        for bytes in [
            text.as_bytes().to_vec(),
            with(b"\xef\xbb\xbf", text.as_bytes()),
            with(b"\xff\xfe", &little),
            with(b"\xfe\xff", &big),
            little,
            big,
            encoding_rs::WINDOWS_1252.encode(text).0.into_owned(),
        ] {
            assert_eq!(decode(&bytes, None).unwrap(), text, "{bytes:x?}");
        }
        let text = "Привет, это простой текст на русском языке.";
        for encoding in [encoding_rs::KOI8_R, encoding_rs::WINDOWS_1251] {
            assert_eq!(decode(&encoding.encode(text).0, None).unwrap(), text);
        }
    }

    #[test]
    fn what_is_binary_or_empty_is_no_text() {
        let noise: Vec<u8> = (0..4_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let controls = b"abc\x01\x02\x03\x04 def".repeat(9);
        for (bytes, reason) in [
            (&noise[..], Reason::NotText),
            (b"a\0b", Reason::NotText),
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0", Reason::NotText),
            (&controls, Reason::NotText),
            (b" \r\n", Reason::Empty),
            (b"\xff\xfe", Reason::Empty),
        ] {
            assert_eq!(decode(bytes, None).unwrap_err().reason, reason, "{bytes:x?}");
        }
        assert!(decode(b"\x1b[32mINFO\x1b[0m started\n", None).is_ok(), "a log of a terminal");
    }

    #[test]
    fn pictures_are_a_word() {
        let text = "![Map](data:image/png;base64,iVBORw0KGgo=) of the piers; base64 is a code;base64,abc";
        let expected = "![Map](picture) of the piers; base64 is a code;base64,abc";
        assert_eq!(without_pictures(text), expected);
    }

    #[test]
    fn text_is_tidied() {
        assert_eq!(tidy("\n\na \u{c}\nb\t c\u{0}\n\n\n\n d\n\n"), "a\nb\t c\n\n d");
    }
}
