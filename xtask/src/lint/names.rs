//! Names that leave the process: labels, annotations, tags, metrics, files in buckets, names of ConfigMaps, JSON keys. An
//! older or newer version of Lifeboat must find what this one wrote, so a name that is in `persisted_names.txt` and no longer
//! in the source fails the check, wherever the code moved. A new name is added to the list in the same commit
//! (`cargo xtask lint --only names` prints the lines).

mod collect;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::source::Target;

/// The names that this version writes or reads, one per line, sorted.
const LIST: &str = "xtask/src/lint/persisted_names.txt";

pub(crate) fn check(root: &Path, targets: &[Target]) -> Result<()> {
    let list = fs::read_to_string(root.join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
    let problems = compare(&list, &collect::names(targets));
    if !problems.is_empty() {
        bail!("names that leave the process differ from {LIST}:\n  {}", problems.join("\n  "));
    }
    Ok(())
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
}
