//! Office documents, sheets and separated values.

use anydoc::{ConvertError, Format};

use crate::document::document;
use crate::html::plain;
use crate::package::beside;
use crate::text::{decode, tidy};
use crate::{Converted, Fault, Kind, Reason};

/// What the library does not read of a format that has no parts in which to look.
const fn unread(format: Format, is_archive: bool) -> Option<&'static str> {
    match format {
        Format::Doc | Format::Rtf | Format::Ppt => {
            Some("heads and feet of pages and comments, if it has any")
        }
        Format::Excel if !is_archive => Some("hidden rows and columns and comments, if it has any"),
        _ => None,
    }
}

/// A document, slides or sheets as Markdown. Each sheet is marked and has its name as its heading. What else is in the
/// file stands at the end, or is named as left out.
pub(crate) fn office(kind: Kind, extension: &str, bytes: &[u8]) -> Result<Converted, Fault> {
    let is_separated = matches!(extension, "csv" | "tsv" | "tab");
    let format = Format::from_bytes(bytes).or_else(|| Format::from_extension(extension));
    let read = if is_separated {
        let text = decode(bytes, None)?;
        // The first line may name the sign that separates; it is recognised by what follows.
        let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let is_sign = first.trim().strip_prefix("sep=").is_some_and(|sign| sign.chars().count() <= 1);
        anydoc::to_document(if is_sign { rest } else { &text }.as_bytes(), Format::Csv)
    } else {
        anydoc::to_document(bytes, format)
    };
    let read = read.map_err(|e| match e {
        ConvertError::Encrypted => Fault::new(Reason::Password, "needs a password"),
        ConvertError::ResourceLimit { detail, .. } => {
            Fault::new(Reason::Expands, format!("expands too much: {detail}"))
        }
        e => Fault::new(Reason::Broken, format!("broken: {e}")),
    })?;
    let is_sheet = kind == Kind::Sheet;
    let mut text = tidy(&document(&read, is_sheet));
    let mut found = if is_separated { Default::default() } else { beside(bytes, &text) };
    if is_sheet && !is_separated {
        if let [only] = &found.sheets[..]
            && !text.is_empty()
            && !text.starts_with("## ")
        {
            text = format!("## {only}\n\n{text}");
        }
        let mark = |line: &str| match line.strip_prefix("## ") {
            Some(name) => format!("<!-- Sheet {} -->\n\n{line}\n", plain(name)),
            None => format!("{line}\n"),
        };
        text = text.lines().map(mark).collect();
    }
    for (name, paragraphs) in &found.sections {
        text.push_str(&format!("\n\n<!-- {name} -->\n\n{}", paragraphs.join("\n\n")));
    }
    let unread = format.filter(|_| !is_separated).and_then(|format| unread(format, bytes.starts_with(b"PK")));
    found.left_out.extend(unread.map(str::to_owned));
    Ok(Converted { title: String::new(), text: tidy(&text), left_out: found.left_out })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{docx_of, locked_docx, paragraph, xlsx_of, zip_of};

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
                    <!-- Sheet Staff -->\n\n## Staff\n\n| Name | Team |\n| --- | --- |\n| Ada | red |";
        assert_eq!(of("a.xlsx", &file).unwrap().text, text);
        // What a file is counts, not its name.
        assert!(of("a.xls", &file).unwrap().text.contains("| pump | 12 |"));
    }

    #[test]
    fn separated_values_are_a_table() {
        let table = "| Name | Note |\n| --- | --- |\n| Ada | one, two \\| three |\n| Björn | a b |";
        let text = "Name;Note\nAda;\"one, two | three\"\nBjörn;\"a\nb\"\n";
        for bytes in [text.as_bytes(), &encoding_rs::WINDOWS_1252.encode(text).0] {
            assert_eq!(of("a.csv", bytes).unwrap().text.replace("<br>", " "), table);
        }
        assert_eq!(of("a.tsv", b"a\tb\n1\t2\n").unwrap().text, "| a | b |\n| --- | --- |\n| 1 | 2 |");
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
    }
}
