//! The VolumeSnapshotClass for a claim's snapshot, and the VolumeGroupSnapshotClass for a group: the one that the
//! claim names, the one that the Backup names for the driver, one with upstream's label, the cluster's default, the
//! only one of the driver. In this order, as upstream; but a class that is named and cannot be used is an error, not
//! a reason to use another one.

use std::collections::BTreeMap;

use serde_json::Value;

use super::text;

/// A kind of class, and where its choice is recorded.
struct Rules {
    kind: &'static str,
    /// Label of a class; with `_<driver>` appended, annotation of a Backup.
    chosen: &'static str,
    /// Annotation of a claim.
    by_claim: &'static str,
    /// Annotation of a class.
    default: &'static str,
    /// The alternative that error messages suggest.
    otherwise: &'static str,
}

const SNAPSHOTS: Rules = Rules {
    kind: "VolumeSnapshotClass",
    chosen: "velero.io/csi-volumesnapshot-class",
    by_claim: "velero.io/csi-volumesnapshot-class",
    default: "snapshot.storage.kubernetes.io/is-default-class",
    otherwise: "leave the volume out (a volume policy, snapshotVolumes false) or copy its files (fs-backup)",
};

const GROUPS: Rules = Rules {
    kind: "VolumeGroupSnapshotClass",
    chosen: "velero.io/csi-volumegroupsnapshot-class",
    // Upstream's name differs here.
    by_claim: "velero.io/csi-volume-group-snapshot-class",
    default: "groupsnapshot.storage.kubernetes.io/is-default-class",
    otherwise: "remove the group's label from its claims, to snapshot them one by one",
};

/// Why no class can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClassError {
    #[error("{who} asks for {kind} {class}, which does not exist; classes of driver {driver}: {known}")]
    Missing { kind: &'static str, who: String, class: String, driver: String, known: String },
    #[error(
        "{who} asks for {kind} {class}, which is for driver {other} and not for {driver}; classes of {driver}: {known}"
    )]
    OtherDriver {
        kind: &'static str,
        who: String,
        class: String,
        other: Box<str>,
        driver: String,
        known: Box<str>,
    },
    #[error("no {kind} is for driver {driver}: create one, or {otherwise}")]
    None { kind: &'static str, driver: String, otherwise: &'static str },
    #[error(
        "several {kind}es are for driver {driver} ({known}) and none is chosen: give one the label {label}, or name one in the claim's annotation {annotation}"
    )]
    Several {
        kind: &'static str,
        driver: String,
        known: String,
        label: &'static str,
        annotation: &'static str,
    },
}

/// The classes of a driver, by name.
pub fn classes_of<'a>(classes: &'a [Value], driver: &str) -> Vec<&'a Value> {
    let mut found: Vec<&Value> =
        classes.iter().filter(|class| text(class, "/driver").eq_ignore_ascii_case(driver)).collect();
    found.sort_by_key(|class| text(class, "/metadata/name"));
    found
}

/// The class for a claim whose volume belongs to `driver`.
pub fn of_claim<'a>(
    classes: &'a [Value],
    driver: &str,
    claim: &Value,
    backup: &BTreeMap<String, String>,
) -> Result<&'a Value, ClassError> {
    choose(&SNAPSHOTS, classes, driver, claim, backup)
}

/// The class for the group of a claim whose volumes belong to `driver`.
pub fn of_group<'a>(
    classes: &'a [Value],
    driver: &str,
    claim: &Value,
    backup: &BTreeMap<String, String>,
) -> Result<&'a Value, ClassError> {
    choose(&GROUPS, classes, driver, claim, backup)
}

