//! Locations whose object store is a plugin. Takes the settings from [`crate::locations::opening`], returns the
//! store. One process serves a location for as long as it is used and five minutes longer, because a check of the
//! bucket each minute must not start a program each minute. Other settings or other credentials get another process.

mod leased;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use lifeboat_archive::ObjectStore;
use lifeboat_control::locked;
use lifeboat_plugin::host::{PluginHost, ServerLog, Session};
use lifeboat_plugin::remote::ObjectStoreLocation;
use secrecy::{ExposeSecret, SecretSlice};
use tempfile::NamedTempFile;
use tokio::time::{Instant, sleep};

use crate::credential_files;
use crate::storage_problem::Problem;
use leased::Leased;

/// How long an unused process is kept.
const IDLE: Duration = Duration::from_mins(5);

/// If there are more locations than this, the others get a process for each use.
const MOST: usize = 32;

/// Everything needed to open a location through a plugin.
#[derive(Debug)]
pub(crate) struct PluginOpening {
    /// The location's UID.
    pub(crate) uid: String,
    /// Identifies one state of the location: its spec and the versions of its Secrets.
    pub(crate) state: String,
    pub(crate) provider: String,
    /// For people, as in `plugin velero.io/aws (/plugins/velero-plugin-for-aws)`.
    pub(crate) used: String,
    pub(crate) location: ObjectStoreLocation,
    /// The content of `spec.credential`, which the plugin gets as a file.
    pub(crate) credentials: Option<SecretSlice<u8>>,
}

/// The processes of all locations; clones share them.
#[derive(Clone, Default)]
pub(crate) struct PluginStores {
    open: Arc<Mutex<BTreeMap<String, OpenProcess>>>,
}

struct OpenProcess {
    state: String,
    held: Arc<Held>,
    last_use: Instant,
}

/// A process and its credentials file; both end with the last user.
struct Held {
    session: Session,
    store: Arc<dyn ObjectStore>,
    /// Removed when dropped.
    _credentials: Option<NamedTempFile>,
}

impl PluginStores {
    /// The store of a location. `directory`: where files with credentials are put, for this user only.
    pub(crate) fn open(
        &self,
        host: &PluginHost,
        directory: &Path,
        opening: &PluginOpening,
    ) -> Result<Arc<dyn ObjectStore>, Problem> {
        let mut all = self.lock();
        if let Some(open) = all.get_mut(&opening.uid)
            && open.state == opening.state
        {
            open.last_use = Instant::now();
            return Ok(Arc::new(Leased::new(Arc::clone(&open.held))));
        }
        let held = Arc::new(start(host, directory, opening)?);
        // The process of an older state ends with its last user.
        all.remove(&opening.uid);
        if all.len() < MOST {
            let open = OpenProcess {
                state: opening.state.clone(),
                held: Arc::clone(&held),
                last_use: Instant::now(),
            };
            all.insert(opening.uid.clone(), open);
            tokio::spawn(end_when_idle(
                Arc::downgrade(&self.open),
                opening.uid.clone(),
                Arc::downgrade(&held),
            ));
        }
        Ok(Arc::new(Leased::new(held)))
    }

    /// Makes the next user start a new process, because this one failed.
    pub(crate) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Ends all processes, with time to shut down.
    pub(crate) async fn close(&self) {
        let all = std::mem::take(&mut *self.lock());
        futures::future::join_all(all.values().map(|open| open.held.session.close())).await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, OpenProcess>> {
        locked(&self.open)
    }
}

/// Configures a plugin; its program starts with the first call.
fn start(host: &PluginHost, directory: &Path, opening: &PluginOpening) -> Result<Held, Problem> {
    let mut location = opening.location.clone();
    let file = match &opening.credentials {
        Some(content) => Some(credential_files::write(directory, content.expose_secret()).map_err(|error| Problem {
            category: "credentials",
            message: format!(
                "cannot write the credentials for the plugin into a file in {}: {error}; see that the directory of \
                 --spool-directory can be written to",
                directory.display()
            ),
        })?),
        None => None,
    };
    if let Some(file) = &file {
        location.config.insert("credentialsFile".to_owned(), file.path().to_string_lossy().into_owned());
    }
    let session = host.session(Arc::new(ServerLog));
    let store = session
        .object_store(&opening.provider, &location)
        .map_err(|error| Problem { category: "plugin", message: error.to_string() })?;
    Ok(Held { session, store, _credentials: file })
}

/// Ends a process that was not used for a while.
async fn end_when_idle(all: Weak<Mutex<BTreeMap<String, OpenProcess>>>, uid: String, watched: Weak<Held>) {
    loop {
        sleep(IDLE / 5).await;
        let Some(all) = all.upgrade() else { return };
        let idle = {
            let mut all = locked(&all);
            let Some(open) =
                all.get(&uid).filter(|open| std::ptr::eq(Arc::as_ptr(&open.held), watched.as_ptr()))
            else {
                return;
            };
            let unused = Arc::strong_count(&open.held) == 1 && open.last_use.elapsed() >= IDLE;
            if unused { all.remove(&uid) } else { None }
        };
        if let Some(open) = idle {
            open.held.session.close().await;
            return;
        }
    }
}
