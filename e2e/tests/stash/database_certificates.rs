//! Databases over TLS: a server's certificate is checked against `caBundle` of its AppBinding, else against `ca.crt` of its `tlsSecret`.

use lifeboat_e2e::{Program, RESTORE_SESSIONS, ServerCertificate, StashTest};
use rstest::rstest;
use serde_json::{Value, json};

use super::databases::{Family, MARIADB, POSTGRES};

const CONFIGURATION: &str = "BackupConfiguration";
const TARGET: &str =
    "{alias: db, ref: {apiVersion: appcatalog.appscode.com/v1alpha1, kind: AppBinding, name: db}}";

/// Sets how the AppBinding verifies the server: an authority of its own in PEM, the Secret with certificates, or neither.
fn verify_by(test: &StashTest, bundle: Option<&str>, secret: Option<&str>) {
    let bundle = bundle.map(|pem| Program::new("base64").arg("-w0").input(pem).ok());
    let secret = secret.map(|name| json!({"name": name}));
    let patch = json!({"spec": {"clientConfig": {"caBundle": bundle}, "tlsSecret": secret}});
    test.patch("appbindings.appcatalog.appscode.com", "db", &patch.to_string());
}

/// Fails unless the error of a host is about the server's certificate.
fn assert_not_trusted(host: &Value) {
    let error = host["error"].as_str().unwrap_or_default().to_lowercase();
    assert!(error.contains("certificate") && error.contains("cabundle"), "{host}");
}

/// How many connections over TLS the server has accepted; None if it does not count them.
fn accepted(family: Family, test: &StashTest) -> Option<u64> {
    let counted = family
        .is_mariadb()
        .then(|| family.sql_of(test, "db", "SHOW GLOBAL STATUS LIKE 'Ssl_finished_accepts'"))?;
    counted.split_whitespace().last()?.parse().ok()
}

#[rstest]
#[case::mariadb(MARIADB, "mariadb-backup-10.11")]
#[case::postgres(POSTGRES, "postgres-backup-15")]
fn a_database_is_dumped_and_loaded_over_tls_where_its_certificate_is_trusted(
    #[case] family: Family,
    #[case] task: &str,
) {
    let test = StashTest::start();
    test.put_repository("repo");
    let host = format!("db.{}.svc", test.tenant.name);
    let (own, other) = (ServerCertificate::of(&host), ServerCertificate::of(&host).authority);
    family.put_with_tls(&test, "db", &own);
    family.fill_of(&test, "db");
    let digest = family.digest_of(&test, "db");
    verify_by(&test, Some(&other), None);
    let task = format!("  task: {{name: {task}}}\n");
    test.put_configuration("nightly", TARGET, &task);
    let session = test.run(CONFIGURATION, "nightly", "Failed");
    assert_not_trusted(&session["status"]["targets"][0]["stats"][0]);
    assert!(test.snapshots("repo").is_empty());
    verify_by(&test, Some(&own.authority), None);
    let before = accepted(family, &test);
    test.run(CONFIGURATION, "nightly", "Succeeded");
    assert!(before.is_none() || accepted(family, &test) > before, "the dump was not made over TLS");
    assert_eq!(test.snapshots("repo"), ["db /dumpfile.sql"]);
    // A new server has neither the rows nor the database.
    test.delete(&["pods", "-l", "app=db"]);
    family.wait_of(&test, "db");
    verify_by(&test, Some(&other), None);
    let spec = format!("{task}  target: {TARGET}");
    test.restore("refused", &spec, "");
    let refused = test.restored_as(RESTORE_SESSIONS, "refused", "Failed");
    assert_not_trusted(&refused["status"]["stats"][0]);
    verify_by(&test, None, Some("db-tls"));
    test.restore("back", &spec, "");
    test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    assert_eq!(family.digest_of(&test, "db"), digest);
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_nothing_is_left("repo");
}
