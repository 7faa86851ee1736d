//! Waits for a repository, so that storage that cannot be reached for some minutes does not fail a transfer.

use lifeboat_repository::Retry;
use tokio_util::sync::CancellationToken;

use super::{REPOSITORY_PACE, REPOSITORY_PATIENCE, Reach, Transfer, Unusable};

impl Transfer {
    /// Waits until the repository can be used. The record shows what the transfer waits for.
    pub(super) async fn reach(&self, cancel: &CancellationToken) -> Result<Reach, Unusable> {
        let mut tries = 0;
        loop {
            match self.work.effects.reach(&self.key, self.make).await {
                Ok(reach) => return Ok(reach),
                Err(Unusable { message, retry }) => {
                    tries += 1;
                    if retry == Retry::Never || tries >= REPOSITORY_PATIENCE || cancel.is_cancelled() {
                        let message = format!("{} cannot be used: {message}", self.repository);
                        return Err(Unusable { message, retry });
                    }
                    let _ = self.record.waiting(&format!("waits for the repository: {message}")).await;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(self.work.pace * REPOSITORY_PACE) => {}
                () = cancel.cancelled() => {}
            }
        }
    }
}
