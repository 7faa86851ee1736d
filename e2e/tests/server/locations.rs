//! BackupStorageLocation: `Available`, or `Unavailable` within seconds with a message that a user can act on.

use std::fs;

use lifeboat_e2e::{Installation, Namespace, Program, apply, get, lifeboat, s3, wait_for};
use serde_json::Value;

/// How long the validation of a new location may take, in seconds.
const VERDICT: u64 = 25;

/// A location that is deleted with the test.
struct Location<'a> {
    name: &'a str,
}

impl<'a> Location<'a> {
    fn new(name: &'a str, bucket: &str, config: &str, more: &[&str]) -> Self {
        lifeboat().args(["backup-location", "delete", name, "--confirm"]).run();
        lifeboat()
            .args([
                "backup-location",
                "create",
                name,
                "--provider",
                "aws",
                "--bucket",
                bucket,
                "--config",
                config,
            ])
            .args(more)
            .ok();
        Self { name }
    }

    fn unavailable(&self, installation: &Installation) -> String {
        installation.wait_for_phase(self.name, "Unavailable", VERDICT)
    }
}

impl Drop for Location<'_> {
    fn drop(&mut self) {
        lifeboat().args(["backup-location", "delete", self.name, "--confirm"]).run();
    }
}

fn secret(name: &str, content: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), content).unwrap();
    let from_file = format!("--from-file=cloud={}", file.path().display());
    let manifest = lifeboat_e2e::kubectl()
        .args([
            "-n",
            "lifeboat",
            "create",
            "secret",
            "generic",
            name,
            &from_file,
            "--dry-run=client",
            "-o",
            "yaml",
        ])
        .ok();
    apply(&manifest);
}

#[test]
fn a_good_location_is_available_over_http_and_tls() {
    let installation = Installation::ensure();
    let plain = Location::new("plain", "lifeboat", &s3().config(), &["--prefix", "e2e"]);
    installation.wait_for_phase(plain.name, "Available", VERDICT);
    let tls =
        Location::new("tls", "lifeboat", &s3().tls_config(), &["--prefix", "e2e", "--cacert", &s3().ca]);
    installation.wait_for_phase(tls.name, "Available", VERDICT);
}

#[test]
fn a_wrong_bucket_is_named() {
    let installation = Installation::ensure();
    let message =
        Location::new("no-bucket", "no-such-bucket", &s3().config(), &[]).unavailable(&installation);
    assert!(message.contains("no-such-bucket"), "{message}");
}

/// Status and reason of a condition, once it is set.
fn condition(location: &str, kind: &str) -> (String, String) {
    wait_for(&format!("condition {kind} of {location}"), VERDICT, || {
        let object = get(&["-n", "lifeboat", "bsl", location]);
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == kind);
        let text = |field: &str| found.and_then(|condition| condition[field].as_str()).map(str::to_owned);
        text("status").zip(text("reason")).ok_or_else(|| object["status"].to_string())
    })
}

#[test]
fn the_category_of_a_verdict_is_the_reason_of_a_condition() {
    let installation = Installation::ensure();
    let location = Location::new("categorised", "no-such-bucket", &s3().config(), &[]);
    location.unavailable(&installation);
    assert_eq!(condition(location.name, "Available"), ("False".into(), "BucketNotFound".into()));
}

#[test]
fn storage_without_verification_is_available_and_said_to_be_insecure() {
    let installation = Installation::ensure();
    let config = format!("{},insecureSkipTLSVerify=true", s3().tls_config());
    let location = Location::new("unverified", "lifeboat", &config, &["--prefix", "e2e"]);
    installation.wait_for_phase(location.name, "Available", VERDICT);
    assert_eq!(condition(location.name, "StorageSecure").0, "False");
    wait_for_event(&installation, "InsecureSettings", location.name);
}

#[test]
fn conditions_that_a_client_dropped_come_back_without_periodic_looks() {
    let installation = Installation::ensure();
    let more = ["--prefix", "e2e", "--validation-frequency", "0s"];
    let location = Location::new("dropped", "lifeboat", &s3().config(), &more);
    installation.wait_for_phase(location.name, "Available", VERDICT);
    condition(location.name, "Available");
    let patch = r#"{"status": {"conditions": null}}"#;
    installation.kubectl().args(["patch", "bsl", location.name, "--type=merge", "-p", patch]).ok();
    assert_eq!(condition(location.name, "Available").0, "True");
}

fn wait_for_event(installation: &Installation, reason: &str, location: &str) {
    wait_for(&format!("event {reason} on {location}"), 30, || {
        let events = installation.kubectl().args(["get", "events", "-o", "json"]).ok();
        let events: Value = serde_json::from_str(&events).unwrap();
        let events = events["items"].as_array().cloned().unwrap_or_default();
        let about = |event: &&Value| event["involvedObject"]["name"] == location;
        if events.iter().filter(about).any(|event| event["reason"] == reason) {
            return Ok(());
        }
        Err(format!("{:?}", events.iter().filter(about).map(|event| &event["reason"]).collect::<Vec<_>>()))
    });
}

