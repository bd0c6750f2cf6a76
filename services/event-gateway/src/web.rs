//! One port for everything: gRPC, gRPC-web and Connect go to the services, the rest to the web UI.

use std::sync::Arc;

use axum::Router;
use axum::response::{Html, IntoResponse};
use axum::routing::post;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use rust_embed::RustEmbed;
use tonic::body::Body;
use tonic::service::Routes;
use tonic_web::GrpcWebLayer;
use tower::{Layer, ServiceExt};
use tower_http::cors::{AllowOrigin, CorsLayer};
use tree_agent_mcp::{Api, Server as Tools};
use tree_agent_runtime::protocol::connect_error;
use tree_agent_runtime::server::Origins;

use crate::answers::bounded;
use crate::auth::{Admission, Guard};
use crate::compression;
use crate::connect;
use crate::gateway::Gateway;
use crate::imports::{IMPORT_FILE, admitted, explain_size};
use crate::rest::{self, openapi};
use crate::streams::{
    WATCH_DOCUMENT, WATCH_RUN, WATCH_RUNS, is_watch, watch_document, watch_run, watch_runs,
};

/// Where assistants call their tools.
const MCP: &str = "/mcp";

/// Where the API is described.
const OPENAPI: &str = "/openapi.json";

/// The built UI; empty if it was not built.
#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/../../web/dist"]
#[allow_missing = true]
struct Ui;

/// The codings in which the build of the UI writes its files, the smallest first, and the endings of their names.
const CODINGS: [(&str, &str); 2] = [("br", ".br"), ("gzip", ".gz")];

/// The file that every page of the UI begins with.
const PAGE: &str = "index.html";

/// Shown if no UI was built.
const NO_UI: &str = include_str!("no_ui.html");

/// No inline script, nothing from elsewhere. Style attributes are allowed: the graph view positions with them.
const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data: blob:; connect-src 'self'; worker-src 'self' blob:; object-src 'none'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Lets pages of the allowed origins read responses. Requests of other origins are refused earlier ([`Origins`]).
fn cors(origins: &Origins) -> CorsLayer {
    let origins = origins.clone();
    let allowed = match origins {
        Origins::Any => AllowOrigin::any(),
        origins => AllowOrigin::predicate(move |origin, _| origins.allow(origin)),
    };
    let exposed = ["grpc-status", "grpc-message", "grpc-status-details-bin", "x-request-id"];
    CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_headers(tower_http::cors::AllowHeaders::mirror_request())
        .expose_headers(exposed.map(HeaderName::from_static))
        .max_age(std::time::Duration::from_secs(3_600))
}

