//! `s3:` locations: an endpoint, a bucket and a prefix, in restic's syntax, and the endpoint for requests.

use std::fmt;

use url::Url;

use super::{bad, clean};
use crate::error::Result;

/// Amazon's own endpoint, which finds any bucket.
const AMAZON: &str = "s3.amazonaws.com";

/// Providers that name their endpoints `s3.REGION.DOMAIN` and require the region in the signature.
const REGIONAL: [&str; 7] = [
    "amazonaws.com",
    "amazonaws.com.cn",
    "backblazeb2.com",
    "wasabisys.com",
    "scw.cloud",
    "io.cloud.ovh.net",
    "cloud.ovh.net",
];

/// A prefix of a bucket at an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bucket {
    /// `host` or `host:port`.
    pub host: String,
    pub plain_http: bool,
    pub name: String,
    pub prefix: String,
}

impl Bucket {
    /// `rest` follows `s3:`. In `s3://FIRST/…`, FIRST is an endpoint if it looks like a host (with a dot or a port)
    /// and a bucket follows, as in restic; otherwise it is a bucket at Amazon, as in other programs.
    pub(super) fn parse(text: &str, rest: &str) -> Result<Self> {
        let expected =
            "expected 's3:HOST/BUCKET/PREFIX', 's3:https://HOST/BUCKET/PREFIX' or 's3://BUCKET/PREFIX'";
        if rest.contains(['?', '#', '@']) {
            return Err(bad(text, "it must not contain '@', '?' or '#'; keys come from AWS_ACCESS_KEY_ID"));
        }
        let (host, path, plain_http) = if let Some(path) = rest.strip_prefix("//") {
            let (first, below) = path.split_once('/').unwrap_or((path, ""));
            let is_host = first.contains(['.', ':']) || first == "localhost";
            if is_host && !below.trim_matches('/').is_empty() {
                (first, below, false)
            } else {
                (AMAZON, path, false)
            }
        } else if let Some((scheme, path)) = rest.split_once("://") {
            if !matches!(scheme, "http" | "https") {
                return Err(bad(text, expected));
            }
            let (host, path) = path.split_once('/').unwrap_or((path, ""));
            (host, path, scheme == "http")
        } else {
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            (host, path, false)
        };
        let path = path.trim_start_matches('/');
        let (name, prefix) = path.split_once('/').unwrap_or((path, ""));
        if host.is_empty() || name.is_empty() || name == "." || name == ".." {
            return Err(bad(text, expected));
        }
        let bucket =
            Self { host: host.to_owned(), plain_http, name: name.to_owned(), prefix: clean(text, prefix)? };
        match Url::parse(&bucket.url()) {
            Ok(url) if url.host_str().is_some_and(|host| !host.is_empty()) => Ok(bucket),
            _ => Err(bad(text, expected)),
        }
    }

    pub(super) fn url(&self) -> String {
        format!("{}://{}", if self.plain_http { "http" } else { "https" }, self.host)
    }

    /// Whether requests go to Amazon's default endpoints: then no endpoint is set.
    pub(super) fn is_amazon(&self) -> bool {
        !self.plain_http
            && (self.host == AMAZON
                || self.region().is_some_and(|region| {
                    let plain = |suffix: &str| self.host == format!("s3.{region}.{suffix}");
                    plain("amazonaws.com") || plain("amazonaws.com.cn")
                }))
    }

    /// The region in the endpoint's name.
    pub(super) fn region(&self) -> Option<&str> {
        let rest = self.host.split(':').next()?.strip_prefix("s3.")?;
        let (region, domain) = rest.split_once('.')?;
        REGIONAL.contains(&domain).then_some(region)
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.plain_http { "http://" } else { "" };
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        write!(f, "s3:{scheme}{}/{}{slash}{}", self.host, self.name, self.prefix)
    }
}
