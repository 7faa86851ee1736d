//! What becomes of a volume and its claim: made anew, restored as it is, and whether data is missing. Asked by the executor
//! for each PersistentVolume.

use serde_json::Value;

/// How the backup holds the data of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataIn {
    /// A snapshot of a volume plugin.
    NativeSnapshot,
    /// A copy of its files in a repository.
    PodVolume,
    /// A CSI snapshot that stays where it was made.
    CsiSnapshot,
    /// A CSI snapshot whose data was moved into a repository.
    MovedSnapshot,
    /// Nowhere.
    Nothing,
}

/// What to do with a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumePlan {
    /// Leave the volume out; its claim gets a new one. The words say what data is missing.
    Provision { missing: Option<String> },
    /// Restore the object: it points at storage that outlived its claim.
    AsItIs,
}

/// Decides. `wanted` is the Restore's `restorePVs`: whoever says no does not miss the data.
pub fn plan(volume: &Value, data: DataIn, wanted: bool) -> VolumePlan {
    let held = match data {
        DataIn::Nothing => {
            let keeps = volume.pointer("/spec/persistentVolumeReclaimPolicy").and_then(Value::as_str);
            return if keeps == Some("Delete") {
                VolumePlan::Provision { missing: None }
            } else {
                VolumePlan::AsItIs
            };
        }
        DataIn::NativeSnapshot => "a snapshot of a volume plugin",
        DataIn::PodVolume => "a copy of its files in a repository",
        DataIn::CsiSnapshot => "a CSI snapshot",
        DataIn::MovedSnapshot => "a CSI snapshot that was moved into a repository",
    };
    let missing = wanted.then(|| missing(volume, held));
    VolumePlan::Provision { missing }
}

fn missing(volume: &Value, held: &str) -> String {
    let text = |pointer: &str| volume.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let claim = format!("{}/{}", text("/spec/claimRef/namespace"), text("/spec/claimRef/name"));
    format!(
        "the data of volume {} (claim {claim}) was not restored: the backup holds it as {held}, which this version of Lifeboat does not restore; the claim gets an empty volume",
        text("/metadata/name")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_volume_without_data_is_kept_unless_it_went_with_its_claim() {
        let volume = |policy: &str| json!({"spec": {"persistentVolumeReclaimPolicy": policy}});
        assert_eq!(plan(&volume("Delete"), DataIn::Nothing, true), VolumePlan::Provision { missing: None });
        assert_eq!(plan(&volume("Retain"), DataIn::Nothing, true), VolumePlan::AsItIs);
    }

    #[test]
    fn missing_data_is_named_where_it_was_wanted() {
        let volume =
            json!({"metadata": {"name": "pv"}, "spec": {"claimRef": {"namespace": "shop", "name": "data"}}});
        let VolumePlan::Provision { missing: Some(words) } = plan(&volume, DataIn::PodVolume, true) else {
            panic!("data is missing");
        };
        assert!(words.starts_with("the data of volume pv (claim shop/data) was not restored"), "{words}");
        assert_eq!(plan(&volume, DataIn::PodVolume, false), VolumePlan::Provision { missing: None });
    }
}