/// All routes: streams and generated services behind authentication, gRPC-web, Connect and CORS; the UI for other
/// requests.
pub(crate) fn router(
    routes: Routes,
    gateway: Arc<Gateway>,
    admission: Admission,
    origins: &Origins,
) -> Routes {
    let (stalls, imports) = (gateway.stalls.clone(), gateway.users.imports.clone());
    let watch = Router::new()
        .route(WATCH_RUN, post(watch_run))
        .route(WATCH_RUNS, post(watch_runs))
        .route(WATCH_DOCUMENT, post(watch_document))
        .with_state(gateway);
    let services = Routes::from(routes.into_axum_router().merge(watch)).prepare();
    let (behind, room) = (services.clone(), imports.clone());
    let grpc = tower::service_fn(move |request| admitted(room.clone(), behind.clone(), request));
    let api = Api::new(Guard::new(grpc.clone(), admission.clone()).map_err(|never| match never {}));
    let web = GrpcWebLayer::new().layer(Guard::new(grpc, admission.clone()));
    let connect = tower::service_fn(move |request| {
        let services = services.clone();
        let call = tower::service_fn(move |request| connect::call(services.clone(), request));
        admitted(imports.clone(), call, request)
    });
    let connect = Guard::new(connect, admission.clone());
    let tools = Tools::new(api).http();
    let calls = tower::service_fn(move |request: Request<Body>| {
        let (connect, web, stalls) = (connect.clone(), web.clone(), stalls.clone());
        async move {
            let path = request.uri().path();
            // So does the health of a service go on for long.
            let (is_import, is_stream) =
                (path == IMPORT_FILE, is_watch(path) || !path.starts_with("/treeagent."));
            let response = match connect::is_call(request.headers()) {
                true => connect.oneshot(request).await.map(connect::refusal),
                false => web.oneshot(request).await,
            };
            let response = if is_import { response.map(explain_size) } else { response };
            match response {
                Ok(response) if !is_stream => Ok(bounded(&stalls, response).await),
                other => other,
            }
        }
    });
    let grpc =
        cors(origins).layer(tower::service_fn(move |request| compression::call(calls.clone(), request)));
    Routes::from(Router::new().fallback(move |request: Request<axum::body::Body>| {
        let (grpc, tools, admission) = (grpc.clone(), tools.clone(), admission.clone());
        async move {
            let request = match rest::is_request(&request) {
                true => match rest::translated(request) {
                    Ok(call) => call,
                    Err(refusal) => return refusal.answer().map(axum::body::Body::new),
                },
                false => request,
            };
            if let Some(refusal) = unsupported(&request) {
                refusal
            } else if request.uri().path() == OPENAPI && request.method() == Method::GET {
                ([(header::CONTENT_TYPE, "application/json")], openapi::DOCUMENT.as_str()).into_response()
            } else if request.uri().path() == MCP {
                match admission.check(MCP, request.headers()) {
                    Ok(()) => match tools.oneshot(request).await {
                        Ok(response) => response.map(axum::body::Body::new),
                        Err(never) => match never {},
                    },
                    Err(refusal) => connect_error(&refusal.into()).map(axum::body::Body::new),
                }
            } else if is_call(&request) {
                match grpc.oneshot(request.map(Body::new)).await {
                    Ok(response) => response.map(axum::body::Body::new),
                    Err(never) => match never {},
                }
            } else {
                page::<Ui>(request.method(), request.uri().path(), request.headers())
            }
        }
    }))
}

/// Whether a request is a call (gRPC, gRPC-web, Connect) or a browser's preflight for one.
fn is_call<B>(request: &Request<B>) -> bool {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    let is_grpc = || content_type.is_some_and(|t| t.as_bytes().starts_with(b"application/grpc"));
    match *request.method() {
        Method::POST => is_grpc() || connect::is_call(request.headers()),
        Method::OPTIONS => request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD),
        _ => false,
    }
}

/// Whether a path is one of the API, and not one of the UI.
fn names_a_method(path: &str) -> bool {
    ["/treeagent.", "/grpc."].iter().any(|package| path.starts_with(package))
}

