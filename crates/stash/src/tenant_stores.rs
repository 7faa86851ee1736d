//! Opens the storage of Repositories: only with the keys of their Secrets, and never at an address of the machine
//! itself. Tests replace it with stores in memory.

use std::time::Duration;

use async_trait::async_trait;
use lifeboat_store::{Guard, Result, RetryPolicy, Tuning, open_for_tenant};
use lifeboat_transfer::repositories::{ServerOpening, TenantStorage};

/// How often and how long the server tries a request, because the inspection of unreachable storage must end.
const RETRY: RetryPolicy = RetryPolicy {
    attempts: 4,
    first_pause: Duration::from_millis(200),
    longest_pause: Duration::from_secs(5),
    deadline: Some(Duration::from_mins(2)),
    outage: None,
};

/// The largest file that the server reads into memory. An index file of any program has some megabytes at most.
const LARGEST_READ: u64 = 64 * 1024 * 1024;

/// Opens the storage of a repository.
#[async_trait]
pub(crate) trait TenantStores: Send + Sync {
    /// `connections`: how many requests are made at a time, if the backend sets it.
    async fn open(&self, storage: &TenantStorage, connections: Option<usize>) -> Result<ServerOpening>;
}

/// Opens storage within the limits of a guard.
pub(crate) struct GuardedStores(pub(crate) Guard);

#[async_trait]
impl TenantStores for GuardedStores {
    async fn open(&self, storage: &TenantStorage, connections: Option<usize>) -> Result<ServerOpening> {
        let default = Tuning::default();
        let concurrency = connections.unwrap_or(default.concurrency).min(default.concurrency);
        let tuning = Tuning { retry: RETRY, concurrency, largest_read: LARGEST_READ, ..default };
        let guard = self.0.clone();
        Ok(match storage {
            TenantStorage::Bucket(config) => {
                ServerOpening::Store(open_for_tenant(config, guard, tuning).await?)
            }
            TenantStorage::Rest(config) => {
                let store = config.clone().open_for_tenant(guard.clone(), tuning)?;
                ServerOpening::Rest { store, config: config.clone(), guard }
            }
            TenantStorage::Directory(_) => ServerOpening::MoversOnly("it is on a volume".to_owned()),
        })
    }
}
