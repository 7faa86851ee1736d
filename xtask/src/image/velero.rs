//! The image of genuine Velero for its node agents and the pods that move data: server, restore helper, plugin for S3.
//! The published images cannot be used on a machine without a registry, so it is built here.
use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;

use super::VELERO;
use super::layer::{ROOT, Tree};
use super::plugins::{read, write};
use crate::tools;

/// Builds the programs if they are not in the cache.
pub(super) fn build() -> Result<PathBuf> {
    let mut tree = Tree::default();
    tree.file("velero", 0o755, read(&tools::velero()?)?);
    tree.file("velero-restore-helper", 0o755, read(&tools::velero_restore_helper()?)?);
    let plugin = tools::velero_plugins()?.join("velero-plugin-for-aws");
    tree.file("plugins/velero-plugin-for-aws", 0o755, read(&plugin)?);
    tree.directory("tmp", 0o1777, ROOT);
    let config = json!({"Entrypoint": ["/velero"], "Env": ["PATH=/", "HOME=/tmp"], "WorkingDir": "/"});
    write(VELERO, "velero", &tree, config)
}
