//! The keys of a config map: known, refused with a reason, or unknown (with a suggestion).

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// Keys that Velero adds to its plugins' config itself.
const RESERVED: [(&str, &str); 4] = [
    ("bucket", "set objectStorage.bucket instead"),
    ("prefix", "set objectStorage.prefix instead"),
    ("caCert", "set objectStorage.caCert or caCertRef instead"),
    ("resticRepoPrefix", "repositories are stored below the location's prefix; remove this key"),
];

/// A config map whose keys are all known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keys<'a>(&'a BTreeMap<String, String>);

impl<'a> Keys<'a> {
    pub(super) fn new(
        provider: &str,
        config: &'a BTreeMap<String, String>,
        known: &[&str],
        refused: &[(&str, &str)],
    ) -> Result<Self> {
        for (key, reason) in RESERVED.iter().chain(refused) {
            if config.contains_key(*key) {
                return Err(Error::config(key, *reason));
            }
        }
        let unknown: Vec<String> =
            config.keys().filter(|key| !known.contains(&key.as_str())).cloned().collect();
        if unknown.is_empty() {
            return Ok(Self(config));
        }
        let suggestion = unknown.first().and_then(|key| nearest(key, known));
        let known = known.iter().map(|&key| key.to_owned()).collect();
        Err(Error::UnknownKeys { provider: provider.to_owned(), keys: unknown, suggestion, known })
    }

    /// The value, if it is set and not empty, as Velero reads it.
    pub(super) fn get(self, key: &str) -> Option<&'a str> {
        self.0.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(super) fn owned(self, key: &str) -> Option<String> {
        self.get(key).map(str::to_owned)
    }

    /// As Go's `strconv.ParseBool` reads it.
    pub(super) fn boolean(self, key: &str) -> Result<bool> {
        match self.get(key) {
            Some("1" | "t" | "T" | "TRUE" | "true" | "True") => Ok(true),
            None | Some("0" | "f" | "F" | "FALSE" | "false" | "False") => Ok(false),
            Some(other) => Err(value(key, other, "'true' or 'false'")),
        }
    }

    /// An `http://` or `https://` URL with a host and without anything that could contain a secret.
    pub(super) fn url(self, key: &str) -> Result<Option<url::Url>> {
        let Some(text) = self.get(key) else { return Ok(None) };
        let expected = "a URL that starts with 'http://' or 'https://'";
        let url = url::Url::parse(text).map_err(|_| value(key, text, expected))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(value(key, text, expected));
        }
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            // Not quoted: it may contain a password.
            return Err(Error::config(key, "the URL must not contain a user, a password or a query"));
        }
        Ok(Some(url))
    }
}

pub(super) fn value(key: &str, value: &str, expected: impl Into<String>) -> Error {
    Error::ConfigValue { key: key.to_owned(), value: value.to_owned(), expected: expected.into() }
}

/// The known key with the smallest edit distance, if it is close enough.
fn nearest(key: &str, known: &[&str]) -> Option<String> {
    let lower = key.to_lowercase();
    let distance = |other: &&&str| edits(&lower, &other.to_lowercase());
    let best = known.iter().min_by_key(distance)?;
    (distance(&best) <= 1 + key.len() / 4).then(|| (*best).to_owned())
}

/// The Levenshtein distance.
fn edits(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[rstest]
    #[case::case_differs("s3url", Some("s3Url"))]
    #[case::one_letter("regoin", Some("region"))]
    #[case::plural("s3Urls", Some("s3Url"))]
    #[case::far_away("somethingElse", None)]
    fn an_unknown_key_is_named_with_what_was_probably_meant(#[case] key: &str, #[case] meant: Option<&str>) {
        let config = map(&[(key, "x")]);
        match Keys::new("aws", &config, &["region", "s3Url"], &[]) {
            Err(Error::UnknownKeys { keys, suggestion, known, .. }) => {
                assert_eq!(keys, [key]);
                assert_eq!(suggestion.as_deref(), meant);
                assert_eq!(known, ["region", "s3Url"]);
            }
            other => panic!("expected UnknownKeys, got {other:?}"),
        }
    }

    #[test]
    fn the_message_names_all_unknown_keys_and_the_known_ones() {
        let config = map(&[("s3url", "x"), ("zzz", "y")]);
        let error = Keys::new("aws", &config, &["region", "s3Url"], &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown config keys 's3url', 'zzz' for provider 'aws' (did you mean 's3Url'?); known keys: region, s3Url"
        );
    }

    #[rstest]
    #[case::bucket("bucket", "set objectStorage.bucket instead")]
    #[case::refused("old", "it is gone")]
    fn a_refused_key_comes_with_the_reason(#[case] key: &str, #[case] reason: &str) {
        let config = map(&[(key, "x")]);
        let error = Keys::new("aws", &config, &["region"], &[("old", "it is gone")]).unwrap_err();
        assert_eq!(error.to_string(), format!("config key '{key}': {reason}"));
    }

    #[test]
    fn a_password_in_a_url_is_refused_without_repeating_it() {
        let config = map(&[("s3Url", "https://user:canary@host")]);
        let keys = Keys::new("aws", &config, &["s3Url"], &[]).unwrap();
        let message = keys.url("s3Url").unwrap_err().to_string();
        assert!(!message.contains("canary"), "{message}");
    }
}
