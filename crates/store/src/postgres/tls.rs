//! TLS to Postgres, as `sslmode` and `sslrootcert` in the URL ask for it.
//!
//! The driver itself knows no `verify-ca`, `verify-full` and `sslrootcert`, so they are taken out of the URL here.
//! Whoever asks for TLS gets a certificate that is verified: `require` means `verify-full`.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use deadpool_postgres::tokio_postgres::{self, config::SslMode};
use percent_encoding::percent_decode_str;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;
use tree_agent_security::Roots;

use crate::error::StoreError;

/// What the connection must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Not encrypted.
    Off,
    /// The certificate is from a trusted authority, whatever name it has.
    VerifyCa,
    /// The certificate also names the host.
    VerifyFull,
}

/// The URL without what is ours to read, and that.
#[derive(Debug)]
struct Settings<'a> {
    url: Cow<'a, str>,
    mode: Option<Mode>,
    root_certificates: Option<String>,
}

/// Reads a Postgres URL: how to connect, and how to encrypt the connection.
pub(super) fn parse(url: &str) -> Result<(tokio_postgres::Config, MakeRustlsConnect), StoreError> {
    // The URL itself may hold a password and is not repeated.
    let malformed = "the Postgres URL is malformed; expected postgres://user:password@host:5432/database";
    let settings = Settings::of(url)?;
    let mut config: tokio_postgres::Config = settings.url.parse().map_err(|error| {
        StoreError::broken(malformed, Box::<dyn std::error::Error + Send + Sync>::from(format!("{error}")))
    })?;
    let mode = settings.mode.unwrap_or(match config.get_ssl_mode() {
        SslMode::Require => Mode::VerifyFull,
        _ => Mode::Off,
    });
    // The driver would take `prefer` for TLS that may be refused and need not be verified.
    config.ssl_mode(if mode == Mode::Off { SslMode::Disable } else { SslMode::Require });
    let roots = match &settings.root_certificates {
        Some(file) if mode != Mode::Off && file != "system" => Roots::file(Path::new(file))
            .map_err(|error| StoreError::broken("sslrootcert in the Postgres URL cannot be used", error))?,
        _ => Roots::default(),
    };
    Ok((config, MakeRustlsConnect::new(mode.client(&roots))))
}

impl<'a> Settings<'a> {
    fn of(url: &'a str) -> Result<Self, StoreError> {
        let mut settings = Self { url: url.into(), mode: None, root_certificates: None };
        // A password may hold a question mark.
        let host = url.find('@').unwrap_or(0);
        let Some(query) = url[host..].find('?').filter(|_| url.contains("://")) else { return Ok(settings) };
        let (rest, query) = (&url[..host + query], &url[host + query + 1..]);
        let mut kept = Vec::new();
        for parameter in query.split('&') {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match name {
                "sslmode" => settings.mode = Some(Mode::of(value)?),
                "sslrootcert" => {
                    settings.root_certificates =
                        Some(percent_decode_str(value).decode_utf8_lossy().into_owned());
                }
                _ => kept.push(parameter),
            }
        }
        settings.url = match kept.is_empty() {
            true => rest.into(),
            false => format!("{rest}?{}", kept.join("&")).into(),
        };
        Ok(settings)
    }
}

/// The values of `sslmode` and what they mean here.
const MODES: [(&str, Mode); 6] = [
    // Encryption that may be left out protects against nobody who can change the traffic.
    ("disable", Mode::Off),
    ("allow", Mode::Off),
    ("prefer", Mode::Off),
    ("require", Mode::VerifyFull),
    ("verify-ca", Mode::VerifyCa),
    ("verify-full", Mode::VerifyFull),
];

impl Mode {
    fn of(text: &str) -> Result<Self, StoreError> {
        let known = MODES.iter().find(|(name, _)| *name == text);
        known.map(|(_, mode)| *mode).ok_or_else(|| StoreError::Broken {
            message: format!(
                "sslmode in the Postgres URL is {text:?}; expected one of {}",
                MODES.map(|(name, _)| name).join(", ")
            ),
            source: None,
        })
    }

    fn client(self, roots: &Roots) -> ClientConfig {
        tree_agent_security::install_crypto_provider();
        match self {
            // Not used. The authorities of the system need not be read for it.
            Self::Off => {
                ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth()
            }
            Self::VerifyFull => roots.client_config(),
            Self::VerifyCa => ClientConfig::builder()
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyName {
                    roots: roots.store(),
                    provider: aws_lc_rs::default_provider(),
                }))
                .with_no_client_auth(),
        }
    }
}

/// Accepts a certificate of a trusted authority for any name: what `verify-ca` asks for.
#[derive(Debug)]
struct AnyName {
    roots: Arc<RootCertStore>,
    provider: CryptoProvider,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, intermediates, now, algorithms)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_parameters_are_taken_out_of_the_url() {
        let settings = |url| Settings::of(url).unwrap();
        let found =
            settings("postgres://u:p?@h/db?sslmode=verify-ca&options=-c%20x&sslrootcert=%2Fca%20file.pem");
        assert_eq!(found.url, "postgres://u:p?@h/db?options=-c%20x");
        assert_eq!(
            (found.mode, found.root_certificates.as_deref()),
            (Some(Mode::VerifyCa), Some("/ca file.pem"))
        );
        assert_eq!(settings("postgres://h/db?sslmode=require").url, "postgres://h/db");
        let plain = settings("postgres://u:p?@h/db");
        assert_eq!((&*plain.url, plain.mode), ("postgres://u:p?@h/db", None));
    }

    #[test]
    fn tls_is_verified_or_not_used_at_all() {
        for (url, wanted) in [
            ("postgres://h/db", SslMode::Disable),
            ("postgres://h/db?sslmode=disable", SslMode::Disable),
            ("postgres://h/db?sslmode=allow", SslMode::Disable),
            ("postgres://h/db?sslmode=prefer", SslMode::Disable),
            ("postgres://h/db?sslmode=require", SslMode::Require),
            ("postgres://h/db?sslmode=verify-ca", SslMode::Require),
            ("postgres://h/db?sslmode=verify-full&sslrootcert=system", SslMode::Require),
            ("host=h sslmode=require", SslMode::Require),
            ("host=h", SslMode::Disable),
        ] {
            assert_eq!(parse(url).unwrap().0.get_ssl_mode(), wanted, "{url}");
        }
        for (url, reason) in [
            (
                "postgres://h/db?sslmode=verify",
                "expected one of disable, allow, prefer, require, verify-ca, verify-full",
            ),
            ("postgres://h/db?sslmode=require&sslrootcert=/does/not/exist", "sslrootcert"),
        ] {
            let error = parse(url).err().unwrap().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
