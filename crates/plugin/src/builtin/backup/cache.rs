//! A cache of what an action reads from the cluster during one backup: lists that would otherwise be requested for
//! every item.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use lifeboat_api::velero::Backup;
use lifeboat_plan::backup::ATTEMPT;

/// More backups than this never run at the same time with the same action; older entries belong to backups that have
/// ended.
const MOST: usize = 8;

/// Values by backup and key.
pub(super) struct PerBackup<V> {
    kept: Mutex<Vec<Run<V>>>,
}

/// One attempt of one backup, and its values by key.
type Run<V> = (String, BTreeMap<String, Arc<V>>);

impl<V> Default for PerBackup<V> {
    fn default() -> Self {
        Self { kept: Mutex::default() }
    }
}

impl<V> PerBackup<V> {
    pub(super) fn get(&self, backup: &Backup, key: &str) -> Option<Arc<V>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let run = run(backup);
        kept.iter().find(|(known, _)| *known == run).and_then(|(_, values)| values.get(key).cloned())
    }

    pub(super) fn keep(&self, backup: &Backup, key: &str, value: V) -> Arc<V> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let run = run(backup);
        let value = Arc::new(value);
        if let Some((_, values)) = kept.iter_mut().find(|(known, _)| *known == run) {
            values.insert(key.to_owned(), value.clone());
            return value;
        }
        if kept.len() >= MOST {
            kept.remove(0);
        }
        kept.push((run, [(key.to_owned(), value.clone())].into()));
        value
    }
}

/// Identifies one attempt of one backup: the next attempt reads the cluster again.
fn run(backup: &Backup) -> String {
    let metadata = &backup.metadata;
    let attempt = metadata.annotations.as_ref().and_then(|all| all.get(ATTEMPT));
    format!("{} {}", metadata.uid.as_deref().unwrap_or_default(), attempt.map_or("", String::as_str))
}
