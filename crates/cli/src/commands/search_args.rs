//! How a guided search works, as flags.

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Map, Value};
use tree_agent_contract::error::{FieldError, Invalid};
use tree_agent_contract::limits::PROMPT_BYTES;
use tree_agent_contract::{PickerPolicy, SearchConfig};
use tree_agent_frontmatter::Schema;
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use super::objective::text_of;
use crate::error::CliError;

/// The policies by name.
fn policies() -> impl TypedValueParser<Value = PickerPolicy> {
    PossibleValuesParser::new(PickerPolicy::ALL.iter().map(|policy| policy.as_str()))
        .try_map(|name| name.parse::<PickerPolicy>())
}

/// How a guided search works. How deep it goes is a flag of all strategies.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Search")]
pub(super) struct SearchArgs {
    /// Topics under research at the same time [default: 4]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    concurrency: Option<u32>,
    /// Who chooses the topic that is researched next [default: llm]
    #[arg(long, value_name = "POLICY", value_parser = policies())]
    picker: Option<PickerPolicy>,
    /// End with an overview that answers the objective and links all documents [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    synthesis: Option<bool>,
    /// A prompt for the topics of the first level; it may name the same as --document-prompt
    #[arg(long, value_name = "FILE")]
    root_prompt: Option<PathBuf>,
    /// A prompt for documents; it may name {{title}}, {{slug}}, {{path}}, {{parents}}, {{depth}}, {{status}},
    /// {{objective}}, {{siblings}}, {{schema}}, {{max_children}}, and ask {% if depth < 3 %}…{% else %}…{% endif %}
    #[arg(long, value_name = "FILE")]
    document_prompt: Option<PathBuf>,
    /// A prompt for the topics below a topic; it may name the same
    #[arg(long, value_name = "FILE")]
    children_prompt: Option<PathBuf>,
    /// A prompt for the picker; it may name {{objective}}, {{outline}}, {{leaves}}, {{note}}
    #[arg(long, value_name = "FILE")]
    picker_prompt: Option<PathBuf>,
    /// A JSON Schema that the frontmatter of every document must meet
    #[arg(long, value_name = "FILE")]
    frontmatter_schema: Option<PathBuf>,
}

impl SearchArgs {
    /// The first flag that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            (self.concurrency.is_some(), "--concurrency"),
            (self.picker.is_some(), "--picker"),
            (self.synthesis.is_some(), "--synthesis"),
            (self.root_prompt.is_some(), "--root-prompt"),
            (self.document_prompt.is_some(), "--document-prompt"),
            (self.children_prompt.is_some(), "--children-prompt"),
            (self.picker_prompt.is_some(), "--picker-prompt"),
            (self.frontmatter_schema.is_some(), "--frontmatter-schema"),
        ];
        given.into_iter().find_map(|(is_given, flag)| is_given.then_some(flag))
    }

    /// What was given, with the texts of the files, checked. The server fills in the rest: its defaults, or its maxima
    /// where those are lower. [`SearchConfig::from_wire`] reads it with the defaults filled in.
    pub(super) fn read(&self, max_depth: Option<u32>) -> Result<pb::SearchConfig, CliError> {
        let prompt = |file: &Option<PathBuf>, flag| file.as_deref().map(|f| text(flag, f)).transpose();
        let prompts = pb::SearchPrompts {
            root: prompt(&self.root_prompt, "--root-prompt")?,
            document: prompt(&self.document_prompt, "--document-prompt")?,
            children: prompt(&self.children_prompt, "--children-prompt")?,
            picker: prompt(&self.picker_prompt, "--picker-prompt")?,
        };
        let search = pb::SearchConfig {
            concurrency: self.concurrency,
            max_depth,
            picker: self.picker.map(|policy| policy.to_wire()).unwrap_or_default(),
            prompts: (prompts != pb::SearchPrompts::default()).then_some(prompts),
            frontmatter_schema: self.frontmatter_schema.as_deref().map(schema).transpose()?.to_wire(),
            synthesis: self.synthesis,
        };
        let checked = SearchConfig::from_wire(search.clone())?.validate();
        checked.map_err(|Invalid(errors)| {
            let errors: Vec<String> = errors.iter().map(|error| self.named(error)).collect();
            CliError::Usage(errors.join("; "))
        })?;
        Ok(search)
    }

    /// The error in the words of the command line.
    fn named(&self, error: &FieldError) -> String {
        let file = |file: &Option<PathBuf>| file.as_deref().map(|f| format!(" {}", f.display()));
        let (flag, file) = match error.field.as_str() {
            "search.concurrency" => ("--concurrency", None),
            "search.max_depth" => ("--max-depth", None),
            "search.prompts.root" => ("--root-prompt", file(&self.root_prompt)),
            "search.prompts.document" => ("--document-prompt", file(&self.document_prompt)),
            "search.prompts.children" => ("--children-prompt", file(&self.children_prompt)),
            "search.prompts.picker" => ("--picker-prompt", file(&self.picker_prompt)),
            "search.frontmatter_schema" => ("--frontmatter-schema", file(&self.frontmatter_schema)),
            other => (other, None),
        };
        format!("{flag}{}: {}", file.unwrap_or_default(), error.message)
    }
}

