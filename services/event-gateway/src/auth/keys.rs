//! The public keys that tokens are checked with.

use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::Value;

/// Maximum of bytes of a JWKS. One key takes a few hundred.
const FILE_BYTES: u64 = 1024 * 1024;

/// The shortest RSA key that is safe (NIST SP 800-131A).
const RSA_BITS: usize = 2048;

/// Why a JWKS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The file cannot be read.
    #[error("{} cannot be read", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// It is not what RFC 7517 calls a JWK Set.
    #[error("{} is no JWKS, a JSON object with a list \"keys\": {reason}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It has an RSA key that is too short to be safe.
    #[error(
        "{}: key {place} is an RSA key of {bits} bits, which can be broken; have the issuer make one of at least \
         {RSA_BITS} bits, and remove this one", .path.display()
    )]
    ShortRsa {
        /// The file.
        path: PathBuf,
        /// Which key of the list, from 1 on.
        place: usize,
        /// The length of its modulus.
        bits: usize,
    },
    /// Its keys are of other kinds.
    #[error("{} holds no key that can be used (EdDSA with Ed25519, ES256 or RS256): {reasons}", .path.display())]
    None {
        /// The file.
        path: PathBuf,
        /// Why not, for each key.
        reasons: String,
    },
}

/// One public key. The algorithm is the key's, whatever a token says: a token cannot choose a weaker one.
pub(crate) struct Key {
    id: Option<String>,
    /// The length of its modulus, if it is an RSA key.
    rsa_bits: Option<usize>,
    pub(crate) algorithm: Algorithm,
    pub(crate) key: DecodingKey,
}

/// The keys of one state of the file.
pub(crate) struct Keys {
    keys: Vec<Key>,
    /// True if the file has one key, those included that are not used.
    is_single: bool,
    /// The bytes of the file, by which a change is noticed.
    pub(crate) text: Vec<u8>,
}

/// The bytes of the file at `path`.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, KeysError> {
    let mut text = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(FILE_BYTES + 1).read_to_end(&mut text))
        .map_err(|source| KeysError::Read { path: path.to_owned(), source })?;
    if text.len() as u64 > FILE_BYTES {
        let reason = format!("it is longer than {FILE_BYTES} bytes");
        return Err(KeysError::Malformed { path: path.to_owned(), reason });
    }
    Ok(text)
}

