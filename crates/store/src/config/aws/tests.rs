//! Tables for the keys of the aws plugin. `CANARY` stands for a secret and must appear in no message.

use std::collections::BTreeMap;

use rstest::rstest;

use super::*;

const SECRET: &str = "[default]\naws_access_key_id=ID\naws_secret_access_key=CANARY\nregion=profile-region\n";
const KEY32: &[u8] = b"CANARYCANARYCANARYCANARYCANARY32";

fn config(entries: &[(&str, &str)]) -> StoreConfig {
    StoreConfig {
        provider: "velero.io/aws".into(),
        bucket: "bkt".into(),
        config: entries.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect::<BTreeMap<_, _>>(),
        credentials: Some(SECRET.as_bytes().to_vec().into()),
        ..StoreConfig::default()
    }
}

fn check(entries: &[(&str, &str)]) -> Result<AwsConfig> {
    let files = Files::from_iter([("/key32", KEY32.to_vec()), ("/key5", b"CANAR".to_vec())]);
    validate(&config(entries), &Environment::default(), &files)
}

#[rstest]
#[case::aes(&[("serverSideEncryption", "AES256")], "Aes256")]
#[case::kms_by_algorithm(&[("serverSideEncryption", "aws:kms")], "Kms { kind: \"aws:kms\", key: None }")]
#[case::kms_by_key(&[("kmsKeyId", "k1")], "Kms { kind: \"aws:kms\", key: Some(\"k1\") }")]
#[case::kms_both(&[("kmsKeyId", "k1"), ("serverSideEncryption", "aws:kms")], "Kms { kind: \"aws:kms\", key: Some(\"k1\") }")]
#[case::dsse(&[("kmsKeyId", "k1"), ("serverSideEncryption", "aws:kms:dsse")], "Kms { kind: \"aws:kms:dsse\", key: Some(\"k1\") }")]
#[case::customer(&[("customerKeyEncryptionFile", "/key32")], "Customer(")]
#[case::none(&[], "None")]
fn encryption_is_what_was_asked_for(#[case] entries: &[(&str, &str)], #[case] expected: &str) {
    let debug = format!("{:?}", check(entries).unwrap().encryption);
    assert!(debug.starts_with(expected), "{debug}");
    assert!(!debug.contains("CANARY"), "{debug}");
}

#[rstest]
#[case::unknown_algorithm(&[("serverSideEncryption", "aes")], "'serverSideEncryption' has the value 'aes'")]
#[case::kms_and_aes(&[("kmsKeyId", "k"), ("serverSideEncryption", "AES256")], "because 'kmsKeyId' is set")]
#[case::two_keys(&[("kmsKeyId", "k"), ("customerKeyEncryptionFile", "/key32")], "together with 'customerKeyEncryptionFile'")]
#[case::customer_and_aes(&[("customerKeyEncryptionFile", "/key32"), ("serverSideEncryption", "AES256")], "together with")]
#[case::short_key(&[("customerKeyEncryptionFile", "/key5")], "5 bytes, it must have exactly 32")]
#[case::missing_file(&[("customerKeyEncryptionFile", "/gone")], "'/gone'")]
#[case::customer_in_clear(&[("customerKeyEncryptionFile", "/key32"), ("s3Url", "http://minio:9000")], "sent unencrypted")]
#[case::secret_not_given(&[("customerKeyEncryptionSecret", "name/key")], "was not found")]
#[case::secret_malformed(&[("customerKeyEncryptionSecret", "name")], "expected 'secretName/key'")]
#[case::signature(&[("signatureVersion", "1")], "'signatureVersion' has the value '1'")]
#[case::not_a_bool(&[("s3ForcePathStyle", "yes")], "'s3ForcePathStyle' has the value 'yes'")]
#[case::skip_not_a_bool(&[("insecureSkipTLSVerify", "on")], "'insecureSkipTLSVerify'")]
#[case::no_scheme(&[("s3Url", "minio:9000")], "'s3Url' has the value 'minio:9000'")]
#[case::public_ftp(&[("publicUrl", "ftp://x")], "'publicUrl' has the value 'ftp://x'")]
#[case::tags(&[("tagging", "a")], "'tagging'")]
#[case::many_tags(&[("tagging", "a=1&b=1&c=1&d=1&e=1&f=1&g=1&h=1&i=1&j=1&k=1")], "11 tags")]
#[case::checksum(&[("checksumAlgorithm", "MD5")], "'checksumAlgorithm' has the value 'MD5'")]
#[case::profile(&[("profile", "other")], "no profile 'other'")]
#[case::unknown(&[("s3URL", "x")], "did you mean 's3Url'?")]
fn what_cannot_be_honoured_is_refused_by_name(#[case] entries: &[(&str, &str)], #[case] expected: &str) {
    let error = check(entries).unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");
    assert!(!format!("{error} {error:?}").contains("CANAR"), "{error:?}");
    assert_eq!(error.retry(), crate::Retry::Never);
}

#[rstest]
#[case::config(&[("region", "r1")], None, Some("r1"))]
#[case::profile(&[], Some("env"), Some("profile-region"))]
fn the_region_comes_from_config_then_profile(
    #[case] entries: &[(&str, &str)],
    #[case] variable: Option<&str>,
    #[case] expected: Option<&str>,
) {
    let environment = Environment { aws_region: variable.map(str::to_owned), ..Environment::default() };
    let valid = validate(&config(entries), &environment, &Files::default()).unwrap();
    assert_eq!(valid.region.as_deref(), expected);
}

