//! Names that leave the process: labels, annotations, tags, metrics, files in buckets, names of ConfigMaps, JSON keys. An
//! older or newer version of Lifeboat must find what this one wrote, so a name that is in `persisted_names.txt` and no longer
//! in the source fails the check, wherever the code moved. A new name is added to the list in the same commit
//! (`cargo xtask lint --only names` prints the lines).
//!
//! Any commit may shorten that list. `persisted_names_before.txt` is the list as it was first made, before the crates were
//! split, and never changes: a name of it that is gone fails the check, unless [`GONE`] gives the reason.

mod collect;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::source::Target;

/// The names that this version writes or reads, one per line, sorted.
const LIST: &str = "xtask/src/lint/persisted_names.txt";

/// The names of the version before the crates were split, one per line.
const BEFORE: &str = "xtask/src/lint/persisted_names_before.txt";

/// The first list read files named `*_tests.rs` as code of the product.
const OF_A_TEST: &str = "only a test of `plan` had it, in a file named *_tests.rs";
/// Such a key is set by index, and only literals of `json!` are read.
const BY_INDEX: &str =
    "a key of Kubernetes; `pinned` in crates/plan/src/transfer/movers/pod.rs still writes it";
const IN_PROCESS: &str =
    "passed from the executor of a restore to an action, and removed before the object was created";

/// Names of the version before that are not in the source any more, each with the reason why nothing stored has it.
#[rustfmt::skip] // one line for each name
const GONE: [(&str, &str); 21] = [
    ("text .stash.appscode.com", "restores from untrusted locations compared groups with it; they go by a list of what may come now"),
    ("json a", OF_A_TEST),
    ("json app", OF_A_TEST),
    ("json awsElasticBlockStore", OF_A_TEST),
    ("json boundVolumeSnapshotContentName", OF_A_TEST),
    ("json configMap", OF_A_TEST),
    ("json creationTime", OF_A_TEST),
    ("json includedNamespaces", OF_A_TEST),
    ("json includedResources", OF_A_TEST),
    ("json matchFields", BY_INDEX),
    ("json nodeAffinity", BY_INDEX),
    ("json orderedResources", OF_A_TEST),
    ("json pods", OF_A_TEST),
    ("json requiredDuringSchedulingIgnoredDuringExecution", BY_INDEX),
    ("json restoreSize", OF_A_TEST),
    ("json storageClassName", OF_A_TEST),
    ("json storageLocation", OF_A_TEST),
    ("json volumeDevices", OF_A_TEST),
    ("json volumeGroupSnapshotName", OF_A_TEST),
    ("json volumeSnapshotLocations", OF_A_TEST),
    ("text lifeboat.io/data-upload", IN_PROCESS),
];

pub(crate) fn check(root: &Path, targets: &[Target]) -> Result<()> {
    let read =
        |path: &str| fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"));
    let found = collect::names(targets);
    let mut problems = compare(&read(LIST)?, &found);
    problems.extend(lost(&read(BEFORE)?, &found, &GONE));
    if !problems.is_empty() {
        bail!("names that leave the process differ from {LIST} or {BEFORE}:\n  {}", problems.join("\n  "));
    }
    Ok(())
}

/// Names of the version before that are missing without a reason.
fn lost(before: &str, found: &BTreeSet<String>, gone: &[(&str, &str)]) -> Vec<String> {
    let is_explained = |name: &str| gone.iter().any(|(known, reason)| *known == name && !reason.is_empty());
    let missing = before.lines().filter(|name| !found.contains(*name) && !is_explained(name));
    missing
        .map(|name| format!("lost: {name} ({BEFORE} has it: objects and files of that version do too)"))
        .collect()
}

fn compare(list: &str, found: &BTreeSet<String>) -> Vec<String> {
    let known: BTreeSet<String> = list.lines().map(str::to_owned).collect();
    let gone = known.difference(found).map(|name| {
        format!(
            "lost: {name} (objects and files of earlier versions have it: keep reading and writing this name)"
        )
    });
    let new = found.difference(&known).map(|name| format!("new: {name} (add this line to the list)"));
    gone.chain(new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_label_is_one_name_lost_and_one_new() {
        let found = BTreeSet::from(["text lifeboat.io/attempts".to_owned()]);
        let problems = compare("text lifeboat.io/attempt\n", &found);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("lost: text lifeboat.io/attempt "), "{problems:?}");
        assert!(problems[1].starts_with("new: text lifeboat.io/attempts "), "{problems:?}");
        assert!(compare("text lifeboat.io/attempts\n", &found).is_empty());
    }

    #[test]
    fn a_name_of_the_version_before_is_missed_even_if_the_list_does_not_have_it_any_more() {
        let before = "json phase\njson side\ntext lifeboat.io/attempt\n";
        let found = BTreeSet::from(["json phase".to_owned()]);
        let problems = lost(before, &found, &[("json side", "only a test had it")]);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("lost: text lifeboat.io/attempt "), "{problems:?}");
        assert_eq!(lost(before, &found, &[("json side", "")]).len(), 2, "a reason is required");
    }

    #[test]
    fn every_name_that_is_gone_was_a_name_of_the_version_before() {
        let before = fs::read_to_string(crate::run::checkout().join(BEFORE)).unwrap();
        let unknown: Vec<_> =
            GONE.iter().filter(|(name, _)| !before.lines().any(|line| line == *name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        assert_eq!(before.lines().count(), 812, "the list of the version before never changes");
    }
}
