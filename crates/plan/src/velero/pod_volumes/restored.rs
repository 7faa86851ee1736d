//! The copies in a backup, from its list of PodVolumeBackups; and the PodVolumeRestore for each of them.

use lifeboat_api::common::{LocationName, NamespaceName};
use lifeboat_api::velero::{DataMovePhase, PodVolumeBackup, names};
use serde_json::{Value, json};

use super::object::named;
use super::text;
use crate::label;
use crate::velero::uploader::UploaderSettings;

/// The copy of one volume. Names and namespaces are those in the backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub namespace: String,
    pub pod: String,
    pub volume: String,
    pub claim: Option<String>,
    /// The restic snapshot in the repository of the namespace.
    pub snapshot: String,
    pub bytes: Option<i64>,
    /// `restic` or `kopia`; empty means restic.
    pub uploader: String,
    /// The message if files are missing in it.
    pub incomplete: Option<String>,
}

/// The copies that can be restored: those with a snapshot. `objects`: Lifeboat's or upstream's.
pub fn copies(objects: &[PodVolumeBackup]) -> Vec<Copied> {
    let mut found: Vec<Copied> = Vec::new();
    for one in objects.iter().filter_map(copied) {
        let same = |known: &Copied| {
            (&known.namespace, &known.pod, &known.volume) == (&one.namespace, &one.pod, &one.volume)
        };
        if !found.iter().any(same) {
            found.push(one);
        }
    }
    found
}

/// The copy that an object made; None if it has no snapshot.
fn copied(object: &PodVolumeBackup) -> Option<Copied> {
    let PodVolumeBackup { metadata, spec, status } = object;
    let status = status.as_ref()?;
    let snapshot = status.snapshot_id.clone().filter(|snapshot| !snapshot.is_empty())?;
    let incomplete = match object.phase() {
        DataMovePhase::Completed => None,
        DataMovePhase::Failed => Some(status.message.clone().unwrap_or_default()),
        _ => return None,
    };
    let claim = metadata.annotations.as_ref().and_then(|all| all.get(names::PVC_NAME));
    Some(Copied {
        namespace: spec.pod.namespace.clone().unwrap_or_default(),
        pod: spec.pod.name.clone().unwrap_or_default(),
        volume: spec.volume.clone(),
        claim: claim.filter(|claim| !claim.is_empty()).cloned(),
        snapshot,
        bytes: status.progress.as_ref().and_then(|progress| progress.total_bytes),
        uploader: spec
            .uploader_type
            .as_ref()
            .map(|uploader| uploader.as_str().to_owned())
            .unwrap_or_default(),
        incomplete,
    })
}

/// A copy for a volume of a restored pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyFor<'a> {
    /// With the names in the backup.
    pub of: &'a Copied,
    /// With the names of the restored pod and its volume.
    pub copy: Copied,
}

/// The copies that a pod has to wait for: those of its own volumes, and those of claims that it shares with pods with
/// which they were copied. `namespace`: the one in the backup.
pub fn copies_for<'a>(copies: &'a [Copied], namespace: &str, name: &str, pod: &Value) -> Vec<CopyFor<'a>> {
    let near = || copies.iter().filter(|copy| copy.namespace == namespace);
    let own = near().filter(|copy| copy.pod == name);
    let mut found: Vec<_> = own.map(|of| CopyFor { of, copy: of.clone() }).collect();
    for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
        let (title, claim) = (text(volume, "/name"), text(volume, "/persistentVolumeClaim/claimName"));
        let is_known = |one: &CopyFor<'_>| one.copy.volume == title || one.of.claim.as_deref() == Some(claim);
        if claim.is_empty() || found.iter().any(is_known) {
            continue;
        }
        let shared = near().find(|copy| copy.claim.as_deref() == Some(claim));
        found.extend(shared.map(|of| CopyFor {
            of,
            copy: Copied { pod: name.to_owned(), volume: title.to_owned(), ..of.clone() },
        }));
    }
    found
}

/// Why a copy cannot be restored.
pub fn unusable(copy: &Copied) -> Option<String> {
    if matches!(copy.uploader.as_str(), "" | "restic") {
        return None;
    }
    Some(format!(
        "the backup holds it as a copy that Velero's {} wrote, which Lifeboat cannot read; restore this volume with Velero, or with {} itself from the repository of namespace {}",
        copy.uploader, copy.uploader, copy.namespace
    ))
}

/// A restored pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodOf<'a> {
    /// Lifeboat's namespace.
    pub lifeboat: &'a NamespaceName,
    /// Name and UID of the Restore.
    pub restore: (&'a str, &'a str),
    pub location: &'a LocationName,
    pub namespace: &'a NamespaceName,
    pub name: &'a str,
    pub uid: &'a str,
    pub timeout: Option<&'a str>,
    /// What the mover is to do, from the Restore's `uploaderConfig`.
    pub settings: &'a UploaderSettings,
}

/// The name of a volume's PodVolumeRestore. It is the same for all pods that share a claim, which is filled once.
pub fn restore_name(pod: &PodOf<'_>, copy: &Copied) -> String {
    let (name, uid) = pod.restore;
    named(
        name,
        &match &copy.claim {
            Some(claim) => format!("{uid}\nclaim\n{}\n{claim}", pod.namespace),
            None => format!("{uid}\n{}\n{}", pod.uid, copy.volume),
        },
    )
}