fn choose<'a>(
    rules: &Rules,
    classes: &'a [Value],
    driver: &str,
    claim: &Value,
    backup: &BTreeMap<String, String>,
) -> Result<&'a Value, ClassError> {
    let kind = rules.kind;
    let fitting = classes_of(classes, driver);
    let known = || {
        let names: Vec<&str> = fitting.iter().map(|class| text(class, "/metadata/name")).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let named = |name: &str, who: String| {
        let same = |class: &&Value| text(class, "/metadata/name").eq_ignore_ascii_case(name);
        if let Some(class) = fitting.iter().find(|class| same(class)) {
            return Ok(*class);
        }
        let (class, driver, known) = (name.to_owned(), driver.to_owned(), known());
        match classes.iter().find(same) {
            Some(found) => {
                let (other, known) = (text(found, "/driver").into(), known.into());
                Err(ClassError::OtherDriver { kind, who, class, other, driver, known })
            }
            None => Err(ClassError::Missing { kind, who, class, driver, known }),
        }
    };
    if let Some(name) = claim["metadata"]["annotations"][rules.by_claim].as_str() {
        return named(name, format!("annotation {} of the claim", rules.by_claim));
    }
    let key = format!("{}_{}", rules.chosen, driver.to_lowercase());
    if let Some(name) = backup.get(&key) {
        return named(name, format!("annotation {key} of the Backup"));
    }
    let labelled = fitting.iter().find(|class| class["metadata"]["labels"].get(rules.chosen).is_some());
    let default = fitting.iter().find(|class| class["metadata"]["annotations"][rules.default] == "true");
    let driver = driver.to_owned();
    match (labelled.or(default), fitting.as_slice()) {
        (Some(class), _) => Ok(class),
        (None, [only]) => Ok(only),
        (None, []) => Err(ClassError::None { kind, driver, otherwise: rules.otherwise }),
        (None, _) => Err(ClassError::Several {
            kind,
            driver,
            known: known(),
            label: rules.chosen,
            annotation: rules.by_claim,
        }),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn class(name: &str, driver: &str, label: bool, default: &str) -> Value {
        let mut class =
            json!({"metadata": {"name": name, "labels": {}, "annotations": {}}, "driver": driver});
        if label {
            class["metadata"]["labels"][SNAPSHOTS.chosen] = json!("true");
        }
        if !default.is_empty() {
            class["metadata"]["annotations"][SNAPSHOTS.default] = json!(default);
        }
        class
    }

    #[rstest]
    #[case::the_claims(Some("b"), Some("a"), vec![class("a", "d", true, ""), class("b", "d", false, "")], Ok("b"))]
    #[case::the_backups(None, Some("b"), vec![class("a", "d", true, ""), class("b", "d", false, "")], Ok("b"))]
    #[case::labelled(None, None, vec![class("a", "d", false, "true"), class("b", "d", true, "")], Ok("b"))]
    #[case::default(None, None, vec![class("a", "d", false, ""), class("b", "d", false, "true")], Ok("b"))]
    #[case::not_default(None, None, vec![class("a", "d", false, "false"), class("b", "d", false, "")],
        Err("several VolumeSnapshotClasses are for driver d (a, b)"))]
    #[case::only_one(None, None, vec![class("a", "d", false, ""), class("b", "other", true, "")], Ok("a"))]
    #[case::none(None, None, vec![class("b", "other", true, "")], Err("no VolumeSnapshotClass is for driver d"))]
    #[case::gone(Some("x"), None, vec![class("a", "d", true, "")], Err("asks for VolumeSnapshotClass x, which does not exist; classes of driver d: a"))]
    #[case::of_another(None, Some("b"), vec![class("b", "other", false, "")], Err("which is for driver other and not for d"))]
    fn a_class_is_chosen_in_upstreams_order(
        #[case] claims: Option<&str>,
        #[case] backups: Option<&str>,
        #[case] classes: Vec<Value>,
        #[case] expected: Result<&str, &str>,
    ) {
        let mut claim = json!({"metadata": {"annotations": {}}});
        if let Some(name) = claims {
            claim["metadata"]["annotations"][SNAPSHOTS.chosen] = json!(name);
        }
        let backup =
            backups.map(|name| (format!("{}_d", SNAPSHOTS.chosen), name.to_owned())).into_iter().collect();
        let chosen = of_claim(&classes, "d", &claim, &backup);
        match (chosen, expected) {
            (Ok(class), Ok(name)) => assert_eq!(class["metadata"]["name"], name),
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (chosen, expected) => panic!("{chosen:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn a_group_has_classes_of_its_own_under_upstreams_names() {
        let classes = [class("a", "d", false, ""), class("b", "d", false, "")];
        let mut claim = json!({"metadata": {"annotations": {"velero.io/csi-volumesnapshot-class": "a"}}});
        let of_backup = [("velero.io/csi-volumegroupsnapshot-class_d".to_owned(), "b".to_owned())].into();
        let several = of_group(&classes, "d", &claim, &BTreeMap::new()).unwrap_err().to_string();
        assert!(several.contains("several VolumeGroupSnapshotClasses are for driver d (a, b)"), "{several}");
        assert_eq!(of_group(&classes, "d", &claim, &of_backup).unwrap()["metadata"]["name"], "b");
        claim["metadata"]["annotations"]["velero.io/csi-volume-group-snapshot-class"] = json!("a");
        assert_eq!(of_group(&classes, "d", &claim, &of_backup).unwrap()["metadata"]["name"], "a");
        let none = of_group(&classes, "other", &json!({}), &of_backup).unwrap_err().to_string();
        assert!(none.contains("remove the group's label"), "{none}");
    }
}