/// The answer to a call with a content type that is not spoken here.
fn unsupported<B>(request: &Request<B>) -> Option<Response<axum::body::Body>> {
    const SPOKEN: &str = "supported are application/grpc and application/grpc+proto over HTTP/2, application/grpc-web \
        and application/grpc-web-text, with or without +proto, and for calls that are not streams application/json and \
        application/proto (Connect)";
    let content_type = request.headers().get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let is_spoken = match content_type {
        b"application/grpc" | b"application/grpc+proto" => request.version() == Version::HTTP_2,
        b"application/grpc-web"
        | b"application/grpc-web+proto"
        | b"application/grpc-web-text"
        | b"application/grpc-web-text+proto" => true,
        _ => connect::is_call(request.headers()),
    };
    if is_spoken || request.method() != Method::POST || !names_a_method(request.uri().path()) {
        return None;
    }
    let (content_type, version) = (String::from_utf8_lossy(content_type), request.version());
    let text = format!("the content type {content_type:?} is not supported over {version:?}; {SPOKEN}\n");
    let headers = [(header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    Some((StatusCode::UNSUPPORTED_MEDIA_TYPE, headers, text).into_response())
}

/// Whether this program contains the web UI.
pub fn has_ui() -> bool {
    Ui::get(PAGE).is_some()
}

/// The name of the embedded file for a path; `None` if the path cannot name one. Names are plain: a path with an empty
/// or hidden segment (such as `..`), a backslash, an encoded or any other unusual character is refused before any
/// lookup.
fn file_name(path: &str) -> Option<&str> {
    let name = path.strip_prefix('/')?;
    let plain = |segment: &str| {
        !segment.is_empty()
            && !segment.starts_with('.')
            && segment.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    // The path of a page may end with a slash.
    let segments = name.strip_suffix('/').unwrap_or(name);
    if !name.is_empty() && !segments.split('/').all(plain) {
        return None;
    }
    let is_page = matches!(name.split('/').next(), Some("" | "runs" | "projects" | "compare"));
    Some(if is_page { PAGE } else { name })
}

/// Whether a person asks, with a browser.
fn wants_page(headers: &HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"))
}

/// Whether a client takes a coding: it names it, or any, and not with a weight of zero.
fn takes(headers: &HeaderMap, coding: &str) -> bool {
    let accepted =
        headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let weight = |name: &str| {
        accepted.split(',').find_map(|one| {
            let (named, weight) = one.split_once(';').unwrap_or((one, "q=1"));
            named.trim().eq_ignore_ascii_case(name).then(|| weight.trim().trim_start_matches(['q', 'Q', '=']))
        })
    };
    // A weight has at most three digits after its point.
    weight(coding)
        .or_else(|| weight("*"))
        .is_some_and(|weight| !matches!(weight, "0" | "0.0" | "0.00" | "0.000"))
}

/// The file with this name, in the smallest form that the client takes, or 304 if the client has that form.
fn file<Files: RustEmbed>(name: &str, headers: &HeaderMap) -> Option<Response<axum::body::Body>> {
    let plain = Files::get(name)?;
    let kind = plain.metadata.mimetype().to_owned();
    let coded = CODINGS
        .into_iter()
        .filter(|(coding, _)| takes(headers, coding))
        .find_map(|(coding, ending)| Some((Some(coding), Files::get(&format!("{name}{ending}"))?)));
    let (coding, file) = coded.unwrap_or((None, plain));
    // The hash of what is sent, so each form has a tag of its own.
    let hash: String = file.metadata.sha256_hash()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("\"{hash}\"");
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut response = if known.split(',').any(|one| one.trim().trim_start_matches("W/") == tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let coding = coding.map(|coding| [(header::CONTENT_ENCODING, coding)]);
        (coding, [(header::CONTENT_TYPE, kind)], file.data).into_response()
    };
    // Names of bundles contain a hash, so they never change; other files are revalidated.
    let cache = if name.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    response.headers_mut().extend([
        (header::CACHE_CONTROL, HeaderValue::from_static(cache)),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
        (header::ETAG, HeaderValue::try_from(tag).expect("hexadecimal digits are a header value")),
    ]);
    Some(response)
}

/// A file of the UI. Paths without a file name are the UI's own and get its page.
fn page<Files: RustEmbed>(method: &Method, path: &str, headers: &HeaderMap) -> Response<axum::body::Body> {
    let refused = if names_a_method(path) {
        Some(("POST", "this path answers POST: it is a call (gRPC, gRPC-web or Connect)\n"))
    } else if method != Method::GET && method != Method::HEAD {
        Some(("GET, HEAD", "this path answers GET; calls are gRPC, gRPC-web or Connect\n"))
    } else {
        None
    };
    let name = file_name(path);
    let mut response = if let Some((allowed, text)) = refused {
        (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, allowed)], text).into_response()
    } else if let Some(response) = name.and_then(|name| file::<Files>(name, headers)) {
        response
    } else if name == Some(PAGE) {
        Html(NO_UI).into_response()
    } else if wants_page(headers)
        && let Some(mut page) = file::<Files>(PAGE, headers)
    {
        // The UI says that there is nothing, with a way home.
        if page.status() == StatusCode::OK {
            *page.status_mut() = StatusCode::NOT_FOUND;
        }
        page
    } else {
        (StatusCode::NOT_FOUND, "there is no such file\n").into_response()
    };
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    /// A UI of one file, in words that name its forms.
    #[derive(RustEmbed)]
    #[folder = "$CARGO_MANIFEST_DIR/tests/ui"]
    struct OneFile;

    #[test]
    fn an_address_that_leads_nowhere_is_a_page_for_people_only() {
        for (accept, kind) in [("text/html,*/*;q=0.8", "text/html"), ("*/*", "text/plain; charset=utf-8")] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]);
            let response = page::<OneFile>(&Method::GET, "/nowhere", &headers);
            assert_eq!(response.status(), StatusCode::NOT_FOUND, "{accept}");
            let found = response.headers()[header::CONTENT_TYPE].to_str().unwrap();
            assert!(found.starts_with(kind), "{accept}: {found}");
        }
    }

    #[tokio::test]
    async fn a_file_is_sent_in_the_smallest_form_that_the_client_takes() {
        let get = async |accepted: &str, known: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, accepted.parse().unwrap());
            headers.insert(header::IF_NONE_MATCH, known.parse().unwrap());
            let (parts, body) = page::<OneFile>(&Method::GET, "/assets/a.js", &headers).into_parts();
            let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
            let text = |name| parts.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
            assert_eq!(text(header::VARY), "accept-encoding", "{accepted}");
            assert!(text(header::CACHE_CONTROL).contains("immutable"), "{accepted}");
            (
                parts.status.as_u16(),
                text(header::CONTENT_ENCODING),
                text(header::CONTENT_TYPE),
                body,
                text(header::ETAG),
            )
        };
        let mut tags = Vec::new();
        for (accepted, coding, text) in [
            ("gzip, deflate, br, zstd", "br", "in Brotli\n"),
            ("GZIP;q=1.0, br;q=0", "gzip", "in gzip\n"),
            ("*, br;q=0.000", "gzip", "in gzip\n"),
            ("br;q=0.5", "br", "in Brotli\n"),
            ("", "", "as it is\n"),
            ("deflate, *;q=0", "", "as it is\n"),
        ] {
            let (status, encoding, kind, body, tag) = get(accepted, "\"another\"").await;
            assert_eq!(
                (status, &*encoding, &*kind, &*body),
                (200, coding, "text/javascript", text),
                "{accepted}"
            );
            let (status, _, _, body, again) = get(accepted, &format!("\"x\", W/{tag}")).await;
            assert_eq!((status, &*body, &again), (304, "", &tag), "{accepted}");
            tags.push(tag);
        }
        tags.sort();
        tags.dedup();
        assert_eq!(tags.len(), 3, "each form has its tag: {tags:?}");
    }

    #[test]
    fn only_plain_names_are_looked_up() {
        let pages = ["/", "/index.html", "/runs", "/runs/", "/projects", "/projects/", "/compare"];
        let ids = ["/runs", "/projects"].map(|of| format!("{of}/0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b"));
        for page in pages.into_iter().chain(ids.iter().map(String::as_str)) {
            assert_eq!(file_name(page), Some(PAGE), "{page}");
        }
        assert_eq!(file_name("/assets/index-B2_x.js"), Some("assets/index-B2_x.js"));
        for bad in [
            "",
            "*",
            "//",
            "/..",
            "/../x",
            "/assets/../x",
            "/runs/../../x",
            "/.env",
            "/assets//x",
            "/a\\..\\x",
            "/%2e%2e/x",
            "/%2e%2e%2fx",
            "/..%5cx",
            "/a%00",
            "/a\0",
            "/a;b",
            "/ü",
        ] {
            assert_eq!(file_name(bad), None, "{bad:?}");
        }
    }
}