#[rstest]
#[case::unset(&[], None)]
#[case::empty(&[("checksumAlgorithm", "")], None)]
#[case::upstreams_default(&[("checksumAlgorithm", "CRC32")], Some(Checksum::SHA256))]
#[case::sha(&[("checksumAlgorithm", "SHA256")], Some(Checksum::SHA256))]
#[case::crc64(&[("checksumAlgorithm", "CRC64NVME")], Some(Checksum::CRC64NVME))]
fn a_checksum_is_at_least_as_strong_as_asked(
    #[case] entries: &[(&str, &str)],
    #[case] expected: Option<Checksum>,
) {
    assert_eq!(check(entries).unwrap().checksum, expected);
}

#[test]
fn the_rest_of_the_keys_are_taken() {
    let valid = check(&[
        ("s3Url", "https://minio:9000"),
        ("publicUrl", "https://backups.example"),
        ("s3ForcePathStyle", "true"),
        ("signatureVersion", "4"),
        ("insecureSkipTLSVerify", "true"),
        ("enableSharedConfig", "true"),
        ("tagging", "Key1=Value1&Key2=a%20b"),
        ("profile", "default"),
    ])
    .unwrap();
    assert!(valid.path_style && valid.skip_tls_verify);
    assert_eq!(valid.public_url.unwrap().as_str(), "https://backups.example/");
    assert_eq!(valid.tags.encoded(), "Key1=Value1&Key2=a+b");
}

fn environment(vars: &[(&str, &str)]) -> Environment {
    Environment::from_vars(vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())))
}

#[rstest]
#[case::keys(&[("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "CANARY"), ("AWS_SHARED_CREDENTIALS_FILE", "/f")], "Static(AwsKeys { id: \"E\"")]
#[case::file(&[("AWS_SHARED_CREDENTIALS_FILE", "/f"), ("AWS_ROLE_ARN", "arn:r"), ("AWS_WEB_IDENTITY_TOKEN_FILE", "/t")], "Static(AwsKeys { id: \"ID\"")]
#[case::irsa(&[("AWS_ROLE_ARN", "arn:r"), ("AWS_WEB_IDENTITY_TOKEN_FILE", "/t")], "WebIdentity {")]
#[case::eks_pod_identity(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/")], "Container")]
#[case::machine(&[], "Instance")]
fn without_a_secret_the_environment_decides(#[case] vars: &[(&str, &str)], #[case] expected: &str) {
    let config = StoreConfig { credentials: None, ..config(&[("region", "r")]) };
    let files = Files::from_iter([("/f", SECRET.as_bytes().to_vec())]);
    let valid = validate(&config, &environment(vars), &files).unwrap();
    let debug = format!("{:?}", valid.source);
    assert!(debug.starts_with(expected), "{debug}");
    assert!(!debug.contains("CANARY"), "{debug}");
}

#[test]
fn a_secret_wins_over_the_environment() {
    let vars = [("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "x"), ("AWS_ROLE_ARN", "arn:r")];
    let valid = validate(&config(&[]), &environment(&vars), &Files::default()).unwrap();
    assert!(format!("{:?}", valid.source).contains("id: \"ID\""), "{:?}", valid.source);
}

#[rstest]
#[case::slash("bkt/prefix", "move the part after the bucket's name to objectStorage.prefix")]
#[case::empty("", "it is empty")]
#[case::only_slashes("//", "it is empty")]
#[case::express("bkt--usw2-az1--x-s3", "directory buckets")]
fn a_bad_bucket_is_refused(#[case] bucket: &str, #[case] expected: &str) {
    let config = StoreConfig { bucket: bucket.into(), ..config(&[]) };
    let error = config.validate(&Environment::default(), &Files::default()).unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");
}

#[rstest]
#[case::trimmed("/bkt/", "bkt")]
#[case::access_point("arn:aws:s3:eu-west-1:1:accesspoint/ap", "arn:aws:s3:eu-west-1:1:accesspoint/ap")]
fn a_good_bucket_is_taken(#[case] bucket: &str, #[case] expected: &str) {
    let config = StoreConfig { bucket: bucket.into(), ..config(&[]) };
    assert_eq!(config.validate(&Environment::default(), &Files::default()).unwrap().bucket, expected);
}

#[rstest]
#[case::garbage(b"CANARY".as_slice(), "contains no PEM certificate")]
#[case::broken(b"-----BEGIN CERTIFICATE-----\nCANARY!\n-----END CERTIFICATE-----\n".as_slice(), "cannot be parsed")]
fn a_bad_authority_is_refused(#[case] pem: &[u8], #[case] expected: &str) {
    let config = StoreConfig { ca_pem: Some(pem.to_vec()), ..config(&[]) };
    let error = config.validate(&Environment::default(), &Files::default()).unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn nothing_secret_is_in_debug_output() {
    let mut config = config(&[("customerKeyEncryptionSecret", "name/key")]);
    config.customer_key = Some(KEY32.to_vec().into());
    let valid = config.validate(&Environment::default(), &Files::default()).unwrap();
    let debug = format!("{config:?} {valid:?}");
    assert!(!debug.contains("CANARY") && !debug.contains("Q0FOQVJZ"), "{debug}");
}
