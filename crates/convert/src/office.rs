//! Office documents, PDF and mail.

use anydoc::{ConvertError, Format};
use mail_parser::{Address, MessageParser, MimeHeaders};
use pdf_inspector::{MarkdownOptions, PdfError, PdfOptions};

use crate::html::plain;
use crate::text::{decode, tidy};
use crate::{Converted, Fault, Kind, Reason};

/// A document, slides or sheets as Markdown. Each sheet is marked and has its name as its heading.
pub(crate) fn office(kind: Kind, extension: &str, bytes: &[u8]) -> Result<Converted, Fault> {
    let text = match extension {
        "csv" | "tsv" | "tab" => anydoc::to_markdown_bytes(decode(bytes, None)?.as_bytes(), Format::Csv),
        _ => {
            let format = Format::from_bytes(bytes).or_else(|| Format::from_extension(extension));
            anydoc::to_markdown_bytes(bytes, format)
        }
    };
    let text = text.map_err(|e| match e {
        ConvertError::Encrypted => password(),
        ConvertError::ResourceLimit { detail, .. } => {
            Fault::new(Reason::Expands, format!("expands too much: {detail}"))
        }
        e => Fault::new(Reason::Broken, format!("broken: {e}")),
    })?;
    let text = tidy(&text);
    if kind != Kind::Sheet {
        return Ok(Converted { title: String::new(), text });
    }
    let line = |line: &str| match line.strip_prefix("## ") {
        Some(name) => format!("<!-- Sheet {} -->\n\n{line}\n", plain(name)),
        None => format!("{line}\n"),
    };
    Ok(Converted { title: String::new(), text: text.lines().map(line).collect() })
}

/// A PDF as Markdown, with a mark before each page.
pub(crate) fn pdf(bytes: &[u8]) -> Result<Converted, Fault> {
    let markdown = MarkdownOptions {
        // Marks within sentences would keep quotes from being found.
        detect_bold: false,
        detect_italic: false,
        detect_underline: false,
        include_page_numbers: true,
        ..MarkdownOptions::default()
    };
    let read = pdf_inspector::process_pdf_mem_with_options(bytes, PdfOptions::new().markdown(markdown));
    let read = read.map_err(|e| match e {
        PdfError::Encrypted => password(),
        e => Fault::new(Reason::Broken, format!("broken: {e}")),
    })?;
    let mut text = tidy(&read.markdown.unwrap_or_default());
    let is_lost = |page: &&u32| !text.contains(&format!("<!-- Page {page} -->"));
    let lost: Vec<_> = read.pages_needing_ocr.iter().filter(is_lost).map(ToString::to_string).collect();
    if !text.is_empty() && !lost.is_empty() {
        text.push_str(&format!(
            "\n\n[No text was found on these pages, which may be scans: {}.]",
            lost.join(", ")
        ));
    }
    Ok(Converted { title: String::new(), text })
}

fn password() -> Fault {
    Fault::new(Reason::Password, "needs a password")
}

