//! Addresses of storage: the endpoint of an S3 server, with or without a scheme, and the URL of a REST server.

use std::collections::BTreeMap;

use url::Url;

use super::BackendProblem;
use super::values::wrong;

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

/// The address of an S3 server.
pub(super) struct Endpoint {
    text: String,
    url: Url,
}

impl Endpoint {
    /// Without a scheme it is https, as in restic.
    pub(super) fn parse(field: &str, text: &str) -> Result<Self, BackendProblem> {
        let expected =
            "the address of an S3 server, such as 's3.amazonaws.com' or 'https://minio.storage.svc:9000'";
        let text = text.trim().trim_end_matches('/');
        let with_scheme = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
        let url = parse(field, text, &with_scheme, "the keys belong in the Secret", expected)?;
        if url.path() != "/" {
            return Err(wrong(field, text, expected));
        }
        Ok(Self { text: text.to_owned(), url })
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// As the user wrote it: restic reads both forms.
    pub(super) fn shown(&self) -> &str {
        &self.text
    }

    /// The settings of provider aws that lead to this server.
    pub(super) fn config(&self) -> BTreeMap<String, String> {
        let is_amazon = self.is_amazon();
        let mut config = BTreeMap::from([("s3ForcePathStyle".to_owned(), (!is_amazon).to_string())]);
        if !is_amazon {
            config.insert("s3Url".to_owned(), self.url.as_str().trim_end_matches('/').to_owned());
        }
        if let Some(region) = self.region() {
            config.insert("region".to_owned(), region.to_owned());
        }
        config
    }

    fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Whether requests go to Amazon's usual endpoints, which are then not set.
    fn is_amazon(&self) -> bool {
        let of_region = |region: &str| {
            let is = |domain: &str| self.host() == format!("s3.{region}.{domain}");
            is("amazonaws.com") || is("amazonaws.com.cn")
        };
        self.url.scheme() == "https"
            && self.url.port().is_none()
            && (self.host() == AMAZON || self.region().is_some_and(of_region))
    }

    /// The region in the name of the host.
    fn region(&self) -> Option<&str> {
        let (region, domain) = self.host().strip_prefix("s3.")?.split_once('.')?;
        REGIONAL.contains(&domain).then_some(region)
    }
}

/// The URL of a repository on a REST server, without a slash at its end.
pub(super) fn rest_url(field: &str, text: &str, secret: &str) -> Result<String, BackendProblem> {
    let expected =
        "a URL that starts with 'http://' or 'https://', such as 'https://backup.example.com:8000/demo'";
    let text = text.trim();
    // restic writes its scheme in front; upstream does not.
    let text = text.strip_prefix("rest:").unwrap_or(text);
    let next = format!("put them into Secret '{secret}' as REST_SERVER_USERNAME and REST_SERVER_PASSWORD");
    let url = parse(field, text, text, &next, expected)?;
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

fn parse(
    field: &str,
    text: &str,
    url: &str,
    next: &str,
    expected: &'static str,
) -> Result<Url, BackendProblem> {
    let secret = || BackendProblem::Credentials { field: field.to_owned(), next: next.to_owned() };
    if text.contains(['@', '?', '#']) {
        return Err(secret());
    }
    match Url::parse(url) {
        Ok(url)
            if matches!(url.scheme(), "http" | "https")
                && url.host_str().is_some_and(|host| !host.is_empty()) =>
        {
            Ok(url)
        }
        _ => Err(wrong(field, text, expected)),
    }
}
