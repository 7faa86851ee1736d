//! The namespace of a server that runs outside the cluster: takes a name and a prefix in the bucket, creates the
//! objects that the server expects, and removes them when dropped.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::run;

const LOCATIONS: &str = "backupstoragelocations.velero.io";
const WITH_FINALIZERS: &str = "restores.velero.io,podvolumebackups.velero.io,podvolumerestores.velero.io";

/// A namespace with location `default`.
pub(crate) struct Home {
    pub(crate) namespace: String,
    kubectl: Kubectl,
}

/// `kubectl` in a namespace of the box.
#[derive(Clone)]
pub(crate) struct Kubectl {
    namespace: String,
    environment: BTreeMap<String, String>,
}

impl Kubectl {
    pub(crate) fn new(environment: &BTreeMap<String, String>, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), environment: environment.clone() }
    }

    pub(crate) fn command(&self) -> Command {
        // `Command` searches the parent's PATH, not the one it is given.
        let path = self.environment.get("PATH").map(String::as_str).unwrap_or_default();
        let mut candidates = path.split(':').map(|directory| PathBuf::from(directory).join("kubectl"));
        let program = candidates.find(|candidate| candidate.is_file());
        let mut command = Command::new(program.unwrap_or_else(|| "kubectl".into()));
        command.envs(&self.environment).args(["--namespace", &self.namespace]);
        command
    }

    /// A namespace of an earlier run may still be terminating.
    pub(crate) fn await_removal(&self) -> Result<()> {
        let phase =
            ["get", "namespace", &self.namespace, "--ignore-not-found", "-o", "jsonpath={.status.phase}"];
        if run::output(self.command().args(phase))? == "Terminating" {
            let name = format!("namespace/{}", self.namespace);
            run::output(self.command().args(["wait", "--for=delete", &name, "--timeout=180s"]))?;
        }
        Ok(())
    }
}

impl Home {
    /// `prefix` must be unused in the box's bucket. The kinds of group `velero.io` must be installed.
    pub(crate) fn new(environment: &BTreeMap<String, String>, namespace: &str, prefix: &str) -> Result<Self> {
        let home = Self { namespace: namespace.to_owned(), kubectl: Kubectl::new(environment, namespace) };
        home.kubectl.await_removal()?;
        run::with_input(home.kubectl().args(["apply", "-f", "-"]), &home.objects(prefix).to_string())?;
        Ok(home)
    }

    /// `kubectl` in this namespace.
    pub(crate) fn kubectl(&self) -> Command {
        self.kubectl.command()
    }

    /// An owned [`Kubectl`] for this namespace, which does not borrow this value.
    pub(crate) fn kubectl_maker(&self) -> Kubectl {
        self.kubectl.clone()
    }

    /// The location as it is now.
    pub(super) fn location(&self) -> Result<Value> {
        let text = run::output(self.kubectl().args(["get", LOCATIONS, "default", "-o", "json"]))?;
        serde_json::from_str(&text).context("cannot read the location")
    }

    /// Removes the validation result of an earlier server.
    pub(super) fn forget_the_location(&self) -> Result<()> {
        let patch = ["patch", LOCATIONS, "default", "--type=merge", "-p", r#"{"status":null}"#];
        run::output(self.kubectl().args(patch)).map(drop)
    }

    /// The objects beside the location: its credentials, and a Deployment that Velero's restores read, with no
    /// replicas.
    fn objects(&self, prefix: &str) -> Value {
        let (namespace, labels) = (&self.namespace, json!({"app": "runs-elsewhere"}));
        let environment = &self.kubectl.environment;
        json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "cloud-credentials", "namespace": namespace},
                "stringData": {"cloud": credentials(environment)},
            },
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
                    "objectStorage": {"bucket": "lifeboat", "prefix": prefix},
                    "config": {
                        "region": environment["AWS_REGION"],
                        "s3Url": environment["LIFEBOAT_S3_ENDPOINT"],
                        "s3ForcePathStyle": "true",
                    },
                },
            },
        ]})
    }
}

impl Drop for Home {
    /// Removes finalizers, because no server is left to handle them.
    fn drop(&mut self) {
        let get = ["get", WITH_FINALIZERS, "-o", "name"];
        for object in run::output(self.kubectl().args(get)).unwrap_or_default().lines() {
            let free = ["patch", object, "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#];
            let _ = run::output(self.kubectl().args(free));
        }
        let delete = ["delete", "namespace", &self.namespace, "--ignore-not-found", "--wait=false"];
        let _ = run::output(self.kubectl().args(delete));
    }
}

/// The credentials in the form of Velero's Secret.
pub(super) fn credentials(environment: &BTreeMap<String, String>) -> String {
    format!(
        "[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
        environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"]
    )
}
