//! Locations as users write them, valid and invalid.

use std::num::NonZeroU64;

use proptest::prelude::*;
use rstest::rstest;
use secrecy::ExposeSecret;

use super::*;

const ID: &str = "245bc4c430d393f74fbe7b13325e30dbde9fb0745e50caad57c446c93d20096b";

#[rstest]
#[case::absolute("/srv/repo", "local", "/srv/repo")]
#[case::relative("srv/repo", "local", "srv/repo")]
#[case::here("./a:b", "local", "./a:b")]
#[case::above("../repo", "local", "../repo")]
#[case::colon_in_a_path("/srv/a:b", "local", "/srv/a:b")]
#[case::said_to_be_local("local:a:b", "local", "a:b")]
#[case::file_url("file:///srv/my%20repo", "local", "/srv/my repo")]
#[case::s3("s3:s3.amazonaws.com/bucket", "s3", "s3:s3.amazonaws.com/bucket")]
#[case::s3_prefix("s3:s3.amazonaws.com/bucket/a//b/", "s3", "s3:s3.amazonaws.com/bucket/a/b")]
#[case::s3_port("s3:localhost:9000/bucket/p", "s3", "s3:localhost:9000/bucket/p")]
#[case::s3_http("s3:http://minio:9000/bucket/p", "s3", "s3:http://minio:9000/bucket/p")]
#[case::s3_https("s3:https://s3.example.org/bucket", "s3", "s3:s3.example.org/bucket")]
#[case::s3_url("s3://bucket/some/prefix", "s3", "s3:s3.amazonaws.com/bucket/some/prefix")]
#[case::s3_url_bucket_alone("s3://bucket", "s3", "s3:s3.amazonaws.com/bucket")]
#[case::s3_url_dotted_bucket_alone("s3://my.bucket", "s3", "s3:s3.amazonaws.com/my.bucket")]
#[case::s3_url_of_restic("s3://s3.example.org/bucket/p", "s3", "s3:s3.example.org/bucket/p")]
#[case::s3_url_with_port("s3://minio:9000/bucket", "s3", "s3:minio:9000/bucket")]
#[case::gs("gs:bucket:/a/b", "gs", "gs:bucket:/a/b")]
#[case::gs_root("gs:bucket:/", "gs", "gs:bucket:/")]
#[case::gs_url("gs://bucket/a", "gs", "gs:bucket:/a")]
#[case::azure("azure:container:/a", "azure", "azure:container:/a")]
#[case::rest("rest:http://host:8000/", "rest", "rest:http://host:8000/")]
#[case::rest_slash("rest:https://host/repo", "rest", "rest:https://host/repo/")]
#[case::rest_user("rest:https://me:secret@host/repo/", "rest", "rest:https://me:***@host/repo/")]
#[case::rest_user_alone("rest:https://me@host/", "rest", "rest:https://me@host/")]
fn a_location_is_read_and_shown(#[case] text: &str, #[case] scheme: &str, #[case] shown: &str) {
    let location = Location::parse(text).unwrap();
    assert_eq!((location.scheme(), location.to_string().as_str()), (scheme, shown));
    if !shown.contains("***") && scheme != "local" {
        assert_eq!(
            Location::parse(shown).unwrap().to_string(),
            shown,
            "the displayed form can be parsed again"
        );
    }
}

