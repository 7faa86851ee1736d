//! Google Cloud Storage: the keys of Velero's gcp plugin and the service account's JSON.

use object_store::HeaderValue;
use secrecy::SecretString;

use super::keys::{Keys, value};
use super::{Environment, Files, StoreConfig};
use crate::error::{Error, Result};

const KNOWN: [&str; 5] =
    ["kmsKeyName", "serviceAccount", "credentialsFile", "storeEndpoint", "universeDomain"];

/// Checked settings for Google Cloud Storage.
#[derive(Debug)]
pub(crate) struct GcpConfig {
    /// The KMS key with which new objects are encrypted.
    pub kms_key: Option<HeaderValue>,
    /// The service account that signs URLs if there is no key file.
    pub service_account: Option<String>,
    /// `scheme://host`, if it is not Google's own.
    pub endpoint: Option<String>,
    /// The service account's JSON; without it, the metadata server (workload identity) provides credentials.
    pub key: Option<SecretString>,
}

pub(super) fn validate(config: &StoreConfig, environment: &Environment, files: &Files) -> Result<GcpConfig> {
    let keys = Keys::new("gcp", &config.config, &KNOWN, &[])?;
    if let Some(domain) = keys.get("universeDomain").filter(|domain| *domain != "googleapis.com") {
        return Err(value("universeDomain", domain, "'googleapis.com': other universes are not supported"));
    }
    let kms_key = keys.get("kmsKeyName").map(kms_key).transpose()?;
    let key = match config.credentials(environment, files)? {
        Some(json) => Some(service_account(json)?),
        None => None,
    };
    Ok(GcpConfig { kms_key, service_account: keys.owned("serviceAccount"), endpoint: endpoint(keys)?, key })
}

fn kms_key(name: &str) -> Result<HeaderValue> {
    let expected = "'projects/P/locations/L/keyRings/R/cryptoKeys/K'";
    let segments: Vec<&str> = name.split('/').collect();
    let well_formed = matches!(
        segments.as_slice(),
        ["projects", p, "locations", l, "keyRings", r, "cryptoKeys", k] if ![p, l, r, k].iter().any(|s| s.is_empty())
    );
    match HeaderValue::from_str(name) {
        Ok(header) if well_formed => Ok(header),
        _ => Err(value("kmsKeyName", name, expected)),
    }
}

/// A host as in Velero's example, or a URL; a path of the JSON API, which some users write, is dropped.
fn endpoint(keys: Keys<'_>) -> Result<Option<String>> {
    let Some(text) = keys.get("storeEndpoint") else { return Ok(None) };
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    match url::Url::parse(&with_scheme) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.host_str().is_some() => {
            Ok(Some(url.origin().ascii_serialization()))
        }
        _ => Err(value("storeEndpoint", text, "a host name or a URL")),
    }
}

fn service_account(json: &[u8]) -> Result<SecretString> {
    let bad = |problem: &str| Error::credentials_format(problem);
    let text = std::str::from_utf8(json).map_err(|_| bad("the service account's JSON is not UTF-8"))?;
    // serde_json's message would quote the text, which is a secret.
    let parsed: serde_json::Value = serde_json::from_str(text)
        .map_err(|_| bad("expected a Google service account's JSON, but this is not JSON"))?;
    match parsed["type"].as_str() {
        Some("service_account") => {}
        Some(kind @ ("external_account" | "authorized_user" | "impersonated_service_account")) => {
            return Err(bad(&format!(
                "JSON of type '{kind}' is not supported, only 'service_account'; \
                with workload identity leave the credentials away"
            )));
        }
        _ => return Err(bad("the JSON has no \"type\": \"service_account\"")),
    }
    for field in ["client_email", "private_key", "private_key_id"] {
        if parsed[field].as_str().unwrap_or_default().is_empty() {
            return Err(bad(&format!("the service account's JSON has no '{field}'")));
        }
    }
    Ok(text.to_owned().into())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const JSON: &str =
        r#"{"type":"service_account","client_email":"a@b","private_key":"canary","private_key_id":"1"}"#;

    fn config(entries: &[(&str, &str)], json: &str) -> StoreConfig {
        StoreConfig {
            provider: "velero.io/gcp".into(),
            bucket: "b".into(),
            config: entries.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
            credentials: Some(json.as_bytes().to_vec().into()),
            ..StoreConfig::default()
        }
    }

    fn check(config: &StoreConfig) -> Result<GcpConfig> {
        validate(config, &Environment::default(), &Files::default())
    }

    #[rstest]
    #[case::host("storage-x.p.googleapis.com", "https://storage-x.p.googleapis.com")]
    #[case::json_api("https://storage-x.p.googleapis.com/storage/v1/", "https://storage-x.p.googleapis.com")]
    #[case::emulator("http://fake:4443", "http://fake:4443")]
    fn an_endpoint_is_read_as_people_write_it(#[case] text: &str, #[case] expected: &str) {
        let valid = check(&config(&[("storeEndpoint", text)], JSON)).unwrap();
        assert_eq!(valid.endpoint.as_deref(), Some(expected));
    }

    #[rstest]
    #[case::full("projects/p/locations/l/keyRings/r/cryptoKeys/k", true)]
    #[case::short("my-key", false)]
    #[case::gap("projects//locations/l/keyRings/r/cryptoKeys/k", false)]
    fn a_kms_key_is_named_in_full(#[case] name: &str, #[case] valid: bool) {
        assert_eq!(check(&config(&[("kmsKeyName", name)], JSON)).is_ok(), valid);
    }

    #[rstest]
    #[case::not_json("canary", "this is not JSON")]
    #[case::external(r#"{"type":"external_account","x":"canary"}"#, "'external_account' is not supported")]
    #[case::no_key(r#"{"type":"service_account","client_email":"canary"}"#, "no 'private_key'")]
    fn bad_json_is_refused_without_repeating_it(#[case] json: &str, #[case] expected: &str) {
        let error = check(&config(&[], json)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    }

    #[test]
    fn another_universe_is_refused_by_name() {
        let error = check(&config(&[("universeDomain", "example.com")], JSON)).unwrap_err();
        assert!(error.to_string().contains("'universeDomain'"), "{error}");
    }
}