fn text(flag: &str, file: &Path) -> Result<String, CliError> {
    let opened = File::open(file).map_err(|error| error.to_string());
    opened.and_then(|file| text_of(file, PROMPT_BYTES)).map_err(|why| wrong(flag, file, &why))
}

fn schema(file: &Path) -> Result<Map<String, Value>, CliError> {
    const FLAG: &str = "--frontmatter-schema";
    let text = text(FLAG, file)?;
    let schema = serde_json::from_str(&text)
        .map_err(|error| wrong(FLAG, file, &format!("it is not a JSON object: {error}")))?;
    Schema::new(&schema).map_err(|why| wrong(FLAG, file, &format!("it is not a JSON Schema: {why}")))?;
    Ok(schema)
}

fn wrong(flag: &str, file: &Path, why: &str) -> CliError {
    CliError::Usage(format!("{flag} {}: {why}", file.display()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        search: SearchArgs,
    }

    fn read(flags: &[&str], max_depth: Option<u32>) -> Result<pb::SearchConfig, String> {
        let program = Program::parse_from([&["x"], flags].concat());
        program.search.read(max_depth).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_given_is_left_to_the_server() {
        assert_eq!(read(&[], None), Ok(pb::SearchConfig::default()));
        let given = read(&["--concurrency", "2", "--picker", "best-first", "--synthesis"], Some(3)).unwrap();
        assert_eq!((given.concurrency, given.max_depth, given.synthesis), (Some(2), Some(3), Some(true)));
        let search = SearchConfig::from_wire(given).unwrap();
        assert_eq!(search.picker, PickerPolicy::BestFirst);
    }

    #[test]
    fn files_become_texts_and_what_is_wrong_names_flag_and_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &[u8]| {
            let file = folder.path().join(name);
            std::fs::write(&file, text).unwrap();
            file.to_str().unwrap().to_owned()
        };
        let prompt = file("prompt.md", b"Write about {{title}}.\n");
        let good = file("schema.json", br#"{"type": "object", "required": ["title"]}"#);
        let given =
            read(&["--document-prompt", &prompt, "--frontmatter-schema", &good], None).expect("good files");
        let prompts = given.prompts.unwrap();
        assert_eq!(prompts.document.as_deref(), Some("Write about {{title}}.\n"));
        assert_eq!((prompts.children, prompts.picker), (None, None));
        assert!(given.frontmatter_schema.unwrap().fields.contains_key("required"));
        for (flag, name, content, why) in [
            ("--document-prompt", "empty", &b" \n"[..], "it is empty"),
            ("--children-prompt", "long", &vec![b'x'; PROMPT_BYTES + 1][..], "larger than 65536 bytes"),
            ("--picker-prompt", "latin1", &[0xe9][..], "UTF-8"),
            ("--picker-prompt", "unknown", b"{{outlines}}", "has no value for {{outlines}}"),
            ("--root-prompt", "open", b"{% if slug %}", "cannot be read in line 1"),
            ("--frontmatter-schema", "list.json", b"[]", "it is not a JSON object"),
            ("--frontmatter-schema", "cut.json", b"{\n\"a\":", "line 2 column 4"),
            ("--frontmatter-schema", "bad.json", br#"{"type": "array"}"#, "it is not a JSON Schema"),
        ] {
            let file = file(name, content);
            let error = read(&[flag, &file], None).unwrap_err();
            assert!(error.starts_with(&format!("{flag} {file}: ")) && error.contains(why), "{error}");
        }
        let missing = read(&["--picker-prompt", "/nonexistent/prompt"], None).unwrap_err();
        assert!(missing.starts_with("--picker-prompt /nonexistent/prompt: "), "{missing}");
        let both = read(&["--concurrency", "0"], Some(65)).unwrap_err();
        assert!(both.contains("--concurrency: is 0") && both.contains("--max-depth: is 65"), "{both}");
    }
}
