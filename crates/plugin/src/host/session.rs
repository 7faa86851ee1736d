//! The plugin processes of one backup, restore or deletion: they start when they are needed and end with the session.
//! Created by [`PluginHost::session`] and ended with [`Session::close`]; dropping it kills the processes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::PluginError;
use super::kind::{Kind, qualified};
use super::log::LogSink;
use super::settings::HostSettings;
use super::slot::{Init, Slot};
use super::usage::{Usage, Used};
use super::{Plugin, PluginHost};

/// The plugins of one backup, restore or deletion.
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

struct Inner {
    host: PluginHost,
    /// The host's settings, with this session's own timeout.
    settings: HostSettings,
    sink: Arc<dyn LogSink>,
    programs: Mutex<BTreeMap<PathBuf, Vec<Member>>>,
    usage: Arc<Usage>,
    closed: AtomicBool,
}

/// A process, and its configuration.
struct Member {
    slot: Arc<Slot>,
    configured: BTreeMap<(Kind, String), Arc<Init>>,
}

impl Session {
    pub(super) fn new(host: PluginHost, settings: HostSettings, sink: Arc<dyn LogSink>) -> Self {
        Self {
            inner: Arc::new(Inner {
                host,
                settings,
                sink,
                programs: Mutex::default(),
                usage: Arc::default(),
                closed: AtomicBool::new(false),
            }),
        }
    }

    pub fn host(&self) -> &PluginHost {
        &self.inner.host
    }

    /// How often actions and snapshotters were called so far, and how long the calls took.
    pub fn usage(&self) -> Vec<Used> {
        self.inner.usage.all()
    }

    /// Asks all processes to end. Afterwards no process is started.
    pub async fn close(&self) {
        self.inner.closed.store(true, Ordering::Release);
        let members: Vec<Member> = {
            let mut programs = self.inner.programs.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *programs).into_values().flatten().collect()
        };
        futures::future::join_all(members.iter().map(|member| member.slot.close())).await;
    }

    /// The process that serves a program's actions.
    pub(crate) fn actions(&self, plugin: &Plugin) -> Arc<Slot> {
        self.with_members(&plugin.program, |members| match members.first() {
            Some(member) => Arc::clone(&member.slot),
            None => self.add(members, &plugin.program),
        })
    }

    /// The process for one configuration of an object store or a snapshotter. Init configures the whole process, so
    /// another configuration of the same plugin gets another process.
    pub(crate) fn configured(
        &self,
        kind: Kind,
        name: &str,
        config: BTreeMap<String, String>,
    ) -> Result<(Arc<Slot>, Arc<Init>), PluginError> {
        let name = qualified(name);
        let plugin = self
            .inner
            .host
            .find(kind, &name)
            .ok_or_else(|| PluginError::NotInstalled { kind: kind.as_str(), name: name.clone() })?;
        let init = Arc::new(Init { kind, name: name.clone(), config });
        let key = (kind, name);
        Ok(self.with_members(&plugin.program, |members| {
            let fits = |member: &&mut Member| {
                member.configured.get(&key).is_none_or(|present| present.config == init.config)
            };
            if members.iter_mut().find(fits).is_none() {
                self.add(members, &plugin.program);
            }
            let member = members.iter_mut().find(fits).expect("one that fits was just added");
            member.configured.insert(key.clone(), Arc::clone(&init));
            (Arc::clone(&member.slot), init)
        }))
    }

    fn add(&self, members: &mut Vec<Member>, program: &Path) -> Arc<Slot> {
        let settings = self.inner.settings.clone();
        let closed = self.inner.closed.load(Ordering::Acquire);
        let (sink, usage) = (Arc::clone(&self.inner.sink), Arc::clone(&self.inner.usage));
        let slot = Slot::new(program.to_owned(), settings, sink, usage, closed);
        members.push(Member { slot: Arc::clone(&slot), configured: BTreeMap::new() });
        slot
    }

    fn with_members<T>(&self, program: &Path, use_them: impl FnOnce(&mut Vec<Member>) -> T) -> T {
        let mut programs = self.inner.programs.lock().unwrap_or_else(PoisonError::into_inner);
        use_them(programs.entry(program.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::host::ServerLog;

    #[tokio::test]
    async fn an_operation_may_have_its_own_time_for_volumes() {
        let host = PluginHost::empty();
        let limit = Duration::from_secs(7);
        let session = host.session_within(Arc::new(ServerLog), limit);
        let program = Path::new("/plugins/p");
        let slot = session.with_members(program, |members| session.add(members, program));
        assert_eq!(slot.timeouts().volume, limit);
        assert_eq!(slot.timeouts().call, host.inner.settings.timeouts.call);
    }
}
