//! Imports container images into the nodes: each node has its own container runtime, so each gets a copy.
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::layout::{NODES, Node};
use crate::run;

/// Imports an archive (docker-archive or OCI layout) into every node and returns the names of its images.
pub(super) fn load(archive: &Path) -> Result<Vec<String>> {
    let archive = archive.canonicalize().with_context(|| format!("cannot read {}", archive.display()))?;
    on_each_node(|node| import(node, &archive)).map(|mut names| names.swap_remove(0))
}

/// Waits for a node's runtime.
pub(super) fn is_ready(node: &Node) -> Result<()> {
    run::output(ctr(node).arg("version")).map(drop)
}

/// Runs `work` for both nodes at the same time.
fn on_each_node<T: Send>(work: impl Fn(&Node) -> Result<T> + Sync) -> Result<Vec<T>> {
    std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = NODES.iter().map(|node| scope.spawn(move || work(node))).collect();
        running
            .into_iter()
            .map(|thread| {
                thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("an import stopped unexpectedly")))
            })
            .collect()
    })
}

fn import(node: &Node, archive: &PathBuf) -> Result<Vec<String>> {
    let output = run::output(ctr(node).args(["images", "import"]).arg(archive))
        .with_context(|| format!("cannot import {} into {}", archive.display(), node.name))?;
    Ok(imported(&output))
}

/// `ctr` prints lines such as `unpacking docker.io/library/x:1 (sha256:…)...done`.
fn imported(output: &str) -> Vec<String> {
    output
        .lines()
        .filter_map(|line| line.trim().strip_prefix("unpacking ")?.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

fn ctr(node: &Node) -> Command {
    let mut command = Command::new("ctr");
    command.arg("--address").arg(node.containerd_socket()).args(["--namespace", "k8s.io"]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_imported_images_are_found() {
        let output = "unpacking docker.io/lifeboat/server:dev (sha256:abc)...done\n";
        assert_eq!(imported(output), ["docker.io/lifeboat/server:dev"]);
    }
}
