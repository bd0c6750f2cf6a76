//! Prompts that users wrote, in a small part of Jinja: `{{ name }}` stands for a value, and
//! `{% if depth < 3 %}…{% elif parents %}…{% else %}…{% endif %}` chooses between texts. There are no loops and no
//! arithmetic, so the time that it takes to fill a prompt grows with its length alone.

use std::collections::BTreeMap;

use minijinja::machinery::{Token, WhitespaceConfig, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, UndefinedBehavior, Value};

/// Unknown names that an error lists.
const NAMES_LISTED: usize = 8;
/// Bytes of a filled prompt, more than a model reads.
const FILLED_BYTES: usize = 4 * 1024 * 1024;
/// The values that are numbers.
const NUMBERS: [&str; 2] = ["depth", "max_children"];

/// `text` with its names and conditions replaced, up to the size that a prompt may have. What a value contains is not
/// replaced again. A prompt that nobody has checked stays as it is if it cannot be filled.
pub fn fill(text: &str, values: &[(&str, &str)]) -> String {
    let values: BTreeMap<&str, Value> =
        values.iter().map(|&(name, value)| (name, typed(name, value))).collect();
    let mut filled = vec![0; FILLED_BYTES];
    let mut free = &mut filled[..];
    let environment = environment();
    let prompt = environment.template_from_str(text);
    let is_filled = prompt.and_then(|prompt| prompt.render_captured_to(values, &mut free)).is_ok();
    let left = free.len();
    if !is_filled && left > 0 {
        return text.to_owned();
    }
    filled.truncate(FILLED_BYTES - left);
    String::from_utf8_lossy(&filled).into_owned()
}

fn typed(name: &str, value: &str) -> Value {
    let number = value.parse::<u64>().ok().filter(|_| NUMBERS.contains(&name));
    number.map_or_else(|| value.into(), Into::into)
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_keep_trailing_newline(true);
    environment
}

/// What is wrong with a prompt that may use the names `known`; none if nothing is.
pub(super) fn problem(text: &str, known: &[&str]) -> Option<String> {
    let of = |names: &[&str]| format!("{{{{{}}}}}", names.join("}}, {{"));
    let unknown = match unknown(text, known) {
        Ok(unknown) => unknown,
        Err((line, what)) => {
            return Some(format!(
                "cannot be read in line {line} ({what}); write {{{{ name }}}} and {{% if name == value %}}…{{% else \
                 %}}…{{% endif %}}, with ==, !=, <, <=, >, >=, and, or, not"
            ));
        }
    };
    let shown = &unknown[..unknown.len().min(NAMES_LISTED)];
    (!unknown.is_empty()).then(|| format!("has no value for {}; it may name {}", of(shown), of(known)))
}

/// The names in `text` that are not `known`, or the line of what is none of our language.
fn unknown<'a>(text: &'a str, known: &[&str]) -> Result<Vec<&'a str>, (usize, String)> {
    let unread = |e: Error| (e.line().unwrap_or(1), e.detail().unwrap_or("syntax error").to_owned());
    let (mut unknown, mut begins) = (Vec::new(), false);
    for token in tokenize(text, false, SyntaxConfig, WhitespaceConfig::default()) {
        let (token, span) = token.map_err(unread)?;
        let is_first = std::mem::replace(&mut begins, matches!(token, Token::BlockStart));
        match token {
            Token::Ident("if" | "elif" | "else" | "endif") => {}
            Token::Ident("and" | "or" | "not" | "true" | "false") if !is_first => {}
            Token::Ident(name) if !is_first => {
                if !known.contains(&name) && !unknown.contains(&name) {
                    unknown.push(name);
                }
            }
            Token::TemplateData(_) | Token::VariableStart | Token::VariableEnd | Token::BlockStart => {}
            Token::BlockEnd | Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Float(_) => {}
            Token::Eq | Token::Ne | Token::Lt | Token::Lte | Token::Gt | Token::Gte => {}
            other => return Err((span.start_line.into(), format!("{other}"))),
        }
    }
    environment().template_from_str(text).map(|_| unknown).map_err(unread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_once_and_conditions_choose() {
        let of = |depth, parents| [("depth", depth), ("parents", parents), ("slug", "spring-tides")];
        let prompt =
            "{% if depth == 1 %}Broad.{% elif depth > 9 %}Tiny.{% else %}Below {{ parents }}.{% endif %}\n";
        assert_eq!(fill(prompt, &of("1", "")), "Broad.\n");
        assert_eq!(fill(prompt, &of("2", "<{{depth}} {% if %}>")), "Below <{{depth}} {% if %}>.\n");
        assert_eq!(fill(prompt, &of("10", "Tides")), "Tiny.\n", "numbers, not texts");
        let if_ = |condition: &str| fill(&format!("{{% if {condition} %}}yes{{% endif %}}"), &of("2", ""));
        for (condition, holds) in [
            ("depth", true),
            ("parents", false),
            ("not parents and depth <= 2", true),
            ("slug == \"spring-tides\"", true),
            ("slug != 'spring-tides'", false),
            ("slug > 3 == 1", false),
        ] {
            assert_eq!(if_(condition) == "yes", holds, "{condition}");
            assert_eq!(
                problem(&format!("{{% if {condition} %}}{{% endif %}}"), &["depth", "parents", "slug"]),
                None
            );
        }
        assert_eq!(fill("{{ depth if parents }}{% raw %}{{ x }}{% endraw %}", &of("2", "")), "{{ x }}");
    }

    #[test]
    fn a_prompt_has_a_size_whatever_is_in_it() {
        let value = "ä".repeat(100_000);
        let long = fill(&"{{title}}".repeat(1_000), &[("title", &value)]);
        assert_eq!(long.len(), FILLED_BYTES);
        for deep in ["{% if title %}", "{{ not ", "{{ '"] {
            assert!(problem(&deep.repeat(4_000), &["title"]).is_some());
            assert_eq!(fill(deep, &[("title", "x")]), deep, "what nobody has checked stays");
        }
    }

    #[test]
    fn what_cannot_be_filled_is_named() {
        let good = "On {{ title }}{% if depth < 3 %}{% else %}.{% endif %} {# note #} {% raw %}{{ x.y }}{% endraw %} {";
        assert_eq!(problem(good, &["title", "depth"]), None);
        for (prompt, said) in [
            (
                "{{heading}} {{title}} {{heading}} {% if outline %}{% endif %}",
                "no value for {{heading}}, {{outline}}; it may name {{title}}, {{depth}}",
            ),
            ("\n{% if title %}", "in line 2 ("),
            ("{% endif %}", "in line 1 ("),
            ("{{#if title}}{{/if}}", "in line 1 ("),
            (
                "\n\n{% for c in title %}{% endfor %}",
                "in line 3 (identifier); write {{ name }} and {% if name",
            ),
            ("{% set title = depth %}", "in line 1 ("),
            ("{{ 'x' * 100000000 }}", "in line 1 (`*`)"),
            ("{{ title ~ title }}", "in line 1 (`~`)"),
            ("{{ title | upper }}", "in line 1 (`|`)"),
            ("{{ title.x }}", "in line 1 (`.`)"),
            ("{{ self }}", "no value for {{self}}"),
        ] {
            let problem = problem(prompt, &["title", "depth"]).unwrap_or_default();
            assert!(problem.contains(said), "{prompt}: {problem}");
        }
    }
}
