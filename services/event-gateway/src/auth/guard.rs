//! The layer before the services.

use std::task::{Context, Poll};

use futures::future::{Either, Ready, ready};
use http::{HeaderMap, Request, Response, header};
use tonic::Status;
use tonic::body::Body;
use tower::Service;
use tree_agent_contract::RunId;
use tree_agent_runtime::role_token::{RUN_ID, RoleToken};

use super::caller::Caller;
use super::refusal::Refusal;
use super::rules;
use super::verify::Authenticator;

/// What callers may show.
#[derive(Clone, Debug, Default)]
pub(crate) struct Admission {
    /// Checks the tokens of users. Without it everybody may call.
    pub(crate) authenticator: Option<Authenticator>,
    /// The token of roles. Without it no role may call.
    pub(crate) role_token: Option<RoleToken>,
}

impl Admission {
    /// Who calls the method at `path`. Nobody in particular if there are no users' tokens.
    fn admit(&self, path: &str, headers: &HeaderMap) -> Result<Option<Caller>, Refusal> {
        // With or without users' tokens: what a role may see follows from its run.
        if let Some(run) = self.run_of_role(headers) {
            let run = run.ok_or(Refusal::NoRun)?;
            return if rules::roles_may_call(path) {
                Ok(Some(Caller::role(run)))
            } else {
                Err(Refusal::Role)
            };
        }
        // A role with another token is no user, also where users need none.
        if headers.contains_key(RUN_ID) {
            return Err(Refusal::RoleToken);
        }
        self.authenticator.as_ref().map(|authenticator| authenticator.admit(headers)).transpose()
    }

    /// The run for which a role calls, if it names one; none if the caller is no role.
    fn run_of_role(&self, headers: &HeaderMap) -> Option<Option<RunId>> {
        let token = self.role_token.as_ref()?;
        let is_role = headers.get(header::AUTHORIZATION).is_some_and(|value| token.is_in(value));
        is_role.then(|| headers.get(RUN_ID).and_then(|run| run.to_str().ok()?.parse().ok()))
    }
}

/// Passes a request on if its token is valid, with the [`Caller`] in its extensions. Stands within gRPC-web and CORS,
/// so that browsers can read a refusal. Health is open, because probes have no tokens. Everything else is guarded,
/// reflection included.
#[derive(Clone)]
pub(crate) struct Guard<S> {
    inner: S,
    admission: Admission,
}

impl<S> Guard<S> {
    /// Guards `inner`.
    pub(crate) const fn new(inner: S, admission: Admission) -> Self {
        Self { inner, admission }
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
        let path = request.uri().path();
        if !path.starts_with("/grpc.health.v1.Health/") {
            match self.admission.admit(path, request.headers()) {
                Ok(Some(caller)) => {
                    request.extensions_mut().insert(caller);
                }
                Ok(None) => {}
                Err(refusal) => return Either::Right(ready(Ok(Status::from(refusal).into_http()))),
            }
        }
        // Nothing behind this needs it, so nothing behind this can log it.
        request.headers_mut().remove(header::AUTHORIZATION);
        Either::Left(self.inner.call(request))
    }
}
