use lifeboat_api::common::{RepositoryName, StorageName};
use lifeboat_repository::Retry;
use lifeboat_store::Tls;
use rstest::rstest;

use super::*;

fn key() -> RepositoryKey {
    RepositoryKey::new(StorageName::new("stash"), RepositoryName::new("shop/backups"))
}

fn passwords() -> Passwords {
    Passwords { to_try: vec!["correct horse".to_owned().into()], missing: "there is no password".into() }
}

fn options() -> Options {
    Options { threads: 1, ..Options::default() }
}

/// A repository that the server opens in `store`.
fn tenant(storage: TenantStorage, opening: ServerOpening) -> Access {
    let repository = TenantRepository { identifier: "s3:minio/bkt/team".into(), storage, opening };
    Access::of_tenant(key(), repository, passwords(), options())
}

fn bucket() -> StoreConfig {
    StoreConfig {
        provider: "aws".into(),
        bucket: "bkt".into(),
        prefix: "team".into(),
        ca_pem: Some(b"pem".to_vec()),
        credentials: Some(b"file".to_vec().into()),
        ..StoreConfig::default()
    }
}

fn content<'a>(access: &'a Access, name: &str) -> &'a [u8] {
    access.files[name].expose_secret()
}

#[rstest]
#[case::below_a_prefix("lifeboat", "restic/shop", "s3:s3.us-east-1.amazonaws.com/bkt/lifeboat/restic/shop")]
#[case::no_prefix("", "restic/shop", "s3:s3.us-east-1.amazonaws.com/bkt/restic/shop")]
#[case::the_prefix_itself("/team/", "", "s3:s3.us-east-1.amazonaws.com/bkt/team")]
#[case::the_bucket_itself("", "", "s3:s3.us-east-1.amazonaws.com/bkt")]
fn an_identifier_has_prefix_and_path_where_there_are_any(
    #[case] prefix: &str,
    #[case] path: &str,
    #[case] expected: &str,
) {
    let config = StoreConfig { prefix: prefix.into(), ..bucket() };
    assert_eq!(identifier(&config, path), expected);
    let google = StoreConfig { provider: "velero.io/gcp".into(), ..config };
    let rest = expected.strip_prefix("s3:s3.us-east-1.amazonaws.com/bkt").unwrap();
    assert_eq!(identifier(&google, path), format!("gs:bkt:/{}", rest.trim_start_matches('/')));
}

#[tokio::test]
async fn the_repository_of_a_location_may_be_its_prefix_itself() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("bkt")).unwrap();
    let config = BTreeMap::from([("path".to_owned(), directory.path().to_str().unwrap().to_owned())]);
    let local = StoreConfig {
        provider: "lifeboat.io/local".into(),
        bucket: "bkt".into(),
        config,
        ..StoreConfig::default()
    };
    let storage = Storage { config: &local, environment: &Environment::default(), path: "" };
    let access = Access::new(key(), storage, passwords(), options()).await.unwrap();
    access.open_or_create().await.unwrap();
    assert!(directory.path().join("bkt/config").is_file());
}

#[tokio::test]
async fn a_tenants_bucket_is_opened_at_its_prefix_and_the_mover_gets_what_the_tenant_gave() {
    let store = Store::memory().below("team").unwrap();
    let access = tenant(TenantStorage::Bucket(bucket()), ServerOpening::Store(store.clone()));
    assert!(access.is_opened_by_server());
    let made = access.open_or_create().await.unwrap();
    assert_eq!(access.open().await.unwrap().config().id, made.config().id);
    assert!(store.exists("config").await.unwrap());
    let Transport::Direct(direct) = &access.task.transport else { panic!("{:?}", access.task) };
    assert_eq!((direct.prefix.as_str(), direct.path.as_str()), ("team", ""));
    assert_eq!((direct.credentials.as_deref(), direct.ca.as_deref()), (Some("credentials"), Some("ca.pem")));
    assert_eq!((content(&access, "credentials"), content(&access, "ca.pem")), (&b"file"[..], &b"pem"[..]));
    assert_eq!(access.task.passwords, ["password-0"]);
    assert_eq!(content(&access, "password-0"), b"correct horse");
}

#[test]
fn a_mover_gets_user_and_password_of_a_rest_server_in_a_file() {
    let config = RestConfig {
        url: "https://backup:8000/demo".parse().unwrap(),
        user: Some("me".into()),
        password: Some("secret".to_owned().into()),
        ca_pem: None,
        tls: Tls::default(),
    };
    let access = tenant(TenantStorage::Rest(config), ServerOpening::Store(Store::memory()));
    let expected = Transport::Rest {
        url: "https://backup:8000/demo".into(),
        credentials: Some("credentials".into()),
        ca: None,
    };
    assert_eq!(access.task.transport, expected);
    assert_eq!(content(&access, "credentials"), b"me:secret");
}

#[tokio::test]
async fn what_only_movers_can_open_says_why() {
    let storage = TenantStorage::Directory("/mover/repository".into());
    let access = tenant(storage, ServerOpening::MoversOnly("it is on a volume".into()));
    assert!(!access.is_opened_by_server());
    for problem in [access.open().await.err().unwrap(), access.open_or_create().await.err().unwrap()] {
        assert_eq!(problem.to_string(), "the server cannot open it: it is on a volume");
        assert_eq!(problem.retry(), Retry::Never);
    }
    assert_eq!(access.task.transport, Transport::Directory { path: "/mover/repository".into() });
}
