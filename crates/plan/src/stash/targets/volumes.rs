//! How a mover accesses a volume: through its claim, through a CSI snapshot of it, or through its directory on the
//! node of the pod that uses it. A volume that only one pod may use (ReadWriteOncePod), and volumes without a claim,
//! can only be accessed through the directory.

use serde_json::Value;

use super::pods::{has_ended, why_not_ready};
use super::{SnapshotClass, TargetFacts, VolumeAccess};
use crate::json::text;
use crate::transfer::directory::{
    ClaimOf, Directory, DirectoryError, KUBELET_ROOT, claim_of, directory, host_directory,
};

/// Why a volume cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    #[error(
        "target.volumeMounts names volume {volume:?}, which {of} does not have; expected one of {available}"
    )]
    NoVolume { volume: String, of: String, available: String },
    #[error(
        "volume {volume:?} is a {kind} volume, whose files are made from objects of the cluster; remove it from target.volumeMounts"
    )]
    Kind { volume: String, kind: String },
    #[error(
        "PersistentVolumeClaim {claim} of volume {volume:?} does not exist; create it, or correct the volume"
    )]
    NoClaim { volume: String, claim: String },
    #[error(
        "PersistentVolumeClaim {claim} of volume {volume:?} has no volume (phase {phase}); its events say why"
    )]
    NotBound { volume: String, claim: String, phase: String },
    #[error(
        "volume {volume:?} is a {kind} volume, which exists only while a pod of the target runs, and none does"
    )]
    NoPod { volume: String, kind: String },
    #[error(
        "volume {volume:?} ({kind}) can only be reached through the directory of its pod on a node, and access to nodes is off; turn it on \
         with `lifeboat install --node-access`, or the chart's value nodeAccess"
    )]
    NodeAccess { volume: String, kind: String },
    #[error(
        "volume {volume:?} is the directory {path:?} of a node (hostPath), and its namespace admits no pods with such volumes: {refusal}"
    )]
    HostPath { volume: String, path: String, refusal: String },
    #[error(
        "no container of pod {pod} mounts volume {volume:?}, so its node has no directory of it; mount it in a container"
    )]
    NotMounted { volume: String, pod: String },
    #[error(
        "claim {claim} of volume {volume:?} may be used by one pod alone (ReadWriteOncePod), and that pod cannot be read through: pod {pod} \
         {reason}"
    )]
    UserNotReady { volume: String, claim: String, pod: String, reason: String },
    #[error(
        "volume {volume:?} is a block volume that one pod alone may use (ReadWriteOncePod); set target.snapshotClassName to read it from a \
         CSI snapshot"
    )]
    BlockOncePod { volume: String },
    #[error(
        "VolumeSnapshotClass {class:?} (target.snapshotClassName) does not exist; name one of the cluster's classes, or remove the field"
    )]
    NoClass { class: String },
    #[error(
        "volume {volume:?}: claim {claim} is of {found}, and VolumeSnapshotClass {class:?} (target.snapshotClassName) is of driver \
         {expected}; name a class of the claim's driver, or remove the field"
    )]
    Driver { volume: String, claim: String, found: String, class: String, expected: String },
    #[error(
        "claim {claim} of volume {volume:?} can only be read (ReadOnlyMany), so nothing can be restored into it"
    )]
    ReadOnly { volume: String, claim: String },
    #[error(transparent)]
    Directory(DirectoryError),
}

/// Kinds of volumes whose files the kubelet writes from objects of the cluster.
const MADE_FROM_OBJECTS: [&str; 5] = ["configMap", "secret", "projected", "downwardAPI", "image"];

/// Kinds of volumes of which every pod has its own.
const ONE_FOR_EACH_POD: [&str; 5] = ["emptyDir", "ephemeral", "csi", "gitRepo", "hostPath"];

/// The purpose for which a volume is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    /// Read by a mover that was started while the pod was Ready.
    ReadOn,
    /// Written once no pod uses it: the pods that use it now are stopped before.
    WriteAtRest,
    WriteWhileRunning,
}

impl Purpose {
    fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadOn)
    }
}

/// The kind of a pod's volume, as in `emptyDir`.
pub(super) fn kind_of(volume: &Value) -> String {
    let fields =
        volume.as_object().into_iter().flatten().filter(|(name, value)| *name != "name" && !value.is_null());
    fields.map(|(name, _)| name.clone()).next().unwrap_or_else(|| "emptyDir".to_owned())
}

/// Whether each replica has files of its own in such a volume.
pub(super) fn is_one_for_each_pod(volume: &Value) -> bool {
    ONE_FOR_EACH_POD.contains(&kind_of(volume).as_str())
}

/// Whether the kubelet writes the files of such a volume from objects of the cluster.
pub(super) fn is_made_from_objects(volume: &Value) -> bool {
    MADE_FROM_OBJECTS.contains(&kind_of(volume).as_str())
}

/// Whether such a volume exists only with a pod.
pub(super) fn is_with_pods_only(volume: &Value) -> bool {
    volume.get("persistentVolumeClaim").is_none() && !is_made_from_objects(volume)
}

