//! `velero backup-location`: get, create, set, delete, over HTTP and over TLS.

use lifeboat_e2e::{Installation, Program, get, kubectl, s3, velero, wait_for};
use serde_json::{Value, json};

use super::{Own, cells, row};

/// How long a validation may take, in seconds.
const VERDICT: u64 = 25;

/// `velero backup-location create` in the bucket of the tests.
fn create(name: &str, config: &str) -> Program {
    velero()
        .args(["backup-location", "create", name, "--provider", "aws", "--bucket", "lifeboat"])
        .args(["--prefix", name, "--config", config])
}

fn set(name: &str) -> Program {
    velero().args(["backup-location", "set", name])
}

fn list() -> String {
    velero().args(["backup-location", "get"]).ok()
}

fn location(name: &str) -> Value {
    get(&["-n", "lifeboat", "bsl", name])
}

#[test]
fn the_list_shows_the_default_location_available() {
    Installation::ensure().wait_for_phase("default", "Available", VERDICT);
    let table = list();
    let columns = table.lines().next().map(cells).unwrap_or_default();
    let expected = ["NAME", "PROVIDER", "BUCKET/PREFIX", "PHASE", "LAST VALIDATED", "ACCESS MODE", "DEFAULT"];
    assert_eq!(columns, expected, "{table}");
    let row = row(&table, "default");
    assert_eq!(row[..4], ["default", "aws", "lifeboat/e2e", "Available"], "{table}");
    assert_ne!(row[4], "Unknown", "{table}");
    assert_eq!(row[5..], ["ReadWrite", "true"], "{table}");
}

#[test]
fn a_location_made_over_http_becomes_available() {
    let installation = Installation::ensure();
    let _secret = Own::good_credentials("cli-http-key");
    let _location = Own::new("bsl", "cli-http");
    let said = create("cli-http", &s3().config()).args(["--credential", "cli-http-key=cloud"]).ok();
    assert!(said.contains("configured successfully"), "{said}");
    installation.wait_for_phase("cli-http", "Available", VERDICT);
    assert_eq!(row(&list(), "cli-http")[2..4], ["lifeboat/cli-http", "Available"]);
}

#[test]
fn a_location_made_over_tls_with_its_authority_becomes_available() {
    let installation = Installation::ensure();
    let _secret = Own::good_credentials("cli-tls-key");
    let _location = Own::new("bsl", "cli-tls");
    create("cli-tls", &s3().tls_config())
        .args(["--cacert", &s3().ca, "--credential", "cli-tls-key=cloud"])
        .ok();
    installation.wait_for_phase("cli-tls", "Available", VERDICT);
    assert_eq!(row(&list(), "cli-tls")[3], "Available");
}

#[test]
fn tls_without_the_authority_is_unavailable_because_of_the_certificate() {
    let installation = Installation::ensure();
    let _location = Own::new("bsl", "cli-untrusted");
    create("cli-untrusted", &s3().tls_config()).ok();
    let message = installation.wait_for_phase("cli-untrusted", "Unavailable", VERDICT);
    assert!(message.contains("certificate"), "{message}");
    assert_eq!(row(&list(), "cli-untrusted")[3], "Unavailable");
}

/// Stock `set` writes caCert whatever flag is given, so leaving out --cacert erases it. That cannot be distinguished
/// from a user who wants to erase it; the status must say what happened.
#[test]
fn set_without_cacert_erases_the_authority_and_the_location_says_so() {
    let installation = Installation::ensure();
    let _secret = Own::good_credentials("cli-erase-key");
    let _location = Own::new("bsl", "cli-erase");
    create("cli-erase", &s3().tls_config()).args(["--cacert", &s3().ca]).ok();
    installation.wait_for_phase("cli-erase", "Available", VERDICT);
    set("cli-erase").args(["--credential", "cli-erase-key=cloud"]).ok();
    let message = installation.wait_for_phase("cli-erase", "Unavailable", VERDICT);
    assert!(message.contains("certificate"), "{message}");
    set("cli-erase").args(["--cacert", &s3().ca]).ok();
    installation.wait_for_phase("cli-erase", "Available", VERDICT);
    assert_eq!(location("cli-erase")["spec"]["credential"], json!({"name": "cli-erase-key", "key": "cloud"}));
}

