//! The plugin host: finds plugin programs, starts them, talks to them, ends them. [`PluginHost`] knows what is
//! installed; a [`Session`] is what one operation (a backup, a restore, a deletion) uses of it. Both are made by crate
//! `velero`; pipelines see only the traits that [`crate::remote`] implements on top of a session.

mod discovery;
mod error;
mod handshake;
mod init;
mod keeper;
mod kind;
mod log;
mod patience;
mod process;
mod program;
mod session;
mod settings;
mod slot;
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
pub use usage::Used;

/// One plugin that is installed. A program may serve many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    pub kind: Kind,
    /// `example.io/thing`.
    pub name: String,
    pub program: PathBuf,
}

/// Something in the plugin directory that cannot be used, in words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The program, or the directory that could not be read.
    pub path: PathBuf,
    pub message: String,
}

/// Everything that is installed.
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
    /// Runs every program of the plugin directory once and asks what it serves. Whatever cannot be used becomes a
    /// problem; the others are there.
    pub async fn discover(settings: HostSettings) -> Self {
        let (plugins, problems) = discovery::discover(&settings).await;
        Self { inner: Arc::new(Installed { settings, plugins, problems }) }
    }

    /// A host without plugins.
    pub fn empty() -> Self {
        let settings = HostSettings::new(PathBuf::new());
        Self { inner: Arc::new(Installed { settings, plugins: Vec::new(), problems: Vec::new() }) }
    }

    /// Plugins that are known without asking: for tests of whoever uses a host.
    pub fn of(settings: HostSettings, plugins: Vec<Plugin>) -> Self {
        Self { inner: Arc::new(Installed { settings, plugins, problems: Vec::new() }) }
    }

    /// In the order in which actions run: by path, then as the program lists them.
    pub fn plugins(&self) -> &[Plugin] {
        &self.inner.plugins
    }

    pub fn problems(&self) -> &[Problem] {
        &self.inner.problems
    }

    /// The plugin of this kind; a provider's name without a domain is one of velero.io.
    pub fn find(&self, kind: Kind, name: &str) -> Option<&Plugin> {
        let name = qualified(name);
        self.inner.plugins.iter().find(|plugin| plugin.kind == kind && plugin.name == name)
    }

    /// What one operation uses; its plugins' log lines go to `sink`.
    pub fn session(&self, sink: Arc<dyn LogSink>) -> Session {
        Session::new(self.clone(), self.inner.settings.clone(), sink)
    }

    /// The same for an operation that says itself how long a snapshot or a volume may take. A stock snapshotter that takes
    /// longer is ended: it does one call at a time, and everybody behind would wait.
    pub fn session_within(&self, sink: Arc<dyn LogSink>, volume: Duration) -> Session {
        let mut settings = self.inner.settings.clone();
        settings.timeouts.volume = volume;
        Session::new(self.clone(), settings, sink)
    }
}
