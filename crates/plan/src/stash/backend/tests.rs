use lifeboat_api::stash::SwiftBackend;
use rstest::rstest;

use super::*;

const JSON: &str =
    r#"{"type":"service_account","client_email":"a@b","private_key":"CANARY","private_key_id":"1"}"#;

/// Data of a Secret, with the password.
fn secret(entries: &[(&str, &str)]) -> SecretData {
    let entries = [("RESTIC_PASSWORD", "canary\n")].iter().chain(entries);
    entries.map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec()))).collect()
}

fn backend(change: impl FnOnce(&mut Backend)) -> Backend {
    let mut backend = Backend { storage_secret_name: "keys".into(), ..Backend::default() };
    change(&mut backend);
    backend
}

fn s3(endpoint: &str, prefix: Option<&str>, region: Option<&str>) -> Backend {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let s3 = S3Backend {
        endpoint: endpoint.into(),
        bucket: "bkt".into(),
        prefix: owned(prefix),
        region: owned(region),
        insecure_tls: false,
    };
    backend(|backend| backend.s3 = Some(s3))
}

const AWS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "AKID\n"), ("AWS_SECRET_ACCESS_KEY", "secret/+=")];

fn bucket_of(access: &BackendAccess) -> &Bucket {
    match &access.storage {
        BackendStorage::Bucket(bucket) => bucket,
        _ => panic!("{access:?} is not in a bucket"),
    }
}

#[rstest]
#[case::amazon("s3.amazonaws.com", None, "s3:s3.amazonaws.com/bkt/a/b", "region= url= path=false")]
#[case::amazon_region(
    "s3.eu-west-1.amazonaws.com",
    None,
    "s3:s3.eu-west-1.amazonaws.com/bkt/a/b",
    "region=eu-west-1 url= path=false"
)]
#[case::region_given(
    "s3.amazonaws.com/",
    Some("us-east-2"),
    "s3:s3.amazonaws.com/bkt/a/b",
    "region=us-east-2 url= path=false"
)]
#[case::no_scheme(
    "minio.storage.svc:9000",
    None,
    "s3:minio.storage.svc:9000/bkt/a/b",
    "region= url=https://minio.storage.svc:9000 path=true"
)]
#[case::plain(
    "http://minio:9000/",
    None,
    "s3:http://minio:9000/bkt/a/b",
    "region= url=http://minio:9000 path=true"
)]
#[case::https(
    "https://minio:9000",
    Some("x"),
    "s3:https://minio:9000/bkt/a/b",
    "region=x url=https://minio:9000 path=true"
)]
#[case::wasabi(
    "s3.eu-central-1.wasabisys.com",
    None,
    "s3:s3.eu-central-1.wasabisys.com/bkt/a/b",
    "region=eu-central-1 url=https://s3.eu-central-1.wasabisys.com path=true"
)]
fn an_s3_endpoint_has_a_scheme_or_not(
    #[case] endpoint: &str,
    #[case] region: Option<&str>,
    #[case] identifier: &str,
    #[case] settings: &str,
) {
    let access = access(&s3(endpoint, Some("/a/b/"), region), &secret(&AWS)).unwrap();
    assert_eq!(access.identifier, identifier);
    let bucket = bucket_of(&access);
    let get = |key: &str| bucket.config.get(key).map(String::as_str).unwrap_or_default();
    let found = format!("region={} url={} path={}", get("region"), get("s3Url"), get("s3ForcePathStyle"));
    assert_eq!(found, settings);
    assert_eq!((bucket.provider, bucket.prefix.as_str()), ("aws", "a/b"));
    assert_eq!(access.opened_by, OpenedBy::Server);
    let file = "[default]\naws_access_key_id = AKID\naws_secret_access_key = secret/+=\n";
    assert_eq!(bucket.credentials_text(), Some(file));
    assert_eq!(access.password.expose_secret(), "canary");
}

#[test]
fn a_repository_at_the_root_of_a_bucket_has_no_prefix() {
    for prefix in [None, Some(""), Some("/")] {
        let access = access(&s3("http://minio:9000", prefix, None), &secret(&AWS)).unwrap();
        assert_eq!(access.identifier, "s3:http://minio:9000/bkt");
        assert_eq!(bucket_of(&access).prefix, "");
    }
}

