//! The storage location of a backend, as far as it is known without its Secret: two Repositories with the same
//! location stand for the same repository, however their addresses are written. Called before data is deleted.

use lifeboat_api::stash::Backend;
use url::Url;

use super::endpoint::Endpoint;

/// Providers whose buckets have the same content at each of their endpoints.
const GLOBAL: [&str; 3] = ["amazonaws.com", "amazonaws.com.cn", "backblazeb2.com"];
const BACKBLAZE: &str = GLOBAL[2];

/// The place; None for a volume, and for a backend that no version opens.
pub fn place(backend: &Backend) -> Option<String> {
    let below = |bucket: &str, prefix: Option<&str>| {
        let prefix = prefix.unwrap_or_default().trim_matches('/');
        format!("{bucket}/{prefix}")
    };
    if let Some(s3) = &backend.s3 {
        let endpoint = Endpoint::parse("spec.backend.s3.endpoint", &s3.endpoint).ok()?;
        return Some(format!("s3 {} {}", host(endpoint.url()), below(&s3.bucket, s3.prefix.as_deref())));
    }
    if let Some(b2) = &backend.b2 {
        return Some(format!("s3 {BACKBLAZE} {}", below(&b2.bucket, b2.prefix.as_deref())));
    }
    if let Some(gcs) = &backend.gcs {
        return Some(format!("gs {}", below(&gcs.bucket, gcs.prefix.as_deref())));
    }
    if let Some(azure) = &backend.azure {
        // The account is in the Secret, so containers with the same name in two accounts cannot be distinguished.
        return Some(format!("azure {}", below(&azure.container, azure.prefix.as_deref())));
    }
    let rest = backend.rest.as_ref()?;
    let url = Url::parse(rest.url.trim().trim_start_matches("rest:")).ok()?;
    Some(format!("rest {}{}", host(&url), url.path().trim_end_matches('/')))
}

/// Host and port. The usual ports of http and https count as one, because a server may listen on both.
fn host(url: &Url) -> String {
    let name = url.host_str().unwrap_or_default();
    let global =
        GLOBAL.iter().find(|domain| name.strip_suffix(*domain).is_some_and(|rest| rest.ends_with('.')));
    match (global, url.port_or_known_default()) {
        (Some(domain), _) => (*domain).to_owned(),
        (None, None | Some(80 | 443)) => name.to_owned(),
        (None, Some(port)) => format!("{name}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "callers pass json! literals")]
    fn of(storage: Value) -> Option<String> {
        let mut backend = storage;
        backend["storageSecretName"] = json!("keys");
        place(&serde_json::from_value(backend).unwrap())
    }

    fn s3(endpoint: &str, prefix: &str) -> Value {
        json!({"s3": {"endpoint": endpoint, "bucket": "bkt", "prefix": prefix}})
    }

    #[rstest]
    #[case::scheme(s3("minio:9000", "a"), s3("http://minio:9000/", "/a/"), true)]
    #[case::default_port(s3("https://minio", "a"), s3("http://minio:80", "a"), true)]
    #[case::capitals(s3("MinIO:9000", "a"), s3("minio:9000", "a"), true)]
    #[case::region_of_amazon(s3("s3.amazonaws.com", "a"), s3("s3.eu-west-1.amazonaws.com", "a"), true)]
    #[case::backblaze(s3("s3.us-west-004.backblazeb2.com", "a"), json!({"b2": {"bucket": "bkt", "prefix": "a"}}), true)]
    #[case::another_prefix(s3("minio:9000", "a"), s3("minio:9000", "a/b"), false)]
    #[case::another_port(s3("minio:9000", "a"), s3("minio:9001", "a"), false)]
    #[case::another_provider(json!({"gcs": {"bucket": "bkt"}}), json!({"azure": {"container": "bkt"}}), false)]
    #[case::a_name_that_ends_alike(s3("notamazonaws.com", ""), s3("s3.amazonaws.com", ""), false)]
    #[case::rest(json!({"rest": {"url": "https://backup:8000/demo/"}}), json!({"rest": {"url": "rest:https://backup:8000/demo"}}), true)]
    fn backends_with_one_place_are_known_however_they_are_written(
        #[case] one: Value,
        #[case] other: Value,
        #[case] expected: bool,
    ) {
        let (one, other) = (of(one).unwrap(), of(other).unwrap());
        assert_eq!(one == other, expected, "{one} and {other}");
    }

    #[test]
    fn a_volume_and_what_cannot_be_read_have_no_place() {
        assert_eq!(of(json!({"local": {"hostPath": {"path": "/x"}, "mountPath": "/safe"}})), None);
        assert_eq!(of(json!({"swift": {"container": "c"}})), None);
        assert_eq!(of(s3("https://me:pw@minio", "")), None);
    }
}
