//! The certificate authorities that our TLS clients trust.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{ClientConfig, RootCertStore};

/// The authorities to trust: the system's by default, or those of a file. Cheap to clone.
#[derive(Clone, Default)]
pub struct Roots(Option<Arc<File>>);

struct File {
    path: PathBuf,
    pem: Vec<u8>,
    store: Arc<RootCertStore>,
}

/// Why a file of certificate authorities cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// The file cannot be read.
    #[error("{} cannot be read", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not PEM.
    #[error("{} is not a PEM file with certificates", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: pem::Error,
    },
    /// The file holds no certificate.
    #[error("{} holds no certificate; expected PEM, one or more blocks of BEGIN CERTIFICATE", .0.display())]
    Empty(PathBuf),
    /// A certificate cannot be used as an authority.
    #[error("{} holds a certificate that cannot be used", .path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: rustls::Error,
    },
}

impl Roots {
    /// The authorities of the PEM file at `path`, and no others.
    pub fn file(path: &Path) -> Result<Self, RootsError> {
        let path = path.to_owned();
        let pem = match std::fs::read(&path) {
            Ok(pem) => pem,
            Err(source) => return Err(RootsError::Read { path, source }),
        };
        let mut store = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate =
                certificate.map_err(|source| RootsError::Malformed { path: path.clone(), source })?;
            store.add(certificate).map_err(|source| RootsError::Unusable { path: path.clone(), source })?;
        }
        if store.is_empty() {
            return Err(RootsError::Empty(path));
        }
        Ok(Self(Some(Arc::new(File { path, pem, store: Arc::new(store) }))))
    }

    /// The authorities. Those of the system are read once, when they are first needed. A system without any, such as a
    /// container without the package ca-certificates, gets Mozilla's, which are built in.
    pub fn store(&self) -> Arc<RootCertStore> {
        static SYSTEM: OnceLock<Arc<RootCertStore>> = OnceLock::new();
        match &self.0 {
            Some(file) => file.store.clone(),
            None => SYSTEM.get_or_init(|| Arc::new(system())).clone(),
        }
    }

    /// The PEM text of the file; none for the authorities of the system.
    pub fn pem(&self) -> Option<&[u8]> {
        self.0.as_deref().map(|file| file.pem.as_slice())
    }

    /// A TLS client that accepts certificates of these authorities.
    pub fn client_config(&self) -> ClientConfig {
        install_crypto_provider();
        ClientConfig::builder().with_root_certificates(self.store()).with_no_client_auth()
    }

    /// The same for a client of HTTP, with HTTP/2 if the server speaks it.
    pub fn http_client_config(&self) -> ClientConfig {
        let mut config = self.client_config();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("Roots(system)"),
            Some(file) => write!(f, "Roots({})", file.path.display()),
        }
    }
}

fn system() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!("a certificate authority of the system cannot be read: {error}");
    }
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        tracing::info!("this system has no certificate authorities; using the built-in ones of Mozilla");
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    store
}

/// Makes aws-lc-rs the TLS cryptography of this process. Programs call it first in `main`. Code that makes TLS clients
/// calls it too, because tests have no `main` of ours. Calling it again changes nothing.
pub fn install_crypto_provider() {
    // An error says that a provider is installed already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_replaces_the_authorities_of_the_system() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let authority = tree_agent_testkit::tls::Authority::new();
        std::fs::write(&path, authority.pem()).unwrap();
        let roots = Roots::file(&path).unwrap();
        assert_eq!(roots.store().len(), 1);
        assert_eq!(roots.pem(), Some(authority.pem().as_bytes()));
        assert!(!Roots::default().store().is_empty(), "the system's, or the built-in ones");
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let said = || Roots::file(&path).unwrap_err().to_string();
        assert!(said().contains("ca.pem cannot be read"), "{}", said());
        std::fs::write(&path, "no certificate").unwrap();
        assert!(said().contains("ca.pem holds no certificate"), "{}", said());
        std::fs::write(&path, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
        assert!(said().contains("ca.pem holds a certificate that cannot be used"), "{}", said());
    }
}
