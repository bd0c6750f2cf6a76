//! PDF files, made by hand.

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
