//! The VolumeSnapshotClass of a claim, for driver VolumeSnapshotter: the one that the target names, else the default of the claim's driver,
//! else the only one of the driver. Takes the cluster's classes; gives a name or why there is none.

use serde_json::Value;

use crate::json::text;

/// Annotation of the class that is taken for claims of its driver where none is named.
const DEFAULT: &str = "snapshot.storage.kubernetes.io/is-default-class";

/// Why a claim has no class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotClassError {
    #[error(
        "VolumeSnapshotClass {class:?} (target.snapshotClassName) does not exist; the cluster has {known}: name one of them, or remove the field"
    )]
    Missing { class: String, known: String },
    #[error(
        "VolumeSnapshotClass {class:?} (target.snapshotClassName) is of driver {found}, and the claim is of driver {driver}, whose classes are \
         {known}; name one of these, or remove the field"
    )]
    OtherDriver { class: String, found: String, driver: String, known: String },
    #[error(
        "no VolumeSnapshotClass is of the claim's driver {driver}; create one, or use driver Restic if the storage has no snapshots"
    )]
    None { driver: String },
    #[error(
        "VolumeSnapshotClasses {known} are of the claim's driver {driver}, and not exactly one of them is its default; set target.snapshotClassName"
    )]
    Several { driver: String, known: String },
}

/// Checks that a class exists, before the drivers of claims are known.
pub fn check_class(classes: &[Value], named: &str) -> Result<(), SnapshotClassError> {
    if classes.iter().any(|class| name(class) == named) {
        return Ok(());
    }
    Err(SnapshotClassError::Missing { class: named.to_owned(), known: names(classes.iter()) })
}

/// The class for a claim of this driver. `named`: `target.snapshotClassName`.
pub(super) fn class_for(
    classes: &[Value],
    driver: &str,
    named: Option<&str>,
) -> Result<String, SnapshotClassError> {
    let of_driver = || classes.iter().filter(|class| text(class, "/driver") == driver);
    let known = || names(of_driver());
    if let Some(named) = named {
        check_class(classes, named)?;
        if of_driver().any(|class| name(class) == named) {
            return Ok(named.to_owned());
        }
        let found = classes.iter().find(|class| name(class) == named);
        let found = found.map(|class| text(class, "/driver").to_owned()).unwrap_or_default();
        let (class, driver) = (named.to_owned(), driver.to_owned());
        return Err(SnapshotClassError::OtherDriver { class, found, driver, known: known() });
    }
    let is_default = |class: &&Value| class["metadata"]["annotations"][DEFAULT] == "true";
    let (all, defaults): (Vec<&Value>, Vec<&Value>) =
        (of_driver().collect(), of_driver().filter(is_default).collect());
    match (defaults.as_slice(), all.as_slice()) {
        ([class], _) | ([], [class]) => Ok(name(class).to_owned()),
        (_, []) => Err(SnapshotClassError::None { driver: driver.to_owned() }),
        _ => Err(SnapshotClassError::Several { driver: driver.to_owned(), known: known() }),
    }
}

fn name(class: &Value) -> &str {
    text(class, "/metadata/name")
}

fn names<'a>(classes: impl Iterator<Item = &'a Value>) -> String {
    let mut names: Vec<&str> = classes.map(name).collect();
    names.sort_unstable();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn class(name: &str, driver: &str, default: &str) -> Value {
        json!({"metadata": {"name": name, "annotations": {DEFAULT: default}}, "driver": driver})
    }

    #[rstest]
    #[case::named(Some("b"), vec![class("a", "d", "true"), class("b", "d", "")], Ok("b"))]
    #[case::default(None, vec![class("a", "d", "false"), class("b", "d", "true")], Ok("b"))]
    #[case::the_default_of_another_driver(None, vec![class("a", "d", ""), class("b", "other", "true")], Ok("a"))]
    #[case::only_one(None, vec![class("a", "d", "")], Ok("a"))]
    #[case::missing(Some("x"), vec![class("a", "d", "")], Err("\"x\" (target.snapshotClassName) does not exist; the cluster has a"))]
    #[case::of_another_driver(
        Some("b"), vec![class("a", "d", ""), class("b", "other", "")],
        Err("is of driver other, and the claim is of driver d, whose classes are a")
    )]
    #[case::none(None, vec![class("b", "other", "true")], Err("no VolumeSnapshotClass is of the claim's driver d"))]
    #[case::several(None, vec![class("a", "d", ""), class("b", "d", "")], Err("VolumeSnapshotClasses a, b are of the claim's driver d"))]
    #[case::two_defaults(None, vec![class("a", "d", "true"), class("b", "d", "true")], Err("VolumeSnapshotClasses a, b"))]
    fn a_claim_has_the_class_that_is_named_or_the_default_of_its_driver(
        #[case] named: Option<&str>,
        #[case] classes: Vec<Value>,
        #[case] expected: Result<&str, &str>,
    ) {
        match (class_for(&classes, "d", named), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        }
    }
}
