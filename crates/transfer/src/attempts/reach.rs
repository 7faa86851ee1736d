//! Waits for a repository: storage that is out of reach for minutes does not fail a volume.

use lifeboat_plan::pod_volumes::status;
use tokio_util::sync::CancellationToken;

use super::{Case, REPOSITORY_PACE, REPOSITORY_PATIENCE, Reach, Unusable};

impl Case {
    /// The repository. What it waits for is shown in the object. The error says why it cannot be used.
    pub(super) async fn reach(&self, cancel: &CancellationToken) -> Result<Reach, String> {
        let (hands, namespace) = (&self.desk.hands, self.key.name());
        let mut tries = 0;
        loop {
            match hands.reach(&self.key, self.make).await {
                Ok(reach) => return Ok(reach),
                Err(Unusable { words, may_pass }) => {
                    tries += 1;
                    if !may_pass || tries >= REPOSITORY_PATIENCE || cancel.is_cancelled() {
                        return Err(format!(
                            "the repository of namespace {namespace} cannot be used: {words}"
                        ));
                    }
                    let waits = status::waits(&format!("waits for the repository: {words}"));
                    let _ = self.write(waits).await;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(self.desk.pace * REPOSITORY_PACE) => {}
                () = cancel.cancelled() => {}
            }
        }
    }
}
