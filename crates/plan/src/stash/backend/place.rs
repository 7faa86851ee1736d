//! The storage location of a backend: two Repositories with the same location stand for the same repository, however
//! their addresses are written. The account of a container in Azure is in the Secret; everything else is known without
//! it. Called before data is deleted.

use lifeboat_api::stash::Backend;
use url::Url;

use super::endpoint::Endpoint;
use super::values::Values;
use super::{AZURE_ACCOUNT, SecretData};

/// Providers whose buckets have the same content at each of their endpoints.
const GLOBAL: [&str; 3] = ["amazonaws.com", "amazonaws.com.cn", "backblazeb2.com"];
const BACKBLAZE: &str = GLOBAL[2];

/// Where a repository is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    storage: String,
    account: Account,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Account {
    /// The storage has one name everywhere.
    None,
    /// The Secret was not read, or names none.
    Unknown,
    Named(String),
}

impl Place {
    /// Whether a repository in one of them may be in the other: what is not known may be the same.
    pub fn may_be(&self, other: &Self) -> bool {
        let accounts_differ = match (&self.account, &other.account) {
            (Account::Named(own), Account::Named(other)) => own != other,
            _ => false,
        };
        self.storage == other.storage && !accounts_differ
    }

    /// Whether the Secret says more.
    pub fn has_account(&self) -> bool {
        self.account != Account::None
    }
}

/// The place; None for a volume, and for a backend that no version opens. `secret`: the data of its Secret, if it was read.
pub fn place(backend: &Backend, secret: Option<&SecretData>) -> Option<Place> {
    let storage = storage(backend)?;
    let account = backend.azure.as_ref().map(|_| account(backend, secret));
    Some(Place { storage, account: account.unwrap_or(Account::None) })
}

fn account(backend: &Backend, secret: Option<&SecretData>) -> Account {
    let named = secret.and_then(|data| {
        let values = Values { secret: &backend.storage_secret_name, data };
        values.text(AZURE_ACCOUNT).ok().flatten()
    });
    named.map_or(Account::Unknown, |name| Account::Named(name.to_lowercase()))
}

fn storage(backend: &Backend) -> Option<String> {
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
    use lifeboat_api::common::ByteString;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "callers pass json! literals")]
    fn of(storage: Value) -> Option<Place> {
        of_account(storage, None)
    }

    #[allow(clippy::needless_pass_by_value, reason = "callers pass json! literals")]
    fn of_account(storage: Value, account: Option<&str>) -> Option<Place> {
        let mut backend = storage;
        backend["storageSecretName"] = json!("keys");
        let entry = |name: &str| (AZURE_ACCOUNT.to_owned(), ByteString(name.as_bytes().to_vec()));
        let secret = account.map(|name| SecretData::from([entry(name)]));
        place(&serde_json::from_value(backend).unwrap(), secret.as_ref())
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
        assert_eq!(one.may_be(&other), expected, "{one:?} and {other:?}");
        assert_eq!(other.may_be(&one), expected, "{one:?} and {other:?}");
    }

    #[rstest]
    #[case::one_account(Some("acme\n"), Some("Acme"), true)]
    #[case::another_account(Some("acme"), Some("bank"), false)]
    #[case::not_known(Some("acme"), None, true)]
    #[case::named_nowhere(Some(""), Some("acme"), true)]
    fn containers_of_one_name_are_one_place_unless_their_accounts_differ(
        #[case] one: Option<&str>,
        #[case] other: Option<&str>,
        #[case] expected: bool,
    ) {
        let azure = json!({"azure": {"container": "bkt", "prefix": "a"}});
        let (one, other) = (of_account(azure.clone(), one).unwrap(), of_account(azure, other).unwrap());
        assert_eq!(one.may_be(&other), expected);
        assert!(one.has_account() && !of(s3("minio:9000", "a")).unwrap().has_account());
    }

    #[test]
    fn a_volume_and_what_cannot_be_read_have_no_place() {
        assert_eq!(of(json!({"local": {"hostPath": {"path": "/x"}, "mountPath": "/safe"}})), None);
        assert_eq!(of(json!({"swift": {"container": "c"}})), None);
        assert_eq!(of(s3("https://me:pw@minio", "")), None);
    }
}
