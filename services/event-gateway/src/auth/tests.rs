//! Tokens, good and bad.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tree_agent_runtime::config::Problems;
use tree_agent_testkit::issuer::{AUDIENCE, ISSUER, Issuer, now, publish};

use super::*;

const LOOPBACK: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7400));
const MINUTE: Duration = Duration::from_secs(60);

struct World {
    issuer: Issuer,
    authenticator: Authenticator,
    folder: TempDir,
}

impl World {
    fn new(algorithm: Algorithm) -> Self {
        let (folder, issuer) = (tempfile::tempdir().unwrap(), Issuer::new("one", algorithm));
        publish(&folder.path().join("jwks.json"), &[&issuer]);
        let authenticator = Authenticator::load(config(&folder)).unwrap();
        Self { issuer, authenticator, folder }
    }

    /// Why a token with these claims beside the good ones is refused.
    fn refusal(&self, claims: Value) -> Refusal {
        let mut all = Issuer::claims("ann", MINUTE);
        for (name, value) in claims.as_object().unwrap() {
            all[name] = value.clone();
            if value.is_null() {
                all.as_object_mut().unwrap().remove(name);
            }
        }
        self.authenticator.verify(&self.issuer.sign(&all)).unwrap_err()
    }
}

fn config(folder: &TempDir) -> AuthConfig {
    AuthConfig {
        jwks: folder.path().join("jwks.json"),
        issuer: ISSUER.into(),
        audience: AUDIENCE.into(),
        admin_claim: None,
        check_every: Duration::from_millis(5),
    }
}

fn invalid(text: &str) -> impl Fn(Refusal) {
    move |refusal| match refusal {
        Refusal::Invalid(why) if why.contains(text) => {}
        other => panic!("{other:?} instead of {text:?}"),
    }
}

#[tokio::test]
async fn good_tokens_of_every_algorithm_name_their_user_and_their_end() {
    for algorithm in [Algorithm::EdDSA, Algorithm::ES256, Algorithm::RS256] {
        let world = World::new(algorithm);
        let caller = world.authenticator.verify(&world.issuer.token("ann", MINUTE)).unwrap();
        assert_eq!(caller.user_id, "ann");
        let left = caller.expires_at.unwrap() - tokio::time::Instant::now();
        assert!(left <= MINUTE && left > MINUTE / 2, "{algorithm:?}: {left:?}");
    }
}

#[tokio::test]
async fn an_audience_may_be_one_of_several_and_a_clock_a_little_ahead() {
    let world = World::new(Algorithm::EdDSA);
    for more in
        [json!({ "aud": ["other", AUDIENCE] }), json!({ "nbf": now() + 20.0 }), json!({ "exp": 1e15 })]
    {
        let mut claims = Issuer::claims("ann", MINUTE);
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        world.authenticator.verify(&world.issuer.sign(&claims)).unwrap_or_else(|e| panic!("{more}: {e}"));
    }
}

#[test]
fn what_a_token_says_must_be_right() {
    let world = World::new(Algorithm::EdDSA);
    for exp in [0.0, now() - 1_000.0, now() - 5.0, now() - 0.01] {
        assert_eq!(world.refusal(json!({ "exp": exp })), Refusal::Expired, "no leeway at the end: {exp}");
    }
    invalid("not valid yet")(world.refusal(json!({ "nbf": now() + 120.0 })));
    invalid("issuer")(world.refusal(json!({ "iss": "https://other.example" })));
    invalid("audience")(world.refusal(json!({ "aud": "other" })));
    invalid("audience")(world.refusal(json!({ "aud": [] })));
    for name in ["exp", "iss", "aud", "sub"] {
        invalid("is missing")(world.refusal(json!({ name: null })));
    }
    invalid("read")(world.refusal(json!({ "exp": "tomorrow" })));
    for sub in ["".to_owned(), "a\u{0}b".to_owned(), "x".repeat(257)] {
        invalid("its sub")(world.refusal(json!({ "sub": sub })));
    }
}

