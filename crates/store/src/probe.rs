//! Validates a location as Velero does, with one listing of the root. It reports within `deadline` whether bucket,
//! credentials, certificate and network work, and whether the bucket is used for something else.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::layers::retry::RetryPolicy;
use crate::store::Store;

/// The directories that Velero allows at the root of a location.
pub const LOCATION_DIRECTORIES: [&str; 6] = ["backups", "restores", "restic", "metadata", "plugins", "kopia"];

/// Lists the root of `store` and fails if it contains a directory whose name is not in `allowed`.
pub async fn probe(store: &Store, allowed: &[&str], deadline: Duration) -> Result<()> {
    // The retry policy limits the time of each page; this limits the time of all pages together.
    let patient = store.with_retry(RetryPolicy::probe(deadline));
    let listing = tokio::time::timeout(deadline, patient.list_directory(""));
    let root = listing.await.unwrap_or_else(|_| {
        let action = "listing the root of the location".to_owned();
        Err(Error::Deadline { action, seconds: deadline.as_secs() })
    })?;
    let names: Vec<String> = root
        .prefixes
        .iter()
        .map(|prefix| prefix.trim_end_matches('/'))
        .filter(|name| !allowed.contains(name))
        .map(str::to_owned)
        .collect();
    if names.is_empty() { Ok(()) } else { Err(Error::ForeignDirectories { names }) }
}
