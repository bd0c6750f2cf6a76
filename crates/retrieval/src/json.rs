//! Pieces of JSON: records, whole where they fit, with their paths.

use std::ops::Range;

use crate::chunk::{HEADING_BYTES, Kind, LONG_BYTES, Piece, Pieces, heading, paragraphs};
use crate::cut::{cut, trimmed};
use crate::format::pattern;

pattern!(TOKEN, r#"(?s)("(?:[^"\\]|\\.)*")(\s*:)?|[-+.\w]+|[^\s,:]"#);

/// An array or an object that has not ended.
#[derive(Default)]
struct Open {
    start: usize,
    /// Where the next member begins, and its key, in an object.
    key: Option<(usize, String)>,
    count: usize,
    /// Neighbours that become one piece, with the steps of the first and the last one.
    members: Vec<(Range<usize>, String, String)>,
}

impl Open {
    /// The step from here to the next member.
    fn step(&self) -> String {
        self.key.as_ref().map_or_else(|| format!("[{}]", self.count), |(_, key)| key.clone())
    }

    /// Adds a member: to the neighbours before it if they are short.
    fn add(&mut self, value: Range<usize>) {
        let step = self.step();
        let range = self.key.take().map_or(value.start, |(start, _)| start)..value.end;
        self.count += 1;
        match self.members.last_mut() {
            Some(last) if range.end - last.0.start <= LONG_BYTES => (last.0.end, last.2) = (range.end, step),
            _ => self.members.push((range, step.clone(), step)),
        }
    }
}

/// Adds the pieces of a JSON text. It is read once, and from where it is broken on it is read as lines.
pub(crate) fn read(pieces: &mut Pieces<'_>) {
    let (body, mut end) = (pieces.body, 0);
    // Around everything is what has no path.
    let mut open = vec![Open::default()];
    for token in TOKEN.captures_iter(body) {
        let (whole, string) = (token.get_match(), token.get(1));
        match (whole.as_str().as_bytes()[0], &mut open[..]) {
            (b'{' | b'[', _) => open.push(Open { start: whole.start(), ..Open::default() }),
            (b'}' | b']', [.., parent, closed]) if whole.end() - closed.start <= LONG_BYTES => {
                parent.add(closed.start..whole.end());
                open.pop();
            }
            (b'}' | b']', [_, _, ..]) => close(pieces, &mut open),
            (b'}' | b']', _) => {}
            (b'"', [.., top]) if token.get(2).is_some() => {
                let name = string.map_or("", |string| string.as_str());
                let is_plain =
                    name.trim_matches('"').chars().all(|c| c.is_alphanumeric() || "_-$".contains(c));
                let step =
                    if is_plain { format!(".{}", name.trim_matches('"')) } else { format!("[{name}]") };
                top.key = Some((whole.start(), step));
            }
            (first, [.., top]) if string.is_some() || first.is_ascii_alphanumeric() || first == b'-' => {
                top.add(whole.range());
            }
            _ => break,
        }
        end = whole.end();
    }
    // A key without a value is not in a piece yet.
    end = open.last().and_then(|top| top.key.as_ref()).map_or(end, |(start, _)| *start);
    while !open.is_empty() {
        close(pieces, &mut open);
    }
    pieces.pieces.sort_by_key(|piece| piece.range.start);
    paragraphs(pieces, end);
}

/// Makes pieces of the members of the innermost value, which is too long for one. It ends here.
fn close(pieces: &mut Pieces<'_>, open: &mut Vec<Open>) {
    let Some(closed) = open.pop() else { return };
    // A heading has no room for more.
    let above = if closed.members.is_empty() { &open[..0] } else { &open[..] };
    let above: String = above.iter().skip(1).take(HEADING_BYTES).map(Open::step).collect();
    for (range, first, last) in closed.members {
        let step = match (first.strip_suffix(']'), last.strip_prefix(['[', '.'])) {
            _ if first == last => first,
            (Some(first), Some(last)) => format!("{first}…{last}"),
            (_, last) => format!("{first}…{}", last.unwrap_or_default()),
        };
        let path = heading((above.clone() + &step).trim_start_matches('.'));
        let headings = if open.is_empty() { Vec::new() } else { vec![path] };
        let parts = cut(pieces.body, range, &[], true, LONG_BYTES);
        let parts = parts
            .into_iter()
            .map(|range| trimmed(pieces.body, range))
            .filter(|range| range.start < range.end);
        let piece = |range| Piece { range, headings: headings.clone(), head: 0..0, kind: Kind::Code };
        pieces.pieces.extend(parts.map(piece));
    }
    if let Some(parent) = open.last_mut() {
        parent.count += 1;
        parent.key = None;
    }
}
