//! The record of a restore that has started to write and has not succeeded: an annotation of every claim that it
//! writes to, or of its target if it writes to no claims. While it exists, the target is not backed up, because a
//! schedule must not displace good snapshots with half-restored data. It is on the claims, because the restore and
//! the workload may be deleted.

use super::RestoreName;

/// Annotation of a claim, workload or AppBinding that a restore started to write to: the name of that restore. A
/// restore that succeeds removes it, and so does `lifeboat stash resume`.
pub const UNFINISHED: &str = "lifeboat.io/unfinished-restore";

/// The longest name of a restore or namespace.
const LONGEST: usize = 253;

/// The recorded restore; None without a record. `namespace`: that of the object. A record that cannot be parsed
/// counts as well: half-restored data must not be backed up because a user changed the annotation.
pub fn unfinished(annotation: Option<&str>, namespace: &str) -> Option<RestoreName> {
    let fits = |name: &RestoreName| {
        [&name.kind, &name.namespace, &name.name, &name.uid]
            .iter()
            .all(|text| !text.is_empty() && text.len() <= LONGEST)
    };
    let read = serde_json::from_str::<RestoreName>(annotation?).ok().filter(fits);
    Some(read.unwrap_or_else(|| RestoreName {
        kind: "RestoreSession".to_owned(),
        namespace: namespace.to_owned(),
        name: "unknown".to_owned(),
        uid: String::new(),
    }))
}

/// The annotation that records a restore.
pub fn unfinished_annotation(restore: &RestoreName) -> String {
    // A name is plain data, which always has a JSON form.
    serde_json::to_string(restore).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn name() -> RestoreName {
        RestoreName {
            kind: "RestoreBatch".into(),
            namespace: "shop".into(),
            name: "back".into(),
            uid: "u".into(),
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        assert_eq!(unfinished(Some(&unfinished_annotation(&name())), "shop"), Some(name()));
        assert_eq!(unfinished(None, "shop"), None);
    }

    #[rstest]
    #[case::empty("")]
    #[case::no_json("true")]
    #[case::no_name(r#"{"kind":"RestoreSession","namespace":"shop","name":"","uid":"u"}"#)]
    #[case::long(&unfinished_annotation(&RestoreName { name: "x".repeat(300), ..name() }))]
    fn a_record_that_was_damaged_still_counts(#[case] annotation: &str) {
        let found = unfinished(Some(annotation), "shop").unwrap();
        assert_eq!(found.to_string(), "RestoreSession shop/unknown");
    }
}
