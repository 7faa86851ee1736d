//! Hands a volume that was filled in the movers' namespace to its claim: the patches of claim and volume, and whether
//! the two are bound. Every patch can be repeated.

use serde_json::{Value, json};

use super::text;

/// Sets the volume's name in the claim.
pub fn claim_patch(volume: &str) -> Value {
    json!({
        "metadata": {"annotations": {
            "pv.kubernetes.io/bind-completed": null,
            "pv.kubernetes.io/bound-by-controller": null,
        }},
        "spec": {"volumeName": volume},
    })
}

/// Sets the claim in the volume, and the labels that the claim's selector requires. None if that is already done.
pub fn volume_patch(volume: &Value, claim: &Value) -> Option<Value> {
    let reference = &volume["spec"]["claimRef"];
    let target = &claim["metadata"];
    if reference["namespace"] == target["namespace"] && reference["name"] == target["name"] {
        return None;
    }
    let mut patch = json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": null}},
        "spec": {"claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": target["namespace"], "name": target["name"],
            // With the UID, the volume follows its reclaim policy if the claim is deleted before they are bound.
            "uid": target["uid"], "resourceVersion": null,
        }},
    });
    // A read-only claim is filled through a writable volume; it is only bound to a volume with its own modes.
    let modes = |object: &Value| object["spec"]["accessModes"].as_array().cloned().unwrap_or_default();
    let (has, wanted) = (modes(volume), modes(claim));
    if !wanted.is_empty() && !wanted.iter().all(|mode| has.contains(mode)) {
        patch["spec"]["accessModes"] = json!(wanted);
    }
    if claim["spec"]["selector"]["matchLabels"].is_object() {
        patch["metadata"]["labels"] = claim["spec"]["selector"]["matchLabels"].clone();
    }
    Some(patch)
}

/// The state of a claim and the volume for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    Yes,
    NotYet,
    /// The claim was bound to another volume.
    Other(String),
}

pub fn bound(claim: &Value, volume: &str) -> Bound {
    let named = text(claim, "/spec/volumeName");
    match text(claim, "/status/phase") {
        "Bound" if named == volume => Bound::Yes,
        "Bound" => Bound::Other(format!("the claim is bound to volume {named}")),
        "Lost" => Bound::Other(format!("the claim has lost its volume {named}")),
        _ => Bound::NotYet,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_volume_is_given_to_its_claim_once() {
        let claim = json!({"metadata": {"namespace": "shop", "name": "data", "uid": "u"},
            "spec": {"selector": {"matchLabels": {"velero.io/dynamic-pv-restore": "x"}}}, "status": {"phase": "Pending"}});
        let mut volume = json!({"metadata": {"name": "pv"}, "spec": {"claimRef":
            {"namespace": "lifeboat-movers", "name": "lifeboat-u", "uid": "m", "resourceVersion": "7"}}});
        let patch = volume_patch(&volume, &claim).unwrap();
        assert_eq!(patch["spec"]["claimRef"]["name"], "data");
        assert_eq!(patch["spec"]["claimRef"]["uid"], "u", "it goes with this very claim");
        assert_eq!(patch["metadata"]["labels"]["velero.io/dynamic-pv-restore"], "x");
        volume["spec"]["claimRef"] = json!({"namespace": "shop", "name": "data", "uid": "u"});
        assert_eq!(volume_patch(&volume, &claim), None);
    }

    #[rstest]
    #[case::the_same("ReadWriteOncePod", "ReadWriteOncePod", None)]
    #[case::read_only("ReadWriteOnce", "ReadOnlyMany", Some("ReadOnlyMany"))]
    fn a_volume_gets_the_access_modes_of_its_claim(
        #[case] has: &str,
        #[case] wanted: &str,
        #[case] expected: Option<&str>,
    ) {
        let volume = json!({"spec": {"accessModes": [has]}});
        let claim =
            json!({"metadata": {"namespace": "shop", "name": "data"}, "spec": {"accessModes": [wanted]}});
        let patch = volume_patch(&volume, &claim).unwrap();
        let patched = patch["spec"].get("accessModes").cloned();
        assert_eq!(patched, expected.map(|mode| json!([mode])));
    }

    #[test]
    fn a_claim_that_is_bound_to_another_volume_is_reported() {
        let claim =
            |phase: &str, volume: &str| json!({"spec": {"volumeName": volume}, "status": {"phase": phase}});
        assert_eq!(bound(&claim("Bound", "pv"), "pv"), Bound::Yes);
        assert_eq!(bound(&claim("Pending", "pv"), "pv"), Bound::NotYet);
        assert!(matches!(bound(&claim("Bound", "x"), "pv"), Bound::Other(message) if message.contains('x')));
    }
}
