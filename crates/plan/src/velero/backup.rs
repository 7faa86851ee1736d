//! Decisions about Backups: defaults, validation, the queue, phases, volumes, the words of results. Pure; called by the
//! controller and the pipeline of crate `velero`.

pub mod defaults;
pub mod phase;
pub mod queue;
pub mod results;
pub mod snapshots;
pub mod undo;
pub mod validate;
pub mod volumes;

pub use crate::velero::filter::ALWAYS_EXCLUDED;

/// Annotation: how often the pass of this backup was begun. Fences the last writes of a server that leads no more.
pub const ATTEMPT: &str = "lifeboat.io/attempt";

/// Annotation: with any value but "false", the backup is to end.
pub const CANCEL: &str = "lifeboat.io/cancel";

/// Annotation: how many bytes the archive has that this attempt wrote. An archive of another size is another's.
pub const ARCHIVE_BYTES: &str = "lifeboat.io/archive-bytes";

/// Label of journals; its value says of what they are.
pub const JOURNAL: &str = "lifeboat.io/journal";

/// The number of an attempt, as the annotation says it; 0 where there was none.
pub fn attempt(annotation: Option<&str>) -> u64 {
    annotation.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Whether the annotation asks for the end.
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
