//! Long answers to browsers are compressed, and nothing else is.

use std::io::Read;

use crate::common::Gateway;
use crate::http::framed;
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{Request, Response, header};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tree_agent_event_gateway::Config;
use tree_agent_proto::v1::*;

const WEB: &str = "application/grpc-web+proto";
const JSON: &str = "application/json";

fn coding<B>(response: &Response<B>) -> Option<&str> {
    response.headers().get(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn long_answers_to_browsers_are_compressed() {
    let gateway = Gateway::start(Config::default()).await;
    let run = gateway.create_run("long").await;
    let mut log = gateway.drive(&run).await;
    log.append(3, 300).await;
    log.finish().await;
    let id = run.run_id.clone();
    let ask = async |method: &str, kind: &str, accepted: &str, body: Bytes| {
        let request =
            Request::post("/").header(header::CONTENT_TYPE, kind).header(header::ACCEPT_ENCODING, accepted);
        gateway.send(request, &format!("/treeagent.v1.RunService/{method}"), body).await
    };
    let list = framed(&ListEventsRequest { run_id: id.clone(), page_size: 1_000, ..Default::default() });
    let json = Bytes::from(format!(r#"{{"runId":"{id}","pageSize":1000}}"#));
    for (kind, body) in [(WEB, &list), (JSON, &json)] {
        let plain = ask("ListEvents", kind, "gzip;q=0, identity", body.clone()).await;
        assert_eq!(coding(&plain), None, "{kind}");
        let packed = ask("ListEvents", kind, "gzip, deflate, br", body.clone()).await;
        assert_eq!(coding(&packed), Some("gzip"), "{kind}");
        let vary = packed.headers().get_all(header::VARY);
        assert!(vary.iter().any(|value| value.as_bytes() == b"accept-encoding"), "{packed:?}");
        assert!(packed.body().len() < plain.body().len() / 4, "{kind}: {}", packed.body().len());
        let mut read = Vec::new();
        GzDecoder::new(&packed.body()[..]).read_to_end(&mut read).unwrap();
        assert!(read == plain.body()[..], "{kind}: the answer is the same");
    }
    // A short one, an error, and streams, which would wait in the coder.
    let get = framed(&GetRunRequest { run_id: id.clone() });
    let nobody = framed(&GetRunRequest { run_id: "x".repeat(4_000) });
    let watch = framed(&WatchRunRequest { run_id: id.clone(), ..Default::default() });
    for (method, body) in [("GetRun", get), ("GetRun", nobody), ("WatchRun", watch)] {
        let plain = ask(method, WEB, "gzip", body).await;
        assert_eq!(coding(&plain), None, "{method}: {plain:?}");
    }
    // gRPC knows no compression of HTTP, whatever a client says.
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let call = Request::post(format!("http://{}/treeagent.v1.RunService/ListEvents", gateway.address))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::ACCEPT_ENCODING, "gzip")
        .body(Full::new(list))
        .unwrap();
    let grpc = client.request(call).await.unwrap();
    assert_eq!((grpc.status().as_u16(), coding(&grpc)), (200, None));
    gateway.stop().await;
}
