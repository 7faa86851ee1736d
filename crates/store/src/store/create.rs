//! Create-only writes. The store decides atomically whether the object exists (If-None-Match). If the response was
//! lost, a second attempt would find our own object and report it as existing. So the object is read back first:
//! equal bytes mean that the first attempt succeeded.

use bytes::Bytes;
use futures::TryStreamExt;

use super::Store;
use crate::backend::PutMode;
use crate::error::{Error, Result, Retry};

impl Store {
    /// Writes an object that must not exist yet; fails with `AlreadyExists` otherwise. Different writers must write
    /// different bytes (a lock names its holder): equal bytes that are found after a lost response count as written
    /// by this call.
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
            match self.holds(key, &body).await {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(Error::AlreadyExists { key: key.to_owned() }),
                Err(missing) if missing.is_not_found() => {}
                Err(_) => return Err(error),
            }
            if attempts >= self.tuning.retry.attempts || error.retry() != Retry::Now {
                return Err(error);
            }
        }
    }

    /// Whether an object that exists has exactly this content; it is compared as it arrives.
    async fn holds(&self, key: &str, body: &Bytes) -> Result<bool> {
        let mut reading = self.get_stream(key).await?;
        let mut rest = body.clone();
        while let Some(chunk) = reading.body.try_next().await? {
            if chunk.len() > rest.len() || rest.split_to(chunk.len()) != chunk {
                return Ok(false);
            }
        }
        Ok(rest.is_empty())
    }
}
