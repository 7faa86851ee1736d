//! The manifests under `e2e/fixtures`, and whether there are enough of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// A manifest: its file's name, its text, and the object in it.
pub(crate) struct Fixture {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) object: Value,
}

impl Fixture {
    pub(crate) fn kind(&self) -> &str {
        self.object["kind"].as_str().expect("a manifest has a kind")
    }
}

/// All manifests of one directory under `e2e/fixtures`, by name.
pub(crate) fn load(directory: &str) -> Vec<Fixture> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/fixtures").join(directory);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&directory)
        .expect("the fixture directory is there")
        .map(|entry| entry.expect("the fixture directory can be listed").path())
        .collect();
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Fixture {
    let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).expect("a fixture can be read");
    let object = serde_saphyr::from_str(&text).map_err(|error| format!("{name}: {error}"));
    Fixture { object: object.expect("a fixture is one YAML object"), name, text }
}

/// The kinds of all groups, with how many of the fixtures are of each.
fn count_by_kind(fixtures: &[Fixture]) -> BTreeMap<String, usize> {
    let crds =
        [lifeboat_api::stash::crds(), lifeboat_api::repositories::crds(), lifeboat_api::appcatalog::crds()]
            .concat();
    let mut counts: BTreeMap<String, usize> = crds.iter().map(|crd| (crd.kind().to_owned(), 0)).collect();
    for fixture in fixtures {
        *counts.get_mut(fixture.kind()).expect("every fixture is of one of our kinds") += 1;
    }
    counts
}

#[test]
fn all_complete_objects_of_the_seed_documents_are_there() {
    let seeds = load("seeds");
    // 4 in the document about batches, 11 in the design discussion; the Velero documents have none.
    assert_eq!(seeds.iter().filter(|fixture| fixture.name.starts_with("001-")).count(), 4);
    assert_eq!(seeds.iter().filter(|fixture| fixture.name.starts_with("002-")).count(), 11);
    assert_eq!(seeds.len(), 15);
}

#[test]
fn every_kind_has_a_manifest_that_is_accepted() {
    for (kind, count) in count_by_kind(&load("accepted/stash")) {
        assert!(count >= 1, "no accepted manifest of kind {kind}");
    }
}

#[test]
fn every_kind_has_two_manifests_that_are_rejected_and_each_says_with_which_words() {
    let rejected = load("rejected/stash");
    for fixture in &rejected {
        let expected = fixture.text.lines().next().and_then(|line| line.strip_prefix("# expect: "));
        assert!(
            expected.is_some_and(|expected| expected.contains("spec.")),
            "{} names no field",
            fixture.name
        );
    }
    for (kind, count) in count_by_kind(&rejected) {
        assert!(count >= 2, "{count} rejected manifests of kind {kind}");
    }
}
