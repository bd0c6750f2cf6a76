//! Postgres over TLS: only a server that a trusted authority vouches for is spoken to.

use tree_agent_store::postgres::{PoolConfig, PostgresStore};
use tree_agent_store::{Operations, StoreError};
use tree_agent_testkit::services::PrivatePostgres;
use tree_agent_testkit::tls::Authority;

async fn connect(url: &str) -> Result<(), StoreError> {
    PostgresStore::migrate(url).await?;
    PostgresStore::connect(url, PoolConfig::default()).await?.ping().await
}

/// The error and its causes.
async fn refusal(url: &str) -> String {
    let error = connect(url).await.expect_err("nothing is said to this server");
    tree_agent_contract::error::chain(&error)
}

#[tokio::test]
async fn postgres_is_verified_as_the_url_asks() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let ca = authority.write(folder.path()).display().to_string();
    let server = PrivatePostgres::start_with_tls(&authority.issue(&["127.0.0.1"])).unwrap();
    let url = server.create_database().unwrap();
    for mode in ["require", "verify-ca", "verify-full"] {
        connect(&format!("{url}?sslmode={mode}&sslrootcert={ca}")).await.unwrap();
        // The system's authorities do not know it.
        let text = refusal(&format!("{url}?sslmode={mode}")).await;
        assert!(text.contains("UnknownIssuer"), "{mode}: {text}");
    }
    for plain in ["", "?sslmode=disable", "?sslmode=allow", "?sslmode=prefer"] {
        let text = refusal(&format!("{url}{plain}")).await;
        assert!(text.contains("no encryption"), "{plain}: {text}");
    }
}

#[tokio::test]
async fn the_name_in_the_certificate_counts_unless_the_url_says_verify_ca() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let ca = authority.write(folder.path()).display().to_string();
    let server = PrivatePostgres::start_with_tls(&authority.issue(&["database.example"])).unwrap();
    let url = server.create_database().unwrap();
    connect(&format!("{url}?sslmode=verify-ca&sslrootcert={ca}")).await.unwrap();
    for mode in ["require", "verify-full"] {
        let text = refusal(&format!("{url}?sslmode={mode}&sslrootcert={ca}")).await;
        assert!(text.contains("not valid for name"), "{mode}: {text}");
    }
    let other = Authority::new();
    let ca = other.write(folder.path()).display().to_string();
    let text = refusal(&format!("{url}?sslmode=verify-ca&sslrootcert={ca}")).await;
    assert!(text.contains("invalid peer certificate"), "{text}");
}
