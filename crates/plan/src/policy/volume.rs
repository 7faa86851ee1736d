//! The facts about a volume that policies match: from a PersistentVolume or a pod's volume, and its claim.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::quantity::Quantity;

/// Fields of a PersistentVolume's spec that are not its volume source.
const NO_SOURCE: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// The facts about one volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeFacts {
    pub(super) capacity: Quantity,
    pub(super) storage_class: String,
    pub(super) nfs: Option<(String, String)>,
    pub(super) csi: Option<(String, BTreeMap<String, String>)>,
    /// The name of the source field: `csi`, `nfs`, `emptyDir`.
    pub(super) kind: String,
    pub(super) claim: ClaimFacts,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClaimFacts {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) phase: String,
    pub(super) volume_mode: String,
    pub(super) access_modes: Vec<String>,
}

impl VolumeFacts {
    /// From a PersistentVolume.
    pub fn of_volume(volume: &Value) -> Self {
        let spec = &volume["spec"];
        let size = text(&spec["capacity"]["storage"]);
        let mut facts = Self::of_source(spec);
        facts.capacity = Quantity::parse(&size).unwrap_or_default();
        facts.storage_class = text(&spec["storageClassName"]);
        facts
    }

    /// From an entry of a pod's `spec.volumes`.
    pub fn of_pod_volume(volume: &Value) -> Self {
        Self::of_source(volume)
    }

    /// Adds the facts of the claim.
    #[must_use]
    pub fn with_claim(mut self, claim: &Value) -> Self {
        let modes = claim["spec"]["accessModes"].as_array().into_iter().flatten();
        self.claim = ClaimFacts {
            labels: map(&claim["metadata"]["labels"]),
            phase: text(&claim["status"]["phase"]),
            volume_mode: text(&claim["spec"]["volumeMode"]),
            access_modes: modes.map(text).collect(),
        };
        self
    }

    fn of_source(spec: &Value) -> Self {
        let nfs = spec.get("nfs").map(|nfs| (text(&nfs["server"]), text(&nfs["path"])));
        let csi = spec.get("csi").map(|csi| (text(&csi["driver"]), map(&csi["volumeAttributes"])));
        let fields = spec.as_object().into_iter().flatten();
        let kind = fields
            .filter(|(field, value)| value.is_object() && !NO_SOURCE.contains(&field.as_str()))
            .map(|(field, _)| field.clone())
            .next()
            .unwrap_or_default();
        Self { nfs, csi, kind, ..Self::default() }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn map(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.map(|(key, value)| (key.clone(), text(value))).collect()
}