#[rstest]
#[case::s3(s3("minio:9000", None, None), &[], "s3:minio:9000/bkt")]
#[case::gcs(backend(|b| b.gcs = Some(GcsBackend { bucket: "g".into(), ..GcsBackend::default() })), &[("GOOGLE_PROJECT_ID", "p")], "gs:g:/")]
#[case::azure(
    backend(|b| b.azure = Some(AzureBackend { container: "c".into(), prefix: Some("p".into()), ..AzureBackend::default() })),
    &[("AZURE_ACCOUNT_NAME", "account")], "azure:c:/p")]
fn without_keys_only_pods_with_a_cloud_identity_open_it(
    #[case] backend: Backend,
    #[case] entries: &[(&str, &str)],
    #[case] identifier: &str,
) {
    let access = access(&backend, &secret(entries)).unwrap();
    assert_eq!(access.identifier, identifier);
    assert_eq!(access.opened_by, OpenedBy::Movers(MoversOnly::CloudIdentity));
    assert!(bucket_of(&access).credentials.is_none());
}

#[test]
fn google_azure_and_backblaze_have_their_keys() {
    let gcs = backend(|b| {
        b.gcs = Some(GcsBackend { bucket: "g".into(), prefix: Some("p".into()), max_connections: Some(3) });
    });
    let access_of = |backend: &Backend, entries: &[(&str, &str)]| access(backend, &secret(entries)).unwrap();
    let google = access_of(&gcs, &[(GOOGLE_KEY, JSON)]);
    assert_eq!((google.identifier.as_str(), google.connections), ("gs:g:/p", Some(3)));
    assert_eq!(bucket_of(&google).credentials_text(), Some(JSON));
    let azure =
        backend(|b| b.azure = Some(AzureBackend { container: "c".into(), ..AzureBackend::default() }));
    let azure = access_of(&azure, &[(AZURE_ACCOUNT, "account"), (AZURE_KEY, "a2V5\n")]);
    assert_eq!(bucket_of(&azure).credentials_text(), Some("AZURE_STORAGE_KEY=a2V5\n"));
    assert_eq!(
        bucket_of(&azure).config,
        BTreeMap::from([("storageAccount".to_owned(), "account".to_owned())])
    );
    let b2 = backend(|b| b.b2 = Some(B2Backend { bucket: "b".into(), ..B2Backend::default() }));
    let b2 =
        access_of(&b2, &[(B2_ID, "id"), (B2_KEY, "key"), (B2_ENDPOINT, "s3.us-west-004.backblazeb2.com")]);
    assert_eq!((b2.identifier.as_str(), b2.opened_by), ("b2:b:/", OpenedBy::Server));
    let config = &bucket_of(&b2).config;
    assert_eq!(config["s3Url"], "https://s3.us-west-004.backblazeb2.com");
    assert_eq!((config["region"].as_str(), config["s3ForcePathStyle"].as_str()), ("us-west-004", "true"));
}

#[test]
fn a_rest_server_gets_user_and_password_from_the_secret() {
    let rest = |url: &str| backend(|b| b.rest = Some(RestBackend { url: url.into() }));
    let found =
        access(&rest("https://backup:8000/demo/"), &secret(&[(REST_USER, "me"), (REST_PASSWORD, "pw")]))
            .unwrap();
    assert_eq!(
        (found.identifier.as_str(), found.opened_by),
        ("rest:https://backup:8000/demo", OpenedBy::Server)
    );
    let BackendStorage::Rest(server) = &found.storage else { panic!("{found:?}") };
    assert_eq!((server.url.as_str(), server.user.as_deref()), ("https://backup:8000/demo", Some("me")));
    let problem = access(&rest("https://me:CANARY@backup/demo"), &secret(&[])).unwrap_err().to_string();
    assert!(problem.contains("REST_SERVER_PASSWORD") && !problem.contains("CANARY"), "{problem}");
}

#[test]
fn a_volume_is_opened_by_movers_only() {
    let local = LocalBackend {
        mount_path: "/safe/data".into(),
        sub_path: Some("a/b/".into()),
        ..LocalBackend::default()
    };
    let access = access(&backend(|b| b.local = Some(local)), &secret(&[])).unwrap();
    assert_eq!(
        (access.identifier.as_str(), access.opened_by),
        ("/safe/data", OpenedBy::Movers(MoversOnly::Volume))
    );
    let BackendStorage::Volume(volume) = &access.storage else { panic!("{access:?}") };
    assert_eq!(volume.sub_path.as_deref(), Some("a/b"));
}