#[rstest]
#[case::empty("", "it is empty")]
#[case::spaces("  ", "it is empty")]
#[case::nul("/srv\0", "NUL")]
#[case::local_nothing("local:", "expected 'local:PATH'")]
#[case::file_relative("file:repo", "expected 'file:///")]
#[case::file_host("file://host/repo", "expected 'file:///")]
#[case::s3_nothing("s3:", "expected 's3:HOST/BUCKET")]
#[case::s3_slashes("s3:///", "expected 's3:HOST/BUCKET")]
#[case::s3_no_bucket("s3:s3.amazonaws.com", "expected 's3:HOST/BUCKET")]
#[case::s3_no_bucket_either("s3:https://host/", "expected 's3:HOST/BUCKET")]
#[case::s3_no_host("s3:/bucket", "expected 's3:HOST/BUCKET")]
#[case::s3_scheme("s3:ftp://host/bucket", "expected 's3:HOST/BUCKET")]
#[case::s3_host("s3:a b/bucket", "expected 's3:HOST/BUCKET")]
#[case::s3_port("s3:host:port/bucket", "expected 's3:HOST/BUCKET")]
#[case::s3_outside("s3:host/bucket/../other", "must not contain '..'")]
#[case::s3_keys("s3:https://id:CANARY@host/bucket", "AWS_ACCESS_KEY_ID")]
#[case::gs_no_colon("gs:bucket", "expected 'gs:BUCKET:/PREFIX'")]
#[case::gs_no_bucket("gs::/prefix", "expected 'gs:BUCKET:/PREFIX'")]
#[case::gs_slash("gs:a/b:/prefix", "expected 'gs:BUCKET:/PREFIX'")]
#[case::azure_nothing("azure:", "expected 'azure:CONTAINER:/PREFIX'")]
#[case::rest_nothing("rest:", "expected 'rest:https://")]
#[case::rest_no_url("rest:host/repo", "expected 'rest:https://")]
#[case::rest_scheme("rest:ftp://u:CANARY@host/", "expected 'rest:https://")]
#[case::rest_broken("rest:https://u:CANARY@ho st/", "expected 'rest:https://")]
#[case::rest_query("rest:https://host/?x=1", "'?' or '#'")]
#[case::rest_unix("rest:http+unix:///tmp/socket:/repo/", "listen on a port")]
#[case::b2("b2:bucket:prefix", "s3:s3.REGION.backblazeb2.com/bucket/PREFIX")]
#[case::swift("swift:container:/path", "S3 API")]
#[case::sftp("sftp:user@host:/srv/repo", "rest-server")]
#[case::sftp_url("sftp://user:CANARY@host//srv", "rest-server")]
#[case::rclone("rclone:remote:path", "rclone serve restic")]
#[case::bare_url("https://me:CANARY@host/repo", "put the protocol before the URL: 'rest:' or 's3:'")]
#[case::unknown("foobar:xxx", "no such backend")]
#[case::unknown_with_secret("foobar:me:CANARY@host", "no such backend")]
fn nonsense_and_what_is_not_supported_is_refused(#[case] text: &str, #[case] expected: &str) {
    let message = Location::parse(text).unwrap_err().to_string();
    assert!(message.contains(expected), "{message}");
    assert!(!message.contains("CANARY"), "{message}");
}

#[test]
fn a_password_is_read_and_never_shown() {
    let location = Location::parse("rest:https://me%40home:CAN%3AARY@host/repo").unwrap();
    let config = location.rest(&OpenSettings::default()).unwrap();
    assert_eq!(config.user.as_deref(), Some("me@home"));
    assert_eq!(config.password.unwrap().expose_secret(), "CAN:ARY");
    for shown in [location.to_string(), format!("{location:?}")] {
        assert!(!shown.contains("CAN"), "{shown}");
    }
}

fn settings(variables: &[(&str, &str)], options: &[(&str, &str)]) -> OpenSettings {
    let map =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    OpenSettings { environment: map(variables), options: map(options), ..OpenSettings::default() }
}

#[rstest]
#[case::from_the_environment("rest:http://host/", Some("env"), Some("pass"))]
#[case::from_the_url("rest:http://me:mine@host/", Some("me"), Some("mine"))]
#[case::never_mixed("rest:http://me@host/", Some("me"), None)]
fn a_rest_user_comes_from_one_place(
    #[case] text: &str,
    #[case] user: Option<&str>,
    #[case] password: Option<&str>,
) {
    let settings = settings(&[("RESTIC_REST_USERNAME", "env"), ("RESTIC_REST_PASSWORD", "pass")], &[]);
    let config = Location::parse(text).unwrap().rest(&settings).unwrap();
    assert_eq!(config.user.as_deref(), user);
    assert_eq!(config.password.as_ref().map(ExposeSecret::expose_secret), password);
}

