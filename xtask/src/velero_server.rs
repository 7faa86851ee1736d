//! Genuine Velero's server as a process on this machine: takes a place in the box's storage and flags, gives a server
//! with an available location in a namespace of its own; server and namespace go when the value is dropped. The interop
//! tests and `bench cluster` run it beside Lifeboat. Its custom resource definitions are those that Lifeboat installs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{run, tools};

/// Upstream gives this port no flag.
const CONTROLLER_METRICS: u16 = 8080;
/// How long it may take until the location is available.
const PATIENCE: Duration = Duration::from_mins(2);

/// Where a server keeps its backups.
pub(crate) struct Place<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) bucket: &'a str,
    pub(crate) prefix: &'a str,
}

/// A running server.
pub(crate) struct VeleroServer {
    child: Child,
    environment: BTreeMap<String, String>,
    namespace: String,
    directory: TempDir,
}

impl VeleroServer {
    /// Starts the server with its defaults, except for `flags` and the addresses it listens on. `environment` leads to
    /// the box. The location is named `default`.
    pub(crate) fn start(
        environment: &BTreeMap<String, String>,
        place: &Place<'_>,
        flags: &[&str],
    ) -> Result<Self> {
        TcpListener::bind(("0.0.0.0", CONTROLLER_METRICS)).with_context(|| {
            format!("Velero's server needs port {CONTROLLER_METRICS}; end the program that holds it")
        })?;
        let (program, plugins) = (tools::velero()?, tools::velero_plugins()?);
        prepare(environment, place)?;
        let directory = TempDir::with_prefix("lifeboat-velero-").context("cannot create a directory")?;
        let credentials = directory.path().join("credentials");
        fs::write(&credentials, credentials_of(environment)).context("cannot write the credentials")?;
        let log = File::create(directory.path().join("log")).context("cannot create Velero's log")?;
        let child = Command::new(program)
            .args(["server", "--namespace", place.namespace, "--plugin-dir"])
            .arg(plugins)
            .args(["--metrics-address", "127.0.0.1:0", "--profiler-address", "127.0.0.1:0"])
            .args(flags)
            .env("KUBECONFIG", &environment["KUBECONFIG"])
            .env("AWS_SHARED_CREDENTIALS_FILE", credentials)
            .env("VELERO_SCRATCH_DIR", directory.path())
            .env_remove("AWS_ACCESS_KEY_ID")
            .env_remove("AWS_SECRET_ACCESS_KEY")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start Velero's server")?;
        let environment = environment.clone();
        let mut server = Self { child, environment, namespace: place.namespace.to_owned(), directory };
        server.wait()?;
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has said so far.
    pub(crate) fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    fn wait(&mut self) -> Result<()> {
        let began = Instant::now();
        loop {
            let ended = self.child.try_wait().context("cannot ask for Velero's server")?;
            let seen = kubectl(&self.environment, &self.namespace)
                .args(["get", "backupstoragelocations.velero.io", "default", "-o", "json"])
                .output()
                .ok()
                .and_then(|out| serde_json::from_slice::<Value>(&out.stdout).ok())
                .unwrap_or_default();
            if seen["status"]["phase"] == "Available" {
                return Ok(());
            }
            if ended.is_some() || began.elapsed() > PATIENCE {
                let said = fs::read_to_string(self.log()).unwrap_or_default();
                let end: Vec<&str> = said.lines().rev().take(10).collect();
                let end: Vec<&str> = end.into_iter().rev().collect();
                let how = ended.map_or("runs".to_owned(), |status| format!("ended with {status}"));
                bail!(
                    "Velero's server {how}, its location is not available: {}\n{}",
                    seen["status"],
                    end.join("\n")
                );
            }
            thread::sleep(Duration::from_millis(300));
        }
    }
}

impl Drop for VeleroServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        remove_namespace(&self.environment, &self.namespace);
    }
}

/// `kubectl` in a namespace of the box.
fn kubectl(environment: &BTreeMap<String, String>, namespace: &str) -> Command {
    let path = environment.get("PATH").map(String::as_str).unwrap_or_default();
    // `Command` looks in the parent's PATH, not in the one it is given.
    let program = path.split(':').map(|directory| PathBuf::from(directory).join("kubectl"));
    let program = program.into_iter().find(|candidate| candidate.is_file());
    let mut command = Command::new(program.unwrap_or_else(|| "kubectl".into()));
    command.envs(environment).args(["--namespace", namespace]);
    command
}

/// The namespace with what the server expects in it, as new: a location that says nothing yet, and the Deployment that
/// restores ask for, which runs nowhere.
fn prepare(environment: &BTreeMap<String, String>, place: &Place<'_>) -> Result<()> {
    let namespace = place.namespace;
    run::output(kubectl(environment, namespace).args([
        "delete",
        "backupstoragelocations.velero.io",
        "default",
        "--ignore-not-found",
    ]))?;
    let labels = json!({"app": "velero-peer"});
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "velero", "namespace": namespace},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "velero", "image": "localhost/none:none"}]},
                },
            },
        },
        {
            "apiVersion": "velero.io/v1",
            "kind": "BackupStorageLocation",
            "metadata": {"name": "default", "namespace": namespace},
            "spec": {
                "provider": "aws",
                "default": true,
                "objectStorage": {"bucket": place.bucket, "prefix": place.prefix},
                "config": {
                    "region": environment["AWS_REGION"],
                    "s3Url": environment["LIFEBOAT_S3_ENDPOINT"],
                    "s3ForcePathStyle": "true",
                },
            },
        },
    ]});
    run::with_input(kubectl(environment, namespace).args(["apply", "-f", "-"]), &objects.to_string())
        .map(drop)
}

/// Nobody is left to do what the finalizers of restores wait for.
fn remove_namespace(environment: &BTreeMap<String, String>, namespace: &str) {
    let restores = ["get", "restores.velero.io", "-o", "name"];
    for restore in run::output(kubectl(environment, namespace).args(restores)).unwrap_or_default().lines() {
        let free = ["patch", restore, "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#];
        let _ = run::output(kubectl(environment, namespace).args(free));
    }
    let delete = ["delete", "namespace", namespace, "--ignore-not-found", "--wait=false"];
    let _ = run::output(kubectl(environment, namespace).args(delete));
}

/// As Velero's Secret holds them.
fn credentials_of(environment: &BTreeMap<String, String>) -> String {
    format!(
        "[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
        environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"]
    )
}
