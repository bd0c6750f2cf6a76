//! Prompts that users wrote: `{{name}}` stands for a value, and a condition chooses between two texts.
//!
//! | written | means |
//! | --- | --- |
//! | `{{name}}` | the value |
//! | `{{#if name}}…{{else}}…{{/if}}` | the first text if the value is not empty, else the second, which may be left out |
//! | `{{#if name = value}}`, and `!=`, `<`, `>` | as above, if the value compares so; `<` and `>` compare numbers |

/// Bytes after `{{` within which `}}` is looked for, so that a text of braces costs no more than another.
const MARK_BYTES: usize = 128;
/// Unknown names that an error lists.
const NAMES_LISTED: usize = 8;

enum Part<'a> {
    Text(&'a str),
    /// A name, and how it was written.
    Name(&'a str, &'a str),
    If(Option<Condition<'a>>),
    Else,
    End,
}

struct Condition<'a> {
    name: &'a str,
    compares: Option<(&'a str, &'a str)>,
}

impl<'a> Condition<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let end = text.find(|c: char| !is_name_char(c)).unwrap_or(text.len());
        let (name, rest) = (&text[..end], text[end..].trim());
        if !is_name(name) {
            return None;
        }
        if rest.is_empty() {
            return Some(Self { name, compares: None });
        }
        let operator = ["!=", "==", "=", "<", ">"].into_iter().find(|operator| rest.starts_with(operator))?;
        let value = rest[operator.len()..].trim().trim_matches(['"', '\'']);
        let is_number = value.parse::<f64>().is_ok();
        let compares = Some((operator, value));
        (is_number || !value.is_empty() && !matches!(operator, "<" | ">")).then_some(Self { name, compares })
    }

    fn holds(&self, values: &[(&str, &str)]) -> bool {
        let is = value_of(self.name, values).unwrap_or_default().trim();
        let Some((operator, wanted)) = self.compares else { return !is.is_empty() };
        let numbers = is.parse::<f64>().ok().zip(wanted.parse::<f64>().ok());
        let is_same = numbers.map_or(is == wanted, |(is, wanted)| is == wanted);
        match operator {
            "<" => numbers.is_some_and(|(is, wanted)| is < wanted),
            ">" => numbers.is_some_and(|(is, wanted)| is > wanted),
            "!=" => !is_same,
            _ => is_same,
        }
    }
}

/// `text` with its names and conditions replaced. A name without a value stays as it is. What a value contains is not
/// replaced again.
pub fn fill(text: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(text.len());
    // Of each condition around the place: the text there is wanted.
    let mut wanted = Vec::new();
    for part in parts(text) {
        let is_wanted = wanted.iter().all(|wanted| *wanted);
        match part {
            Part::Text(text) if is_wanted => filled.push_str(text),
            Part::Name(name, written) if is_wanted => {
                filled.push_str(value_of(name, values).unwrap_or(written));
            }
            Part::Text(_) | Part::Name(..) => {}
            Part::If(condition) => wanted.push(condition.is_some_and(|condition| condition.holds(values))),
            Part::Else => wanted.iter_mut().rev().take(1).for_each(|wanted| *wanted = !*wanted),
            Part::End => drop(wanted.pop()),
        }
    }
    filled
}

/// What is wrong with a prompt that may use the names `known`; none if nothing is.
pub(super) fn problem(text: &str, known: &[&str]) -> Option<String> {
    let mut unknown: Vec<&str> = Vec::new();
    // Of each open condition: its second text has begun.
    let (mut open, mut is_whole) = (Vec::new(), true);
    for part in parts(text) {
        let name = match part {
            Part::Text(_) => None,
            Part::Name(name, _) => Some(name),
            Part::If(condition) => {
                is_whole &= condition.is_some();
                open.push(false);
                condition.map(|condition| condition.name)
            }
            Part::Else => {
                is_whole &= open.pop() == Some(false);
                open.push(true);
                None
            }
            Part::End => {
                is_whole &= open.pop().is_some();
                None
            }
        };
        unknown.extend(name.filter(|name| !known.contains(name) && !unknown.contains(name)));
    }
    if !unknown.is_empty() {
        let of = |names: &[&str]| format!("{{{{{}}}}}", names.join("}}, {{"));
        let shown = &unknown[..unknown.len().min(NAMES_LISTED)];
        return Some(format!("has no value for {}; it may name {}", of(shown), of(known)));
    }
    (!is_whole || !open.is_empty()).then(|| {
        "has a condition that cannot be read; write {{#if name}}…{{else}}…{{/if}}, or {{#if name = value}} with =, !=, \
         < or >, the last two with a number"
            .to_owned()
    })
}

