//! Decisions about Backups: defaults, validation, the queue, phases, volumes, messages in results. Pure; called by
//! the controller and the pipeline in crate `velero`.

pub mod defaults;
pub mod phase;
pub mod queue;
pub mod results;
pub mod snapshots;
pub mod undo;
pub mod validate;
pub mod volumes;

pub use crate::velero::filter::ALWAYS_EXCLUDED;

/// Annotation: the number of the current attempt. It fences off late writes of a server that is no longer leader.
pub const ATTEMPT: &str = "lifeboat.io/attempt";

/// Annotation: with any value but "false", the backup is cancelled.
pub const CANCEL: &str = "lifeboat.io/cancel";

/// Annotation: the size of the archive that this attempt wrote. An archive of another size belongs to another
/// attempt.
pub const ARCHIVE_BYTES: &str = "lifeboat.io/archive-bytes";

/// Label of journals; its value says what they record.
pub const JOURNAL: &str = "lifeboat.io/journal";

/// The number of the attempt in the annotation; 0 without one.
pub fn attempt(annotation: Option<&str>) -> u64 {
    annotation.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Whether the annotation cancels the backup.
pub fn is_cancelled(annotation: Option<&str>) -> bool {
    annotation.is_some_and(|value| !value.eq_ignore_ascii_case("false"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(None, false)]
    #[case(Some("true"), true)]
    #[case(Some(""), true)]
    #[case(Some("False"), false)]
    fn the_annotation_cancels(#[case] annotation: Option<&str>, #[case] expected: bool) {
        assert_eq!(is_cancelled(annotation), expected);
    }

    #[test]
    fn attempts_are_counted_from_nothing() {
        assert_eq!(attempt(None), 0);
        assert_eq!(attempt(Some("3")), 3);
        assert_eq!(attempt(Some("x")), 0);
    }
}
