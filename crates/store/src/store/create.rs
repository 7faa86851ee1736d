//! Create-only writes. Whether the object was there is decided by the store in one step (If-None-Match). When
//! the answer was lost, a second try would meet our own object and call it someone else's, so first the object
//! is read back: the same bytes mean that it is ours.

use bytes::Bytes;

use super::Store;
use crate::backend::PutMode;
use crate::error::{Error, Result, Retry};

impl Store {
    /// Writes an object that must not exist yet; `AlreadyExists` otherwise. Bodies of different writers must
    /// differ (a lock names its holder): equal bytes found after a lost answer count as written by us.
    pub async fn create(&self, key: &str, body: impl Into<Bytes>) -> Result<()> {
        let body = body.into();
        let full = self.key(key)?;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let error = match self.relative(self.backend.put(&full, body.clone(), PutMode::Create).await) {
                Ok(()) => return Ok(()),
                Err(error) if error.outcome_unknown() => error,
                Err(error) => return Err(error),
            };
            match self.get(key).await {
                Ok(found) if found == body => return Ok(()),
                Ok(_) => return Err(Error::AlreadyExists { key: key.to_owned() }),
                Err(missing) if missing.is_not_found() => {}
                Err(_) => return Err(error),
            }
            if attempts >= self.tuning.retry.attempts || error.retry() != Retry::Now {
                return Err(error);
            }
        }
    }
}
