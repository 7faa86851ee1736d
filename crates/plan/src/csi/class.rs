//! Which VolumeSnapshotClass takes a claim's snapshot: the one that the claim names, the one that the backup names for the
//! driver, one with upstream's label, the cluster's default, the only one of the driver. In this order, as upstream; but a
//! class that somebody named and that cannot be used is an error, not a reason to take another.

use std::collections::BTreeMap;

use serde_json::Value;

use super::text;

/// Label of a class; annotation of a claim; with `_<driver>`, annotation of a Backup.
const CHOSEN: &str = "velero.io/csi-volumesnapshot-class";
const DEFAULT: &str = "snapshot.storage.kubernetes.io/is-default-class";

/// Why no class can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClassError {
    #[error(
        "{who} asks for VolumeSnapshotClass {class}, which does not exist; classes of driver {driver}: {known}"
    )]
    Missing { who: String, class: String, driver: String, known: String },
    #[error(
        "{who} asks for VolumeSnapshotClass {class}, which is for driver {other} and not for {driver}; classes of {driver}: {known}"
    )]
    OtherDriver { who: String, class: String, other: String, driver: String, known: String },
    #[error(
        "no VolumeSnapshotClass is for driver {driver}: make one, or leave the volume out (a volume policy, snapshotVolumes false) or copy its files (fs-backup)"
    )]
    None { driver: String },
    #[error(
        "several VolumeSnapshotClasses are for driver {driver} ({known}) and none is chosen: give one the label velero.io/csi-volumesnapshot-class, or name one in the claim's annotation of the same name"
    )]
    Several { driver: String, known: String },
}

/// The classes of a driver, by name.
pub fn classes_of<'a>(classes: &'a [Value], driver: &str) -> Vec<&'a Value> {
    let mut found: Vec<&Value> =
        classes.iter().filter(|class| text(class, "/driver").eq_ignore_ascii_case(driver)).collect();
    found.sort_by_key(|class| text(class, "/metadata/name"));
    found
}

/// The class for a claim whose volume is `driver`'s.
pub fn of_claim<'a>(
    classes: &'a [Value],
    driver: &str,
    claim: &Value,
    backup: &BTreeMap<String, String>,
) -> Result<&'a Value, ClassError> {
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
                let other = text(found, "/driver").to_owned();
                Err(ClassError::OtherDriver { who, class, other, driver, known })
            }
            None => Err(ClassError::Missing { who, class, driver, known }),
        }
    };
    if let Some(name) = claim["metadata"]["annotations"][CHOSEN].as_str() {
        return named(name, format!("annotation {CHOSEN} of the claim"));
    }
    let key = format!("{CHOSEN}_{}", driver.to_lowercase());
    if let Some(name) = backup.get(&key) {
        return named(name, format!("annotation {key} of the Backup"));
    }
    let labelled = fitting.iter().find(|class| class["metadata"]["labels"].get(CHOSEN).is_some());
    let default = fitting.iter().find(|class| class["metadata"]["annotations"][DEFAULT] == "true");
    match (labelled.or(default), fitting.as_slice()) {
        (Some(class), _) => Ok(class),
        (None, [only]) => Ok(only),
        (None, []) => Err(ClassError::None { driver: driver.to_owned() }),
        (None, _) => Err(ClassError::Several { driver: driver.to_owned(), known: known() }),
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
            class["metadata"]["labels"][CHOSEN] = json!("true");
        }
        if !default.is_empty() {
            class["metadata"]["annotations"][DEFAULT] = json!(default);
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
            claim["metadata"]["annotations"][CHOSEN] = json!(name);
        }
        let backup = backups.map(|name| (format!("{CHOSEN}_d"), name.to_owned())).into_iter().collect();
        let chosen = of_claim(&classes, "d", &claim, &backup);
        match (chosen, expected) {
            (Ok(class), Ok(name)) => assert_eq!(class["metadata"]["name"], name),
            (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
            (chosen, expected) => panic!("{chosen:?} instead of {expected:?}"),
        }
    }
}
