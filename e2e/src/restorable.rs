//! The proof that a backup can be restored, in one call: a test whose backup ends Completed restores it into other
//! namespaces and compares the objects.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{HostServer, Program, assert_same_objects, get, kubectl, objects_of, wait_for};

/// How long a restore may take, in seconds.
const LONGEST: u64 = 150;

/// The namespaces that were restored; deleted when dropped.
struct Copies(Vec<String>);

impl Drop for Copies {
    fn drop(&mut self) {
        kubectl().args(["delete", "namespace", "--ignore-not-found", "--wait=false"]).args(&self.0).run();
    }
}

/// Fails unless the backup is Completed and restores the objects of these namespaces, as they are now, into other ones.
/// `lifeboat` is the command line of the server in namespace `server`.
pub fn assert_restores(lifeboat: &dyn Fn() -> Program, server: &str, backup: &Value, namespaces: &[&str]) {
    let name = backup["metadata"]["name"].as_str().unwrap();
    assert_eq!(backup["status"]["phase"], "Completed", "{name}: {}", backup["status"]);
    let restore = format!("{name}-compared");
    let copies = Copies(namespaces.iter().map(|namespace| format!("{namespace}-compared")).collect());
    let pairs = namespaces.iter().zip(&copies.0);
    let mappings: Vec<String> = pairs.clone().map(|(from, to)| format!("{from}:{to}")).collect();
    let mappings = mappings.join(",");
    let create = ["restore", "create", &restore, "--from-backup", name, "--namespace-mappings", &mappings];
    lifeboat().args(create).ok();
    let ended = wait_for(&format!("the end of restore {restore}"), LONGEST, || {
        let object = get(&["-n", server, "restores.velero.io", &restore]);
        match object["status"]["phase"].as_str() {
            Some("Completed" | "PartiallyFailed" | "Failed" | "FailedValidation") => Ok(object),
            _ => Err(object["status"].to_string()),
        }
    });
    if ended["status"]["phase"] != "Completed" {
        let described = lifeboat().args(["restore", "describe", &restore, "--details"]).run();
        panic!("{restore}: {}\n{}", ended["status"], described.stdout);
    }
    for (from, to) in pairs {
        assert_same_objects(&renamed(objects_of(from), from, to), &without_source(objects_of(to)));
    }
}

/// The objects as they are in another namespace: subjects of role bindings name it.
fn renamed(mut objects: BTreeMap<String, Value>, from: &str, to: &str) -> BTreeMap<String, Value> {
    for object in objects.values_mut() {
        let subjects = object.get_mut("subjects").and_then(Value::as_array_mut);
        for subject in subjects.into_iter().flatten() {
            if subject["namespace"] == from {
                subject["namespace"] = to.into();
            }
        }
    }
    objects
}

/// The objects without the snapshots from which their claims were filled.
fn without_source(mut objects: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    for object in objects.values_mut().filter(|object| object["kind"] == "PersistentVolumeClaim") {
        for field in ["dataSource", "dataSourceRef"] {
            object["spec"].as_object_mut().unwrap().remove(field);
        }
        let metadata = object["metadata"].as_object_mut().unwrap();
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.remove("velero.io/volume-snapshot-name");
            if labels.is_empty() {
                metadata.remove("labels");
            }
        }
    }
    objects
}

impl HostServer {
    /// Backs namespaces up with further arguments, restores them under other names and compares the objects. Fails unless
    /// the backup is Completed and every object is the same. Returns the Backup.
    pub fn backup_and_compare(&self, name: &str, namespaces: &[&str], arguments: &[&str]) -> Value {
        let included = namespaces.join(",");
        let made = self.backup(name, &[&["--include-namespaces", included.as_str()][..], arguments].concat());
        self.assert_restores(&made, namespaces);
        made
    }

    /// Restores a backup that has ended under other names and compares the objects.
    pub fn assert_restores(&self, backup: &Value, namespaces: &[&str]) {
        self.assert_phase(backup, &["Completed"]);
        assert_restores(&|| self.lifeboat(), &self.namespace, backup, namespaces);
    }
}
