//! What files of code define.

use crate::chunk::{HEADING_BYTES, Piece, continues};
use crate::format::{Format, pattern};

// What may stand before the word that says what is defined, that word, the parameters of a type or the receiver of a
// method, the name, and what is not the next word of a sentence.
pattern!(
    DEFINITION,
    r"(?mix)^(?:(?:pub(?:\([^)]*\))?|export|default|async|static|public|private|protected|internal|abstract|final
    |sealed|partial|readonly|data|unsafe|extern|inline|declare|local|const|create|or|replace|temp|temporary|enum)\s+)*
    (function|def|fn|func|sub|proc|class|struct|enum|trait|interface|impl|module|mod|namespace|object|record|union
    |type|const|table|view|procedure|trigger)(?:<[^>\n]*>)?[\ *]+(?:\([^)\n]*\)\ +)?(?:if\ not\ exists\ +)?
    ([\w$]*[^\W\d][\w$]*)\s*
    (?:[^\s\w,.'-]|$|\b(?:extends|implements|struct|interface|for|where|with|is|as|func|on|begin)\b)"
);

/// The names that the code in `body` defines at its top level, in their order: functions by their names, others with
/// the word that says what they are (`struct Lease`). None if it is not code.
pub fn names(path: &str, body: &str) -> Vec<String> {
    match Format::of(path, body) {
        Format::Code => defined(body).collect(),
        _ => Vec::new(),
    }
}

/// Gives the pieces of a file of code the names of what they define as a heading, or of what they continue.
pub(crate) fn name(body: &str, pieces: &mut [Piece]) {
    let mut last = String::new();
    for piece in pieces.iter_mut().filter(|piece| piece.headings.is_empty()) {
        if !continues(body, piece.range.start) {
            last.clear();
        }
        let mut shown = last.clone();
        for name in defined(&body[piece.range.clone()]) {
            let divider = if shown.is_empty() { "" } else { ", " };
            if shown.len() + divider.len() + name.len() <= HEADING_BYTES {
                shown = shown + divider + &name;
            }
            last = name;
        }
        piece.headings.extend(Some(shown).filter(|shown| !shown.is_empty()));
    }
}

fn defined(code: &str) -> impl Iterator<Item = String> {
    DEFINITION.captures_iter(code).map(|found| match &found[1].to_lowercase()[..] {
        "function" | "def" | "fn" | "func" | "sub" | "proc" => found[2].to_owned(),
        what => format!("{what} {}", &found[2]),
    })
}
