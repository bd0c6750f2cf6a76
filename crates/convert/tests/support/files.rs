//! PDF and office files, made by hand.

use std::io::{Cursor, Write};

/// A file of one page for each text, in a standard font.
pub(crate) fn pdf_of(pages: &[&str]) -> Vec<u8> {
    let kids: String = (0..pages.len()).map(|page| format!("{} 0 R ", 4 + 2 * page)).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Count {} /Kids [{kids}] >>", pages.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned(),
    ];
    for (page, text) in pages.iter().enumerate() {
        let lines: String = text.lines().map(|line| format!("({line}) Tj 0 -20 Td ")).collect();
        let content = format!("BT /F1 12 Tf 72 700 Td {lines}ET");
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {} 0 R \
             /Resources << /Font << /F1 3 0 R >> >> >>",
            5 + 2 * page
        ));
        objects.push(format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()));
    }
    file_of(&objects.into_iter().map(String::into_bytes).collect::<Vec<_>>())
}

/// A file of these objects, of which the first is the catalogue.
pub(crate) fn file_of(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut places = Vec::new();
    for (object, number) in objects.iter().zip(1..) {
        places.push(file.len());
        file.extend(format!("{number} 0 obj\n").bytes());
        file.extend(object);
        file.extend(b"\nendobj\n");
    }
    let (begin, size) = (file.len(), objects.len() + 1);
    let entries: String = places.iter().map(|place| format!("{place:010} 00000 n \n")).collect();
    file.extend(format!("xref\n0 {size}\n0000000000 65535 f \n{entries}").bytes());
    file.extend(format!("trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{begin}\n%%EOF\n").bytes());
    file
}

/// A file of one page that asks for a password that nobody knows.
pub(crate) fn locked_pdf() -> Vec<u8> {
    let (owner, user) = ("11".repeat(32), "22".repeat(32));
    let file = file_of(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>".to_vec(),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] >>".to_vec(),
        format!("<< /Filter /Standard /V 1 /R 2 /Length 40 /P -4 /O <{owner}> /U <{user}> >>").into_bytes(),
    ]);
    let file = String::from_utf8(file).unwrap();
    file.replace("/Root 1 0 R", "/Root 1 0 R /Encrypt 4 0 R /ID [<00> <00>]").into_bytes()
}

/// A zip archive of these files.
pub(crate) fn zip_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn package(main: &str, kind: &str, more: &[(&str, &[u8])]) -> Vec<u8> {
    const RELATIONS: &str = "http://schemas.openxmlformats.org/package/2006/relationships";
    const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument";
    let types = format!(
        "<Types xmlns='http://schemas.openxmlformats.org/package/2006/content-types'>\
         <Default Extension='rels' ContentType='application/vnd.openxmlformats-package.relationships+xml'/>\
         <Default Extension='xml' ContentType='application/xml'/><Override PartName='/{main}' \
         ContentType='application/vnd.openxmlformats-officedocument.{kind}.main+xml'/></Types>"
    );
    let root = format!(
        "<Relationships xmlns='{RELATIONS}'><Relationship Id='r1' Type='{OFFICE}' Target='{main}'/></Relationships>"
    );
    let files = [("[Content_Types].xml", types.as_bytes()), ("_rels/.rels", root.as_bytes())];
    zip_of(&[&files, more].concat())
}

/// A document of Word whose body is this XML.
pub(crate) fn docx_of(body: &str) -> Vec<u8> {
    let text = format!(
        "<w:document xmlns:w='http://schemas.openxmlformats.org/wordprocessingml/2006/main'><w:body>{body}</w:body>\
         </w:document>"
    );
    package("word/document.xml", "wordprocessingml.document", &[("word/document.xml", text.as_bytes())])
}

/// A paragraph of such a body.
pub(crate) fn paragraph(text: &str) -> String {
    format!("<w:p><w:r><w:t xml:space='preserve'>{text}</w:t></w:r></w:p>")
}

/// A workbook with these sheets.
pub(crate) fn xlsx_of(sheets: &[(&str, &[&[&str]])]) -> Vec<u8> {
    const MAIN: &str = "xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main'";
    const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let (mut book, mut relations, mut files) = (String::new(), String::new(), Vec::new());
    for ((name, rows), number) in sheets.iter().zip(1..) {
        let cell = |cell: &&str| format!("<c t='inlineStr'><is><t>{cell}</t></is></c>");
        let row = |row: &&[&str]| format!("<row>{}</row>", row.iter().map(cell).collect::<String>());
        let rows: String = rows.iter().map(row).collect();
        book.push_str(&format!("<sheet name='{name}' sheetId='{number}' r:id='r{number}'/>"));
        relations.push_str(&format!(
            "<Relationship Id='r{number}' Type='{OFFICE}/worksheet' Target='worksheets/sheet{number}.xml'/>"
        ));
        let sheet = format!("<worksheet {MAIN}><sheetData>{rows}</sheetData></worksheet>");
        files.push((format!("xl/worksheets/sheet{number}.xml"), sheet));
    }
    let book = format!("<workbook {MAIN} xmlns:r='{OFFICE}'><sheets>{book}</sheets></workbook>");
    files.push(("xl/workbook.xml".into(), book));
    let relations = format!(
        "<Relationships xmlns='http://schemas.openxmlformats.org/package/2006/relationships'>{relations}</Relationships>"
    );
    files.push(("xl/_rels/workbook.xml.rels".into(), relations));
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_bytes())).collect();
    package("xl/workbook.xml", "spreadsheetml.sheet", &files)
}

/// What Word writes for a document with a password.
pub(crate) fn locked_docx() -> Vec<u8> {
    let mut file = cfb::CompoundFile::create(Cursor::new(Vec::new())).unwrap();
    for name in ["EncryptionInfo", "EncryptedPackage"] {
        file.create_stream(name).unwrap().write_all(&[7; 5_000]).unwrap();
    }
    file.into_inner().into_inner()
}
