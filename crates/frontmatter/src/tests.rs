use proptest::prelude::*;
use serde_json::json;

use super::*;

fn schema(schema: Value) -> Schema {
    Schema::new(schema.as_object().expect("an object")).expect("a schema")
}

#[test]
fn a_document_is_split_into_fields_and_body() {
    let document = parse(
        "---\ntitle: Tide tables\ntags: [harbour, time]\nyear: 2026\nnext: null\n---\n\n# Tides\n---\n",
    )
    .unwrap();
    assert_eq!(
        Value::from(document.fields),
        json!({"title": "Tide tables", "tags": ["harbour", "time"], "year": 2026, "next": null})
    );
    assert_eq!(document.body, "\n# Tides\n---\n");
    for empty in ["---\n---\nx", "\u{feff}---\r\n---\r\nx", "---  \n# nothing\n\n...\nx"] {
        let document = parse(empty).unwrap();
        assert!(document.fields.is_empty() && document.body == "x", "{empty:?}");
    }
    assert_eq!(parse("---\na: 1\n---").unwrap().body, "");
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (document, expected) in [
        ("", "must begin with its frontmatter"),
        ("# Tides\n", "must begin with its frontmatter"),
        ("----\n", "must begin with its frontmatter"),
        ("---\ntitle: x\n# Tides\n", "has no end"),
        ("---\n- a\n- b\n---\n", "must be a mapping"),
        ("---\nplain\n---\n", "must be a mapping"),
        ("---\ntitle: [a\n---\n", "cannot be read in line"),
        ("---\ntitle: a: b\n---\n", "cannot be read in line 2, column"),
        ("---\na: 1\na: 2\n---\n", "cannot be read in line 3, column"),
        ("---\na: &x 1\nb: *x\n---\n", "cannot be read"),
    ] {
        let error = parse(document).unwrap_err();
        assert!(error.contains(expected), "{document:?}: {error}");
    }
}

#[test]
fn a_colon_without_quotes_can_be_mended() {
    let mended =
        quoted("---\ntitle: Tides\nsummary: Depth: 12 m, \"safe\": yes\ntags: [a: b]\n---\n\n# A: b\n")
            .unwrap();
    assert_eq!(
        mended,
        "---\ntitle: Tides\nsummary: \"Depth: 12 m, \\\"safe\\\": yes\"\ntags: [a: b]\n---\n\n# A: b\n"
    );
    assert_eq!(parse(&mended).unwrap().fields["summary"], "Depth: 12 m, \"safe\": yes");
    for whole in ["---\ntitle: \"a: b\"\n---\nx: y: z", "no frontmatter: at: all", "---\ntitle: x\n---\n"] {
        assert_eq!(quoted(whole), None, "{whole}");
    }
}

#[test]
fn what_costs_more_than_its_size_is_refused() {
    let deep = format!("---\na: {}{}\n---\n", "[".repeat(5_000), "]".repeat(5_000));
    let long = format!("---\na: {}\n---\n", "x".repeat(FRONTMATTER_BYTES));
    let laughs = "---\na: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n---\n".to_owned();
    for document in [deep, long, laughs] {
        let error = parse(&document).unwrap_err();
        assert!(error.len() < 500, "{error}");
    }
}

#[test]
fn fields_are_checked_against_the_schema() {
    let schema = schema(json!({
        "type": "object",
        "required": ["title", "tags"],
        "properties": {
            "title": {"type": "string", "maxLength": 20},
            "tags": {"type": "array", "items": {"type": "string"}},
            "level": {"enum": ["basic", "advanced"]},
        },
        "additionalProperties": false,
    }));
    let errors = |yaml: &str| schema.errors(&parse(&format!("---\n{yaml}\n---\n")).unwrap().fields);
    assert_eq!(errors("title: x\ntags: []"), [""; 0]);
    assert_eq!(errors("title: x"), ["the frontmatter: \"tags\" is a required property"]);
    let several = errors("title: 7\ntags: [a, 1]\nlevel: odd\nmore: 1");
    assert_eq!(several.len(), 4, "{several:?}");
    assert!(several.iter().any(|e| e.starts_with("`tags.1`: 1 is not of type \"string\"")), "{several:?}");
    let long = errors(&format!("title: {}\ntags: []", "x".repeat(10_000)));
    assert!(long[0].len() < 500, "{long:?}");
}

#[test]
fn schemas_that_cannot_be_used_are_refused() {
    for (bad, expected) in [
        (json!({"type": "string"}), "its type cannot be"),
        (json!({"properties": {"a": {"type": "nonsense"}}}), "nonsense"),
        (json!({"properties": {"a": {"pattern": "("}}}), "pattern"),
        (json!({"$ref": "https://example.org/x"}), "example.org"),
    ] {
        let error = Schema::new(bad.as_object().unwrap()).unwrap_err();
        assert!(error.contains(expected), "{bad}: {error}");
    }
    Schema::new(&Map::new()).expect("anything goes");
}

#[test]
fn a_pattern_that_explodes_is_an_error_and_no_stall() {
    let schema = schema(json!({"properties": {"a": {"pattern": "^(?=(a+)+$)(a|a)*b$"}}}));
    let fields = json!({ "a": "a".repeat(60) });
    assert_eq!(schema.errors(fields.as_object().unwrap()).len(), 1);
}

#[test]
fn what_is_written_is_readable() {
    let text = write([("title", json!("a: b")), ("odd key", json!(["x", null]))], "\n# A\n");
    assert_eq!(text, "---\ntitle: \"a: b\"\n\"odd key\": [\"x\",null]\n---\n\n# A\n");
}

proptest! {
    #[test]
    fn nothing_breaks_the_reader(text in ".{0,200}", yaml in "[-a: \\[\\]{}&*!|>'\"#%@`,\n0-9]{0,120}") {
        let _ = parse(&text);
        let _ = parse(&format!("---\n{yaml}\n---\n"));
    }

    #[test]
    fn any_text_is_written_and_read_back(
        title in any::<String>(),
        list in proptest::collection::vec(any::<String>(), 0..3),
    ) {
        let fields = json!({"title": title, "list": list});
        let text = write([("title", fields["title"].clone()), ("list", fields["list"].clone())], "body");
        let read = parse(&text).map_err(TestCaseError::fail)?;
        prop_assert_eq!(Value::from(read.fields), fields);
        prop_assert_eq!(read.body, "\nbody");
    }
}
