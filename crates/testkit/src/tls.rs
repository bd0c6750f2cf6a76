//! A certificate authority, and certificates for servers on loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate authority with a key of its own.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A server's certificate and private key, as PEM texts.
#[derive(Clone, Debug)]
pub struct ServerCertificate {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl ServerCertificate {
    /// Accepts TLS connections with this certificate and passes what they carry to `server`, for as long as the test's
    /// runtime lasts. Returns the address of loopback where it listens.
    pub async fn terminate_tls_for(&self, server: SocketAddr) -> SocketAddr {
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes()).expect("PEM");
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("PEM");
        let config = ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("the key is the certificate's");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                // A client that does not trust the certificate ends the handshake.
                tokio::spawn(async move {
                    let mut client = acceptor.accept(client).await?;
                    let mut server = TcpStream::connect(server).await?;
                    tokio::io::copy_bidirectional(&mut client, &mut server).await
                });
            }
        });
        address
    }

    /// Writes the certificate to `server.pem` and its key to `server.key` in `folder`.
    pub(crate) fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::write(folder.join("server.pem"), &self.certificate)?;
        std::fs::write(folder.join("server.key"), &self.key)
    }

    /// The settings with which Redis uses what [`write`](Self::write) has written.
    pub(crate) fn redis_settings(folder: &Path) -> Vec<String> {
        let file = |name: &str| folder.join(name).display().to_string();
        let (certificate, key) = (file("server.pem"), file("server.key"));
        let settings = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-auth-clients", "no"];
        settings.map(str::to_owned).into()
    }
}

impl Authority {
    /// An authority that nobody trusts by default.
    #[expect(clippy::new_without_default, reason = "each one is another")]
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "tree-agent test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority signs itself"))
    }

    /// The authority's own certificate, as PEM text.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Writes the authority's certificate into `folder`; the path of the file.
    pub fn write(&self, folder: &Path) -> PathBuf {
        let path = folder.join("ca.pem");
        std::fs::write(&path, self.pem()).expect("the folder can be written to");
        path
    }

    /// A certificate for a server with these host names and IP addresses.
    pub fn issue(&self, names: &[&str]) -> ServerCertificate {
        let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let params = CertificateParams::new(names).expect("names of hosts");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("the authority signs");
        ServerCertificate { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}
