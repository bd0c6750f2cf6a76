//! Methods that moved to another package still answer at the path that they had in the release before.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::response::IntoResponse;
use http::uri::PathAndQuery;
use http::{Request, Uri};
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::Routes;
use tower::Service;

/// Adds `service` under its own name, and its methods at the paths in `former`, such as `/old.v1.Service/Method`. The
/// method keeps its name.
pub(crate) fn add<S>(mut routes: Routes, service: S, former: &[&'static str]) -> Routes
where
    S: Service<Request<Body>, Error = Infallible> + NamedService + Clone + Send + Sync + 'static,
    S::Response: IntoResponse,
    S::Future: Send + 'static,
{
    for path in former {
        let method = path.rsplit('/').next().unwrap_or_default();
        let current = PathAndQuery::try_from(format!("/{}/{method}", S::NAME))
            .expect("the names of a service and its method make a path");
        let router = std::mem::take(routes.axum_router_mut());
        *routes.axum_router_mut() =
            router.route_service(path, FormerPath { inner: service.clone(), current });
    }
    routes.add_service(service)
}

/// Hands every request on as one for the current path.
#[derive(Clone)]
struct FormerPath<S> {
    inner: S,
    current: PathAndQuery,
}

impl<S> Service<Request<axum::body::Body>> for FormerPath<S>
where
    S: Service<Request<Body>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<axum::body::Body>) -> S::Future {
        *request.uri_mut() = Uri::from(self.current.clone());
        self.inner.call(request.map(Body::new))
    }
}
