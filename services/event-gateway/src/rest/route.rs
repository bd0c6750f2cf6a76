//! The paths of the API, from the annotations of its methods.

use std::sync::LazyLock;

use http::Method;
use prost_reflect::{DynamicMessage, MethodDescriptor, Value};

use crate::connect::{DESCRIPTORS, PACKAGE};

/// A path and the method behind it.
pub(super) struct Route {
    pub(super) verb: Method,
    /// As it is annotated, such as `/v1/runs/{run_id}:pause`.
    pub(super) template: String,
    segments: Vec<Segment>,
    /// What stands behind the last colon.
    suffix: Option<String>,
    /// The request's message is the body, but for what the path says.
    pub(super) takes_body: bool,
    pub(super) method: MethodDescriptor,
}

enum Segment {
    Literal(String),
    Field(String),
}

/// All of them, in the order of the methods.
pub(super) static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let methods = DESCRIPTORS.services().filter(|service| service.full_name().starts_with(PACKAGE));
    methods
        .flat_map(|service| service.methods().filter_map(|method| Route::of(&method)).collect::<Vec<_>>())
        .collect()
});

impl Route {
    /// That of a method; none if the method has no annotation.
    fn of(method: &MethodDescriptor) -> Option<Self> {
        let annotation = DESCRIPTORS.get_extension_by_name("google.api.http")?;
        let options = method.options();
        let rule = options.get_extension(&annotation);
        let rule = rule.as_message()?;
        let verbs = [
            ("get", Method::GET),
            ("put", Method::PUT),
            ("post", Method::POST),
            ("delete", Method::DELETE),
            ("patch", Method::PATCH),
        ];
        let text = |rule: &DynamicMessage, name: &str| {
            rule.has_field_by_name(name).then(|| rule.get_field_by_name(name)?.as_str().map(str::to_owned))?
        };
        let (verb, template) = verbs.into_iter().find_map(|(name, verb)| Some((verb, text(rule, name)?)))?;
        let takes_body =
            rule.get_field_by_name("body").is_some_and(|body| *body == Value::String("*".into()));
        let (path, suffix) = match template.rsplit_once(':') {
            Some((path, suffix)) => (path, Some(suffix.to_owned())),
            None => (&*template, None),
        };
        let segments = path.trim_start_matches('/').split('/').map(|segment| {
            match segment.strip_prefix('{').and_then(|field| field.strip_suffix('}')) {
                Some(field) => Segment::Field(field.to_owned()),
                None => Segment::Literal(segment.to_owned()),
            }
        });
        Some(Self {
            verb,
            segments: segments.collect(),
            suffix,
            takes_body,
            method: method.clone(),
            template,
        })
    }

    /// How many segments are fixed.
    pub(super) fn literals(&self) -> usize {
        self.segments.iter().filter(|segment| matches!(segment, Segment::Literal(_))).count()
    }

    /// The fields that the path names, in order.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Field(name) => Some(&**name),
            Segment::Literal(_) => None,
        })
    }

    /// The fields and their values in `path`, encoded; none if it is another path.
    pub(super) fn values<'a>(&'a self, path: &'a str) -> Option<Vec<(&'a str, &'a str)>> {
        let path = match &self.suffix {
            Some(suffix) => path.strip_suffix(&**suffix)?.strip_suffix(':')?,
            None => path,
        };
        let mut given = path.trim_start_matches('/').split('/');
        let mut values = Vec::new();
        for segment in &self.segments {
            match (segment, given.next()?) {
                (Segment::Literal(literal), part) if literal == part => {}
                (Segment::Field(name), part) if !part.is_empty() && !part.contains(':') => {
                    values.push((&**name, part))
                }
                _ => return None,
            }
        }
        given.next().is_none().then_some(values)
    }
}
