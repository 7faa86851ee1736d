//! Objects that the server cannot process: each reports it, all others continue.

use lifeboat_e2e::{Installation, apply, get, kubectl, lifeboat, s3, wait_for};
use serde_json::{Value, json};

/// A repository in Velero's own format; deleted when dropped.
struct ForeignRepository;

impl Drop for ForeignRepository {
    fn drop(&mut self) {
        kubectl()
            .args(["-n", "lifeboat", "delete", "backuprepository", "foreign", "--ignore-not-found"])
            .run();
    }
}

#[test]
fn a_repository_in_another_format_is_not_ready_and_says_why() {
    Installation::ensure();
    let _repository = ForeignRepository;
    apply(
        "apiVersion: velero.io/v1\nkind: BackupRepository\nmetadata: {name: foreign, namespace: lifeboat}\nspec: {volumeNamespace: \
         shop, backupStorageLocation: default, repositoryType: kopia, maintenanceFrequency: 1h, resticIdentifier: ''}\n",
    );
    let said = wait_for("a repository that is not ready", 20, || {
        let status = get(&["-n", "lifeboat", "backuprepository.velero.io", "foreign"])["status"].clone();
        match status["phase"].as_str() {
            Some("NotReady") => Ok(status["message"].to_string()),
            _ => Err(status.to_string()),
        }
    });
    assert!(said.contains("restic's format only"), "{said}");
}

/// The definition of BackupStorageLocation with another schema; restored when dropped.
struct ChangedSchema {
    original: Value,
}

impl ChangedSchema {
    fn new(change: impl FnOnce(&mut Value)) -> Self {
        let mut original = get(&["crd", "backupstoragelocations.velero.io"]);
        for field in ["managedFields", "resourceVersion", "generation"] {
            original["metadata"][field] = Value::Null;
        }
        let mut changed = original.clone();
        change(&mut changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
        // The guard is created first, so that a change that fails half way is undone too.
        let guard = Self { original };
        kubectl().args(["replace", "-f", "-"]).input(&changed.to_string()).ok();
        guard
    }
}

impl Drop for ChangedSchema {
    fn drop(&mut self) {
        kubectl().args(["replace", "-f", "-"]).input(&self.original.to_string()).run();
    }
}

/// Locations that are deleted when dropped.
struct Removed(&'static [&'static str]);

impl Drop for Removed {
    fn drop(&mut self) {
        kubectl().args(["-n", "lifeboat", "delete", "bsl", "--ignore-not-found"]).args(self.0).run();
    }
}

#[test]
fn a_broken_object_reports_and_the_others_go_on() {
    let installation = Installation::ensure();
    let _locations = Removed(&["broken", "beside-broken"]);
    // As if it had been written before the schema became stricter.
    let looser = ChangedSchema::new(|schema| {
        schema["properties"]["spec"]["properties"]["config"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    });
    wait_for("the looser schema", 30, || {
        let created = kubectl().args(["apply", "-f", "-"]).input(BROKEN).run();
        if created.code == 0 { Ok(()) } else { Err(created.stderr) }
    });
    drop(looser);

    let message = installation.wait_for_phase("broken", "Unavailable", 30);
    assert!(message.contains("cannot be read"), "{message}");
    // Writing the status does not trigger another reconcile: the object is stable.
    let version = || get(&["-n", "lifeboat", "bsl", "broken"])["metadata"]["resourceVersion"].to_string();
    wait_for("an object at rest", 30, || {
        let before = version();
        std::thread::sleep(std::time::Duration::from_secs(3));
        if version() == before { Ok(()) } else { Err("it is written again and again".to_owned()) }
    });
    another_location_works("beside-broken");
}

#[test]
fn an_object_whose_status_cannot_be_written_gets_an_event_and_the_others_go_on() {
    let installation = Installation::ensure();
    let _locations = Removed(&["refused", "beside-refused"]);
    // A rule that this object violates as soon as it has a status.
    let rule = json!([{
        "rule": "!has(self.status) || !has(self.spec.config) || !('refuseStatus' in self.spec.config)",
        "message": "no status for you",
    }]);
    let _schema = ChangedSchema::new(|schema| schema["x-kubernetes-validations"] = rule);
    wait_for("the stricter schema", 30, || {
        let output =
            kubectl().args(["apply", "--dry-run=server", "-f", "-"]).input(REFUSED_WITH_STATUS).run();
        if output.stderr.contains("no status for you") { Ok(()) } else { Err(output.stderr) }
    });
    apply(REFUSED);
    wait_for("an event on the object", 30, || {
        let selector = "involvedObject.name=refused,reason=ObjectNotValid";
        let events = installation.kubectl().args(["get", "events", "--field-selector", selector]).ok();
        if events.contains("no status for you") { Ok(()) } else { Err(events) }
    });
    another_location_works("beside-refused");
}

fn another_location_works(name: &str) {
    lifeboat()
        .args(["backup-location", "create", name, "--provider", "aws", "--bucket", "lifeboat"])
        .args(["--prefix", "e2e", "--config", &s3().config(), "--wait"])
        .ok();
}

const REFUSED: &str = "
apiVersion: velero.io/v1
kind: BackupStorageLocation
metadata: {name: refused, namespace: lifeboat}
spec:
  provider: aws
  objectStorage: {bucket: lifeboat}
  config: {refuseStatus: 'true'}
";

const REFUSED_WITH_STATUS: &str = "
apiVersion: velero.io/v1
kind: BackupStorageLocation
metadata: {name: refused-with-status, namespace: lifeboat}
spec:
  provider: aws
  objectStorage: {bucket: lifeboat}
  config: {refuseStatus: 'true'}
status: {phase: Available}
";

const BROKEN: &str = "
apiVersion: velero.io/v1
kind: BackupStorageLocation
metadata: {name: broken, namespace: lifeboat}
spec:
  provider: aws
  objectStorage: {bucket: lifeboat}
  config: {region: [not, a, string]}
";