#[test]
fn a_token_cannot_choose_how_it_is_checked() {
    for algorithm in [Algorithm::EdDSA, Algorithm::ES256, Algorithm::RS256] {
        let world = World::new(algorithm);
        let refused = |token: &str| world.authenticator.verify(token).unwrap_err();
        let good = world.issuer.token("ann", MINUTE);
        let (signed, signature) = good.rsplit_once('.').unwrap();
        let (_, claims) = signed.split_once('.').unwrap();

        // {"alg":"none","kid":"one"}, with and without the signature.
        let none = "eyJhbGciOiJub25lIiwia2lkIjoib25lIn0";
        for token in [format!("{none}.{claims}."), format!("{none}.{claims}.{signature}")] {
            invalid("is no JWT whose alg")(refused(&token));
        }
        // Signed with what everybody knows, as if it were a secret.
        let public = world.issuer.public();
        for name in ["x", "n"] {
            let Some(text) = public[name].as_str() else { continue };
            let mut header = Header::new(Algorithm::HS256);
            header.kid = Some("one".into());
            let padded = format!("{text}{}", "=".repeat(text.len().wrapping_neg() % 4));
            let secrets = [
                EncodingKey::from_secret(text.as_bytes()),
                EncodingKey::from_urlsafe_base64_secret(&padded).unwrap(),
            ];
            for secret in secrets {
                let token = encode(&header, &Issuer::claims("ann", MINUTE), &secret).unwrap();
                invalid("its alg")(refused(&token));
            }
        }
        // Signed by another key under the name of this one, and changed after it was signed.
        let other = Issuer::new("one", algorithm);
        invalid("signature")(refused(&other.token("ann", MINUTE)));
        let changed = world.issuer.token("eve", MINUTE);
        let changed = changed.rsplit_once('.').unwrap().0;
        invalid("signature")(refused(&format!("{changed}.{signature}")));
        for garbage in ["", "x", "a.b.c", "..", &good[..good.len() / 2], &format!("{good}.x")] {
            assert!(matches!(refused(garbage), Refusal::Invalid(_)), "{garbage:?}");
        }
        let mut header = Header::new(algorithm);
        header.kid = Some("two".into());
        let unknown = world.issuer.sign_as(&header, &Issuer::claims("ann", MINUTE));
        invalid("kid")(refused(&unknown));
    }
}

#[test]
fn a_token_without_a_kid_means_the_only_key() {
    let world = World::new(Algorithm::EdDSA);
    let nameless =
        |issuer: &Issuer| issuer.sign_as(&Header::new(issuer.algorithm), &Issuer::claims("ann", MINUTE));
    world.authenticator.verify(&nameless(&world.issuer)).unwrap();
    publish(&world.folder.path().join("jwks.json"), &[&world.issuer, &Issuer::new("two", Algorithm::EdDSA)]);
    let two = Authenticator::load(config(&world.folder)).unwrap();
    invalid("kid")(two.verify(&nameless(&world.issuer)).unwrap_err());
}

#[test]
fn a_token_without_a_kid_is_refused_when_there_are_several_keys_though_one_alone_is_usable() {
    let world = World::new(Algorithm::EdDSA);
    let mut encrypting = Issuer::new("two", Algorithm::RS256).public();
    encrypting["use"] = json!("enc");
    let secret = json!({ "kty": "oct", "k": "c2VjcmV0" });
    let keys = json!({ "keys": [secret, encrypting, { "kty": "new" }, world.issuer.public()] });
    std::fs::write(config(&world.folder).jwks, keys.to_string()).unwrap();
    let four = Authenticator::load(config(&world.folder)).unwrap();
    four.verify(&world.issuer.token("ann", MINUTE)).expect("it names its key");
    let nameless = world.issuer.sign_as(&Header::new(Algorithm::EdDSA), &Issuer::claims("ann", MINUTE));
    invalid("kid")(four.verify(&nameless).unwrap_err());
}