#[rstest]
#[case::amazon("s3:s3.amazonaws.com/b", &[], None, "false", None)]
#[case::amazon_url("s3://b", &[], None, "false", None)]
#[case::amazon_region("s3:s3.eu-west-1.amazonaws.com/b", &[], None, "false", Some("eu-west-1"))]
#[case::amazon_china("s3:s3.cn-north-1.amazonaws.com.cn/b", &[], None, "false", Some("cn-north-1"))]
#[case::amazon_path("s3://b", &[("s3.bucket-lookup", "path")], None, "true", None)]
#[case::amazon_asked_region("s3://b", &[("s3.region", "eu-x")], None, "false", Some("eu-x"))]
#[case::amazon_dual("s3:s3.dualstack.eu-west-1.amazonaws.com/b", &[], Some("https://s3.dualstack.eu-west-1.amazonaws.com"), "true", None)]
#[case::b2("s3:s3.us-west-004.backblazeb2.com/b", &[], Some("https://s3.us-west-004.backblazeb2.com"), "true", Some("us-west-004"))]
#[case::wasabi("s3:s3.eu-central-1.wasabisys.com/b", &[], Some("https://s3.eu-central-1.wasabisys.com"), "true", Some("eu-central-1"))]
#[case::minio("s3:http://minio:9000/b", &[], Some("http://minio:9000"), "true", None)]
#[case::minio_dns("s3:http://minio:9000/b", &[("s3.bucket-lookup", "dns")], Some("http://minio:9000"), "false", None)]
#[case::own_domain("s3:s3.example.org/b", &[], Some("https://s3.example.org"), "true", None)]
fn an_s3_bucket_is_addressed_as_its_endpoint_wants(
    #[case] text: &str,
    #[case] options: &[(&str, &str)],
    #[case] url: Option<&str>,
    #[case] path_style: &str,
    #[case] region: Option<&str>,
) {
    let (config, _) = Location::parse(text).unwrap().config(&settings(&[], options)).unwrap();
    let get = |key: &str| config.config.get(key).map(String::as_str);
    assert_eq!((get("s3Url"), get("s3ForcePathStyle"), get("region")), (url, Some(path_style), region));
    assert_eq!((config.provider.as_str(), config.bucket.as_str()), ("aws", "b"));
}

#[test]
fn amazons_variables_are_taken_from_the_map() {
    let settings = settings(
        &[
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "CANARY"),
            ("AWS_SESSION_TOKEN", "token"),
            ("AWS_DEFAULT_REGION", "eu-1"),
            ("AWS_PROFILE", "work"),
        ],
        &[],
    );
    let (_, environment) = Location::parse("s3://b/p").unwrap().config(&settings).unwrap();
    assert_eq!(environment.aws_access_key_id.as_deref(), Some("id"));
    assert_eq!(environment.aws_secret_access_key.unwrap().expose_secret(), "CANARY");
    assert_eq!(environment.aws_session_token.unwrap().expose_secret(), "token");
    assert_eq!(environment.aws_region.as_deref(), Some("eu-1"));
    assert_eq!(environment.aws_profile.as_deref(), Some("work"));
    assert!(!format!("{settings:?}").contains("CANARY"));
}

#[rstest]
#[case::nothing_else(&[], &[], true)]
#[case::keys(&[("AWS_ACCESS_KEY_ID", "i")], &[], false)]
#[case::open_to_all(&[], &[("s3.unsafe-anonymous-auth", "true")], false)]
#[case::named(&[("AWS_SHARED_CREDENTIALS_FILE", "/other")], &[], false)]
fn the_usual_credentials_file_is_looked_at_last(
    #[case] variables: &[(&str, &str)],
    #[case] options: &[(&str, &str)],
    #[case] used: bool,
) {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    std::fs::write(home.path().join(".aws/credentials"), "").unwrap();
    let mut variables = variables.to_vec();
    variables.push(("HOME", home.path().to_str().unwrap()));
    let (_, environment) =
        Location::parse("s3://b/p").unwrap().config(&settings(&variables, options)).unwrap();
    let file = environment.aws_shared_credentials_file.unwrap_or_default();
    assert_eq!(file.ends_with("/.aws/credentials"), used, "{file}");
}

#[rstest]
#[case::key(&[("AZURE_ACCOUNT_KEY", "Q0FOQVJZ"), ("AZURE_ACCOUNT_SAS", "sv=1")], "AZURE_STORAGE_KEY=Q0FOQVJZ\n")]
#[case::signature(&[("AZURE_ACCOUNT_SAS", "?sv=1&sig=a%3D")], "AZURE_ACCOUNT_SAS=sv=1&sig=a%3D\n")]
#[case::identity(&[("AZURE_CLIENT_ID", "c"), ("AZURE_TENANT_ID", "t")], "AZURE_CLIENT_ID=c\nAZURE_TENANT_ID=t\n")]
#[tokio::test]
async fn azures_credentials_are_passed_on_and_taken(
    #[case] variables: &[(&str, &str)],
    #[case] expected: &str,
) {
    let mut all = vec![("AZURE_ACCOUNT_NAME", "acct"), ("AZURE_ENDPOINT_SUFFIX", "core.example.net")];
    all.extend(variables);
    let settings = settings(&all, &[]);
    let location = Location::parse("azure:box:/p").unwrap();
    let (config, _) = location.config(&settings).unwrap();
    assert_eq!(String::from_utf8_lossy(config.credentials.unwrap().expose_secret()), expected);
    assert_eq!(config.config["storageAccountURI"], "https://acct.blob.core.example.net");
    assert_eq!(location.open(&settings).await.unwrap().prefix(), "p/");
}