impl Keys {
    /// The keys in `text`, which is what `path` holds. Keys for other uses and algorithms are passed over, as issuers
    /// publish those too; a private key is an error, since it is in the wrong place.
    pub(crate) fn parse(path: &Path, text: Vec<u8>) -> Result<Self, KeysError> {
        let malformed = |reason: String| KeysError::Malformed { path: path.to_owned(), reason };
        let set: Value = serde_json::from_slice(&text).map_err(|error| malformed(error.to_string()))?;
        let list = set.get("keys").and_then(Value::as_array);
        let list = list.ok_or_else(|| malformed("there is no such list".to_owned()))?;
        let (mut keys, mut reasons) = (Vec::<Key>::new(), Vec::new());
        for (place, jwk) in (1..).zip(list) {
            if ["d", "p", "q", "dp", "dq", "qi", "oth"].iter().any(|part| jwk.get(part).is_some()) {
                let reason = format!(
                    "key {place} is a private key, which belongs to the issuer alone; publish its public part"
                );
                return Err(malformed(reason));
            }
            let key = Key::of(jwk);
            if let Ok(Key { rsa_bits: Some(bits @ ..RSA_BITS), .. }) = key {
                return Err(KeysError::ShortRsa { path: path.to_owned(), place, bits });
            }
            match key {
                Ok(key) if key.id.is_some() && keys.iter().any(|k| k.id == key.id) => {
                    return Err(malformed(format!("key {place} has the kid of another key")));
                }
                Ok(key) => keys.push(key),
                Err(reason) => reasons.push(format!("key {place} {reason}")),
            }
        }
        if keys.is_empty() {
            let reasons = if reasons.is_empty() { "it is empty".to_owned() } else { reasons.join("; ") };
            return Err(KeysError::None { path: path.to_owned(), reasons });
        }
        for reason in reasons {
            tracing::info!("{}: {reason}; it is passed over", path.display());
        }
        Ok(Self { keys, is_single: list.len() == 1, text })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The key that a token names. A token that names none means the only key of the file: an issuer with several
    /// keys, of whatever kind, must name the one that it used (OpenID Connect Core 1.0, 10.1).
    pub(crate) fn find(&self, id: Option<&str>) -> Option<&Key> {
        match id {
            Some(id) => self.keys.iter().find(|key| key.id.as_deref() == Some(id)),
            None => self.keys.first().filter(|_| self.is_single),
        }
    }
}

impl Key {
    fn of(jwk: &Value) -> Result<Self, String> {
        let jwk: Jwk =
            serde_json::from_value(jwk.clone()).map_err(|error| format!("cannot be read: {error}"))?;
        if jwk.common.public_key_use.as_ref().is_some_and(|r#use| *r#use != PublicKeyUse::Signature) {
            return Err("is not for signatures (use)".to_owned());
        }
        if jwk.common.key_operations.as_ref().is_some_and(|ops| !ops.contains(&KeyOperations::Verify)) {
            return Err("is not for verifying signatures (key_ops)".to_owned());
        }
        let (algorithm, named) = match &jwk.algorithm {
            AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
                (Algorithm::EdDSA, KeyAlgorithm::EdDSA)
            }
            AlgorithmParameters::EllipticCurve(point) if point.curve == EllipticCurve::P256 => {
                (Algorithm::ES256, KeyAlgorithm::ES256)
            }
            AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
            _ => return Err("is of another kind or curve (kty, crv)".to_owned()),
        };
        if jwk.common.key_algorithm.is_some_and(|alg| alg != named) {
            return Err("is for another algorithm (alg)".to_owned());
        }
        let key = DecodingKey::from_jwk(&jwk).map_err(|error| format!("cannot be read: {error}"))?;
        if algorithm == Algorithm::EdDSA && !key.try_get_as_bytes().is_ok_and(is_strong_ed25519) {
            return Err("is a weak Ed25519 key, for which anybody can make signatures (x)".to_owned());
        }
        let rsa_bits = match &jwk.algorithm {
            AlgorithmParameters::RSA(rsa) => Some(rsa_bits(&rsa.n, &rsa.e)?),
            _ => None,
        };
        Ok(Self { id: jwk.common.key_id, rsa_bits, algorithm, key })
    }
}

/// The bits of the modulus of an RSA key, whose numbers are in Base64url. An even modulus is factored at once, and with
/// an even exponent or the exponent 1 nothing is a signature or everything. Whether the modulus is a product of two
/// good primes is for the issuer to know.
fn rsa_bits(modulus: &str, exponent: &str) -> Result<usize, String> {
    let number = |name: &str, text: &str| {
        let bytes =
            URL_SAFE_NO_PAD.decode(text).map_err(|error| format!("cannot be read: {name}: {error}"))?;
        let leading = bytes.iter().take_while(|&&byte| byte == 0).count();
        Ok::<_, String>(bytes[leading..].to_vec())
    };
    let (n, e) = (number("n", modulus)?, number("e", exponent)?);
    let is_odd = |number: &[u8]| number.last().is_some_and(|byte| byte % 2 == 1);
    if !is_odd(&n) || !is_odd(&e) || e == [1] {
        return Err(
            "is no RSA key: the modulus must be odd, and the exponent odd and 3 at least (n, e)".to_owned()
        );
    }
    Ok(n.len() * 8 - n[0].leading_zeros() as usize)
}

/// The y coordinates of the points of small order on edwards25519, in both encodings that there are for two of them:
/// the points of order 4, 1, 8, 8 and 2, then those of order 4 and 1 with the prime added. The highest bit is the sign
/// of x.
const SMALL_ORDER: [[u8; 32]; 7] = [
    edge(0x00, 0x00, 0x00),
    edge(0x01, 0x00, 0x00),
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5,
        0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a,
        0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
    ],
    edge(0xec, 0xff, 0x7f),
    edge(0xed, 0xff, 0x7f),
    edge(0xee, 0xff, 0x7f),
];

/// The encoding whose first and last byte and those between are these.
const fn edge(first: u8, between: u8, last: u8) -> [u8; 32] {
    let mut bytes = [between; 32];
    bytes[0] = first;
    bytes[31] = last;
    bytes
}

/// Whether signatures need the private key of this public one. Under a point of small order a signature that was made
/// without any key is valid for one message in eight at least.
fn is_strong_ed25519(key: &[u8]) -> bool {
    let Ok(mut point) = <[u8; 32]>::try_from(key) else { return false };
    point[31] &= 0x7f;
    !SMALL_ORDER.contains(&point)
}
