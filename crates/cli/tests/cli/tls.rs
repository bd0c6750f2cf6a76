//! The command line against a server with TLS, and the token that it keeps off plain connections.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::fake::{Fake, log, run_id};
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tree_agent_contract::RunStatus;
use tree_agent_testkit::tls::Authority;

/// Runs the program to its end, with a token.
async fn tree_agent(server: &str, ca_file: Option<&Path>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tree-agent"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TREE_AGENT_") {
            command.env_remove(name);
        }
    }
    command.args(["events", &run_id().to_string(), "-o", "jsonl", "--server", server]);
    command.env("TREE_AGENT_TOKEN", "a-token");
    if let Some(file) = ca_file {
        command.arg("--ca-file").arg(file);
    }
    tokio::task::spawn_blocking(move || command.output().expect("the program starts")).await.unwrap()
}

/// A server on loopback with TLS.
async fn serve(authority: &Authority) -> SocketAddr {
    tree_agent_security::install_crypto_provider();
    let certificate = authority.issue(&["localhost"]);
    let identity = Identity::from_pem(certificate.certificate, certificate.key);
    let server = Server::builder().tls_config(ServerTlsConfig::new().identity(identity)).unwrap();
    let (fake, _) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    fake.listen(server).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_spoken_to_over_tls_when_a_trusted_authority_vouches_for_it() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let url = format!("https://localhost:{}", serve(&authority).await.port());
    let ca = authority.write(folder.path());
    let output = tree_agent(&url, Some(&ca)).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(!output.stdout.is_empty());

    let output = tree_agent(&url, None).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("UnknownIssuer"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_not_sent_over_plain_http_to_another_machine() {
    // An address for documentation (RFC 5737). Nothing is sent there.
    let output = tree_agent("http://192.0.2.1:7400", None).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("unencrypted to 192.0.2.1") && said.contains("--allow-plaintext-token"), "{said}");
}
