//! Whether a volume and its claim are provisioned anew or restored as they are; and which data of a backup was not
//! restored. Called by the executor for each PersistentVolume, and by the controller at the end.

use std::collections::BTreeMap;

use serde_json::Value;

/// How the backup holds the data of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataIn {
    /// A native snapshot.
    NativeSnapshot,
    /// A copy of its files in a repository.
    PodVolume,
    /// A CSI snapshot that stays in the storage system.
    CsiSnapshot,
    /// A CSI snapshot whose data was moved into a repository.
    MovedSnapshot,
    /// Backing it up was requested and failed.
    Failed,
    /// Not in the backup, because it was declined, or because the volume keeps its storage.
    Nothing,
    /// Not in the backup, because it was not requested. The volume's storage is deleted with its claim.
    Unasked,
}

/// How a volume is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumePlan {
    /// Leave the volume out; its claim gets a new one.
    Provision,
    /// Restore the object: it refers to storage that outlived its claim.
    AsItIs,
    /// Create a volume from the native snapshot, and restore the object with it.
    FromSnapshot,
}

/// Decides how a PersistentVolume of a backup is restored. `wants_data`: whether the Restore includes the data of volumes.
pub fn plan(volume: &Value, data: DataIn, wants_data: bool) -> VolumePlan {
    let policy = volume.pointer("/spec/persistentVolumeReclaimPolicy").and_then(Value::as_str);
    match data {
        DataIn::NativeSnapshot if wants_data => VolumePlan::FromSnapshot,
        // As upstream: only the object is left, and it refers to its old volume.
        DataIn::NativeSnapshot => VolumePlan::AsItIs,
        DataIn::Nothing | DataIn::Unasked | DataIn::Failed if policy != Some("Delete") => VolumePlan::AsItIs,
        _ => VolumePlan::Provision,
    }
}

/// The data of one volume in a backup. Names and namespaces are those in the backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeData {
    /// The PersistentVolume; empty for a volume of a pod that has none.
    pub volume: String,
    /// Namespace and name.
    pub claim: Option<(String, String)>,
    /// Namespace and name of a pod whose volume was copied, and the volume's name in it.
    pub pod: Option<(String, String, String)>,
    pub data: DataIn,
}

/// An object that a volume's data belongs to, as named in the backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder<'a> {
    Volume(&'a str),
    Claim(&'a str, &'a str),
    Pod(&'a str, &'a str),
    /// A claim that is filled from its snapshot.
    Filled(&'a str, &'a str),
}

/// How each PersistentVolume's data is stored. If a volume has several entries, any one with data counts.
pub fn by_volume(volumes: &[VolumeData]) -> BTreeMap<String, DataIn> {
    let mut found = BTreeMap::new();
    for one in volumes.iter().filter(|one| !one.volume.is_empty()) {
        let entry = found.entry(one.volume.clone()).or_insert(one.data);
        if matches!(entry, DataIn::Nothing | DataIn::Unasked | DataIn::Failed) {
            *entry = one.data;
        }
    }
    found
}

/// Data that was not restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub namespace: Option<String>,
    pub message: String,
    /// False, for a warning, if the data was not requested when the backup was made.
    pub is_error: bool,
}

/// The data that was not restored. `is_restored` says whether the restore processed an object.
pub fn missing(volumes: &[VolumeData], is_restored: impl Fn(Holder<'_>) -> bool) -> Vec<Missing> {
    let wanted = |one: &&VolumeData| {
        // A volume that was processed was restored from its snapshot, or reported its own error.
        if one.data == DataIn::NativeSnapshot && is_restored(Holder::Volume(&one.volume)) {
            return false;
        }
        // A claim that is filled reports its own error if that fails.
        if let (DataIn::CsiSnapshot | DataIn::MovedSnapshot, Some((namespace, name))) = (one.data, &one.claim)
            && is_restored(Holder::Filled(namespace, name))
        {
            return false;
        }
        let claim =
            one.claim.as_ref().is_some_and(|(namespace, name)| is_restored(Holder::Claim(namespace, name)));
        let pod =
            one.pod.as_ref().is_some_and(|(namespace, name, _)| is_restored(Holder::Pod(namespace, name)));
        claim || pod || (!one.volume.is_empty() && is_restored(Holder::Volume(&one.volume)))
    };
    let mut found: Vec<Missing> = Vec::new();
    for one in volumes.iter().filter(wanted) {
        let Some(held) = held(one.data) else { continue };
        let place = one.claim.as_ref().map(|(namespace, _)| namespace);
        let place = place.or(one.pod.as_ref().map(|(namespace, ..)| namespace)).cloned();
        let message = format!("the data of volume {} was not restored: {held}", name(one));
        if !found.iter().any(|known| known.message == message) {
            found.push(Missing { namespace: place, message, is_error: one.data != DataIn::Unasked });
        }
    }
    found
}

/// Where the data is, and why it was not restored.
fn held(data: DataIn) -> Option<&'static str> {
    match data {
        DataIn::Nothing => None,
        DataIn::Unasked => {
            Some("the backup does not hold it, because nothing asked for it; the volume stays empty")
        }
        DataIn::Failed => Some("the backup does not hold it, because backing it up failed"),
        DataIn::NativeSnapshot => Some(
            "the backup holds it as a snapshot of a volume plugin, and its PersistentVolume was not restored; restore persistentvolumes as well",
        ),
        DataIn::PodVolume => Some(
            "the backup holds it as a copy of its files in a repository, which is restored with its pod, and the pod was not restored; restore pods as well, otherwise the volume stays empty",
        ),
        DataIn::CsiSnapshot => Some(
            "the backup holds it as a CSI snapshot, and its claim does not say which one; the volume stays empty",
        ),
        DataIn::MovedSnapshot => Some(
            "the backup holds it as a CSI snapshot that was moved into a repository, and its claim does not say which one; the volume stays empty",
        ),
    }
}

