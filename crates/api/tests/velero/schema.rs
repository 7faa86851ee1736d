//! Our schemas accept whatever the CRDs of Velero 1.18.3 accept.
//!
//! The facts of upstream's CRDs are a fixture. With feature `upstream-crds` the test also compares with upstream's own
//! files, in the directory that `LIFEBOAT_VELERO_CRDS` names, and checks the fixture; `cargo xtask test api` does that.
//! With `LIFEBOAT_UPDATE=1` it writes the fixture anew.

use std::fs;
use std::path::{Path, PathBuf};

use lifeboat_api::velero;
use serde_json::Value;

use super::compare::stricter;
use super::facts::{self, Facts};

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/velero-1.18.3-schema.json");

#[test]
fn our_schemas_accept_whatever_upstreams_accept() {
    let findings = stricter_than(&fixture());
    assert!(findings.is_empty(), "stricter than Velero 1.18.3:\n{}", findings.join("\n"));
}

#[test]
#[cfg(feature = "upstream-crds")]
fn our_schemas_accept_whatever_the_given_crds_accept() {
    let directory = std::env::var_os("LIFEBOAT_VELERO_CRDS");
    let directory = PathBuf::from(directory.expect("LIFEBOAT_VELERO_CRDS names the Go module's config/crd"));
    let upstream = read(&directory);
    if std::env::var_os("LIFEBOAT_UPDATE").is_some() {
        fs::write(FIXTURE, compact(&upstream)).expect("the fixture can be written");
    }
    let findings = stricter_than(&upstream);
    assert!(findings.is_empty(), "stricter than {}:\n{}", directory.display(), findings.join("\n"));
    assert!(fixture() == upstream, "{FIXTURE} is not what {} says", directory.display());
}

#[test]
fn no_kind_has_a_status_subresource_or_a_mandatory_spec() {
    for (name, kind) in ours() {
        assert!(!kind.status_subresource, "{name}");
        assert!(!kind.fields[""].contains_key("required"), "{name}");
    }
}

#[test]
fn volume_plugin_kinds_require_nothing_so_that_no_plugin_is_refused() {
    for (name, kind) in ours().iter().filter(|(name, _)| name.starts_with("volumeplugin")) {
        for (path, node) in &kind.fields {
            assert!(!node.contains_key("required"), "{name} {path}");
            assert!(!node.contains_key("enum"), "{name} {path}");
        }
    }
}

fn stricter_than(upstream: &Facts) -> Vec<String> {
    assert_eq!(upstream.len(), 13, "Velero 1.18.3 has 13 kinds");
    let ours = ours();
    let compare = |name: &String, theirs| match ours.get(name) {
        Some(kind) => stricter(name, kind, theirs),
        None => vec![format!("{name} is missing")],
    };
    upstream.iter().flat_map(|(name, theirs)| compare(name, theirs)).collect()
}

fn ours() -> Facts {
    let json = |crd| serde_json::to_value(crd).expect("a CRD is JSON");
    velero::crds().iter().map(json).flat_map(|crd| facts::of(&crd)).collect()
}

fn fixture() -> Facts {
    serde_json::from_str(&fs::read_to_string(FIXTURE).expect("the fixture")).expect("facts")
}

/// One line for each field: small in the repository, and a change shows in its diff.
fn compact(facts: &Facts) -> String {
    let mut text = serde_json::to_string(facts).expect("facts are JSON").replace("},\"", "},\n\"");
    text.push('\n');
    text
}

/// The facts of every CRD file under a directory.
fn read(directory: &Path) -> Facts {
    files(directory)
        .iter()
        .map(|file| fs::read_to_string(file).expect("a CRD file"))
        .map(|text| serde_saphyr::from_str::<Value>(&text).expect("YAML"))
        .flat_map(|crd| facts::of(&crd))
        .collect()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let (directories, found): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let yaml = found.into_iter().filter(|path| path.extension().is_some_and(|end| end == "yaml"));
    yaml.chain(directories.iter().flat_map(|directory| files(directory))).collect()
}
