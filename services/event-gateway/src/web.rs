//! One port for everything: gRPC and gRPC-web go to the services, the rest to the web UI.

use std::str::FromStr;
use std::sync::Arc;

use axum::Router;
use axum::response::{Html, IntoResponse};
use axum::routing::post;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use tonic::body::Body;
use tonic::service::Routes;
use tonic_web::GrpcWebLayer;
use tower::{Layer, ServiceExt};
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::auth::{Authenticator, Guard};
use crate::gateway::Gateway;
use crate::watch::service::{WATCH_DOCUMENT, WATCH_RUN, watch_document, watch_run};

/// The built UI; empty when it was not built.
#[derive(rust_embed::RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/../../web/dist"]
#[allow_missing = true]
struct Ui;

/// Shown when no UI was built.
const NO_UI: &str = include_str!("no_ui.html");

/// No inline script, nothing from elsewhere. Style attributes are allowed: the graph view positions with them.
const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data: blob:; connect-src 'self'; worker-src 'self' blob:; object-src 'none'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Which web pages, beside our own, may call from a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origins {
    /// Pages served from this machine's loopback addresses: a UI under development.
    Loopback,
    /// These origins, such as `https://example.org`.
    These(Vec<HeaderValue>),
    /// Every page.
    Any,
}

impl FromStr for Origins {
    type Err = String;

    /// `loopback`, `*`, or origins separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "loopback" => Ok(Self::Loopback),
            "*" => Ok(Self::Any),
            list => list.split(',').map(str::trim).map(origin).collect::<Result<_, _>>().map(Self::These),
        }
    }
}

fn origin(text: &str) -> Result<HeaderValue, String> {
    let uri = text.parse::<Uri>().ok();
    let good = uri.is_some_and(|u| {
        u.scheme().is_some() && u.host().is_some() && u.path() == "/" && u.query().is_none()
    });
    match HeaderValue::from_str(text) {
        Ok(value) if good && !text.ends_with('/') => Ok(value),
        _ => Err(format!("{text:?} is no origin such as https://example.org")),
    }
}

impl Origins {
    fn layer(&self) -> CorsLayer {
        let allowed = match self {
            Self::Any => AllowOrigin::any(),
            Self::These(list) => AllowOrigin::list(list.clone()),
            Self::Loopback => AllowOrigin::predicate(|origin, _| is_loopback(origin)),
        };
        let exposed = ["grpc-status", "grpc-message", "grpc-status-details-bin", "x-request-id"];
        CorsLayer::new()
            .allow_origin(allowed)
            .allow_methods([Method::POST])
            .allow_headers(tower_http::cors::AllowHeaders::mirror_request())
            .expose_headers(exposed.map(HeaderName::from_static))
            .max_age(std::time::Duration::from_secs(3_600))
    }
}

fn is_loopback(origin: &HeaderValue) -> bool {
    let host =
        origin.to_str().ok().and_then(|o| o.parse::<Uri>().ok()).and_then(|u| u.host().map(str::to_owned));
    host.is_some_and(|h| {
        h == "localhost" || h == "[::1]" || h.starts_with("127.") && h.parse::<std::net::Ipv4Addr>().is_ok()
    })
}

/// Puts `WatchRun` and `WatchDocument` before the generated routes, the guard, gRPC-web and CORS round them, and the UI
/// beside them.
pub(crate) fn door(
    routes: Routes,
    gateway: Arc<Gateway>,
    authenticator: Option<Authenticator>,
    origins: &Origins,
) -> Routes {
    let watch = Router::new()
        .route(WATCH_RUN, post(watch_run))
        .route(WATCH_DOCUMENT, post(watch_document))
        .with_state(gateway);
    let services = Routes::from(routes.into_axum_router().merge(watch)).prepare();
    let guarded = Guard::new(services, authenticator);
    let grpc = origins.layer().layer(GrpcWebLayer::new().layer(guarded));
    Routes::from(Router::new().fallback(move |request: Request<axum::body::Body>| {
        let grpc = grpc.clone();
        async move {
            if is_call(&request) {
                match grpc.oneshot(request.map(Body::new)).await {
                    Ok(response) => response.map(axum::body::Body::new),
                    Err(never) => match never {},
                }
            } else {
                page(request.method(), request.uri().path())
            }
        }
    }))
}

/// True for gRPC, gRPC-web and the question that browsers ask before it.
fn is_call<B>(request: &Request<B>) -> bool {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    content_type.is_some_and(|t| t.as_bytes().starts_with(b"application/grpc"))
        || (request.method() == Method::OPTIONS
            && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD))
}

/// A file of the UI. Paths without a file name are the UI's own and get its page.
fn page(method: &Method, path: &str) -> Response<axum::body::Body> {
    if method != Method::GET && method != Method::HEAD {
        let text = "this path answers GET; calls are gRPC or gRPC-web\n";
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET, HEAD")], text).into_response();
    }
    let name = path.trim_start_matches('/');
    let is_page = name.is_empty() || name == "runs" || name.starts_with("runs/");
    let mut response = if let Some(file) = Ui::get(if is_page { "index.html" } else { name }) {
        // Bundles carry a hash in their names; everything else is asked for again.
        let cache =
            if name.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
        let kind = file.metadata.mimetype().to_owned();
        ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, cache.to_owned())], file.data.into_owned())
            .into_response()
    } else if is_page {
        Html(NO_UI).into_response()
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
    use super::*;

    #[test]
    fn loopback_pages_may_call_and_others_may_not() {
        for good in ["http://localhost:5173", "http://127.0.0.1:1", "http://[::1]:80"] {
            assert!(is_loopback(&HeaderValue::from_static(good)), "{good}");
        }
        for bad in
            ["http://example.org", "http://localhost.example.org", "http://127.0.0.1.example.org", "null"]
        {
            assert!(!is_loopback(&HeaderValue::from_static(bad)), "{bad}");
        }
    }

    #[test]
    fn origins_are_checked() {
        assert_eq!("loopback".parse(), Ok(Origins::Loopback));
        assert_eq!("*".parse(), Ok(Origins::Any));
        let two = Origins::These(vec![
            HeaderValue::from_static("https://a.b"),
            HeaderValue::from_static("http://c:1"),
        ]);
        assert_eq!("https://a.b, http://c:1".parse(), Ok(two));
        for bad in ["a.b", "https://a/", "https://a/x", ""] {
            assert!(bad.parse::<Origins>().is_err(), "{bad}");
        }
    }
}
