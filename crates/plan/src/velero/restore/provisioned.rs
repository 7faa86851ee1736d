//! A volume that was provisioned for a restored claim gets the reclaim policy and the labels of the original one.
//! Takes claim, storage class and volume; gives the next step. Called by the controller at the end of a restore.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::json::text;

/// The settings of the original volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginalVolume {
    pub reclaim_policy: String,
    pub labels: BTreeMap<String, String>,
}

/// The objects in the cluster.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProvisionedFacts<'a> {
    pub claim: Option<&'a Value>,
    pub class: Option<&'a Value>,
    pub volume: Option<&'a Value>,
}

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub enum Look {
    /// Nothing to do.
    Done,
    /// Check again later.
    Wait,
    /// Its class creates volumes only for pods, and no pod uses the claim.
    Unused,
    /// Merge `patch` into the volume.
    Patch {
        volume: String,
        patch: Value,
    },
    Wrong(String),
}

pub fn look(seen: &ProvisionedFacts<'_>, wanted: &OriginalVolume) -> Look {
    // Every volume of this class has the original settings.
    if wanted.labels.is_empty() && seen.class.is_some_and(|class| policy_of(class) == wanted.reclaim_policy) {
        return Look::Done;
    }
    let Some(claim) = seen.claim else { return Look::Wait };
    match text(claim, "/status/phase") {
        "Bound" => {}
        "Pending"
            if seen
                .class
                .is_some_and(|class| text(class, "/volumeBindingMode") == "WaitForFirstConsumer") =>
        {
            return Look::Unused;
        }
        _ => return Look::Wait,
    }
    let Some(volume) = seen.volume else { return Look::Wait };
    if text(volume, "/status/phase") != "Bound" {
        return Look::Wait;
    }
    let (own, other) = (place(claim, "/metadata"), place(volume, "/spec/claimRef"));
    if own != other {
        return Look::Wrong(format!("volume {} is bound to claim {other}", text(volume, "/metadata/name")));
    }
    patch(volume, wanted)
}

/// Labels from the provisioner are kept.
fn patch(volume: &Value, wanted: &OriginalVolume) -> Look {
    let labels = volume.pointer("/metadata/labels");
    let missing: BTreeMap<&String, &String> = wanted
        .labels
        .iter()
        .filter(|(key, value)| {
            labels.and_then(|all| all.get(*key)).and_then(Value::as_str) != Some(value.as_str())
        })
        .collect();
    let same = wanted.reclaim_policy.is_empty()
        || text(volume, "/spec/persistentVolumeReclaimPolicy") == wanted.reclaim_policy;
    let mut patch = json!({});
    if !missing.is_empty() {
        patch["metadata"] = json!({"labels": missing});
    }
    if !same {
        patch["spec"] = json!({"persistentVolumeReclaimPolicy": wanted.reclaim_policy});
    }
    if patch == json!({}) {
        return Look::Done;
    }
    Look::Patch { volume: text(volume, "/metadata/name").to_owned(), patch }
}

fn policy_of(class: &Value) -> &str {
    let policy = text(class, "/reclaimPolicy");
    if policy.is_empty() { "Delete" } else { policy }
}

fn place(object: &Value, pointer: &str) -> String {
    format!("{}/{}", text(object, &format!("{pointer}/namespace")), text(object, &format!("{pointer}/name")))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn claim(phase: &str) -> Value {
        json!({"metadata": {"namespace": "shop", "name": "data"}, "status": {"phase": phase}})
    }

    fn volume(policy: &str, claim: &str, phase: &str) -> Value {
        json!({"metadata": {"name": "pv", "labels": {"zone": "a"}}, "status": {"phase": phase},
            "spec": {"persistentVolumeReclaimPolicy": policy, "claimRef": {"namespace": "shop", "name": claim}}})
    }

    fn wanted(labels: &[(&str, &str)]) -> OriginalVolume {
        let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        OriginalVolume { reclaim_policy: "Retain".into(), labels }
    }

    #[rstest]
    #[case::no_claim(None, None, None, Look::Wait)]
    #[case::pending(Some("Pending"), Some("Immediate"), None, Look::Wait)]
    #[case::unused(Some("Pending"), Some("WaitForFirstConsumer"), None, Look::Unused)]
    #[case::no_volume(Some("Bound"), None, None, Look::Wait)]
    #[case::volume_not_bound(Some("Bound"), None, Some(volume("Delete", "data", "Available")), Look::Wait)]
    #[case::already(Some("Bound"), None, Some(volume("Retain", "data", "Bound")), Look::Done)]
    #[case::other_claim(Some("Bound"), None, Some(volume("Delete", "other", "Bound")),
        Look::Wrong("volume pv is bound to claim shop/other".into()))]
    #[case::policy(Some("Bound"), None, Some(volume("Delete", "data", "Bound")),
        Look::Patch { volume: "pv".into(), patch: json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}}) })]
    fn a_new_volume_gets_back_what_the_old_one_had(
        #[case] phase: Option<&str>,
        #[case] mode: Option<&str>,
        #[case] volume: Option<Value>,
        #[case] expected: Look,
    ) {
        let claim = phase.map(claim);
        let class = mode.map(|mode| json!({"volumeBindingMode": mode}));
        let seen = ProvisionedFacts { claim: claim.as_ref(), class: class.as_ref(), volume: volume.as_ref() };
        assert_eq!(look(&seen, &wanted(&[])), expected);
    }

    #[test]
    fn labels_are_added_to_those_that_are_there() {
        let (claim, volume) = (claim("Bound"), volume("Retain", "data", "Bound"));
        let seen = ProvisionedFacts { claim: Some(&claim), class: None, volume: Some(&volume) };
        let patch = json!({"metadata": {"labels": {"tier": "gold"}}});
        assert_eq!(
            look(&seen, &wanted(&[("zone", "a"), ("tier", "gold")])),
            Look::Patch { volume: "pv".into(), patch }
        );
    }

    #[test]
    fn nothing_is_waited_for_where_the_class_does_the_same() {
        let class = json!({"reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer"});
        let seen = ProvisionedFacts { class: Some(&class), ..ProvisionedFacts::default() };
        assert_eq!(look(&seen, &wanted(&[])), Look::Done);
    }
}
