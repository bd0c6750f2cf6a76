//! Long answers to browsers are compressed as HTTP does it, which a browser undoes by itself.
//!
//! gRPC has its own compression, and its clients know no other. A stream is never compressed: its messages would wait
//! in the coder.

use std::convert::Infallible;

use futures::{StreamExt, stream};
use http::{Extensions, HeaderMap, Request, Response, StatusCode, Version, header};
use http_body_util::{BodyExt, BodyStream, StreamBody};
use tonic::body::Body;
use tower::{Layer, Service, ServiceExt};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

use crate::connect;
use crate::streams::is_watch;

/// Shorter messages are not worth it.
const LEAST: usize = 1_024;
/// For the log of a large run, level 6 would save 5 % of the bytes and take a quarter more time.
const LEVEL: CompressionLevel = CompressionLevel::Precise(4);

/// Marks an answer whose message is long.
#[derive(Clone)]
struct IsLong;

/// Answers `request` by `calls`, compressed if that is worth it and the client takes it.
pub(crate) async fn call<S>(calls: S, request: Request<Body>) -> Result<Response<Body>, Infallible>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone,
{
    if !is_unary_of_browser(&request) {
        return calls.oneshot(request).await;
    }
    let marked = tower::service_fn(async |request| Ok(mark(calls.clone().oneshot(request).await?).await));
    let is_long = |_: StatusCode, _: Version, _: &HeaderMap, of: &Extensions| of.get::<IsLong>().is_some();
    let layer = CompressionLayer::new().quality(LEVEL).compress_when(is_long);
    layer.layer(marked).oneshot(request).await.map(|response| response.map(Body::new))
}

/// Whether a request calls a method of the API that is not a stream, in gRPC-web or Connect.
fn is_unary_of_browser(request: &Request<Body>) -> bool {
    let (path, headers) = (request.uri().path(), request.headers());
    let is_web = headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc-web"));
    path.starts_with("/treeagent.v1.") && !is_watch(path) && (is_web || connect::is_call(headers))
}

/// Marks the answer if it is long. It begins with its message, whole.
async fn mark(response: Response<Body>) -> Response<Body> {
    let (mut parts, mut body) = response.into_parts();
    let Some(first) = body.frame().await else { return Response::from_parts(parts, body) };
    if first.as_ref().is_ok_and(|first| first.data_ref().is_some_and(|data| data.len() >= LEAST)) {
        parts.extensions.insert(IsLong);
    }
    let body = StreamBody::new(stream::iter([first]).chain(BodyStream::new(body)));
    Response::from_parts(parts, Body::new(body))
}
