//! The layer before the services.

use std::task::{Context, Poll};

use futures::future::{Either, Ready, ready};
use http::{HeaderMap, Request, Response, header};
use tonic::Status;
use tonic::body::Body;
use tower::Service;
use tree_agent_contract::RunId;
use tree_agent_proto::rights;
use tree_agent_runtime::role_token::{RUN_ID, RoleToken};

use super::caller::Caller;
use super::refusal::Refusal;
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
    /// Who calls the method at `path`.
    fn admit(&self, path: &str, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let rule = rights::rule(path);
        // With or without users' tokens: what a role may see follows from its run.
        if let Some(run) = self.run_of_role(headers) {
            let run = run.ok_or(Refusal::NoRun)?;
            if !rule.is_some_and(|rule| rule.roles) {
                return Err(Refusal::Role);
            }
            let administrator = self.authenticator.is_none();
            return Ok(Caller { works_for: Some(run), administrator, ..Caller::default() }.calling(rule));
        }
        // A role with another token is no user, also where users need none.
        if headers.contains_key(RUN_ID) {
            return Err(Refusal::RoleToken);
        }
        let caller = match &self.authenticator {
            Some(authenticator) => authenticator.admit(headers)?,
            None => Caller::anybody(),
        };
        Ok(caller.calling(rule))
    }

    /// Whether somebody may call at all what is at `path`.
    pub(crate) fn check(&self, path: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        self.admit(path, headers).map(drop)
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