/// A mail: who wrote to whom, when, about what, and the text.
pub(crate) fn mail(bytes: &[u8]) -> Result<Converted, Fault> {
    let mail = MessageParser::default()
        .parse(bytes)
        .filter(|mail| mail.from().is_some() || mail.date().is_some())
        .ok_or_else(|| Fault::new(Reason::Broken, "broken: no mail"))?;
    let names = |people: Option<&Address<'_>>| {
        let name = |one: &mail_parser::Addr<'_>| match (one.name(), one.address()) {
            (Some(name), Some(address)) => format!("{name} ({address})"),
            (name, address) => name.or(address).unwrap_or_default().to_owned(),
        };
        people.map(|people| people.iter().map(name).collect::<Vec<_>>().join(", ")).unwrap_or_default()
    };
    let files = mail.attachments().filter_map(|file| file.attachment_name()).collect::<Vec<_>>().join(", ");
    let title = mail.subject().unwrap_or_default().to_owned();
    let mut text = format!("# {title}\n\n");
    for (name, value) in [
        ("From", names(mail.from())),
        ("To", names(mail.to())),
        ("Date", mail.date().map(ToString::to_string).unwrap_or_default()),
        ("Attachments that are not read", files),
    ] {
        if !value.is_empty() {
            text.push_str(&format!("- {name}: {value}\n"));
        }
    }
    text.push('\n');
    text.push_str(&mail.body_text(0).unwrap_or_default());
    Ok(Converted { title, text: tidy(&text) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{docx_of, locked_docx, locked_pdf, paragraph, pdf_of, xlsx_of, zip_of};

    fn of(file: &str, bytes: &[u8]) -> Result<Converted, Fault> {
        let (_, extension) = file.rsplit_once('.').unwrap();
        office(Kind::of_extension(extension).unwrap(), extension, bytes)
    }

    #[test]
    fn a_document_keeps_headings_and_tables() {
        let styled = |style: &str, text: &str| {
            paragraph(text).replacen("<w:p>", &format!("<w:p><w:pPr>{style}</w:pPr>"), 1)
        };
        let cell = |text: &str| format!("<w:tc>{}</w:tc>", paragraph(text));
        let row = |cells: [&str; 2]| format!("<w:tr>{}</w:tr>", cells.map(cell).concat());
        let body = [
            styled("<w:outlineLvl w:val='0'/>", "Leave"),
            paragraph("Everyone has 28 days, größtenteils."),
            styled("<w:outlineLvl w:val='1'/>", "Days"),
            format!("<w:tbl>{}{}</w:tbl>", row(["Name", "Days | all"]), row(["Ada", "28"])),
        ];
        let text = "# Leave\n\nEveryone has 28 days, größtenteils.\n\n## Days\n\n\
                    | Name | Days \\| all |\n| --- | --- |\n| Ada | 28 |";
        assert_eq!(of("a.docx", &docx_of(&body.concat())).unwrap().text, text);
    }

    #[test]
    fn each_sheet_is_marked() {
        let file = xlsx_of(&[
            ("Prices_2026", &[&["Item", "Price"], &["pump", "12"]]),
            ("Staff", &[&["Name", "Team"], &["Ada", "red"]]),
        ]);
        let text = "<!-- Sheet Prices_2026 -->\n\n## Prices_2026\n\n| Item | Price |\n| --- | --- |\n| pump | 12 |\n\n\
                    <!-- Sheet Staff -->\n\n## Staff\n\n| Name | Team |\n| --- | --- |\n| Ada | red |\n";
        assert_eq!(of("a.xlsx", &file).unwrap().text, text);
        // What a file is counts, not its name.
        assert!(of("a.xls", &file).unwrap().text.contains("| pump | 12 |"));
    }

    #[test]
    fn separated_values_are_a_table() {
        let table = "| Name | Note |\n| --- | --- |\n| Ada | one, two \\| three |\n| Björn | a b |\n";
        let text = "Name;Note\nAda;\"one, two | three\"\nBjörn;\"a\nb\"\n";
        for bytes in [text.as_bytes(), &encoding_rs::WINDOWS_1252.encode(text).0] {
            assert_eq!(of("a.csv", bytes).unwrap().text.replace("<br>", " "), table);
        }
        assert_eq!(of("a.tsv", b"a\tb\n1\t2\n").unwrap().text, "| a | b |\n| --- | --- |\n| 1 | 2 |\n");
    }

    #[test]
    fn a_pdf_names_its_pages() {
        let text =
            pdf(&pdf_of(&["The lease decides.\nIt lasts five seconds.", "The fence holds."])).unwrap().text;
        let (first, second) = text.split_once("<!-- Page 2 -->").unwrap();
        assert!(first.starts_with("<!-- Page 1 -->") && first.contains("It lasts five seconds."), "{text}");
        assert!(second.contains("The fence holds."), "{text}");
    }

    #[test]
    fn a_page_without_text_costs_only_itself() {
        let text = pdf(&pdf_of(&["The lease decides.", "", "The fence holds."])).unwrap().text;
        assert!(text.contains("<!-- Page 3 -->") && text.contains("The fence holds."), "{text}");
        assert!(text.ends_with("[No text was found on these pages, which may be scans: 2.]"), "{text}");
        assert_eq!(pdf(&pdf_of(&["", ""])).unwrap().text, "");
    }

    #[test]
    fn what_gives_no_text_says_why() {
        let blanks = vec![b' '; 130 << 20];
        let content = zip_of(&[("[Content_Types].xml", b"<Types/>"), ("word/document.xml", &blanks)]);
        let docx = docx_of(&paragraph("text"));
        for (file, bytes, reason) in [
            ("cut.docx", &docx[..docx.len() / 2], Reason::Broken),
            ("text.docx", b"no archive", Reason::Broken),
            ("bomb.docx", &content, Reason::Expands),
            ("locked.docx", &locked_docx(), Reason::Password),
            ("binary.csv", b"a,b\n\0\0", Reason::NotText),
        ] {
            let fault = of(file, bytes).unwrap_err();
            assert_eq!(fault.reason, reason, "{file}: {}", fault.why);
        }
        assert_eq!(pdf(&locked_pdf()).unwrap_err().reason, Reason::Password);
        assert_eq!(pdf(b"%PDF-1.4\nnothing").unwrap_err().reason, Reason::Broken);
        assert_eq!(mail(b"no mail at all").unwrap_err().reason, Reason::Broken);
    }

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
}
