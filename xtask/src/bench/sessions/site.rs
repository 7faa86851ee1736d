//! The cluster for the measurements: the server's namespace and that of its movers, the kinds and policies of Stash's API, the namespace of
//! the data and another one for a repository elsewhere. Everything is deleted when it is dropped.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;

use super::objects::{self, Storage};
use crate::bench::volumes::MoverNamespace;
use crate::bench::volumes::bucket::Bucket;
use crate::servers::{self, Home, Kubectl, Server};
use crate::{cluster_box, run};

/// The namespace of the data, which is also the name of the server.
pub(super) const DATA: &str = "bench-sessions";
/// The namespace of a repository elsewhere.
pub(super) const VAULT: &str = "bench-sessions-vault";
/// How the names of namespaces begin that have many objects.
pub(super) const TENANT: &str = "bench-sessions-tenant";
const SERVER: &str = "bench-sessions-server";

pub(super) struct Site {
    program: PathBuf,
    image: String,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) storage: Storage,
    pub(super) bucket: Bucket,
    // Dropped before the namespace of the server.
    _policies: Policies,
    movers: MoverNamespace,
    home: Home,
    directory: TempDir,
}

impl Site {
    pub(super) fn prepare(program: PathBuf, image: String) -> Result<Self> {
        let environment = cluster_box::environment()?;
        for arguments in [&["install", "--crds-only"][..], &["crds", "--all"]] {
            let said = run::output(Command::new(&program).envs(&environment).args(arguments))?;
            if arguments[0] == "crds" {
                // The objects name their namespaces; kubectl refuses those of another than its own, unless it has none.
                let apply = ["--namespace", "", "apply", "--server-side", "--force-conflicts", "-f", "-"];
                run::with_input(Kubectl::new(&environment, DATA).command().args(apply), &said)?;
            }
        }
        // Each run has its own prefix.
        let stamp = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let prefix = format!("bench-sessions-{stamp}");
        let home = Home::new(&environment, SERVER, &format!("{prefix}/server"))?;
        let value = |name: &str| environment[name].clone();
        let storage = Storage {
            endpoint: value("LIFEBOAT_S3_ENDPOINT"),
            region: value("AWS_REGION"),
            access_key: value("AWS_ACCESS_KEY_ID"),
            secret_key: value("AWS_SECRET_ACCESS_KEY"),
        };
        let site = Self {
            _policies: Policies::apply(&program, &environment)?,
            movers: MoverNamespace::new(&environment, &home)?,
            bucket: Bucket::new(&environment, prefix),
            directory: TempDir::with_prefix("lifeboat-sessions-").context("cannot create a directory")?,
            program,
            image,
            storage,
            environment,
            home,
        };
        site.put_namespace(VAULT)?;
        Ok(site)
    }

    /// `kubectl` in a namespace.
    pub(super) fn kubectl(&self, namespace: &str) -> Kubectl {
        Kubectl::new(&self.environment, namespace)
    }

    /// Creates or changes objects.
    pub(super) fn apply(&self, objects: &[Value]) -> Result<()> {
        // The objects name their namespaces; kubectl refuses those of another than its own, unless it has none.
        let apply = ["--namespace", "", "apply", "--server-side", "--force-conflicts", "-f", "-"];
        run::with_input(self.kubectl(DATA).command().args(apply), &objects::list(objects).to_string())
            .map(drop)
    }

    /// Creates a namespace that the server serves, with the keys of the storage; or gives the label and the keys to one that exists.
    pub(super) fn put_namespace(&self, name: &str) -> Result<()> {
        self.kubectl(name).await_removal()?;
        self.apply(&[objects::namespace(name, DATA), objects::secret(name, &self.storage)])
    }

    /// Deletes a namespace with everything in it.
    pub(super) fn drop_namespace(&self, name: &str) -> Result<()> {
        let delete = ["delete", "namespace", name, "--ignore-not-found", "--timeout=300s"];
        run::output(self.kubectl(name).command().args(delete)).map(drop)
    }

