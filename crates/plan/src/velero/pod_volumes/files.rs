//! Restores single files of a backup into a volume in use: a PodVolumeRestore for a running pod, created by `lifeboat
//! volume restore --to-volume`. The files go to a new directory next to the existing ones; the application is not
//! interrupted.

use lifeboat_api::velero::names;
use serde_json::{Value, json};

use super::text;
use crate::label;
use crate::transfer::directory::claim_of;

/// Annotation: the name of the target directory, directly below the volume's root.
pub const INTO: &str = "lifeboat.io/restore-into";
/// Annotation: the path in the backup's volume to restore, with everything below it; without it, everything.
pub const PATH: &str = "lifeboat.io/restore-path";

/// A running pod that mounts the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    /// The volume's name in the pod.
    pub volume: String,
}

/// Source and target of the files.
pub struct Files<'a> {
    /// Lifeboat's namespace.
    pub lifeboat: &'a str,
    pub backup: &'a str,
    pub location: &'a str,
    /// The namespace whose repository has the snapshot.
    pub source: &'a str,
    pub snapshot: &'a str,
    pub path: Option<&'a str>,
    pub into: &'a str,
}

/// Why files cannot be restored into a volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotMounted {
    #[error("pod {namespace}/{pod} has the volume, but does not run")]
    NotRunning { namespace: String, pod: String },
    #[error("no pod of namespace {namespace} has the volume {volume}")]
    NoPod { namespace: String, volume: String },
}

/// The running pod among the `pods` of a namespace that mounts the volume, given as `CLAIM` or `POD/VOLUME`.
pub fn mounted(pods: &[Value], namespace: &str, wanted: &str) -> Result<Mounted, NotMounted> {
    let of_pod = wanted.split_once('/');
    let mut stopped = None;
    for pod in pods {
        let name = text(pod, "/metadata/name");
        let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        let is_wanted = |volume: &&Value| match of_pod {
            Some((pod, own)) => pod == name && text(volume, "/name") == own,
            None => claim_of(name, volume).as_deref() == Some(wanted),
        };
        let Some(volume) = volumes.into_iter().find(is_wanted) else { continue };
        let phase = text(pod, "/status/phase");
        if phase != "Running" || !pod["metadata"]["deletionTimestamp"].is_null() {
            stopped = Some(name);
            continue;
        }
        return Ok(Mounted {
            namespace: namespace.to_owned(),
            pod: name.to_owned(),
            uid: text(pod, "/metadata/uid").to_owned(),
            volume: text(volume, "/name").to_owned(),
        });
    }
    let namespace = namespace.to_owned();
    Err(match stopped {
        Some(pod) => NotMounted::NotRunning { namespace, pod: pod.to_owned() },
        None => NotMounted::NoPod { namespace, volume: wanted.to_owned() },
    })
}

/// The PodVolumeRestore, without a name.
pub fn object(files: &Files<'_>, to: &Mounted) -> Value {
    let mut annotations = json!({INTO: files.into});
    if let Some(path) = files.path {
        annotations[PATH] = json!(path);
    }
    json!({
        "apiVersion": "velero.io/v1",
        "kind": "PodVolumeRestore",
        "metadata": {
            "generateName": format!("{}-files-", files.backup),
            "namespace": files.lifeboat,
            "labels": {names::BACKUP_NAME: label::value(files.backup), names::POD_UID: to.uid},
            "annotations": annotations,
        },
        "spec": {
            "pod": {"kind": "Pod", "namespace": to.namespace, "name": to.pod, "uid": to.uid},
            "volume": to.volume,
            "backupStorageLocation": files.location,
            "repoIdentifier": "",
            "uploaderType": "restic",
            "snapshotID": files.snapshot,
            "sourceNamespace": files.source,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, phase: &str, claim: &str) -> Value {
        json!({"metadata": {"name": name, "uid": format!("{name}-uid")}, "status": {"phase": phase},
            "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}},
                {"name": "cache", "emptyDir": {}}]}})
    }

    #[test]
    fn a_running_pod_that_has_the_volume_is_found() {
        let pods = [pod("old", "Succeeded", "data-db-0"), pod("db-0", "Running", "data-db-0")];
        let found = mounted(&pods, "shop", "data-db-0").unwrap();
        assert_eq!(
            (found.pod.as_str(), found.uid.as_str(), found.volume.as_str()),
            ("db-0", "db-0-uid", "data")
        );
        assert_eq!(mounted(&pods, "shop", "db-0/cache").unwrap().volume, "cache");
        assert!(
            mounted(&pods[..1], "shop", "data-db-0")
                .unwrap_err()
                .to_string()
                .contains("shop/old has the volume, but")
        );
        assert!(
            mounted(&pods, "shop", "other").unwrap_err().to_string().contains("no pod of namespace shop")
        );
        assert!(mounted(&pods, "shop", "db-1/cache").is_err());
    }

    #[test]
    fn the_object_says_what_goes_where() {
        let pods = [pod("db-0", "Running", "data")];
        let files = Files {
            lifeboat: "lifeboat",
            backup: "nightly",
            location: "default",
            source: "shop",
            snapshot: "abc",
            path: Some("/conf"),
            into: "back",
        };
        let made = object(&files, &mounted(&pods, "shop", "data").unwrap());
        assert_eq!(made["metadata"]["generateName"], "nightly-files-");
        assert_eq!(made["metadata"]["annotations"], json!({INTO: "back", PATH: "/conf"}));
        assert_eq!(made["spec"]["pod"]["uid"], "db-0-uid");
        assert_eq!((&made["spec"]["volume"], &made["spec"]["snapshotID"]), (&json!("data"), &json!("abc")));
    }
}
