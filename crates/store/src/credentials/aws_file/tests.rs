//! Tables for the shared credentials file. `CANARY` stands for a secret and must appear in no message.

use rstest::rstest;
use secrecy::ExposeSecret;

use super::*;

fn resolve(file: &str, profile: &str) -> Result<AwsSource> {
    let environment = AwsKeys { id: "ENVID".into(), secret: "CANARY".to_owned().into(), token: None };
    AwsFile::parse(file.as_bytes())?.resolve(profile, &OutsideSources { environment: Some(environment) })
}

/// A one-line form of a source that tests can compare.
fn sketch(source: &AwsSource) -> String {
    match source {
        AwsSource::Static(keys) => match &keys.token {
            Some(token) => format!("{}:{}:{}", keys.id, keys.secret.expose_secret(), token.expose_secret()),
            None => format!("{}:{}", keys.id, keys.secret.expose_secret()),
        },
        AwsSource::WebIdentity { role, token_file } => format!("web({} {token_file})", role.arn),
        AwsSource::AssumeRole { role, base } => format!("role({} <- {})", role.arn, sketch(base)),
        AwsSource::Container => "container".into(),
        AwsSource::Instance => "instance".into(),
        AwsSource::Anonymous => "anonymous".into(),
    }
}

const KEYS: &str = "aws_access_key_id = ID\naws_secret_access_key=CANARY\n";

#[rstest]
#[case::plain("[default]\naws_access_key_id = ID\naws_secret_access_key = CANARY", "default", "ID:CANARY")]
#[case::windows_ends(
    "[default]\r\naws_access_key_id=ID\r\naws_secret_access_key=CANARY\r\n",
    "default",
    "ID:CANARY"
)]
#[case::comments(
    "# c\n[default]\n; c\naws_access_key_id=ID\naws_secret_access_key=CANARY",
    "default",
    "ID:CANARY"
)]
#[case::equals_sign(
    "[default]\naws_access_key_id=ID\naws_secret_access_key=CANARY==",
    "default",
    "ID:CANARY=="
)]
#[case::upper_case("[default]\nAWS_ACCESS_KEY_ID=ID\nAWS_SECRET_ACCESS_KEY=CANARY", "default", "ID:CANARY")]
#[case::token(
    "[p]\naws_access_key_id=ID\naws_secret_access_key=CANARY\naws_session_token=T",
    "p",
    "ID:CANARY:T"
)]
#[case::config_style("[profile p]\naws_access_key_id=ID\naws_secret_access_key=CANARY", "p", "ID:CANARY")]
#[case::nested(
    "[p]\ns3 =\n  role_arn = x\naws_access_key_id=ID\naws_secret_access_key=CANARY",
    "p",
    "ID:CANARY"
)]
#[case::web_identity("[p]\nrole_arn=arn:r\nweb_identity_token_file=/t", "p", "web(arn:r /t)")]
#[case::source_profile(
    "[p]\nrole_arn=arn:r\nsource_profile=q\n[q]\naws_access_key_id=ID\naws_secret_access_key=CANARY",
    "p",
    "role(arn:r <- ID:CANARY)"
)]
#[case::own_source(
    "[p]\nrole_arn=arn:r\nsource_profile=p\naws_access_key_id=ID\naws_secret_access_key=CANARY",
    "p",
    "role(arn:r <- ID:CANARY)"
)]
#[case::role_of_a_role(
    "[a]\nrole_arn=arn:a\nsource_profile=b\n[b]\nrole_arn=arn:b\nweb_identity_token_file=/t",
    "a",
    "role(arn:a <- web(arn:b /t))"
)]
#[case::instance(
    "[p]\nrole_arn=arn:r\ncredential_source=Ec2InstanceMetadata",
    "p",
    "role(arn:r <- instance)"
)]
#[case::environment("[p]\nrole_arn=arn:r\ncredential_source=Environment", "p", "role(arn:r <- ENVID:CANARY)")]
fn a_profile_resolves(#[case] file: &str, #[case] profile: &str, #[case] expected: &str) {
    assert_eq!(sketch(&resolve(file, profile).unwrap()), expected);
}

#[rstest]
#[case::empty("", "contains none")]
#[case::binary("\u{0}\u{1}", "line 1")]
#[case::just_a_secret("CANARY", "line 1: expected 'key = value'")]
#[case::no_section("aws_secret_access_key=CANARY", "before the first '[profile]'")]
#[case::open_bracket("[default\nx=CANARY", "'[' without ']'")]
#[case::other_profile(
    "[other]\naws_access_key_id=ID\naws_secret_access_key=CANARY",
    "no profile 'default', only 'other'"
)]
#[case::no_id("[default]\naws_secret_access_key=CANARY", "no aws_access_key_id")]
#[case::no_secret("[default]\naws_access_key_id=ID", "no aws_secret_access_key")]
#[case::nothing("[default]\nregion=eu", "neither aws_access_key_id nor role_arn")]
#[case::process("[default]\ncredential_process=/bin/x CANARY", "'credential_process' is not supported")]
#[case::mfa("[default]\nmfa_serial=CANARY\nrole_arn=arn:r", "'mfa_serial' is not supported")]
#[case::sso("[default]\nsso_start_url=CANARY", "'sso_start_url' is not supported")]
#[case::lonely_role("[default]\nrole_arn=arn:r", "none of source_profile")]
#[case::missing_source("[default]\nrole_arn=arn:r\nsource_profile=gone", "no profile 'gone'")]
#[case::circle(
    "[default]\nrole_arn=arn:r\nsource_profile=b\n[b]\nrole_arn=arn:b\nsource_profile=default",
    "neither"
)]
#[case::bad_source("[default]\nrole_arn=arn:r\ncredential_source=Magic", "'Magic'")]
#[case::bad_role("[default]\nrole_arn=admin\nsource_profile=default", "role_arn is 'admin'")]
#[case::bad_duration("[default]\nrole_arn=arn:r\nsource_profile=default\nduration_seconds=5", "900 to 43200")]
#[case::odd_key("[default]\naws_access_key_id=I D\naws_secret_access_key=CANARY", "no AWS key has")]
fn a_bad_file_is_refused_with_the_reason_and_no_secret(#[case] file: &str, #[case] expected: &str) {
    let error = resolve(file, "default").unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");
    assert!(!format!("{error} {error:?}").contains("CANARY"), "{error:?}");
}

#[test]
fn debug_output_masks_the_secret() {
    let source = resolve(&format!("[default]\n{KEYS}aws_session_token=CANARY"), "default").unwrap();
    assert!(!format!("{source:?}").contains("CANARY"));
}