fn name(one: &VolumeData) -> String {
    match (&one.claim, &one.pod) {
        (Some((namespace, name)), _) if one.volume.is_empty() => format!("of claim {namespace}/{name}"),
        (Some((namespace, name)), _) => format!("{} (claim {namespace}/{name})", one.volume),
        (None, Some((namespace, name, volume))) => format!("{volume} of pod {namespace}/{name}"),
        (None, None) => one.volume.clone(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("Delete", DataIn::Nothing, true, VolumePlan::Provision)]
    #[case("Retain", DataIn::Nothing, true, VolumePlan::AsItIs)]
    #[case("Delete", DataIn::Unasked, true, VolumePlan::Provision)]
    #[case("Retain", DataIn::Failed, true, VolumePlan::AsItIs)]
    #[case("Delete", DataIn::Failed, true, VolumePlan::Provision)]
    #[case("Retain", DataIn::PodVolume, true, VolumePlan::Provision)]
    #[case("Retain", DataIn::CsiSnapshot, true, VolumePlan::Provision)]
    #[case("Delete", DataIn::NativeSnapshot, true, VolumePlan::FromSnapshot)]
    #[case("Retain", DataIn::NativeSnapshot, true, VolumePlan::FromSnapshot)]
    #[case("Delete", DataIn::NativeSnapshot, false, VolumePlan::AsItIs)]
    #[case("Delete", DataIn::PodVolume, false, VolumePlan::Provision)]
    fn a_volume_without_data_is_kept_unless_it_went_with_its_claim(
        #[case] policy: &str,
        #[case] data: DataIn,
        #[case] wants_data: bool,
        #[case] expected: VolumePlan,
    ) {
        let volume = json!({"spec": {"persistentVolumeReclaimPolicy": policy}});
        assert_eq!(plan(&volume, data, wants_data), expected);
    }

    fn volume(name: &str, claim: Option<&str>, pod: Option<&str>, data: DataIn) -> VolumeData {
        VolumeData {
            volume: name.into(),
            claim: claim.map(|claim| ("shop".into(), claim.into())),
            pod: pod.map(|pod| ("shop".into(), pod.into(), "v".into())),
            data,
        }
    }

    #[test]
    fn data_of_what_was_restored_is_missed_and_no_other() {
        let volumes = [
            volume("pv", Some("data"), Some("web"), DataIn::PodVolume),
            volume("", None, Some("web"), DataIn::PodVolume),
            volume("skipped", Some("tmp"), None, DataIn::Nothing),
            volume("unasked", Some("unasked"), None, DataIn::Unasked),
            volume("not-restored", Some("not-restored"), None, DataIn::Unasked),
            volume("elsewhere", Some("elsewhere"), None, DataIn::CsiSnapshot),
            volume("static", None, None, DataIn::PodVolume),
            volume("made", Some("made"), None, DataIn::NativeSnapshot),
            volume("left", Some("left"), None, DataIn::NativeSnapshot),
            volume("lost", Some("lost"), None, DataIn::Failed),
            volume("filled", Some("filled"), None, DataIn::CsiSnapshot),
        ];
        let restored = [
            Holder::Claim("shop", "data"),
            Holder::Claim("shop", "tmp"),
            Holder::Claim("shop", "unasked"),
            Holder::Claim("shop", "lost"),
            Holder::Pod("shop", "web"),
            Holder::Volume("static"),
            Holder::Claim("shop", "made"),
            Holder::Volume("made"),
            Holder::Claim("shop", "left"),
            Holder::Claim("shop", "filled"),
            Holder::Filled("shop", "filled"),
        ];
        let found = missing(&volumes, |holder| restored.contains(&holder));
        let messages: Vec<&str> =
            found.iter().filter(|one| one.is_error).map(|one| one.message.as_str()).collect();
        assert_eq!(messages.len(), 5, "{messages:?}");
        let warnings: Vec<&str> =
            found.iter().filter(|one| !one.is_error).map(|one| one.message.as_str()).collect();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("volume unasked (claim shop/unasked)"), "{warnings:?}");
        assert!(messages[0].starts_with(
            "the data of volume pv (claim shop/data) was not restored: the backup holds it as a copy"
        ));
        assert!(messages[1].starts_with("the data of volume v of pod shop/web was not restored"));
        assert!(messages[2].starts_with("the data of volume static was not restored"));
        assert!(
            messages[3].contains("volume left") && messages[3].contains("restore persistentvolumes as well")
        );
        assert!(messages[4].contains("backing it up failed"));
        let namespaces: Vec<_> = found.iter().map(|one| one.namespace.as_deref()).collect();
        assert_eq!(namespaces, [Some("shop"), Some("shop"), Some("shop"), None, Some("shop"), Some("shop")]);
    }

    #[test]
    fn one_entry_that_holds_data_is_enough() {
        let volumes = [
            volume("pv", None, None, DataIn::Nothing),
            volume("pv", None, None, DataIn::PodVolume),
            volume("pv", None, None, DataIn::Failed),
        ];
        assert_eq!(by_volume(&volumes)["pv"], DataIn::PodVolume);
    }
}
