//! Waits for a repository: storage that is out of reach for minutes does not fail a transfer.

use tokio_util::sync::CancellationToken;

use super::{REPOSITORY_PACE, REPOSITORY_PATIENCE, Reach, Transfer, Unusable};

impl Transfer {
    /// The repository. What it waits for is written into the record. The error says why it cannot be used.
    pub(super) async fn reach(&self, cancel: &CancellationToken) -> Result<Reach, String> {
        let mut tries = 0;
        loop {
            match self.work.effects.reach(&self.key, self.make).await {
                Ok(reach) => return Ok(reach),
                Err(Unusable { message, may_pass }) => {
                    tries += 1;
                    if !may_pass || tries >= REPOSITORY_PATIENCE || cancel.is_cancelled() {
                        return Err(format!("{} cannot be used: {message}", self.repository));
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
