//! How deep quotations and lists stand within each other.

/// Columns of a tab.
const TAB: usize = 4;
/// Columns by which a list within a list is moved to the right, at the least.
const LEVEL: usize = 2;

/// Whether quotations and lists in `body` may stand more than `most` levels within each other. Looks at each byte a
/// fixed number of times, and would rather say yes.
pub(super) fn is_deeper(body: &str, most: usize) -> bool {
    body.lines().any(|line| {
        let (levels, indent) = opened(line);
        levels > 0 && levels + indent / LEVEL > most
    })
}

/// The quotations and list items that `line` begins with, and the columns of white space before and between them.
fn opened(line: &str) -> (usize, usize) {
    let (mut levels, mut indent) = (0, 0);
    let mut rest = line.as_bytes();
    loop {
        rest = match rest {
            [b' ', rest @ ..] => {
                indent += 1;
                rest
            }
            [b'\t', rest @ ..] => {
                indent += TAB;
                rest
            }
            [b'>', rest @ ..] => {
                levels += 1;
                rest
            }
            [b'-' | b'*' | b'+', rest @ ..] if ends_marker(rest) => {
                levels += 1;
                rest
            }
            [b'0'..=b'9', ..] => {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                match &rest[digits..] {
                    [b'.' | b')', rest @ ..] if ends_marker(rest) => {
                        levels += 1;
                        rest
                    }
                    _ => return (levels, indent),
                }
            }
            _ => return (levels, indent),
        }
    }
}

/// Whether a mark of a list ends before `rest`.
const fn ends_marker(rest: &[u8]) -> bool {
    matches!(rest, [] | [b' ' | b'\t', ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_by_their_marks() {
        assert_eq!(opened("> - 1. a"), (3, 3));
        assert_eq!(opened(">>>a"), (3, 0));
        assert_eq!(opened("  \t* + 12) a - b"), (3, 9));
        for line in ["--- a", "-a", "1.5 a", "**a**", "a > b", ""] {
            assert_eq!(opened(line), (0, 0), "{line}");
        }
        assert!(is_deeper("a\n> > > b", 2) && !is_deeper("a\n> > b", 3));
        // Each line goes on with the lists of the one before.
        assert!(is_deeper("- a\n  - b\n    - c\n", 2) && !is_deeper("- a\n  - b\n    - c\n", 3));
        assert!(!is_deeper(&format!("{}a", " ".repeat(400)), 3));
    }
}
