//! Mail as Markdown: who wrote to whom, when, about what, the text, and the text of what is attached.

use std::borrow::Cow;

use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::quoted_printable::quoted_printable_decode;
use mail_parser::{Address, Encoding, Message, MessageParser, MessagePart, MimeHeaders, PartType};
use tree_agent_contract::limits::TITLE_BYTES;
use tree_agent_contract::text::prefix;

use crate::document::escaped;
use crate::html::html;
use crate::text::{decode, tidy};
use crate::{Converted, Fault, Reason, worker};

/// Mails within mails that are read.
const DEPTH: usize = 4;

/// A mail, with what is attached to it as parts of their own.
pub(crate) fn mail(bytes: &[u8]) -> Result<Converted, Fault> {
    let mail = MessageParser::default()
        .parse(bytes)
        .filter(|mail| mail.from().is_some() || mail.date().is_some())
        .ok_or_else(|| Fault::new(Reason::Broken, "broken: no mail"))?;
    Ok(message(&mail, 0))
}

fn message(mail: &Message<'_>, depth: usize) -> Converted {
    let names = |people: Option<&Address<'_>>| {
        let name = |one: &mail_parser::Addr<'_>| match (one.name(), one.address()) {
            (Some(name), Some(address)) => format!("{name} ({address})"),
            (name, address) => name.or(address).unwrap_or_default().to_owned(),
        };
        people.map(|people| people.iter().map(name).collect::<Vec<_>>().join(", ")).unwrap_or_default()
    };
    let title = mail.subject().unwrap_or_default().to_owned();
    let mut text = if title.trim().is_empty() { String::new() } else { format!("# {title}\n\n") };
    for (name, value) in [
        ("From", names(mail.from())),
        ("To", names(mail.to())),
        ("Cc", names(mail.cc())),
        ("Bcc", names(mail.bcc())),
        ("Date", mail.date().map(ToString::to_string).unwrap_or_default()),
    ] {
        if !value.is_empty() {
            text.push_str(&format!("- {name}: {value}\n"));
        }
    }
    let Converted { text: body, mut left_out, .. } = body(mail);
    text.push_str(&format!("\n{body}\n"));
    for part in mail.attachments() {
        let is_text =
            matches!(part.body, PartType::Text(_) | PartType::Html(_)) && part.attachment_name().is_none();
        let is_form =
            part.content_type().is_none_or(|kind| matches!(kind.subtype(), None | Some("plain" | "html")));
        let is_attached = part.content_disposition().is_some_and(|kind| kind.is_attachment());
        if is_text && is_form && !is_attached {
            // The other form of the text.
            continue;
        }
        let subject = part.message().and_then(Message::subject);
        let name = part.attachment_name().or(subject).unwrap_or("without a name");
        let name = prefix(name, TITLE_BYTES / 4).replace(['<', '>', '\n', '\r'], " ");
        let read = match part.message() {
            _ if depth >= DEPTH => Err("not read".to_owned()),
            Some(inner) => Ok(message(inner, depth + 1)),
            None if is_text => Ok(words_of(mail, part)),
            None => file(&name, part, depth),
        };
        match read {
            Ok(read) => {
                let marks = format!("<!-- Attachment {name}");
                text.push_str(&format!("\n{marks} -->\n\n"));
                let mark = |line: &str| match line.strip_prefix("<!-- ") {
                    Some(place) => format!("{marks}, {place}\n"),
                    None => format!("{line}\n"),
                };
                text.extend(read.text.lines().map(mark));
                text.push('\n');
                left_out.extend(read.left_out.into_iter().map(|what| format!("{name}: {what}")));
            }
            Err(why) => left_out.push(format!("attachment {name} ({why})")),
        }
    }
    Converted { title, text: tidy(&text), left_out }
}

/// What an attached file says, or why it says nothing.
fn file(name: &str, part: &MessagePart<'_>, depth: usize) -> Result<Converted, String> {
    let (_, extension) = name.rsplit_once('.').ok_or("unknown type")?;
    let extension = extension.to_ascii_lowercase();
    if extension == "eml" {
        let inner = MessageParser::default().parse(part.contents()).ok_or("broken")?;
        return Ok(message(&inner, depth + 1));
    }
    if crate::Kind::of_extension(&extension).is_none() {
        return Err(crate::by_name(name.as_ref()).0);
    }
    worker::convert(&extension, part.contents()).map_err(|fault| fault.why)
}

