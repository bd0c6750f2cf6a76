//! Tokens, good and bad.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tree_agent_runtime::config::Problems;
use tree_agent_testkit::issuer::{AUDIENCE, ISSUER, Issuer, now, publish};

use super::*;

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
fn extensions_that_must_be_understood_are_refused() {
    let world = World::new(Algorithm::EdDSA);
    let mut header = Header::new(Algorithm::EdDSA);
    header.kid = Some("one".into());
    header.crit = Some(vec!["b64".into()]);
    let token = world.issuer.sign_as(&header, &Issuer::claims("ann", MINUTE));
    invalid("crit")(world.authenticator.verify(&token).unwrap_err());
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

#[test]
fn short_rsa_keys_are_refused_at_start() {
    let key = |bits: usize| {
        // An odd number of that many bits, with a leading zero byte as some issuers write it.
        let mut n = vec![0; 1 + bits.div_ceil(8)];
        n[1] = 1 << ((bits - 1) % 8);
        *n.last_mut().unwrap() |= 1;
        json!({ "kty": "RSA", "n": URL_SAFE_NO_PAD.encode(n), "e": "AQAB" })
    };
    for bits in [512, 1024, 2047] {
        let good = Issuer::new("one", Algorithm::EdDSA).public();
        let said = complaint(&json!({ "keys": [good, key(bits)] }).to_string());
        let expected = format!("key 2 is an RSA key of {bits} bits");
        assert!(said.contains(&expected) && said.contains("at least 2048 bits"), "{said}");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(config(&folder).jwks, json!({ "keys": [key(2048)] }).to_string()).unwrap();
    Authenticator::load(config(&folder)).unwrap();
}

#[test]
fn what_cannot_be_an_rsa_key_is_not_used() {
    let key = |last: u8, e: &str| {
        let n = [vec![0x80; 255], vec![last]].concat();
        json!({ "keys": [{ "kty": "RSA", "n": URL_SAFE_NO_PAD.encode(n), "e": e }] }).to_string()
    };
    // 65537 and 3; then an even modulus, and the exponents 0, 1, 2 and none.
    for (last, e, is_key) in [
        (1, "AQAB", true),
        (1, "Aw", true),
        (2, "AQAB", false),
        (1, "AA", false),
        (1, "AQ", false),
        (1, "AAE", false),
        (1, "Ag", false),
        (1, "", false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(config(&folder).jwks, key(last, e)).unwrap();
        let loaded = Authenticator::load(config(&folder));
        assert_eq!(loaded.is_ok(), is_key, "{last} {e}");
        if let Err(error) = loaded {
            assert!(format!("{error}").contains("(n, e)") || e.is_empty(), "{error}");
        }
    }
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
    let twice = format!("Bearer {token}");
    assert!(matches!(admit(&[&twice, &twice]), Err(Refusal::Invalid(_))));
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
    };
    assert!(args.check(&mut problems).is_none());
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
    for part in ["d", "p", "dp", "qi", "oth"] {
        assert!(complaint(&with(part, "c2VjcmV0")).contains("key 1 is a private key"), "{part}");
    }
    assert!(complaint(&with("use", "enc")).contains("key 1 is not for signatures"));
    assert!(complaint(&with("alg", "HS256")).contains("key 1 is for another algorithm"));
    assert!(complaint(&with("crv", "Ed448")).contains("key 1"));
    let mut for_signing = key.clone();
    for_signing["key_ops"] = json!(["sign"]);
    assert!(
        complaint(&json!({ "keys": [for_signing] }).to_string()).contains("not for verifying signatures")
    );
    let secret = r#"{"keys": [{"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}]}"#;
    assert!(complaint(secret).contains("key 1 is of another kind"));
    assert!(
        complaint(&json!({ "keys": [key, key] }).to_string()).contains("key 2 has the kid of another key")
    );
}

#[test]
fn ed25519_keys_for_which_anybody_can_sign_are_refused() {
    // Of order 1, 2, 4 and 8, with either sign, and the two that are written with the prime added.
    for weak in [
        "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIA",
        "7P_______________________________________38",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "JuiVj8KyJ7BFw_SJ8u-Y8NXfrAXTxjM5sTgCiG1T_AU",
        "JuiVj8KyJ7BFw_SJ8u-Y8NXfrAXTxjM5sTgCiG1T_IU",
        "xxdqcD1N2E-6PAt2DRBnDyogU_osOczGTsf9d5KsA3o",
        "7f_______________________________________38",
        "7v_______________________________________38",
        "7v________________________________________8",
    ] {
        let key = json!({ "kty": "OKP", "crv": "Ed25519", "x": weak });
        let said = complaint(&json!({ "keys": [key] }).to_string());
        assert!(said.contains("key 1 is a weak Ed25519 key"), "{weak}: {said}");
    }
}

#[test]
fn a_key_for_verifying_may_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new("one", Algorithm::EdDSA);
    let mut key = issuer.public();
    key["key_ops"] = json!(["verify"]);
    std::fs::write(config(&folder).jwks, json!({ "keys": [key] }).to_string()).unwrap();
    Authenticator::load(config(&folder)).unwrap().verify(&issuer.token("ann", MINUTE)).unwrap();
}

#[test]
fn a_token_has_one_issuer() {
    let world = World::new(Algorithm::EdDSA);
    for list in [json!([ISSUER]), json!([ISSUER, "https://evil.example"]), json!(["https://evil.example"])] {
        assert!(
            matches!(world.refusal(json!({ "iss": list })), Refusal::Invalid(why) if why.contains("iss")),
            "{list}"
        );
    }
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
        assert!(args.check(&mut problems).is_none());
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
