//! The helper program of the benchmark (crate `cluster`, example `load`): fills the cluster, empties it, compares objects,
//! and measures the time of one Backup or Restore.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use super::product::Products;
use crate::run;

pub(super) struct Load {
    program: PathBuf,
}

/// The program that fills the cluster, with the environment to reach the cluster.
pub(super) struct LoadAt<'a> {
    program: PathBuf,
    environment: &'a BTreeMap<String, String>,
    unrelated: PathBuf,
}

/// The result of a Backup or Restore.
#[derive(Debug, Deserialize)]
pub(super) struct RunResult {
    pub(super) wall_s: f64,
    pub(super) phase: String,
    pub(super) items: Option<u64>,
    pub(super) warnings: u64,
    pub(super) errors: u64,
    pub(super) get_p50_ms: f64,
    pub(super) get_p99_ms: f64,
}

impl Load {
    pub(super) fn build(given: Option<PathBuf>) -> Result<Self> {
        if let Some(program) = given {
            return Ok(Self { program });
        }
        let mut build = run::cargo();
        build.args(["build", "--quiet", "--release", "--package", "lifeboat-cluster", "--example", "load"]);
        run::run(&mut build)?;
        Ok(Self { program: run::target_directory()?.join("release/examples/load") })
    }

    pub(super) fn at<'a>(self, environment: &'a BTreeMap<String, String>, products: &Products) -> LoadAt<'a> {
        LoadAt { program: self.program, environment, unrelated: products.unrelated() }
    }
}

impl LoadAt<'_> {
    pub(super) fn fill(&self, data: &str, objects: u32) -> Result<()> {
        self.run(&["fill", data, &objects.to_string()]).map(drop)
    }

    /// Deletes the objects and waits until they are gone.
    pub(super) fn empty(&self, data: &str) -> Result<()> {
        self.run(&["drop", data]).map(drop)
    }

    pub(super) fn remember(&self, data: &str, file: &Path) -> Result<()> {
        self.run(&["remember", data, &file.to_string_lossy()]).map(drop)
    }

    pub(super) fn verify(&self, data: &str, file: &Path) -> Result<()> {
        self.run(&["verify", data, &file.to_string_lossy()]).map(drop)
    }

    pub(super) fn rest(&self, namespace: &str, schedules: u32, backups: u32) -> Result<()> {
        self.run(&["rest", namespace, &schedules.to_string(), &backups.to_string()]).map(drop)
    }

    /// Creates the object and waits for its end.
    pub(super) fn work(&self, object: &Value) -> Result<RunResult> {
        let file = tempfile::NamedTempFile::new().context("cannot create a temporary file")?;
        fs::write(file.path(), object.to_string())?;
        let said = self.run(&["work", &file.path().to_string_lossy(), &self.unrelated.to_string_lossy()])?;
        serde_json::from_str(&said).with_context(|| format!("cannot understand {said:?}"))
    }

    fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("KUBECONFIG", &self.environment["KUBECONFIG"]);
        let out = command.output().with_context(|| format!("cannot start {}", run::describe(&command)))?;
        let said = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        anyhow::ensure!(out.status.success(), "{}: {said}", run::describe(&command));
        Ok(said)
    }
}