/// The text of a mail that people see. Of its two forms, HTML if it holds a table or says more.
fn body(mail: &Message<'_>) -> Converted {
    let together = |parts: Vec<Converted>| {
        let (texts, left_out): (Vec<_>, Vec<_>) =
            parts.into_iter().map(|part| (part.text, part.left_out)).unzip();
        Converted { text: texts.join("\n\n"), left_out: left_out.concat(), ..Converted::default() }
    };
    let plain = together(mail.text_bodies().map(|part| words_of(mail, part)).collect());
    let rich = together(mail.html_bodies().map(|part| words_of(mail, part)).collect());
    let words =
        |text: &str| text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).count();
    let is_richer = rich.text.contains("| --- |") || words(&rich.text) * 3 > words(&plain.text) * 4;
    if is_richer { rich } else { plain }
}

/// The text of a part. Where its head names no encoding, HTML may name it, else it is as it looks.
fn words_of(mail: &Message<'_>, part: &MessagePart<'_>) -> Converted {
    let is_declared = part.content_type().is_some_and(|kind| kind.has_attribute("charset"));
    let raw = || {
        let bytes = mail.raw_message().get(part.offset_body as usize..part.offset_end as usize)?;
        match part.encoding {
            Encoding::None => Some(Cow::Borrowed(bytes)),
            Encoding::QuotedPrintable => quoted_printable_decode(bytes).map(Cow::Owned),
            Encoding::Base64 => base64_decode(bytes).map(Cow::Owned),
        }
    };
    let bytes = if is_declared { None } else { raw() };
    let bytes = bytes.unwrap_or(Cow::Borrowed(part.contents()));
    match part.body {
        PartType::Html(_) => html(&bytes).unwrap_or_default(),
        _ => {
            let text = decode(&bytes, None).unwrap_or_default();
            let text = text.lines().map(escaped).collect::<Vec<_>>().join("\n");
            Converted { text, ..Converted::default() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_keeps_who_when_and_what() {
        let bytes = "From: =?utf-8?q?J=C3=BCrgen?= <j@example.org>\r\nTo: ada@example.org\r\nSubject: The pump\r\n\
                     Date: Mon, 2 Mar 2026 10:00:00 +0100\r\nContent-Type: text/html; charset=iso-8859-1\r\n\
                     Content-Transfer-Encoding: quoted-printable\r\n\r\n<p>It is gr=FCn.</p>";
        let read = mail(bytes.as_bytes()).unwrap();
        let text = "# The pump\n\n- From: Jürgen (j@example.org)\n- To: ada@example.org\n\
                    - Date: 2026-03-02T10:00:00+01:00\n\nIt is grün.";
        assert_eq!((read.title.as_str(), read.text.as_str()), ("The pump", text));
    }

    #[test]
    fn every_part_of_a_mail_is_read_or_named() {
        let part = |head: &str, text: &str| format!("--b\r\nContent-Type: {head}\r\n\r\n{text}\r\n");
        let inner = "From: c@example.org\r\nSubject: Jetty\r\n\r\nTwo piles are broken.";
        let parts = [
            part("text/plain", "# 9 is no heading."),
            part("text/calendar", "LOCATION:Pier 4"),
            part("text/plain\r\nContent-Disposition: attachment", "The code is 4711."),
            part("message/rfc822", inner),
            part(
                "text/csv; name=\"tiles.csv\"\r\nContent-Disposition: attachment",
                "tile;pieces\r\nridge;40",
            ),
            part("image/png; name=\"roof.png\"\r\nContent-Disposition: attachment", "x"),
        ];
        let mail = format!(
            "From: ada@example.org\r\nCc: bob@example.org\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n{}--b--",
            parts.concat()
        );
        let read = super::mail(mail.as_bytes()).unwrap();
        for text in [
            "- Cc: bob@example.org",
            "\\# 9 is no heading.",
            "LOCATION:Pier 4",
            "The code is 4711.",
            "<!-- Attachment Jetty -->\n\n# Jetty",
            "<!-- Attachment tiles.csv -->\n\n| tile | pieces |\n| --- | --- |\n| ridge | 40 |",
        ] {
            assert!(read.text.contains(text), "{text}: {}", read.text);
        }
        assert_eq!(read.left_out, ["attachment roof.png (no text: image)"]);
    }

    #[test]
    fn what_is_no_mail_is_refused() {
        assert_eq!(mail(b"no mail at all").unwrap_err().reason, Reason::Broken);
    }
}
