//! Waits for the kinds of an API: takes their definitions and the command that applies them, and returns when the cluster serves them. Called
//! by the server before it leads, and by each API that can be turned on, before its controllers run.

use std::time::Duration;

use kube::Client;
use lifeboat_api::crds::Crd;
use lifeboat_cluster::crds;
use tokio::time::{sleep, timeout};

/// How long one request for the installed kinds may take.
const ANSWER: Duration = Duration::from_secs(30);

/// The kinds of an API.
pub(crate) struct WantedKinds {
    names: Vec<String>,
    /// The command that applies their definitions.
    apply: &'static str,
    /// How soon it is looked again.
    pause: Duration,
}

impl WantedKinds {
    pub(crate) fn new(kinds: &[Crd], apply: &'static str, pause: Duration) -> Self {
        Self { names: kinds.iter().map(|crd| crd.name().to_owned()).collect(), apply, pause }
    }

    /// Returns when the cluster serves all of them. `pulse` is called before each look.
    pub(crate) async fn served(&self, client: &Client, pulse: impl Fn()) {
        let apply = self.apply;
        loop {
            pulse();
            match timeout(ANSWER, crds::missing(client, &self.names)).await {
                Ok(Ok(missing)) if missing.is_empty() => return,
                Ok(Ok(missing)) => tracing::error!(
                    ?missing,
                    "the cluster lacks custom resources; apply them with `lifeboat install` or `{apply}`"
                ),
                Ok(Err(error)) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "the cluster does not answer");
                }
                Err(_elapsed) => tracing::warn!("the cluster does not answer in time"),
            }
            sleep(self.pause).await;
        }
    }
}
