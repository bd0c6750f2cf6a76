//! A certificate authority, and certificates for servers on loopback.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};

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
