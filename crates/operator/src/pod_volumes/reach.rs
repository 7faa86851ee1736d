//! Waits for a repository: storage that is out of reach for minutes does not fail a volume.

use lifeboat_plan::pod_volumes::status;
use tokio_util::sync::CancellationToken;

use super::copying::{REPOSITORY_PACE, REPOSITORY_PATIENCE};
use super::hands::{Reach, Unusable};
use super::{Desk, Place};

impl Desk {
    /// The repository of `(location, namespace)`; `make`: where there is none, it is made. What it waits for is shown in the
    /// object at `place`. The error says why it cannot be used.
    pub(crate) async fn reach(
        &self,
        place: &Place,
        (location, namespace): (&str, &str),
        make: bool,
        cancel: &CancellationToken,
    ) -> Result<Reach, String> {
        let mut tries = 0;
        loop {
            match self.hands.reach(location, namespace, make).await {
                Ok(reach) => return Ok(reach),
                Err(Unusable { words, may_pass }) => {
                    tries += 1;
                    if !may_pass || tries >= REPOSITORY_PATIENCE || cancel.is_cancelled() {
                        return Err(format!(
                            "the repository of namespace {namespace} cannot be used: {words}"
                        ));
                    }
                    let _ = place.write(status::waits(&format!("waits for the repository: {words}"))).await;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(self.pace * REPOSITORY_PACE) => {}
                () = cancel.cancelled() => {}
            }
        }
    }
}
