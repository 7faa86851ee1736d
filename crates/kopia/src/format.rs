//! The format blob: what a repository is made with, and its keys. The inner part is sealed with a key derived from the
//! password. Everything that this version cannot read is refused here, by name, before anything else is read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use serde::{Deserialize, Deserializer};

use crate::crypto::{self, Cipher, Hasher};
use crate::ecc::{Correction, Uncorrectable};
use crate::error::{Error, Result, shown};

/// The largest format blob; a usual one has about 1 KiB.
pub(crate) const LARGEST: u64 = 64 * 1024;
const WHAT: &str = "the repository's format";
/// The features that a repository may require.
const FEATURES: [&str; 2] = ["index-v1", "index-v2"];

/// The outer part, which anyone can read.
#[derive(Deserialize)]
struct Outer {
    #[serde(rename = "uniqueID", default)]
    unique_id: String,
    #[serde(rename = "keyAlgo", default)]
    key_derivation: String,
    #[serde(default)]
    encryption: String,
    #[serde(rename = "encryptedBlockFormat", default)]
    sealed: String,
}

#[derive(Deserialize)]
struct Inner {
    format: Json,
}

/// The inner part.
#[derive(Deserialize)]
struct Json {
    #[serde(default)]
    hash: String,
    #[serde(default)]
    encryption: String,
    #[serde(default)]
    ecc: String,
    #[serde(rename = "eccOverheadPercent", default)]
    ecc_percent: u32,
    #[serde(default, deserialize_with = "secret")]
    secret: SecretSlice<u8>,
    #[serde(rename = "masterKey", default, deserialize_with = "secret")]
    master_key: SecretSlice<u8>,
    #[serde(default)]
    version: u64,
    #[serde(rename = "indexVersion", default)]
    index_version: u64,
    #[serde(rename = "epochParameters", default)]
    epochs: Epochs,
    #[serde(rename = "upgradeLock", default)]
    upgrade: Option<Upgrade>,
    #[serde(rename = "requiredFeatures", default)]
    features: Option<Vec<Feature>>,
}

#[derive(Deserialize, Default)]
struct Epochs {
    #[serde(rename = "Enabled", default)]
    enabled: bool,
}

#[derive(Deserialize)]
struct Upgrade {
    #[serde(rename = "ownerID", default)]
    owner: String,
}

#[derive(Deserialize)]
struct Feature {
    #[serde(default)]
    feature: String,
    #[serde(rename = "ifNotUnderstood", default)]
    if_not_understood: Option<IfNotUnderstood>,
}

#[derive(Deserialize)]
struct IfNotUnderstood {
    #[serde(default)]
    warn: bool,
}

fn secret<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<SecretSlice<u8>, D::Error> {
    let text = Option::<String>::deserialize(input)?.unwrap_or_default();
    STANDARD.decode(text).map(SecretSlice::from).map_err(|_| serde::de::Error::custom("it is not base64"))
}

/// What a repository is made with; shown to users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    pub version: u64,
    pub index_version: u64,
    pub epochs: bool,
    pub hash: String,
    pub encryption: String,
    /// Algorithm and overhead in percent.
    pub error_correction: Option<(String, u32)>,
    pub key_derivation: String,
    /// Identifies the repository, also after its password was changed.
    pub unique_id: String,
}

/// Why sealed bytes cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unopened {
    #[error(transparent)]
    Uncorrectable(#[from] Uncorrectable),
    #[error("its authentication tag does not match")]
    NotAuthentic,
}

/// A repository's format with its keys.
#[derive(Clone)]
pub(crate) struct Format {
    pub(crate) made: Made,
    pub(crate) hasher: Hasher,
    cipher: Cipher,
    pub(crate) correction: Option<Correction>,
}

impl std::fmt::Debug for Format {
    /// Without the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Format").field(&self.made).finish()
    }
}

impl Format {
    /// Opens a format blob. Blocks for some tenths of a second.
    pub(crate) fn open(blob: &[u8], password: &SecretString) -> Result<Self> {
        let outer: Outer = serde_json::from_slice(blob).map_err(|error| Error::damaged(WHAT, error))?;
        if outer.encryption != "AES256_GCM" {
            let detail = format!("'{}'", shown(&outer.encryption));
            return Err(Error::unsupported("an encryption of its format", detail));
        }
        let decode = |text: &str| {
            STANDARD.decode(text).map_err(|_| Error::damaged(WHAT, "a part of it is not base64"))
        };
        let (salt, sealed) = (decode(&outer.unique_id)?, decode(&outer.sealed)?);
        let key = crypto::format_key(&outer.key_derivation, password.expose_secret(), &salt)?;
        let inner = crypto::open_format(&key, &salt, sealed).ok_or(Error::WrongPassword)?;
        let inner: Inner =
            serde_json::from_slice(inner.expose_secret()).map_err(|error| Error::damaged(WHAT, error))?;
        Self::of(inner.format, outer)
    }

