//! Calls as requests of plain HTTP, by the annotations of the methods.

use http::Method;
use prost_reflect::{DescriptorPool, DynamicMessage, Value as Field};
use serde_json::Value;

/// A request.
pub struct Plain {
    pub verb: Method,
    /// With the query.
    pub path: String,
    pub body: String,
}

/// The request for a call of `method`, such as `RunService/GetRun`; none if it does not say what its path names.
pub fn plain(pool: &DescriptorPool, method: &str, request: &Value) -> Option<Plain> {
    let (service, name) = method.split_once('/').unwrap();
    let service = pool.get_service_by_name(&format!("treeagent.v1.{service}")).unwrap();
    let method = service.methods().find(|method| method.name() == name).unwrap();
    let options = method.options();
    let rule = options.get_extension(&pool.get_extension_by_name("google.api.http").unwrap());
    let rule = rule.as_message().unwrap();
    let text = |rule: &DynamicMessage, name: &str| match rule.get_field_by_name(name).as_deref() {
        Some(Field::String(text)) if !text.is_empty() => Some(text.clone()),
        _ => None,
    };
    let verbs = ["get", "put", "post", "delete", "patch"];
    let (verb, template) = verbs.into_iter().find_map(|verb| Some((verb, text(rule, verb)?))).unwrap();
    let mut fields = Vec::new();
    flat("", request, &mut fields);
    let mut path = template;
    while let Some((before, after)) = path.split_once('{') {
        let (field, after) = after.split_once('}').unwrap();
        let camel = field.split('.').map(camel).collect::<Vec<_>>().join(".");
        let at = fields.iter().position(|(name, _)| *name == camel)?;
        let value = fields.remove(at).1;
        path = format!("{before}{}{after}", encoded(&value));
    }
    let verb = Method::from_bytes(verb.to_ascii_uppercase().as_bytes()).unwrap();
    if text(rule, "body").is_some() {
        return Some(Plain { verb, path, body: request.to_string() });
    }
    let query: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    Some(Plain { verb, path: format!("{path}?{}", query.join("&")), body: String::new() })
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |all, word| all + &word[..1].to_ascii_uppercase() + &word[1..])
}

fn flat(path: &str, value: &Value, fields: &mut Vec<(String, String)>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flat(&path, value, fields);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| flat(path, value, fields)),
        Value::String(text) => fields.push((path.to_owned(), text.clone())),
        other => fields.push((path.to_owned(), other.to_string())),
    }
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte.is_ascii_alphanumeric() || byte == b'-' {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}