/// Why a namespace admits no pods with hostPath volumes, by the Pod Security level that its labels enforce; None if it admits them.
pub fn host_path_refusal(namespace: &Value) -> Option<String> {
    const LEVEL: &str = "pod-security.kubernetes.io/enforce";
    let level = namespace["metadata"]["labels"][LEVEL].as_str().filter(|level| !level.is_empty())?;
    (level != "privileged")
        .then(|| format!("its label {LEVEL} is {level:?}, and only \"privileged\" allows them"))
}

/// One volume of a host.
pub(super) struct Volume<'a> {
    pub(super) facts: &'a TargetFacts,
    /// The pod that represents the host.
    pub(super) pod: Option<&'a Value>,
    /// The entry in the volumes of the pod or of the template.
    pub(super) entry: &'a Value,
    pub(super) purpose: Purpose,
}

impl Volume<'_> {
    fn name(&self) -> String {
        text(self.entry, "/name").to_owned()
    }

    /// How it is reached.
    pub(super) fn access(&self) -> Result<VolumeAccess, VolumeError> {
        let kind = kind_of(self.entry);
        if MADE_FROM_OBJECTS.contains(&kind.as_str()) {
            return Err(VolumeError::Kind { volume: self.name(), kind });
        }
        let pod_name = self.pod.map(|pod| text(pod, "/metadata/name"));
        if kind == "persistentVolumeClaim" || (kind == "ephemeral" && pod_name.is_some()) {
            let claim = claim_of(pod_name.unwrap_or_default(), self.entry).unwrap_or_default();
            return self.of_claim(&claim);
        }
        let Some(pod) = self.pod else { return Err(VolumeError::NoPod { volume: self.name(), kind }) };
        if kind == "hostPath" {
            return self.of_host(pod);
        }
        self.of_node(pod, &format!("{kind} volume"), None)
    }

    fn of_claim(&self, claim: &str) -> Result<VolumeAccess, VolumeError> {
        let volume = self.name();
        let Some(known) = self.facts.claims.get(claim) else {
            return Err(VolumeError::NoClaim { volume, claim: claim.to_owned() });
        };
        let phase = text(&known.claim, "/status/phase");
        let bound = known.volume.is_some() || phase == "Bound";
        if phase == "Lost" || (self.purpose.reads() && !bound) {
            let phase = if phase.is_empty() { "unknown" } else { phase }.to_owned();
            return Err(VolumeError::NotBound { volume, claim: claim.to_owned(), phase });
        }
        let block = text(&known.claim, "/spec/volumeMode") == "Block";
        if let (true, Some(class)) = (self.purpose.reads(), &self.facts.site.snapshot_class) {
            self.check_class(claim, known, class)?;
            return Ok(VolumeAccess::Snapshot { claim: claim.to_owned(), class: class.name.clone(), block });
        }
        let modes = Modes::of(&known.claim);
        if modes.read_only && !self.purpose.reads() {
            return Err(VolumeError::ReadOnly { volume, claim: claim.to_owned() });
        }
        let user = self.user(claim);
        match (modes.one_pod, user) {
            (true, Some(user)) => return self.of_single_user(user, claim, known, block),
            // The mover reads the claim through a pod that no longer exists; a mover in another namespace would not be adopted.
            (true, None) if self.purpose == Purpose::ReadOn => {
                return Err(VolumeError::NoPod { volume, kind: "ReadWriteOncePod".to_owned() });
            }
            _ => {}
        }
        let node =
            user.map(|user| text(user, "/spec/nodeName")).filter(|node| !node.is_empty() && !modes.anywhere);
        Ok(VolumeAccess::Claim { claim: claim.to_owned(), node: node.map(str::to_owned), block })
    }

    /// The pod that has the claim's volume: the host's own, else the first that uses it and has a node.
    fn user(&self, claim: &str) -> Option<&Value> {
        if self.purpose == Purpose::WriteAtRest {
            return None;
        }
        let volumes = |pod: &Value| pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
        let uses = |pod: &Value| {
            let name = text(pod, "/metadata/name");
            !has_ended(pod)
                && volumes(pod).iter().any(|volume| claim_of(name, volume).as_deref() == Some(claim))
        };
        let own = self.pod.filter(|pod| uses(pod));
        own.or_else(|| {
            let others = self.facts.pods.iter().filter(|pod| uses(pod));
            others.min_by_key(|pod| (text(pod, "/spec/nodeName").is_empty(), text(pod, "/metadata/name")))
        })
    }

    fn of_single_user(
        &self,
        user: &Value,
        claim: &str,
        known: &ClaimOf,
        block: bool,
    ) -> Result<VolumeAccess, VolumeError> {
        if block {
            return Err(VolumeError::BlockOncePod { volume: self.name() });
        }
        if let Some(reason) = why_not_ready(user).filter(|_| self.purpose != Purpose::ReadOn) {
            let (volume, pod) = (self.name(), text(user, "/metadata/name").to_owned());
            return Err(VolumeError::UserNotReady { volume, claim: claim.to_owned(), pod, reason });
        }
        self.of_node(user, "ReadWriteOncePod claim", Some(known))
    }

    fn check_class(&self, claim: &str, known: &ClaimOf, class: &SnapshotClass) -> Result<(), VolumeError> {
        let Some(expected) = &class.driver else {
            return Err(VolumeError::NoClass { class: class.name.clone() });
        };
        let driver = known.volume.as_ref().and_then(driver_of);
        if driver == Some(expected.as_str()) {
            return Ok(());
        }
        Err(VolumeError::Driver {
            volume: self.name(),
            claim: claim.to_owned(),
            found: driver.map_or("no CSI driver".to_owned(), |driver| format!("driver {driver}")),
            class: class.name.clone(),
            expected: expected.clone(),
        })
    }

    /// A directory of the node that the pod mounts. Its namespace has to admit such pods, else the backup would read for a user what the
    /// user may not mount.
    fn of_host(&self, pod: &Value) -> Result<VolumeAccess, VolumeError> {
        let (volume, path) = (self.name(), text(self.entry, "/hostPath/path").to_owned());
        if let Some(refusal) = self.facts.site.host_path_refusal.clone() {
            return Err(VolumeError::HostPath { volume, path, refusal });
        }
        let found = host_directory(&volume, &path).map_err(VolumeError::Directory)?;
        self.on_node(pod, "hostPath volume", found)
    }

    /// The directory of the volume below that of the pod which uses it.
    fn of_node(&self, pod: &Value, kind: &str, claim: Option<&ClaimOf>) -> Result<VolumeAccess, VolumeError> {
        let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        let name = text(pod, "/metadata/name");
        let same = |volume: &&Value| match claim {
            // The pod that uses a claim may call the volume something else.
            Some(claim) => claim_of(name, volume).as_deref() == Some(text(&claim.claim, "/metadata/name")),
            None => volume["name"] == self.entry["name"],
        };
        let entry = volumes.into_iter().find(same).unwrap_or(self.entry);
        if !is_mounted(pod, text(entry, "/name")) {
            return Err(VolumeError::NotMounted { volume: self.name(), pod: name.to_owned() });
        }
        let found = directory(self.root(pod), pod, entry, claim).map_err(|error| match error {
            DirectoryError::Kind { volume, .. } => VolumeError::Kind { volume, kind: kind_of(entry) },
            other => VolumeError::Directory(other),
        })?;
        self.on_node(pod, kind, found)
    }

    fn on_node(&self, pod: &Value, kind: &str, directory: Directory) -> Result<VolumeAccess, VolumeError> {
        if !self.facts.site.node_access {
            return Err(VolumeError::NodeAccess { volume: self.name(), kind: kind.to_owned() });
        }
        Ok(VolumeAccess::NodeDirectory { node: text(pod, "/spec/nodeName").to_owned(), directory })
    }

    /// The kubelet's directory on the pod's node.
    fn root(&self, pod: &Value) -> &str {
        let nodes = self.facts.nodes.iter();
        let mut nodes = nodes.filter(|node| text(node, "/metadata/name") == text(pod, "/spec/nodeName"));
        let annotated = nodes.find_map(|node| node["metadata"]["annotations"][KUBELET_ROOT].as_str());
        annotated.unwrap_or(&self.facts.site.kubelet_root)
    }
}