#[test]
fn a_wrong_key_is_distinguished_from_a_wrong_bucket() {
    let installation = Installation::ensure();
    secret(
        "wrong-key",
        "[default]\naws_access_key_id = WRONGKEYID\naws_secret_access_key = canary-secret-value\n",
    );
    let location =
        Location::new("wrong-key", "lifeboat", &s3().config(), &["--credential", "wrong-key=cloud"]);
    let message = location.unavailable(&installation);
    assert!(message.contains("WRONGKEYID") || message.contains("access key"), "{message}");
    assert!(!message.contains("canary-secret-value"), "{message}");
}

#[test]
fn corrected_credentials_make_it_available_without_waiting_for_the_next_period() {
    let installation = Installation::ensure();
    secret("corrected", "[default]\naws_access_key_id = WRONG\naws_secret_access_key = WRONG\n");
    let more = ["--prefix", "e2e", "--credential", "corrected=cloud", "--validation-frequency", "1h"];
    let location = Location::new("corrected", "lifeboat", &s3().config(), &more);
    location.unavailable(&installation);
    secret("corrected", &s3().credentials());
    installation.wait_for_phase(location.name, "Available", VERDICT);
}

#[test]
fn an_unreachable_endpoint_is_named() {
    let installation = Installation::ensure();
    let config = format!("region={},s3Url=http://127.0.0.1:9,s3ForcePathStyle=true", s3().region);
    let message = Location::new("unreachable", "lifeboat", &config, &[]).unavailable(&installation);
    assert!(message.contains("127.0.0.1:9"), "{message}");
}

#[test]
fn an_untrusted_certificate_is_said_to_be_untrusted() {
    let installation = Installation::ensure();
    let message = Location::new("untrusted", "lifeboat", &s3().tls_config(), &[]).unavailable(&installation);
    assert!(message.contains("certificate") && message.contains("caCert"), "{message}");
}

#[test]
fn an_expired_certificate_is_said_to_be_expired() {
    let installation = Installation::ensure();
    let namespace = Namespace::new("expired");
    let host = format!("expired.{}.svc.cluster.local", namespace.name);
    let (authority, certificate, key) = expired_certificate(&host);
    let indented = |text: &str| text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n");
    namespace.apply(&format!(
        "
apiVersion: v1
kind: Secret
metadata: {{name: tls}}
stringData:
  cert.pem: |
{}
  key.pem: |
{}
---
apiVersion: v1
kind: Service
metadata: {{name: expired}}
spec: {{selector: {{app: expired}}, ports: [{{port: 8443}}]}}
---
apiVersion: v1
kind: Pod
metadata: {{name: expired, labels: {{app: expired}}}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: TEST_IMAGE
    imagePullPolicy: IfNotPresent
    command: [openssl, s_server, -accept, '8443', -cert, /tls/cert.pem, -key, /tls/key.pem, -www]
    readinessProbe: {{tcpSocket: {{port: 8443}}, periodSeconds: 1}}
    volumeMounts: [{{name: tls, mountPath: /tls}}]
  volumes:
  - name: tls
    secret: {{secretName: tls}}
",
        indented(&certificate),
        indented(&key)
    ));
    namespace.kubectl().args(["wait", "--for=condition=Ready", "--timeout=60s", "pod/expired"]).ok();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), authority).unwrap();
    let config = format!("region={},s3Url=https://{host}:8443,s3ForcePathStyle=true", s3().region);
    let more = ["--cacert", &file.path().to_string_lossy()];
    let message = Location::new("expired", "lifeboat", &config, &more).unavailable(&installation);
    assert!(message.contains("expired"), "{message}");
}

/// A certificate authority, and a certificate signed by it that was valid only in the year 2000.
fn expired_certificate(host: &str) -> (String, String, String) {
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(vec![host.to_owned()]).unwrap();
    parameters.not_before = rcgen::date_time_ymd(2000, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2000, 12, 31);
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let certificate = parameters.signed_by(&key, &issuer).unwrap();
    (authority_pem, certificate.pem(), key.serialize_pem())
}

#[test]
fn an_unknown_setting_is_named_with_the_one_that_was_meant() {
    let installation = Installation::ensure();
    let config = format!("{},s3ForcePathStile=true", s3().config());
    let message = Location::new("misspelt", "lifeboat", &config, &[]).unavailable(&installation);
    assert!(message.contains("s3ForcePathStile") && message.contains("s3ForcePathStyle"), "{message}");
}

