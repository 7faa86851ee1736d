//! Lifeboat's server as a process of this machine, in a namespace of its own: it can be killed at an exact moment, is
//! restarted at once, accepts any flag, and its connections to storage and to the cluster pass through gates. It can be
//! started as the old build and continued as the new one.

mod installed;
mod replicas;

use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

use crate::{Bucket, Gate, Program, Release, Repository, get, kubectl, s3, unique, wait_for};
use installed::{apply_objects, create_credentials, proxy};
use replicas::Replica;

/// A running server. Dropping it removes everything it created.
pub struct HostServer {
    pub namespace: String,
    /// The gate between the server and storage.
    pub storage: Gate,
    /// The gate between the server and the API server.
    pub cluster: Gate,
    pub bucket: Bucket,
    /// The build that is installed, and that is run at the next start.
    release: Release,
    flags: Vec<String>,
    environment: Vec<(String, String)>,
    directory: TempDir,
    proxy: Child,
    replicas: Vec<Replica>,
}

impl HostServer {
    /// Creates a namespace with a location `default` and starts a server, which becomes the leader.
    pub fn start(prefix: &str, flags: &[&str]) -> Self {
        Self::with_plugins(prefix, flags, &[])
    }

    /// Starts a server with programs in its plugin directory, each under a name. RECORDER_FILE in their environment is
    /// the file to which they record their requests.
    pub fn with_plugins(prefix: &str, flags: &[&str], programs: &[(&str, &str)]) -> Self {
        Self::of(Release::New, prefix, flags, programs)
    }

    /// Starts a server of the old build, which runs until [`Self::upgrade`].
    pub fn start_old(prefix: &str, flags: &[&str]) -> Self {
        Self::of(Release::Old, prefix, flags, &[])
    }

    fn of(release: Release, prefix: &str, flags: &[&str], programs: &[(&str, &str)]) -> Self {
        let namespace = unique(prefix);
        let directory = tempfile::tempdir().unwrap();
        let plugins = directory.path().join("plugins");
        fs::create_dir(&plugins).unwrap();
        for (name, program) in programs {
            std::os::unix::fs::symlink(program, plugins.join(name)).unwrap();
        }
        let recorded = directory.path().join("recorded").display().to_string();
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        install(release, &namespace, &flags);
        let (proxy, address) = proxy();
        let mut server = Self {
            storage: Gate::before(&s3().endpoint),
            cluster: Gate::before(&address),
            bucket: Bucket::below(&namespace),
            release,
            flags,
            environment: vec![("RECORDER_FILE".to_owned(), recorded)],
            replicas: Vec::new(),
            namespace,
            directory,
            proxy,
        };
        server.apply_location();
        server.add("one");
        server.wait_until_available();
        server
    }

    fn wait_until_available(&self) {
        wait_for("an available location", 60, || {
            let found = get(&["-n", &self.namespace, "bsl", "default"]);
            if found["status"]["phase"] == "Available" { Ok(()) } else { Err(found["status"].to_string()) }
        });
    }

    /// The namespace of its movers.
    pub fn movers(&self) -> String {
        format!("{}-movers", self.namespace)
    }

    /// Deletes everything of this installation in the cluster; only the bucket stays. Then installs it again, with the
    /// old repository password or without one.
    pub fn lose_everything(&mut self, keep_password: bool) {
        let password = self.password();
        self.kill();
        self.lifeboat().args(["uninstall"]).run();
        for namespace in [self.namespace.clone(), self.movers()] {
            let force = r#"{"metadata": {"finalizers": null}}"#;
            for restore in
                self.kubectl().args(["get", "restores.velero.io", "-o", "name"]).run().stdout.lines()
            {
                self.kubectl().args(["patch", restore, "--type=merge", "-p", force]).run();
            }
            kubectl().args(["delete", "namespace", &namespace, "--ignore-not-found", "--timeout=120s"]).ok();
        }
        install(self.release, &self.namespace, &self.flags);
        if keep_password {
            let literal = format!("--from-literal=repository-password={password}");
            let secret = ["create", "secret", "generic", "velero-repo-credentials", &literal];
            self.kubectl().args(secret).ok();
        }
        self.apply_location();
        self.add("one");
        self.wait_until_available();
    }