fn value_of<'a>(name: &str, values: &[(&str, &'a str)]) -> Option<&'a str> {
    values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

const fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_name_char)
}

/// The parts of a prompt. What stands between braces and is none of ours, such as code, is text.
fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = text;
    let mut next = None;
    std::iter::from_fn(move || {
        if let Some(part) = next.take() {
            return Some(part);
        }
        let mut from = 0;
        while let Some(start) = rest[from..].find("{{").map(|at| from + at) {
            from = start + 2;
            let near = &rest.as_bytes()[from..rest.len().min(from + MARK_BYTES)];
            let Some(length) = near.windows(2).position(|two| two == b"}}") else { continue };
            let (inner, end) = (rest[from..from + length].trim(), from + length + 2);
            let part = match (inner, inner.strip_prefix("#if")) {
                (_, Some(condition)) => Part::If(Condition::read(condition.trim())),
                ("else", _) => Part::Else,
                ("/if", _) => Part::End,
                _ if is_name(inner) => Part::Name(inner, &rest[start..end]),
                _ => continue,
            };
            let before = &rest[..start];
            rest = &rest[end..];
            if before.is_empty() {
                return Some(part);
            }
            next = Some(part);
            return Some(Part::Text(before));
        }
        (!rest.is_empty()).then(|| Part::Text(std::mem::take(&mut rest)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_once() {
        let values = [("title", "{{path}}"), ("path", "a > b")];
        assert_eq!(fill("On {{title}}: {{ path }}.", &values), "On {{path}}: a > b.");
        assert_eq!(fill("{{other}} {{title}} {{", &values), "{{other}} {{path}} {{");
        assert_eq!(fill("{{{path}}}", &values), "{{{path}}}");
        assert_eq!(fill("{{title}}", &[("title", "")]), "");
        let far = format!("{{{{{}title}}}} {{{{title}}}}", " ".repeat(MARK_BYTES));
        assert_eq!(fill(&far, &[("title", "x")]), far.replace("{{title}}", "x"), "a name is near its braces");
    }

    #[test]
    fn conditions_choose_between_texts() {
        let of = |depth, parents| [("depth", depth), ("parents", parents), ("slug", "spring-tides")];
        let prompt =
            "{{#if depth = 1}}Broad.{{else}}{{#if depth > 9}}Tiny.{{else}}Below {{parents}}.{{/if}}{{/if}}";
        assert_eq!(fill(prompt, &of("1", "")), "Broad.");
        assert_eq!(fill(prompt, &of("2", "{{#if depth}}")), "Below {{#if depth}}.");
        assert_eq!(fill(prompt, &of("10", "Tides")), "Tiny.", "numbers, not texts");
        let if_ = |condition: &str| fill(&format!("{{{{#if {condition}}}}}yes{{{{/if}}}}"), &of("2", ""));
        for (condition, holds) in [
            ("depth", true),
            ("parents", false),
            ("slug == \"spring-tides\"", true),
            ("slug != spring-tides", false),
            ("depth<3", true),
            ("slug > 3", false),
        ] {
            assert_eq!(if_(condition) == "yes", holds, "{condition}");
        }
    }

    #[test]
    fn what_cannot_be_filled_is_named() {
        let good = "On {{ title }}{{#if depth < 3}}{{else}}.{{/if}} Code: {{ .Values.x }}, {{}}, {{a b}} {{";
        assert_eq!(problem(good, &["title", "depth"]), None);
        for (prompt, said) in [
            (
                "{{heading}} {{title}} {{heading}} {{#if outline}}{{/if}}",
                "no value for {{heading}}, {{outline}}; it may name {{title}}, {{depth}}",
            ),
            ("{{#if title}}", "cannot be read"),
            ("{{/if}}", "cannot be read"),
            ("{{#if title}}{{else}}{{else}}{{/if}}", "cannot be read"),
            ("{{#if depth > deep}}{{/if}}", "with a number"),
            ("{{#if title is x}}{{/if}}", "cannot be read"),
        ] {
            let problem = problem(prompt, &["title", "depth"]).unwrap_or_default();
            assert!(problem.contains(said), "{prompt}: {problem}");
        }
    }
}