/// The driver of a volume, also of one of an older type that its driver has taken over.
pub(super) fn driver_of(volume: &Value) -> Option<&str> {
    let migrated = volume["metadata"]["annotations"]["pv.kubernetes.io/migrated-to"].as_str();
    volume.pointer("/spec/csi/driver").and_then(Value::as_str).or(migrated)
}

/// What the access modes of a claim allow.
struct Modes {
    /// Several nodes may mount it at the same time.
    anywhere: bool,
    /// One pod alone may use it.
    one_pod: bool,
    read_only: bool,
}

impl Modes {
    fn of(claim: &Value) -> Self {
        let modes = claim["spec"]["accessModes"].as_array().into_iter().flatten();
        let modes: Vec<&str> = modes.filter_map(Value::as_str).collect();
        let read_only = !modes.is_empty() && modes.iter().all(|mode| *mode == "ReadOnlyMany");
        Self {
            anywhere: read_only || modes.contains(&"ReadWriteMany"),
            one_pod: modes.contains(&"ReadWriteOncePod"),
            read_only,
        }
    }
}

/// Whether a container mounts a volume. The kubelet creates no directory for a volume that no container mounts.
fn is_mounted(pod: &Value, volume: &str) -> bool {
    let lists = ["containers", "initContainers", "ephemeralContainers"].into_iter();
    let containers = lists.filter_map(|list| pod["spec"][list].as_array()).flatten();
    let mut mounts = containers.filter_map(|container| container["volumeMounts"].as_array()).flatten();
    mounts.any(|mount| mount["name"] == *volume)
}