    /// The repository password of this installation.
    pub fn password(&self) -> String {
        let secret = get(&["-n", &self.namespace, "secret", "velero-repo-credentials"]);
        let encoded = secret["data"]["repository-password"].as_str().unwrap();
        Program::new("base64").arg("-d").input(encoded).ok()
    }

    /// Replaces the repository password.
    pub fn set_password(&self, password: &str) {
        let patch = format!(r#"{{"stringData": {{"repository-password": "{password}"}}}}"#);
        let secret = ["patch", "secret", "velero-repo-credentials", "--type=merge", "-p", &patch];
        self.kubectl().args(secret).ok();
    }

    /// Existing objects of movers: Jobs, pods, Secrets, claims, snapshots.
    pub fn mover_objects(&self) -> Vec<String> {
        let kinds = "jobs,pods,secrets,persistentvolumeclaims,volumesnapshots";
        let found = kubectl().args(["-n", &self.movers(), "get", kinds, "-o", "name"]).ok();
        found.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Fails unless all objects of movers are deleted.
    pub fn no_mover_is_left(&self) {
        wait_for("the end of all that movers used", 60, || {
            let left = self.mover_objects();
            if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
        });
    }

    /// The repository of a namespace's volumes, for all programs that read repositories.
    pub fn repository(&self, namespace: &str) -> Repository {
        let url = format!("s3:{}/lifeboat/{}/restic/{namespace}", s3().endpoint, self.namespace);
        Repository::with_password(url, &self.password())
    }

    /// Kills the server, opens the gates and starts it again, as the kubelet restarts a container. If the old build was
    /// running, the new one is started.
    pub fn kill_and_restart(&mut self) {
        self.kill();
        self.storage.open();
        self.cluster.open();
        match self.release {
            Release::Old => self.upgrade(),
            Release::New => self.add("one"),
        }
    }

    /// Replaces a server that was killed by the new build: its installed objects, its program, the image of its movers.
    /// The new server has another identity, as another pod would, and is the leader when this returns. Gates stay as they
    /// are.
    pub fn upgrade(&mut self) {
        assert!(self.replicas.is_empty(), "the old build still runs");
        self.release = Release::New;
        apply_objects(self.release, &self.namespace, &self.flags);
        self.apply_location();
        self.add("upgraded");
        self.wait_for_leader("upgraded");
    }

    /// Our command line in this namespace.
    pub fn lifeboat(&self) -> Program {
        self.release.command().args(["--namespace", &self.namespace])
    }

    /// `kubectl` in this namespace.
    pub fn kubectl(&self) -> Program {
        kubectl().args(["--namespace", &self.namespace])
    }

    /// Waits until a backup of the bucket was synced to an object.
    pub fn wait_until_synced(&self, backup: &str) {
        wait_for("the synced backup", 60, || {
            let found = self.kubectl().args(["get", "backups.velero.io", backup]).run();
            if found.code == 0 { Ok(()) } else { Err(found.stderr) }
        });
    }

    /// Creates a backup and waits for its end; returns the object.
    pub fn backup(&self, name: &str, arguments: &[&str]) -> Value {
        self.lifeboat().args(["backup", "create", name]).args(arguments).ok();
        self.ended("backup", name)
    }

    /// Restores a backup and waits for its end; returns the object.
    pub fn restore(&self, name: &str, from: &str, arguments: &[&str]) -> Value {
        self.lifeboat().args(["restore", "create", name, "--from-backup", from]).args(arguments).ok();
        self.ended("restore", name)
    }

    /// The output of `describe --details`.
    pub fn described(&self, kind: &str, name: &str) -> String {
        self.lifeboat().args([kind, "describe", name, "--details"]).ok()
    }

    /// The log of a backup or restore that has ended.
    pub fn logs(&self, kind: &str, name: &str) -> String {
        self.lifeboat().args([kind, "logs", name]).ok()
    }

    /// Waits for the end of a backup or restore; returns the object.
    pub fn ended(&self, kind: &str, name: &str) -> Value {
        wait_for(&format!("the end of {kind} {name}"), 150, || {
            let object = get(&["-n", &self.namespace, &format!("{kind}s.velero.io"), name]);
            match object["status"]["phase"].as_str() {
                Some("Completed" | "PartiallyFailed" | "Failed" | "FailedValidation") => Ok(object),
                _ => Err(object["status"].to_string()),
            }
        })
    }

    /// Fails unless the object ended in one of these phases; prints what is known about it.
    pub fn assert_phase(&self, object: &Value, phases: &[&str]) {
        let kind = object["kind"].as_str().unwrap().to_lowercase();
        let name = object["metadata"]["name"].as_str().unwrap();
        if !object["status"]["phase"].as_str().is_some_and(|phase| phases.contains(&phase)) {
            let described = self.lifeboat().args([kind.as_str(), "describe", name, "--details"]).run();
            let logs = self.lifeboat().args([kind.as_str(), "logs", name]).run();
            panic!("{kind} {name}: {}\n{}\n{}", object["status"], described.stdout, logs.stdout);
        }
    }

    /// The server's log so far.
    pub fn log_text(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// The directory of its plugin programs.
    pub fn plugins(&self) -> PathBuf {
        self.directory.path().join("plugins")
    }

    /// A file in the directory where plugins record their requests.
    pub fn beside_recorded(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The calls of one method of a recording plugin.
    pub fn recorded(&self, plugin: &str, call: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.beside_recorded("recorded")).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["plugin"] == plugin && line["call"] == call).collect()
    }

    /// Running processes that were started from the plugin directory.
    pub fn plugin_processes(&self) -> Vec<String> {
        let program = self.plugins().display().to_string();
        let lines = fs::read_dir("/proc").unwrap().flatten();
        let lines = lines.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
        lines.filter(|line| line.starts_with(&program)).map(|line| line.replace('\0', " ")).collect()
    }

    /// Fails unless every plugin process ends.
    pub fn no_plugin_runs(&self) {
        wait_for("the end of the plugins' processes", 30, || {
            let left = self.plugin_processes();
            if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
        });
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    fn apply_location(&self) {
        let s3 = s3();
        crate::apply(&format!(
            "apiVersion: velero.io/v1
kind: BackupStorageLocation
metadata: {{name: default, namespace: {0}}}
spec:
  provider: aws
  default: true
  validationFrequency: 5s
  backupSyncPeriod: 5s
  objectStorage: {{bucket: lifeboat, prefix: {0}}}
  credential: {{name: cloud-credentials, key: cloud}}
  config: {{region: {1}, s3Url: '{2}', s3ForcePathStyle: 'true'}}
",
            self.namespace,
            s3.region,
            self.storage.url()
        ));
    }
}

impl Drop for HostServer {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", fs::read_to_string(self.log()).unwrap_or_default());
        }
        for mut replica in self.replicas.drain(..) {
            let _ = replica.child.kill();
            let _ = replica.child.wait();
        }
        if !thread::panicking() {
            self.no_plugin_runs();
        }
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
        // The finalizers of Restores, which no server removes any more, would block the deletion of the namespace.
        self.lifeboat().args(["uninstall"]).run();
        kubectl().args(["delete", "namespace", &self.namespace, &self.movers(), "--wait=false"]).run();
    }
}

fn install(release: Release, namespace: &str, flags: &[String]) {
    apply_objects(release, namespace, flags);
    create_credentials(namespace);
}