#[test]
fn an_authority_is_passed_on() {
    let pem = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----";
    let mut entries = AWS.to_vec();
    entries.push((AUTHORITY, pem));
    let access = access(&s3("minio", None, None), &secret(&entries)).unwrap();
    assert_eq!(access.authority.unwrap(), format!("{pem}\n").as_bytes());
}

#[rstest]
#[case::no_password(s3("minio", None, None), &[("RESTIC_PASSWORD", "\n")],
    "Secret 'keys' has no key 'RESTIC_PASSWORD': add it with the password of the repository")]
#[case::half(s3("minio", None, None), &[("AWS_ACCESS_KEY_ID", "x")],
    "Secret 'keys' has the key 'AWS_ACCESS_KEY_ID' and no 'AWS_SECRET_ACCESS_KEY': add it, or remove both if pods have a cloud identity")]
#[case::a_second_line(s3("minio", None, None), &[("AWS_ACCESS_KEY_ID", "x\nrole_arn=CANARY"), ("AWS_SECRET_ACCESS_KEY", "y")],
    "key 'AWS_ACCESS_KEY_ID' of Secret 'keys': expected one word of letters, digits and signs; correct its value")]
#[case::certificate(s3("minio", None, None), &[("CA_CERT_DATA", "CANARY")],
    "key 'CA_CERT_DATA' of Secret 'keys': expected PEM certificates ('-----BEGIN CERTIFICATE-----'); correct its value")]
#[case::endpoint(s3("", None, None), &[],
    "spec.backend.s3.endpoint is '', expected the address of an S3 server, such as 's3.amazonaws.com' or 'https://minio.storage.svc:9000'")]
#[case::endpoint_with_a_path(s3("https://minio/bucket", None, None), &[],
    "spec.backend.s3.endpoint is 'https://minio/bucket', expected the address of an S3 server, such as 's3.amazonaws.com' or 'https://minio.storage.svc:9000'")]
#[case::endpoint_with_keys(s3("https://CANARY:CANARY@minio", None, None), &[],
    "spec.backend.s3.endpoint contains a user, a password or a query: the keys belong in the Secret")]
#[case::above(s3("minio", Some("a/../b"), None), &[],
    "spec.backend.s3.prefix is 'a/../b', expected a path without '.', '..' and empty parts, such as 'backups/shop'")]
#[case::google(backend(|b| b.gcs = Some(GcsBackend { bucket: "g".into(), ..GcsBackend::default() })),
    &[("GOOGLE_SERVICE_ACCOUNT_JSON_KEY", "{CANARY")],
    "key 'GOOGLE_SERVICE_ACCOUNT_JSON_KEY' of Secret 'keys': expected the JSON of a service account, with its private key; correct its value")]
#[case::azure(backend(|b| b.azure = Some(AzureBackend { container: "c".into(), ..AzureBackend::default() })), &[],
    "Secret 'keys' has no key 'AZURE_ACCOUNT_NAME': add it with the name of the storage account")]
#[case::backblaze(backend(|b| b.b2 = Some(B2Backend { bucket: "b".into(), ..B2Backend::default() })), &[("B2_ACCOUNT_ID", "i"), ("B2_ACCOUNT_KEY", "k")],
    "Secret 'keys' has no key 'B2_ENDPOINT': add it with the endpoint that Backblaze shows for the bucket, such as s3.us-west-004.backblazeb2.com")]
#[case::none(backend(|_| ()), &[], "spec.backend: exactly one of local, s3, gcs, azure, b2, rest must be set")]
#[case::two(backend(|b| { b.rest = Some(RestBackend::default()); b.s3 = Some(S3Backend::default()); }), &[],
    "spec.backend: exactly one of local, s3, gcs, azure, b2, rest must be set")]
fn a_problem_names_the_secret_the_key_and_what_to_do(
    #[case] backend: Backend,
    #[case] entries: &[(&str, &str)],
    #[case] expected: &str,
) {
    let problem = access(&backend, &secret(entries)).unwrap_err();
    assert_eq!(problem.to_string(), expected);
}

#[test]
fn swift_is_refused_with_what_to_use_instead() {
    let swift = SwiftBackend { container: "c".into(), prefix: None };
    let problem = access(&backend(|b| b.swift = Some(swift)), &secret(&[])).unwrap_err();
    assert_eq!(problem, BackendProblem::Swift);
    assert!(problem.to_string().contains("S3 API") && !problem.is_of_secret());
}
