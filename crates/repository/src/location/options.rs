//! restic's `-o BACKEND.NAME=VALUE`. Pure. Options of other backends are ignored, as in restic; those of the used
//! backend are each honoured or refused by name.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// How the bucket is addressed in requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Lookup {
    /// In the host name for Amazon, in the path otherwise.
    #[default]
    Auto,
    Dns,
    Path,
}

/// The options of one backend.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Options {
    pub connections: Option<usize>,
    pub retries: Option<u32>,
    pub region: Option<String>,
    pub lookup: Lookup,
    pub anonymous: bool,
}

impl Options {
    pub(super) fn parse(scheme: &str, all: &BTreeMap<String, String>) -> Result<Self> {
        let mut options = Self::default();
        for (key, value) in all {
            let Some(name) = key.strip_prefix(scheme).and_then(|rest| rest.strip_prefix('.')) else {
                continue;
            };
            let wrong = |expected: &str| Error::invalid(format!("option '{key}={value}'"), expected);
            match (scheme, name) {
                (_, "connections") => match value.parse() {
                    Ok(number) if (1..=1024).contains(&number) => options.connections = Some(number),
                    _ => return Err(wrong("expected a number from 1 to 1024")),
                },
                ("s3", "region") => options.region = Some(value.clone()).filter(|region| !region.is_empty()),
                ("s3", "bucket-lookup") => {
                    options.lookup = match value.as_str() {
                        "auto" => Lookup::Auto,
                        "dns" => Lookup::Dns,
                        "path" => Lookup::Path,
                        _ => return Err(wrong("expected 'auto', 'dns' or 'path'")),
                    }
                }
                ("s3", "unsafe-anonymous-auth") => {
                    options.anonymous = boolean(value).ok_or_else(|| wrong("expected 'true' or 'false'"))?;
                }
                ("s3", "retries") => {
                    let number = value.parse().map_err(|_| wrong("expected a number"))?;
                    options.retries = Some(number);
                }
                // Only used to create a bucket, which Lifeboat does not do.
                ("gs", "region") => {}
                ("s3" | "local", "layout") if matches!(value.as_str(), "" | "default") => {}
                ("s3", "list-objects-v1") if boolean(value) == Some(false) => {}
                ("s3", "list-objects-v1") => {
                    return Err(wrong("only version 2 of listings is supported"));
                }
                ("s3", "storage-class") | ("azure", "access-tier") => {
                    return Err(wrong(
                        "not supported; set a default or a lifecycle rule for the bucket instead",
                    ));
                }
                ("s3", _) if name.contains("restore") => {
                    return Err(wrong(
                        "not supported; restore archived objects with the provider's own tools first",
                    ));
                }
                _ => return Err(wrong("no such option")),
            }
        }
        Ok(options)
    }
}

/// As Go's `strconv.ParseBool` reads it.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn parse(scheme: &str, key: &str, value: &str) -> Result<Options> {
        Options::parse(scheme, &[(key.to_owned(), value.to_owned())].into())
    }

    #[rstest]
    #[case::connections("s3", "s3.connections", "8", Options { connections: Some(8), ..Options::default() })]
    #[case::rest("rest", "rest.connections", "1", Options { connections: Some(1), ..Options::default() })]
    #[case::local("local", "local.connections", "2", Options { connections: Some(2), ..Options::default() })]
    #[case::region("s3", "s3.region", "eu", Options { region: Some("eu".into()), ..Options::default() })]
    #[case::lookup("s3", "s3.bucket-lookup", "dns", Options { lookup: Lookup::Dns, ..Options::default() })]
    #[case::path("s3", "s3.bucket-lookup", "path", Options { lookup: Lookup::Path, ..Options::default() })]
    #[case::open("s3", "s3.unsafe-anonymous-auth", "1", Options { anonymous: true, ..Options::default() })]
    #[case::retries("s3", "s3.retries", "3", Options { retries: Some(3), ..Options::default() })]
    #[case::other_backend("rest", "s3.nonsense", "x", Options::default())]
    #[case::ignored("gs", "gs.region", "eu", Options::default())]
    #[case::similar_name("s3", "s3x.region", "eu", Options::default())]
    fn options_are_read(
        #[case] scheme: &str,
        #[case] key: &str,
        #[case] value: &str,
        #[case] expected: Options,
    ) {
        assert_eq!(parse(scheme, key, value).unwrap(), expected);
    }

    #[rstest]
    #[case::zero("s3", "s3.connections", "0")]
    #[case::negative("gs", "gs.connections", "-1")]
    #[case::word("azure", "azure.connections", "many")]
    #[case::lookup("s3", "s3.bucket-lookup", "host")]
    #[case::unknown("s3", "s3.regoin", "eu")]
    #[case::class("s3", "s3.storage-class", "GLACIER")]
    #[case::thawing("s3", "s3.enable-restore", "true")]
    #[case::old_listing("s3", "s3.list-objects-v1", "true")]
    #[case::of_another_kind("rest", "rest.region", "eu")]
    fn what_cannot_be_honoured_is_refused_by_name(
        #[case] scheme: &str,
        #[case] key: &str,
        #[case] value: &str,
    ) {
        let message = parse(scheme, key, value).unwrap_err().to_string();
        assert!(message.contains(key), "{message}");
    }
}
