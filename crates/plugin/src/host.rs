//! The plugin host: finds plugin programs, starts them, calls them and ends them. [`PluginHost`] knows the installed
//! plugins; a [`Session`] holds the processes of one backup, restore or deletion. Crate `operator` creates both;
//! pipelines use only the traits that [`crate::remote`] implements on top of a session.

mod breaker;
mod discovery;
mod error;
mod handshake;
mod init;
mod keeper;
mod kind;
mod log;
mod process;
mod program;
mod session;
mod settings;
mod slot;
mod spares;
mod usage;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use error::PluginError;
pub(crate) use error::shortened;
pub use kind::{Kind, qualified};
pub use log::{LogLevel, LogLine, LogSink, ServerLog};
pub use session::Session;
pub use settings::{HostSettings, Timeouts, plugin_environment};
pub(crate) use slot::{Call, Init, Slot, moving};
pub(crate) use spares::ARE_READY;
pub use usage::Used;

/// One installed plugin. A program may serve several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    pub kind: Kind,
    /// `example.io/thing`.
    pub name: String,
    pub program: PathBuf,
}

/// A program or directory in the plugin directory that cannot be used, with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The program, or the directory that could not be read.
    pub path: PathBuf,
    pub message: String,
}

/// All installed plugins.
#[derive(Clone)]
pub struct PluginHost {
    inner: Arc<Installed>,
}

struct Installed {
    settings: HostSettings,
    plugins: Vec<Plugin>,
    problems: Vec<Problem>,
}

impl PluginHost {
    /// Runs every program of the plugin directory once and asks which plugins it serves. A program that cannot be used
    /// becomes a problem and does not affect the others.
    pub async fn discover(settings: HostSettings) -> Self {
        let (plugins, problems) = discovery::discover(&settings).await;
        Self { inner: Arc::new(Installed { settings, plugins, problems }) }
    }

    /// A host without plugins.
    pub fn empty() -> Self {
        let settings = HostSettings::new(PathBuf::new());
        Self { inner: Arc::new(Installed { settings, plugins: Vec::new(), problems: Vec::new() }) }
    }

    /// A host with the given plugins, without running programs; for tests of code that uses a host.
    pub fn of(settings: HostSettings, plugins: Vec<Plugin>) -> Self {
        Self { inner: Arc::new(Installed { settings, plugins, problems: Vec::new() }) }
    }

    /// In the order in which actions run: by path, then in the order of the program's list.
    pub fn plugins(&self) -> &[Plugin] {
        &self.inner.plugins
    }

    pub fn problems(&self) -> &[Problem] {
        &self.inner.problems
    }

    /// The plugin of this kind; a provider's name without a domain belongs to velero.io.
    pub fn find(&self, kind: Kind, name: &str) -> Option<&Plugin> {
        let name = qualified(name);
        self.inner.plugins.iter().find(|plugin| plugin.kind == kind && plugin.name == name)
    }

    /// A session for one backup, restore or deletion; log lines of its plugins go to `sink`.
    pub fn session(&self, sink: Arc<dyn LogSink>) -> Session {
        Session::new(self.clone(), self.inner.settings.clone(), sink)
    }

    /// A session with its own timeout for snapshots and volumes. A stock snapshotter that exceeds it is ended, because
    /// it processes one call at a time and all later calls would wait.
    pub fn session_within(&self, sink: Arc<dyn LogSink>, volume: Duration) -> Session {
        let mut settings = self.inner.settings.clone();
        settings.timeouts.volume = volume;
        Session::new(self.clone(), settings, sink)
    }
}
