//! Clients over TLS: whom they trust, and that tokens stay off plain connections.

use std::net::SocketAddr;

use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::Request;
use tonic::transport::{Identity, ServerTlsConfig};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tree_agent_runtime::channel::{ConnectArgs, ConnectError, Connector, Peers};
use tree_agent_runtime::config::Problems;
use tree_agent_runtime::credentials::Credentials;
use tree_agent_runtime::{Readiness, errors};
use tree_agent_testkit::tls::Authority;

/// A server on loopback, and a file with the authority that its certificate is from.
struct World {
    address: SocketAddr,
    folder: TempDir,
}

impl World {
    /// Its certificate is for `names`.
    async fn start(names: &[&str]) -> Self {
        tree_agent_security::install_crypto_provider();
        let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
        authority.write(folder.path());
        let server = authority.issue(names);
        let identity = Identity::from_pem(server.certificate, server.key);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = tonic::transport::Server::builder()
            .tls_config(ServerTlsConfig::new().identity(identity))
            .unwrap()
            .add_service(Readiness::new().service());
        tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
        Self { address, folder }
    }

    fn url(&self, host: &str) -> String {
        format!("https://{host}:{}", self.address.port())
    }

    /// Connects like a client that is told of the authority.
    fn connector(&self) -> Connector {
        let mut problems = Problems::default();
        let ca_file = Some(self.folder.path().join("ca.pem"));
        let connector = ConnectArgs { ca_file, allow_plaintext_token: false }.check(&mut problems);
        problems.finish().unwrap();
        connector
    }
}

async fn check(peers: Peers) -> Result<(), tonic::Status> {
    let request = Request::new(HealthCheckRequest::default());
    HealthClient::new(peers).check(request).await.map(drop)
}

#[tokio::test]
async fn a_server_of_a_trusted_authority_is_connected_to() {
    let world = World::start(&["localhost", "127.0.0.1"]).await;
    let connector = world.connector().with_credentials(Credentials::fixed("secret").unwrap());
    for host in ["localhost", "127.0.0.1"] {
        let url = world.url(host);
        check(connector.connect(&url).await.unwrap()).await.unwrap();
        check(connector.single(url.parse().unwrap())).await.unwrap();
        check(connector.balanced(&[url.parse().unwrap()])).await.unwrap();
    }
}

/// As the exporter of traces uses it.
#[tokio::test]
async fn a_connection_for_a_library_is_encrypted_and_carries_no_secret_in_clear() {
    let world = World::start(&["localhost"]).await;
    let answer = async |channel: tonic::transport::Channel| {
        let request = Request::new(HealthCheckRequest::default());
        HealthClient::new(channel).check(request).await
    };
    let url = world.url("localhost");
    answer(world.connector().lent(&url, Some("X_HEADERS")).unwrap()).await.unwrap();
    let unknown = answer(Connector::default().lent(&url, None).unwrap()).await.unwrap_err();
    assert_eq!(unknown.code(), tonic::Code::Unavailable, "{unknown}");
    let refused = Connector::default().lent("http://0.0.0.0:4317", Some("X_HEADERS")).unwrap_err();
    assert!(refused.to_string().starts_with("X_HEADERS would cross the network unencrypted"), "{refused}");
    for (url, secret) in [("http://127.0.0.1:4317", Some("X_HEADERS")), ("http://collector:4317", None)] {
        Connector::default().lent(url, secret).unwrap();
    }
    Connector::default().allow_plaintext_token().lent("http://collector:4317", Some("X_HEADERS")).unwrap();
    let error = Connector::default().lent("collector:4317", None).unwrap_err();
    assert!(matches!(error, ConnectError::Url), "{error}");
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_is_refused() {
    let world = World::start(&["localhost"]).await;
    let refused = async |connector: Connector, host: &str, reason: &str| {
        let error = connector.connect(&world.url(host)).await.unwrap_err();
        let text = errors::chain(&error);
        assert!(matches!(error, ConnectError::Transport(_)) && text.contains(reason), "{text}");
        let lazy = check(connector.single(world.url(host).parse().unwrap())).await.unwrap_err();
        assert_eq!(lazy.code(), tonic::Code::Unavailable, "{lazy}");
    };
    // The system does not know the authority, and the certificate is not for this address.
    refused(Connector::default(), "localhost", "UnknownIssuer").await;
    refused(world.connector(), "127.0.0.1", "not valid for name").await;
}

#[tokio::test]
async fn a_plain_connection_to_a_server_with_tls_fails() {
    let world = World::start(&["localhost"]).await;
    let plain = format!("http://127.0.0.1:{}", world.address.port());
    let answer = match Connector::default().connect(&plain).await {
        Ok(peers) => check(peers).await.map_err(|status| status.to_string()),
        Err(error) => Err(errors::chain(&error)),
    };
    answer.unwrap_err();
}

#[test]
fn a_file_without_certificates_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let ca_file = Some(folder.path().join("ca.pem"));
    std::fs::write(ca_file.as_ref().unwrap(), "no certificate").unwrap();
    let mut problems = Problems::default();
    ConnectArgs { ca_file, allow_plaintext_token: false }.check(&mut problems);
    let text = problems.finish().unwrap_err().to_string();
    assert!(text.contains("TREE_AGENT_CA_FILE: ") && text.contains("holds no certificate"), "{text}");
}