#[test]
fn a_bucket_that_belongs_to_something_else_is_refused_by_the_name_of_its_directories() {
    let installation = Installation::ensure();
    put("elsewhere/photos/cat.jpg", "meow");
    let location = Location::new("foreign", "lifeboat", &s3().config(), &["--prefix", "elsewhere"]);
    let message = location.unavailable(&installation);
    assert!(message.contains("photos"), "{message}");
}

/// Writes an object with curl's own S3 signature.
fn put(key: &str, content: &str) {
    let s3 = s3();
    let settings = format!("user = \"{}:{}\"\n", s3.access_key, s3.secret_key);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), content).unwrap();
    Program::new("curl")
        .args(["--silent", "--fail", "--config", "-", "--aws-sigv4", &format!("aws:amz:{}:s3", s3.region)])
        .args(["--upload-file", &file.path().to_string_lossy(), &format!("{}/lifeboat/{key}", s3.endpoint)])
        .input(&settings)
        .ok();
}

#[test]
fn of_several_defaults_the_newest_stays_and_the_other_gets_an_event() {
    let installation = Installation::ensure();
    let newer = Location::new("newer-default", "lifeboat", &s3().config(), &["--prefix", "e2e", "--default"]);
    wait_for("the older default unset", 30, || {
        let older = get(&["-n", "lifeboat", "bsl", "default"]);
        if older["spec"]["default"] == Value::Bool(true) { Err(older["spec"].to_string()) } else { Ok(()) }
    });
    assert_eq!(get(&["-n", "lifeboat", "bsl", newer.name])["spec"]["default"], true);
    wait_for_event(&installation, "DefaultUnset", "default");
    drop(newer);
    lifeboat().args(["backup-location", "set", "default", "--default"]).ok();
}

#[test]
fn an_older_location_that_is_marked_later_does_not_stay_a_second_default() {
    let installation = Installation::ensure();
    let unset = |name: &str| {
        wait_for(&format!("{name} unset"), 30, || {
            let spec = get(&["-n", "lifeboat", "bsl", name])["spec"].clone();
            if spec["default"] == Value::Bool(true) { Err(spec.to_string()) } else { Ok(()) }
        });
    };
    let more = ["--prefix", "e2e", "--validation-frequency", "0s"];
    let older = Location::new("older-default", "lifeboat", &s3().config(), &more);
    installation.wait_for_phase(older.name, "Available", VERDICT);
    let more = ["--prefix", "e2e", "--validation-frequency", "0s", "--default"];
    // If created in the same second, the name decides: this one is last either way.
    let newer = Location::new("z-newest-default", "lifeboat", &s3().config(), &more);
    installation.wait_for_phase(newer.name, "Available", VERDICT);
    unset("default");
    // Neither of the two is validated again by its own schedule.
    let patch = r#"{"spec": {"default": true}}"#;
    installation.kubectl().args(["patch", "bsl", older.name, "--type=merge", "-p", patch]).ok();
    unset(older.name);
    assert_eq!(get(&["-n", "lifeboat", "bsl", newer.name])["spec"]["default"], true);
    wait_for_event(&installation, "DefaultUnset", older.name);
    drop(newer);
    lifeboat().args(["backup-location", "set", "default", "--default"]).ok();
}

#[test]
fn create_with_wait_reports_the_validation() {
    Installation::ensure();
    let create = |bucket: &str| {
        lifeboat()
            .args([
                "backup-location",
                "create",
                "waited",
                "--provider",
                "aws",
                "--bucket",
                bucket,
                "--prefix",
                "e2e",
            ])
            .args(["--config", &s3().config(), "--wait"])
    };
    let said = create("no-such-bucket").refused();
    assert!(said.contains("no-such-bucket"), "{said}");
    lifeboat().args(["backup-location", "delete", "waited", "--confirm"]).ok();
    assert!(create("lifeboat").ok().contains("available"));
    let said = lifeboat().args(["backup-location", "delete", "waited"]).refused();
    assert!(said.contains("--confirm"), "{said}");
    lifeboat().args(["backup-location", "delete", "waited", "--confirm"]).ok();
}

#[test]
fn get_prints_tables_for_people_and_objects_for_machines() {
    let installation = Installation::ensure();
    installation.wait_for_phase("default", "Available", VERDICT);
    let table = lifeboat().args(["backup-location", "get"]).ok();
    assert!(
        table.starts_with("NAME ") && table.contains("lifeboat/e2e") && table.contains("Available"),
        "{table}"
    );
    let list: Value =
        serde_json::from_str(&lifeboat().args(["backup-location", "get", "-o", "json"]).ok()).unwrap();
    assert_eq!(list["kind"], "List");
    let one = lifeboat().args(["backup-location", "get", "default", "-o", "yaml"]).ok();
    assert!(one.contains("kind: BackupStorageLocation"), "{one}");
    let said = lifeboat().args(["backup-location", "get", "nothing"]).refused();
    assert!(said.contains("\"nothing\"") && said.contains("default"), "{said}");
}