    fn of(json: Json, outer: Outer) -> Result<Self> {
        check(&json)?;
        let hasher = Hasher::new(&json.hash, &json.secret)?;
        let cipher = Cipher::new(&json.encryption, &json.master_key)?;
        let corrected = !json.ecc.is_empty() && json.ecc_percent > 0;
        let correction = corrected.then(|| Correction::new(&json.ecc, json.ecc_percent)).transpose()?;
        let made = Made {
            version: json.version,
            index_version: json.index_version.max(1),
            epochs: json.epochs.enabled,
            error_correction: corrected.then_some((json.ecc, json.ecc_percent)),
            hash: json.hash,
            encryption: json.encryption,
            key_derivation: outer.key_derivation,
            unique_id: outer.unique_id,
        };
        Ok(Self { made, hasher, cipher, correction })
    }

    /// Opens what is sealed with a key from `iv`.
    pub(crate) fn unseal(&self, iv: &[u8], mut stored: Vec<u8>) -> Result<Vec<u8>, Unopened> {
        if let Some(correction) = &self.correction {
            stored = correction.unwrap(&stored)?;
        }
        let opened = self.cipher.open(iv, &mut stored).ok_or(Unopened::NotAuthentic)?;
        // What was opened in place lies behind the nonce.
        let length = opened.len();
        stored.copy_within(crypto::NONCE..crypto::NONCE + length, 0);
        stored.truncate(length);
        Ok(stored)
    }
}

fn check(json: &Json) -> Result<()> {
    if !(1..=3).contains(&json.version) {
        return Err(Error::unsupported("a format version", format!("{}; 1 to 3 are known", json.version)));
    }
    if json.index_version > 2 {
        let detail = format!("{}; 1 and 2 are known", json.index_version);
        return Err(Error::unsupported("an index version", detail));
    }
    for feature in json.features.iter().flatten() {
        let ignorable = feature.if_not_understood.as_ref().is_some_and(|what| what.warn);
        if !FEATURES.contains(&feature.feature.as_str()) {
            let name = shown(&feature.feature);
            if !ignorable {
                return Err(Error::unsupported("a feature", format!("'{name}'")));
            }
            tracing::warn!(feature = name, "the kopia repository has a feature that can be ignored");
        }
    }
    if let Some(upgrade) = json.upgrade.as_ref().filter(|upgrade| !upgrade.owner.is_empty()) {
        return Err(Error::Upgrading { owner: shown(&upgrade.owner) });
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A format with known keys.
    pub(crate) fn sample() -> Format {
        Format::of(json(&serde_json::json!({})), outer()).unwrap()
    }

    impl Format {
        pub(crate) fn seal(&self, iv: &[u8], plain: &[u8]) -> Vec<u8> {
            self.cipher.seal(iv, plain)
        }
    }

    fn outer() -> Outer {
        Outer {
            unique_id: String::new(),
            key_derivation: String::new(),
            encryption: String::new(),
            sealed: String::new(),
        }
    }

    fn json(change: &serde_json::Value) -> Json {
        let key = STANDARD.encode([3; 32]);
        let mut all = serde_json::json!({
            "hash": "BLAKE2B-256-128", "encryption": "AES256-GCM-HMAC-SHA256", "secret": key, "masterKey": key,
            "version": 3, "indexVersion": 2, "epochParameters": {"Enabled": true},
        });
        for (name, value) in change.as_object().unwrap() {
            all[name] = value.clone();
        }
        serde_json::from_value(all).unwrap()
    }

    #[rstest::rstest]
    #[case(serde_json::json!({"version": 4}), "a format version")]
    #[case(serde_json::json!({"version": 0}), "a format version")]
    #[case(serde_json::json!({"indexVersion": 3}), "an index version")]
    #[case(serde_json::json!({"hash": "MD5"}), "'MD5'")]
    #[case(serde_json::json!({"encryption": "NONE"}), "'NONE'")]
    #[case(serde_json::json!({"ecc": "X", "eccOverheadPercent": 2}), "'X'")]
    #[case(serde_json::json!({"requiredFeatures": [{"feature": "tape"}]}), "'tape'")]
    #[case(serde_json::json!({"upgradeLock": {"ownerID": "me"}}), "upgraded by 'me'")]
    #[case(serde_json::json!({"masterKey": "AAAA"}), "master key")]
    #[case(serde_json::json!({"secret": ""}), "no key")]
    fn what_cannot_be_read_is_refused_by_name(#[case] change: serde_json::Value, #[case] expected: &str) {
        let error = Format::of(json(&change), outer()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn features_that_only_warn_and_old_values_are_accepted() {
        let features = serde_json::json!([{"feature": "tape", "ifNotUnderstood": {"warn": true}}, {"feature": "index-v2"}]);
        assert!(Format::of(json(&serde_json::json!({"requiredFeatures": features})), outer()).is_ok());
        let old = Format::of(json(&serde_json::json!({"version": 1, "indexVersion": 0})), outer()).unwrap();
        assert_eq!(old.made.index_version, 1);
    }

    proptest::proptest! {
        #[test]
        fn random_bytes_are_no_format(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            proptest::prop_assert!(Format::open(&bytes, &SecretString::from("secret")).is_err());
        }
    }
}