/// The PodVolumeRestore of a volume.
pub fn restore_object(pod: &PodOf<'_>, copy: &Copied) -> Value {
    let (restore, uid) = pod.restore;
    let mut annotations = json!({});
    if let Some(claim) = &copy.claim {
        annotations[names::PVC_NAME] = json!(claim);
    }
    if let Some(timeout) = pod.timeout {
        annotations[names::POD_VOLUME_TIMEOUT] = json!(timeout);
    }
    let mut object = json!({
        "apiVersion": "velero.io/v1",
        "kind": "PodVolumeRestore",
        "metadata": {
            "name": restore_name(pod, copy),
            "namespace": pod.lifeboat,
            "labels": {names::RESTORE_NAME: label::value(restore), names::RESTORE_UID: uid, names::POD_UID: pod.uid},
            "annotations": annotations,
            "ownerReferences": [{"apiVersion": "velero.io/v1", "kind": "Restore", "name": restore, "uid": uid,
                "controller": true}],
        },
        "spec": {
            "pod": {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
            "volume": copy.volume,
            "backupStorageLocation": pod.location,
            "repoIdentifier": "",
            "uploaderType": "restic",
            "snapshotID": copy.snapshot,
            "sourceNamespace": copy.namespace,
        },
        "status": {"phase": "New"},
    });
    if let Some(bytes) = copy.bytes {
        object["spec"]["snapshotSize"] = json!(bytes);
    }
    if !pod.settings.is_empty() {
        object["spec"]["uploaderSettings"] = json!(pod.settings);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(volume: &str, phase: &str, snapshot: &str, uploader: &str) -> PodVolumeBackup {
        let object = json!({
            "metadata": {"annotations": {"velero.io/pvc-name": "data"}},
            "spec": {"pod": {"namespace": "shop", "name": "db-0"}, "volume": volume, "uploaderType": uploader},
            "status": {"phase": phase, "snapshotID": snapshot, "message": "2 files", "progress": {"totalBytes": 7}},
        });
        crate::velero::typed::read(&object).unwrap()
    }

    #[test]
    fn copies_with_a_snapshot_can_be_brought_back() {
        let records = [
            record("whole", "Completed", "a", "restic"),
            record("whole", "Completed", "a", "restic"),
            record("partial", "Failed", "b", "restic"),
            record("none", "Failed", "", "restic"),
            record("ended", "Canceled", "c", "restic"),
            record("foreign", "Completed", "d", "kopia"),
        ];
        let found = copies(&records);
        let volumes: Vec<&str> = found.iter().map(|one| one.volume.as_str()).collect();
        assert_eq!(volumes, ["whole", "partial", "foreign"]);
        assert_eq!((found[0].bytes, found[0].claim.as_deref()), (Some(7), Some("data")));
        assert_eq!((found[0].incomplete.as_deref(), found[1].incomplete.as_deref()), (None, Some("2 files")));
        assert_eq!(unusable(&found[0]), None);
        assert!(unusable(&found[2]).unwrap().contains("kopia"));
    }

    #[test]
    fn the_repository_is_that_of_the_namespace_in_the_backup() {
        let copy = copies(&[record("data", "Completed", "a", "restic")]).remove(0);
        let pod = PodOf {
            lifeboat: &NamespaceName::new("lifeboat"),
            restore: ("r", "r-1"),
            location: &LocationName::new("default"),
            namespace: &NamespaceName::new("shop2"),
            name: "db-0",
            uid: "p-9",
            timeout: None,
            settings: &[("WriteSparseFiles".to_owned(), "false".to_owned())].into(),
        };
        let object = restore_object(&pod, &copy);
        assert_eq!(object["spec"]["uploaderSettings"], json!({"WriteSparseFiles": "false"}));
        let parsed: lifeboat_api::velero::PodVolumeRestore = serde_json::from_value(object).unwrap();
        assert_eq!((parsed.spec.source_namespace.as_str(), parsed.spec.snapshot_id.as_str()), ("shop", "a"));
        assert_eq!(parsed.metadata.name, Some(restore_name(&pod, &copy)));
        let sharing = PodOf { name: "web-0", uid: "p-10", ..pod.clone() };
        assert_eq!(restore_name(&sharing, &copy), restore_name(&pod, &copy), "a claim is filled once");
        let alone = Copied { claim: None, ..copy };
        assert_ne!(restore_name(&sharing, &alone), restore_name(&pod, &alone));
    }

    #[test]
    fn a_pod_that_shares_a_claim_waits_for_its_copy_too() {
        let all =
            copies(&[record("data", "Completed", "a", "restic"), record("tmp", "Completed", "b", "restic")]);
        let all = [all[0].clone(), Copied { claim: None, ..all[1].clone() }];
        let using = |claim: &str| {
            let volumes = json!([{"name": "shared", "persistentVolumeClaim": {"claimName": claim}}, {"name": "tmp", "emptyDir": {}}]);
            json!({"spec": {"volumes": volumes}})
        };
        let found = copies_for(&all, "shop", "web-0", &using("data"));
        assert_eq!(found.len(), 1, "what has no claim is of one pod only");
        assert_eq!((found[0].copy.pod.as_str(), found[0].copy.volume.as_str()), ("web-0", "shared"));
        assert_eq!((found[0].of, found[0].copy.snapshot.as_str()), (&all[0], "a"));
        assert_eq!(copies_for(&all, "shop", "web-0", &using("other")), []);
        assert_eq!(copies_for(&all, "elsewhere", "web-0", &using("data")), []);
        let own: Vec<_> =
            copies_for(&all, "shop", "db-0", &using("data")).into_iter().map(|one| one.copy).collect();
        assert_eq!(own, all, "its own");
    }
}
