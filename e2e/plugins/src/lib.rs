//! Code that tests of the plugin host share: a plugin directory with programs, a host for it, objects to pass, and a
//! check that no process is left.

#![allow(clippy::panic)] // it is for tests

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lifeboat_api::catalogue::{GroupResource, ItemId};
use lifeboat_api::velero::{Backup, Restore};
use lifeboat_plugin::actions::{ActionError, BackupItems, Intent, Lookup, RestoreInput};
use lifeboat_plugin::host::{HostSettings, LogLine, LogSink, PluginHost, Session, Timeouts};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Short enough for tests, long enough for a busy machine.
pub const TIMEOUTS: Timeouts = Timeouts {
    start: Duration::from_mins(1),
    call: Duration::from_mins(1),
    poll: Duration::from_mins(1),
    volume: Duration::from_mins(1),
    stall: Duration::from_mins(1),
    shutdown: Duration::from_secs(2),
};

/// The plugin directory of one test.
pub struct Plugins {
    directory: TempDir,
    pub settings: HostSettings,
    pub log: Arc<Kept>,
}

impl Default for Plugins {
    fn default() -> Self {
        Self::new()
    }
}

impl Plugins {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut settings = HostSettings::new(directory.path().join("plugins"));
        fs::create_dir(&settings.directory).expect("the plugin directory");
        settings.arguments = vec!["--log-level=debug".into(), "--features=EnableCSI".into()];
        settings.timeouts = TIMEOUTS;
        let mut plugins = Self { directory, settings, log: Arc::default() };
        // The environment marks every process of this test.
        let mark = plugins.mark();
        plugins.environment("LIFEBOAT_TEST_MARK", mark);
        let tmp = plugins.path();
        plugins.environment("TMPDIR", tmp);
        plugins.environment("PATH", "/usr/bin:/bin");
        plugins
    }

    /// A directory for files of the test.
    pub fn path(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    /// Waits for a file that a program writes.
    pub async fn file(&self, name: &str) {
        for _ in 0..1_500 {
            if self.path().join(name).exists() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("there is no file {name:?}");
    }

    pub fn environment(&mut self, name: &str, value: impl Into<OsString>) {
        self.settings.environment.push((name.into(), value.into()));
    }

    /// Adds an existing program.
    #[must_use]
    pub fn with(self, name: &str, program: impl AsRef<Path>) -> Self {
        std::os::unix::fs::symlink(program, self.settings.directory.join(name)).expect("a link");
        self
    }

    /// Adds a program with this content.
    #[must_use]
    pub fn with_file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.settings.directory.join(name);
        fs::write(&path, content).expect("a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the right to execute");
        self
    }

    #[must_use]
    pub fn with_script(self, name: &str, script: &str) -> Self {
        self.with_file(name, format!("#!/bin/sh\n{script}\n"))
    }

    pub async fn host(&self) -> PluginHost {
        PluginHost::discover(self.settings.clone()).await
    }

    pub async fn session(&self) -> Session {
        let host = self.host().await;
        assert_eq!(host.problems(), [], "the programs of this test are good");
        host.session(self.log.clone())
    }

    fn mark(&self) -> OsString {
        self.directory.path().as_os_str().to_owned()
    }

    /// The process IDs of this test's running processes.
    pub fn processes(&self) -> Vec<u32> {
        let mark = format!("LIFEBOAT_TEST_MARK={}", self.directory.path().display());
        let carries = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        let all = fs::read_dir("/proc").expect("/proc").flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(carries).collect()
    }

    /// Fails if a process of this test still runs after a while, or if a socket is left.
    pub async fn nothing_left(&self) {
        for _ in 0..500 {
            if self.processes().is_empty() {
                let sockets = fs::read_dir(self.path()).expect("the directory").flatten();
                let left: Vec<_> = sockets
                    .map(|entry| entry.file_name())
                    .filter(|name| name.to_string_lossy().starts_with("plugin") && name != "plugins")
                    .collect();
                assert!(left.is_empty(), "sockets are left: {left:?}");
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("processes are left: {:?}", self.processes());
    }
}

/// Collects log lines.
#[derive(Default)]
pub struct Kept(Mutex<Vec<LogLine>>);

impl LogSink for Kept {
    fn line(&self, line: LogLine) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

impl Kept {
    pub fn lines(&self) -> Vec<LogLine> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a line, because pipes are read concurrently with the calls.
    pub async fn until(&self, text: &str) -> LogLine {
        for _ in 0..500 {
            if let Some(line) = self.lines().into_iter().find(|line| line.message.contains(text)) {
                return line;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("no line with {text:?} among {:?}", self.lines());
    }
}

/// Plugin processes have their own access to a cluster.
pub struct NoCluster;

#[async_trait]
impl Lookup for NoCluster {
    async fn get(&self, _id: &ItemId) -> Result<Option<Value>, ActionError> {
        Ok(None)
    }

    async fn list(&self, _: &GroupResource, _: Option<&str>, _: &str) -> Result<Vec<Value>, ActionError> {
        Ok(Vec::new())
    }
}

/// Plugin processes do not get items of the backup.
struct NoBackup;

#[async_trait]
impl BackupItems for NoBackup {
    async fn get(&self, _: &ItemId) -> Option<Value> {
        None
    }
}

/// The input that a restore passes to an action for an item that no other action has changed.
pub fn restore_input<'a>(item: &'a Value, restore: &'a Restore) -> RestoreInput<'a> {
    RestoreInput {
        item: item.clone(),
        from_backup: item,
        restore,
        backup: &NoBackup,
        intent: Intent::Restore,
    }
}

/// A ConfigMap with these annotations.
pub fn config_map(annotations: &Value) -> Value {
    let metadata = json!({"name": "settings", "namespace": "recorder-1", "annotations": annotations});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}})
}

pub fn backup() -> Backup {
    let mut backup = Backup::default();
    backup.metadata.name = Some("nightly".to_owned());
    backup.metadata.namespace = Some("lifeboat".to_owned());
    backup
}

pub fn restore() -> Restore {
    let mut restore = Restore::default();
    restore.metadata.name = Some("again".to_owned());
    restore.metadata.namespace = Some("lifeboat".to_owned());
    restore
}