#[tokio::test]
async fn azure_needs_the_name_of_its_account() {
    let error = Location::parse("azure:box:/p").unwrap().open(&OpenSettings::default()).await.unwrap_err();
    assert!(error.to_string().contains("AZURE_ACCOUNT_NAME"), "{error}");
}

#[rstest]
#[case::keys(&[("AWS_ACCESS_KEY_ID", "i"), ("AWS_SECRET_ACCESS_KEY", "s")], &[])]
#[case::open_to_all(&[], &[("s3.unsafe-anonymous-auth", "true")])]
#[tokio::test]
async fn an_s3_location_opens_without_asking_anyone(
    #[case] variables: &[(&str, &str)],
    #[case] options: &[(&str, &str)],
) {
    let location = Location::parse("s3:http://localhost:9/bucket/some/prefix").unwrap();
    let store = location.open(&settings(variables, options)).await.unwrap();
    assert_eq!(store.prefix(), "some/prefix/");
    assert_eq!(store.name(), "s3:http://localhost:9/bucket/some/prefix");
}

#[tokio::test]
async fn a_directory_is_made_for_init_only() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("a/repo");
    let location = Location::parse(root.to_str().unwrap()).unwrap();
    let error = location.open(&OpenSettings::default()).await.unwrap_err();
    assert!(matches!(error, Error::NoRepository { .. }), "{error:?}");
    assert!(!root.exists());
    location.create(&OpenSettings::default()).await.unwrap().put("config", "x").await.unwrap();
    assert_eq!(location.open(&OpenSettings::default()).await.unwrap().get("config").await.unwrap(), "x");
    assert_eq!(location.directory(), Some(root.as_path()));
}

#[tokio::test]
async fn settings_that_cannot_be_honoured_stop_before_anything_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let location = Location::parse(directory.path().join("repo").to_str().unwrap()).unwrap();
    assert!(location.create(&settings(&[], &[("local.connections", "none")])).await.is_err());
    assert!(!directory.path().join("repo").exists());

    let missing =
        OpenSettings { ca_certificates: vec![directory.path().join("ca")], ..OpenSettings::default() };
    for text in ["rest:https://host/", "s3:https://host/bucket"] {
        let error = Location::parse(text).unwrap().open(&missing).await.unwrap_err();
        assert!(matches!(error, Error::File { .. }), "{error:?}");
    }
    std::fs::write(directory.path().join("pem"), "no PEM").unwrap();
    let wrong =
        OpenSettings { client_certificate: Some(directory.path().join("pem")), ..OpenSettings::default() };
    let error = Location::parse("rest:https://host/").unwrap().open(&wrong).await.unwrap_err();
    assert_eq!(error.category(), "config", "{error:?}");
}

#[test]
fn limits_and_connections_reach_the_store() {
    let settings = OpenSettings {
        upload_limit: NonZeroU64::new(5),
        ..settings(&[], &[("rest.connections", "3"), ("s3.retries", "4")])
    };
    let tuning = settings.tuning("rest").unwrap();
    assert_eq!(tuning.concurrency, 3);
    assert!(!tuning.bandwidth.is_unlimited());
    let tuning = settings.tuning("s3").unwrap();
    assert_eq!((tuning.concurrency, tuning.retry.attempts), (settings.tuning.concurrency, 5));
}

#[tokio::test]
async fn careless_tls_is_warned_about() {
    let settings = OpenSettings { insecure_tls: true, ..OpenSettings::default() };
    let store = Location::parse("rest:https://host/").unwrap().open(&settings).await.unwrap();
    assert!(store.warnings()[0].contains("--insecure-tls"), "{:?}", store.warnings());
    let error = store.put(&format!("lifeboat/{ID}"), "x").await.unwrap_err();
    assert_eq!(error.category(), "unsupported");
}

#[test]
fn an_at_sign_within_nonsense_hides_what_is_before_the_first_one() {
    let error = Location::parse("u:CANARY@://@").unwrap_err().to_string();
    assert!(error.contains("'u:***@'"), "{error}");
}

proptest! {
    #[test]
    fn no_text_panics_or_leaks(text in "(s3|rest|gs|azure|b2|file|local|x)?:?(//|https://)?(u:CANARY@)?[a-z:/.%@?# ]{0,20}") {
        let shown = match Location::parse(&text) {
            Ok(location) if location.scheme() != "rest" => return Ok(()),
            Ok(location) => location.to_string(),
            Err(error) => error.to_string(),
        };
        prop_assert!(!shown.contains("CANARY@"), "{}", shown);
    }
}
