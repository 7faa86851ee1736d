//! What a restore takes from a snapshot: `--include` or `--exclude` and similar options, never both. Pure.

use super::patterns::{Match, Patterns};

/// Lists of patterns; each list (case-sensitive or not) is applied separately, as in restic.
#[derive(Debug, Clone, Default)]
pub enum Selection {
    #[default]
    Everything,
    Include(Vec<Patterns>),
    Exclude(Vec<Patterns>),
}

impl Selection {
    /// Whether the item at `path` in the snapshot is restored, and whether to descend into it.
    pub fn select(&self, path: &[u8], is_directory: bool) -> Match {
        let (matched, below) = match self {
            Self::Everything => (true, true),
            Self::Include(lists) => lists.iter().fold((false, false), |(matched, below), list| {
                let found = list.matches_or_below(path);
                (matched || found.matched, below || found.below)
            }),
            Self::Exclude(lists) => {
                let kept = !lists.iter().any(|list| list.matches(path));
                (kept, kept)
            }
        };
        Match { matched, below: below && is_directory }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::patterns::Case;

    fn lists(sensitive: &[&str], insensitive: &[&str]) -> Vec<Patterns> {
        vec![
            Patterns::parse(insensitive, Case::Ignored).unwrap(),
            Patterns::parse(sensitive, Case::Matters).unwrap(),
        ]
    }

    #[rstest::rstest]
    #[case(Selection::Everything, "/a", true, (true, true))]
    #[case(Selection::Everything, "/a", false, (true, false))]
    #[case(Selection::Include(lists(&["/a/b"], &[])), "/a", true, (false, true))]
    #[case(Selection::Include(lists(&["/a/b"], &[])), "/a/b", true, (true, true))]
    #[case(Selection::Include(lists(&["/a/b"], &[])), "/a/c", true, (false, false))]
    #[case(Selection::Include(lists(&["/x"], &["/A/B"])), "/a/b", false, (true, false))]
    #[case(Selection::Exclude(lists(&["*.o"], &[])), "/a", true, (true, true))]
    #[case(Selection::Exclude(lists(&["*.o"], &[])), "/a.o", true, (false, false))]
    #[case(Selection::Exclude(lists(&["*.o"], &["TMP"])), "/tmp", true, (false, false))]
    fn a_selection_says_what_to_take_and_where_to_look(
        #[case] selection: Selection,
        #[case] path: &str,
        #[case] is_directory: bool,
        #[case] expected: (bool, bool),
    ) {
        let found = selection.select(path.as_bytes(), is_directory);
        assert_eq!((found.matched, found.below), expected);
    }
}