#[tokio::test]
async fn keys_change_with_their_file_and_stay_when_it_breaks() {
    let world = World::new(Algorithm::EdDSA);
    let path = world.folder.path().join("jwks.json");
    let following = tokio::spawn(world.authenticator.clone().watch_file());
    let next = Issuer::new("next", Algorithm::ES256);
    let accepted = async |issuer: &Issuer, wanted: bool| {
        let token = issuer.token("ann", MINUTE);
        let change = async {
            while world.authenticator.verify(&token).is_ok() != wanted {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(MINUTE, change).await.expect("the file is read again");
    };
    publish(&path, &[&world.issuer, &next]);
    accepted(&next, true).await;
    accepted(&world.issuer, true).await;
    std::fs::write(&path, "{").unwrap();
    let last = Issuer::new("last", Algorithm::EdDSA);
    assert!(world.authenticator.verify(&next.token("ann", MINUTE)).is_ok());
    publish(&path, &[&last]);
    accepted(&last, true).await;
    accepted(&next, false).await;
    following.abort();
}

#[test]
fn the_header_is_read_as_it_is_meant() {
    let world = World::new(Algorithm::EdDSA);
    let token = world.issuer.token("ann", MINUTE);
    let admit = |values: &[&str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("authorization", HeaderValue::from_str(value).unwrap());
        }
        world.authenticator.admit(&headers)
    };
    assert_eq!(admit(&[]), Err(Refusal::Missing));
    for scheme in ["Bearer", "bearer", "BEARER"] {
        assert!(admit(&[&format!("{scheme} {token}")]).is_ok());
    }
    for bad in ["", "Bearer", &token, &format!("Basic {token}")] {
        assert!(matches!(admit(&[bad]), Err(Refusal::Invalid(_))), "{bad}");
    }
}

/// What the program says about a JWKS file that holds `text`.
fn complaint(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(config(&folder).jwks, text).unwrap();
    let mut problems = Problems::default();
    let args = AuthArgs {
        auth_jwks: Some(config(&folder).jwks),
        auth_issuer: Some(ISSUER.into()),
        auth_audience: Some(AUDIENCE.into()),
        ..AuthArgs::default()
    };
    assert!(args.check(LOOPBACK, &mut problems).is_none());
    let text = problems.finish().unwrap_err().to_string();
    assert!(text.contains("TREE_AGENT_AUTH_JWKS: "), "{text}");
    text
}

#[test]
fn keys_that_cannot_be_used_are_complained_of() {
    assert!(complaint("").contains("is no JWKS"));
    assert!(complaint(r#"{"keys": 3}"#).contains("there is no such list"));
    assert!(complaint(r#"{"keys": []}"#).contains("it is empty"));
    let key = Issuer::new("one", Algorithm::EdDSA).public();
    let with = |name: &str, value: &str| {
        let mut key = key.clone();
        key[name] = json!(value);
        json!({ "keys": [key] }).to_string()
    };
    assert!(complaint(&with("d", "c2VjcmV0")).contains("a private key"));
    assert!(complaint(&with("crv", "Ed448")).contains("key 1"));
    assert!(complaint(&with("use", "enc")).contains("key 1 is for encryption"));
    let secret = r#"{"keys": [{"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}]}"#;
    assert!(complaint(secret).contains("key 1 is of another kind"));
}

#[test]
fn keys_of_other_kinds_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new("one", Algorithm::ES256);
    let keys = json!({ "keys": [{ "kty": "oct", "k": "c2VjcmV0" }, { "kty": "new" }, issuer.public()] });
    std::fs::write(config(&folder).jwks, keys.to_string()).unwrap();
    let authenticator = Authenticator::load(config(&folder)).unwrap();
    assert!(authenticator.verify(&issuer.token("ann", MINUTE)).is_ok());
}

#[test]
fn half_of_the_settings_is_none() {
    let said = |args: AuthArgs| {
        let mut problems = Problems::default();
        assert!(args.check(LOOPBACK, &mut problems).is_none());
        problems.finish().map_err(|error| error.to_string())
    };
    assert_eq!(said(AuthArgs::default()), Ok(()));
    let alone = said(AuthArgs { auth_issuer: Some("x".into()), ..AuthArgs::default() }).unwrap_err();
    assert!(alone.contains("TREE_AGENT_AUTH_JWKS: is not set"), "{alone}");
    let text =
        said(AuthArgs { auth_jwks: Some("/does/not/exist".into()), ..AuthArgs::default() }).unwrap_err();
    for part in
        ["AUTH_ISSUER: is not set", "AUTH_AUDIENCE: is not set", "/does/not/exist cannot be read: No such"]
    {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_token_that_names_extensions_is_refused() {
    let world = World::new(Algorithm::EdDSA);
    let mut header = Header::new(Algorithm::EdDSA);
    header.kid = Some("one".into());
    for crit in [vec!["b64".to_owned()], vec!["exp".to_owned()], vec![]] {
        header.crit = Some(crit);
        let token = world.issuer.sign_as(&header, &Issuer::claims("ann", MINUTE));
        invalid("(crit)")(world.authenticator.verify(&token).unwrap_err());
    }
}

#[test]
fn a_public_address_without_tokens_is_refused() {
    let check = |address: &str, allow_anybody: bool| {
        let mut problems = Problems::default();
        let args = AuthArgs { allow_anybody, ..AuthArgs::default() };
        assert!(args.check(address.parse().unwrap(), &mut problems).is_none());
        problems.finish().map_err(|error| error.to_string())
    };
    for public in ["0.0.0.0:7400", "[::]:7400", "192.0.2.1:7400"] {
        let text = check(public, false).unwrap_err();
        assert!(text.contains(public) && text.contains("TREE_AGENT_ALLOW_ANYBODY"), "{text}");
        assert_eq!(check(public, true), Ok(()));
    }
    for loopback in ["127.0.0.1:7400", "[::1]:7400"] {
        assert_eq!(check(loopback, false), Ok(()));
    }
}
