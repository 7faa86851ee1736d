//! Objects that the server cannot or does not work on: each reports, all others go on.

use lifeboat_e2e::{Installation, apply, get, kubectl, lifeboat, s3, wait_for};
use serde_json::{Value, json};

/// An object of a kind that this version does not serve, and where its end shows.
const UNSUPPORTED: [(&str, &str, &str, &str); 6] = [
    ("v1", "Backup", "{}", "/status/failureReason"),
    ("v1", "Restore", "{backupName: x}", "/status/failureReason"),
    ("v1", "Schedule", "{schedule: '@daily', template: {}}", "/status/validationErrors/0"),
    ("v1", "DeleteBackupRequest", "{backupName: x}", "/status/errors/0"),
    ("v1", "VolumePluginBackup", "{volume: v, backup: b, plugin: p}", "/status/message"),
    (
        "v1",
        "BackupRepository",
        "{volumeNamespace: shop, backupStorageLocation: default, repositoryType: kopia, maintenanceFrequency: 1h}",
        "/status/message",
    ),
];

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

#[test]
fn a_broken_object_reports_and_the_others_go_on() {
    let installation = Installation::ensure();
    // As if it had been written before the schema was stricter.
    let mut crd = get(&["crd", "backupstoragelocations.velero.io"]);
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["config"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    crd["metadata"]["managedFields"] = Value::Null;
    kubectl().args(["replace", "-f", "-"]).input(&crd.to_string()).ok();
    wait_for("the looser schema", 30, || {
        let created = kubectl().args(["apply", "-f", "-"]).input(BROKEN).run();
        if created.code == 0 { Ok(()) } else { Err(created.stderr) }
    });
    let strict = lifeboat().arg("crds").ok();
    kubectl().args(["apply", "--server-side", "--force-conflicts", "-f", "-"]).input(&strict).ok();

    let message = installation.wait_for_phase("broken", "Unavailable", 30);
    assert!(message.contains("cannot be read"), "{message}");
    lifeboat()
        .args(["backup-location", "create", "beside-broken", "--provider", "aws", "--bucket", "lifeboat"])
        .args(["--prefix", "e2e", "--config", &s3().config(), "--wait"])
        .ok();
    for name in ["broken", "beside-broken"] {
        kubectl().args(["-n", "lifeboat", "delete", "bsl", name]).ok();
    }
}

const BROKEN: &str = "
apiVersion: velero.io/v1
kind: BackupStorageLocation
metadata: {name: broken, namespace: lifeboat}
spec:
  provider: aws
  objectStorage: {bucket: lifeboat}
  config: {region: [not, a, string]}
";
