//! The layer before the services.

use std::task::{Context, Poll};

use futures::future::{Either, Ready, ready};
use http::{Request, Response, header};
use tonic::Status;
use tonic::body::Body;
use tower::Service;

use super::Authenticator;

/// Lets a request through when its token is good, with the [`Caller`](super::Caller) in its extensions. Stands within
/// gRPC-web and CORS, so that browsers can read a refusal. Health is open, because probes have no tokens; whatever
/// else is served is not, reflection included.
#[derive(Clone)]
pub(crate) struct Guard<S> {
    inner: S,
    authenticator: Option<Authenticator>,
}

impl<S> Guard<S> {
    /// Without an authenticator everybody may call.
    pub(crate) const fn new(inner: S, authenticator: Option<Authenticator>) -> Self {
        Self { inner, authenticator }
    }
}

impl<S> Service<Request<Body>> for Guard<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response<Body>, S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(authenticator) = &self.authenticator
            && !request.uri().path().starts_with("/grpc.health.v1.Health/")
        {
            match authenticator.admit(request.headers()) {
                Ok(caller) => {
                    request.extensions_mut().insert(caller);
                }
                Err(refusal) => return Either::Right(ready(Ok(Status::from(refusal).into_http()))),
            }
        }
        // Nothing behind this needs it, so nothing behind this can log it.
        request.headers_mut().remove(header::AUTHORIZATION);
        Either::Left(self.inner.call(request))
    }
}
