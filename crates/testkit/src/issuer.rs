//! A token issuer with its own keys: it publishes a JWKS and signs valid and invalid tokens.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{self, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::{Value, json};

pub use jsonwebtoken::Algorithm;

/// The `iss` of its tokens.
pub const ISSUER: &str = "https://issuer.example";
/// The `aud` of its tokens.
pub const AUDIENCE: &str = "tree-agent";

/// Bytes before the RSAPrivateKey in PKCS #8 of 2,048 bits: version, algorithm, and the lengths of what is round them
/// (RFC 5208, 5). The signer wants the inner one.
const PKCS8_RSA: usize = 26;

/// One private key.
pub struct Issuer {
    /// The `kid` of its key.
    pub kid: String,
    /// The algorithm of its key.
    pub algorithm: Algorithm,
    key: EncodingKey,
}

impl Issuer {
    /// An issuer with a new key.
    ///
    /// # Panics
    /// When the algorithm is none of EdDSA, ES256 and RS256.
    pub fn new(kid: &str, algorithm: Algorithm) -> Self {
        let random = SystemRandom::new();
        let key = match algorithm {
            Algorithm::EdDSA => {
                EncodingKey::from_ed_der(Ed25519KeyPair::generate_pkcs8v1(&random).expect("a key").as_ref())
            }
            Algorithm::ES256 => {
                let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
                EncodingKey::from_ec_der(key.expect("a key").as_ref())
            }
            Algorithm::RS256 => {
                let key = rsa::KeyPair::generate(KeySize::Rsa2048).expect("a key");
                let der: Pkcs8V1Der<'_> = key.as_der().expect("it has a form");
                EncodingKey::from_rsa_der(&der.as_ref()[PKCS8_RSA..])
            }
            other => panic!("no key is made for {other:?}"),
        };
        Self { kid: kid.to_owned(), algorithm, key }
    }

    /// The public key as an entry of a JWKS.
    pub fn public(&self) -> Value {
        let jwk = Jwk::from_encoding_key(&self.key, self.algorithm).expect("a key has a public part");
        let mut jwk = serde_json::to_value(jwk).expect("a JWK is JSON");
        jwk["kid"] = json!(self.kid);
        jwk["use"] = json!("sig");
        jwk
    }

    /// What a token says that holds from now on for `life`, for the user `sub`.
    pub fn claims(sub: &str, life: Duration) -> Value {
        json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": sub, "exp": now() + life.as_secs_f64() })
    }

    /// A good token for the user `sub`.
    pub fn token(&self, sub: &str, life: Duration) -> String {
        self.sign(&Self::claims(sub, life))
    }

    /// A token that says `claims`.
    pub fn sign(&self, claims: &Value) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.kid.clone());
        self.sign_as(&header, claims)
    }

    /// A token that says `claims` under `header`.
    pub fn sign_as(&self, header: &Header, claims: &Value) -> String {
        encode(header, claims, &self.key).expect("the key signs")
    }
}

/// Writes the JWKS of `issuers` to `path`, in one step.
pub fn publish(path: &Path, issuers: &[&Issuer]) {
    let keys: Vec<Value> = issuers.iter().map(|issuer| issuer.public()).collect();
    let new = path.with_extension("new");
    std::fs::write(&new, json!({ "keys": keys }).to_string()).expect("the folder can be written to");
    std::fs::rename(&new, path).expect("a file can be replaced");
}

/// Seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
