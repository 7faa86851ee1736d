//! Images of plugins for init containers: Velero's plugin for S3 and the recording plugins, each with a program that
//! copies it, and the examples of our SDK, which copy themselves. Returns archives in the target directory.
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::layer::Tree;
use super::oci::{self, Image, Layer};
use super::progress;
use crate::{run, tools};

/// Velero's plugin for S3.
const AWS: &str = "localhost/lifeboat-test/velero-plugin-for-aws:v1.14.3";
/// Plugins on Velero's framework that record their requests.
const RECORDER: &str = "localhost/lifeboat-test/recorder:dev";

/// Every archive; builds what is missing. `example` returns the program of an example of our SDK.
pub(super) fn build(example: impl Fn(&str) -> Result<PathBuf>) -> Result<Vec<PathBuf>> {
    let copier = read(&tools::plugin_copier()?)?;
    let aws = tools::velero_plugins()?.join("velero-plugin-for-aws");
    let mut archives = vec![
        with_copier(AWS, "velero-plugin-for-aws", &read(&aws)?, &copier)?,
        with_copier(RECORDER, "recorder", &read(&tools::recorder_plugin()?)?, &copier)?,
    ];
    for name in ["wait-for-database", "directory-snapshotter"] {
        let program = example(name)?;
        archives.push(alone(&format!("localhost/lifeboat-example/{name}:dev"), name, &read(&program)?)?);
    }
    Ok(archives)
}

/// The layout of Velero's own plugin images.
fn with_copier(reference: &str, name: &str, plugin: &[u8], copier: &[u8]) -> Result<PathBuf> {
    let mut tree = Tree::default();
    let (from, to) = (format!("plugins/{name}"), format!("/target/{name}"));
    tree.file(&from, 0o755, plugin.to_vec());
    tree.file("bin/cp-plugin", 0o755, copier.to_vec());
    write(reference, name, &tree, config(&json!(["/bin/cp-plugin", format!("/{from}"), to])))
}

/// The layout of images of plugins of our SDK: only the program.
fn alone(reference: &str, name: &str, plugin: &[u8]) -> Result<PathBuf> {
    let mut tree = Tree::default();
    tree.file(name, 0o755, plugin.to_vec());
    write(reference, name, &tree, config(&json!([format!("/{name}"), "install"])))
}

fn config(entrypoint: &Value) -> Value {
    json!({"User": "65532:65532", "Entrypoint": entrypoint, "Env": ["PATH=/bin"]})
}

/// An archive with one uncompressed layer.
pub(super) fn write(reference: &str, name: &str, tree: &Tree, config: Value) -> Result<PathBuf> {
    let directory = run::target_directory()?.join("images/plugins");
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let tar = directory.join(format!("{name}.layer"));
    fs::write(&tar, tree.to_tar()?).with_context(|| format!("cannot write {}", tar.display()))?;
    let archive = directory.join(format!("{name}.tar"));
    let layer = Layer::plain(&tar)?;
    oci::write(Image { reference, architecture: run::architecture()?, config, layer }, &archive)?;
    fs::remove_file(&tar)?;
    progress(&format!("{reference}: {}", archive.display()));
    Ok(archive)
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