    /// Creates namespaces that the server serves, with the keys of the storage and nothing else.
    pub(super) fn tenants(&self, count: u32) -> Result<Tenants<'_>> {
        let names = (0..count).map(|number| format!("{TENANT}-{number:02}")).collect();
        let tenants = Tenants { site: self, names };
        // A run that was killed may have left some.
        tenants.remove()?;
        let of = |name: &String| [objects::namespace(name, DATA), objects::secret(name, &self.storage)];
        self.apply(&tenants.names.iter().flat_map(of).collect::<Vec<Value>>())?;
        Ok(tenants)
    }

    /// Starts a new server with further flags.
    pub(super) fn server(&self, flags: &[&str]) -> Result<Server> {
        self.server_at(&self.environment["KUBECONFIG"], flags)
    }

    /// Starts a new server that reaches the cluster by another kubeconfig.
    pub(super) fn server_at(&self, kubeconfig: &str, flags: &[&str]) -> Result<Server> {
        let mut environment = self.environment.clone();
        environment.insert("KUBECONFIG".to_owned(), kubeconfig.to_owned());
        let gateway = self.gateway()?;
        let mut all = vec!["--experimental-stash", "--served-by", DATA, "--node-access"];
        all.extend(["--mover-image", &self.image, "--mover-namespace", &self.movers.name]);
        all.extend(gateway.iter().map(String::as_str));
        all.extend(flags);
        servers::lifeboat(&self.program, &environment, &self.home, &all, &[])
    }

    /// Where pods reach the gateway of a server on this machine: beside the storage.
    fn gateway(&self) -> Result<[String; 2]> {
        let endpoint = self.storage.endpoint.trim_start_matches("http://").trim_end_matches('/');
        let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
        // The port was free a moment ago, and no other program on this machine requests ports by number.
        let address =
            TcpListener::bind((host, 0)).context("no port is free for the gateway")?.local_addr()?;
        Ok([format!("--gateway-address={address}"), format!("--gateway-url=https://{address}")])
    }

    /// A kubeconfig for an address that serves the API without TLS and passwords.
    pub(super) fn plain_kubeconfig(&self, url: &str) -> Result<String> {
        let path = self.directory.path().join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: plain\n\
             clusters: [{{name: plain, cluster: {{server: '{url}'}}}}]\n\
             contexts: [{{name: plain, context: {{cluster: plain, user: anonymous}}}}]\n\
             users: [{{name: anonymous, user: {{}}}}]\n"
        );
        fs::write(&path, text).context("cannot write a kubeconfig")?;
        Ok(path.to_string_lossy().into_owned())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for namespace in [DATA, VAULT] {
            if let Err(error) = self.drop_namespace(namespace) {
                eprintln!("{error:#}");
            }
        }
    }
}

/// Namespaces with many objects; deleted when it is dropped, with everything in them.
pub(super) struct Tenants<'a> {
    site: &'a Site,
    pub(super) names: Vec<String>,
}

impl Tenants<'_> {
    fn remove(&self) -> Result<()> {
        let mut delete = self.site.kubectl(TENANT).command();
        delete.args(["delete", "namespace", "--ignore-not-found", "--timeout=600s"]).args(&self.names);
        run::output(&mut delete).map(drop)
    }
}

impl Drop for Tenants<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("{error:#}");
        }
    }
}

/// The policies that check who may create objects of Stash's API: a server does not act without them.
struct Policies {
    kubectl: Kubectl,
    objects: String,
}

impl Policies {
    fn apply(program: &Path, environment: &BTreeMap<String, String>) -> Result<Self> {
        let mut install = Command::new(program);
        install.envs(environment).args([
            "install",
            "--dry-run",
            "-o",
            "yaml",
            "--stash",
            "--namespace",
            SERVER,
        ]);
        install.args([
            "--image",
            "localhost/none:none",
            "--provider",
            "aws",
            "--bucket",
            "none",
            "--no-secret",
        ]);
        let objects = run::output(&mut install)?;
        let of_policy = |object: &&str| object.contains("kind: ValidatingAdmissionPolicy");
        let objects = objects.split("\n---\n").filter(of_policy).collect::<Vec<&str>>().join("\n---\n");
        let policies = Self { kubectl: Kubectl::new(environment, SERVER), objects };
        run::with_input(policies.kubectl.command().args(["apply", "-f", "-"]), &policies.objects)?;
        Ok(policies)
    }
}

impl Drop for Policies {
    fn drop(&mut self) {
        let delete = ["delete", "--ignore-not-found", "--wait=false", "-f", "-"];
        if let Err(error) = run::with_input(self.kubectl.command().args(delete), &self.objects) {
            eprintln!("{error:#}");
        }
    }
}
