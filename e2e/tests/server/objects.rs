//! Objects that the server cannot or does not work on: each reports, all others go on.

use lifeboat_e2e::{Installation, apply, get, kubectl, lifeboat, s3, wait_for};
use serde_json::{Value, json};

/// An object of a kind that this version does not serve, and where its end shows.
const UNSUPPORTED: [(&str, &str, &str, &str); 1] = [(
    "v1",
    "BackupRepository",
    "{volumeNamespace: shop, backupStorageLocation: default, repositoryType: kopia, maintenanceFrequency: 1h}",
    "/status/message",
)];

#[test]
fn objects_of_kinds_without_a_controller_are_ended_in_words() {
    Installation::ensure();
    for (version, kind, spec, pointer) in UNSUPPORTED {
        apply(&format!(
            "apiVersion: velero.io/{version}\nkind: {kind}\nmetadata: {{name: nobody, namespace: lifeboat}}\nspec: {spec}\n"
        ));
        let said = wait_for(kind, 20, || {
            let object = get(&["-n", "lifeboat", &format!("{}.velero.io", kind.to_lowercase()), "nobody"]);
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .map(str::to_owned)
                .ok_or_else(|| object["status"].to_string())
        });
        assert!(said.contains("not supported by this version"), "{kind}: {said}");
        kubectl()
            .args(["-n", "lifeboat", "delete", &format!("{}.velero.io", kind.to_lowercase()), "nobody"])
            .ok();
    }
}

/// The definition of BackupStorageLocation with another schema, until the test ends, however it ends.
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
        // First the guard: a change that fails half way is taken back too.
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

/// Locations that are removed when the test ends, however it ends.
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
    // As if it had been written before the schema was stricter.
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
    // Its verdict does not bring the next look: the object comes to rest.
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
    // A rule that this object breaks as soon as it has a status.
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