#[test]
fn set_credential_makes_a_refused_location_available() {
    let installation = Installation::ensure();
    let wrong = "[default]\naws_access_key_id = unknown\naws_secret_access_key = nothing\n";
    let _wrong = Own::credentials("cli-wrong-key", wrong);
    let _right = Own::good_credentials("cli-right-key");
    let _location = Own::new("bsl", "cli-credential");
    create("cli-credential", &s3().config()).args(["--credential", "cli-wrong-key=cloud"]).ok();
    installation.wait_for_phase("cli-credential", "Unavailable", VERDICT);
    let said = set("cli-credential").args(["--credential", "cli-right-key=cloud"]).ok();
    assert!(said.contains("configured successfully"), "{said}");
    installation.wait_for_phase("cli-credential", "Available", VERDICT);
}

/// Makes `default` the default location again when dropped.
struct DefaultAgain;

impl Drop for DefaultAgain {
    fn drop(&mut self) {
        kubectl()
            .args([
                "-n",
                "lifeboat",
                "patch",
                "bsl",
                "default",
                "--type=merge",
                "-p",
                r#"{"spec":{"default":true}}"#,
            ])
            .run();
    }
}

#[test]
fn set_default_moves_the_default_to_another_location() {
    let installation = Installation::ensure();
    let _again = DefaultAgain;
    let _location = Own::new("bsl", "cli-default");
    create("cli-default", &s3().config()).ok();
    installation.wait_for_phase("cli-default", "Available", VERDICT);
    // Stock Velero refuses a second default; the first must be unset by hand.
    let said = set("cli-default").arg("--default").refused();
    assert!(said.contains("already exist default"), "{said}");
    set("default").arg("--default=false").ok();
    set("cli-default").arg("--default").ok();
    let table = list();
    assert_eq!(row(&table, "cli-default").last(), Some(&"true"), "{table}");
    assert_eq!(row(&table, "default").last(), Some(&"ReadWrite"), "{table}");
    let said = set("cli-default").arg("--default").ok();
    assert!(said.contains("already the default"), "{said}");
}

/// Stock `set` writes the whole object without conditions, so it removes them.
#[test]
fn the_conditions_about_the_password_come_back_after_set() {
    let installation = Installation::ensure();
    let _location = Own::new("bsl", "cli-conditions");
    create("cli-conditions", &s3().config()).ok();
    installation.wait_for_phase("cli-conditions", "Available", VERDICT);
    assert!(says_whether_exported(&location("cli-conditions")), "{}", location("cli-conditions"));
    set("cli-conditions").args(["--credential", "cloud-credentials=cloud"]).ok();
    wait_for("the conditions", VERDICT, || {
        let seen = location("cli-conditions");
        if says_whether_exported(&seen) && seen["status"]["phase"] == "Available" {
            Ok(())
        } else {
            Err(seen["status"].to_string())
        }
    });
}

fn says_whether_exported(location: &Value) -> bool {
    let conditions = location["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "RepositoryPasswordExported")
}

#[test]
fn delete_removes_a_location() {
    let installation = Installation::ensure();
    let _location = Own::new("bsl", "cli-delete");
    create("cli-delete", &s3().config()).ok();
    installation.wait_for_phase("cli-delete", "Available", VERDICT);
    let said = velero().args(["backup-location", "delete", "cli-delete", "--confirm"]).ok();
    assert!(said.contains("deleted successfully"), "{said}");
    assert_eq!(location("cli-delete"), Value::Null);
    assert!(row(&list(), "cli-delete").is_empty());
}
