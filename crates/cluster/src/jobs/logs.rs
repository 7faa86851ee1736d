//! What a container says, line by line, while it runs: asked for again where the connection is lost, so that nothing is
//! told twice and little is missed.

use std::time::Duration;

use futures::{AsyncBufReadExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use tokio::sync::mpsc::Sender;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Jobs;

/// Between two tries to read.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the last words of a container that ended are waited for.
const LAST_WORDS: Duration = Duration::from_secs(3);

impl Jobs {
    /// Sends each line of the container into `lines`, until the container has ended, which `ended` tells, and its last
    /// line was read; or until nobody listens. Trouble with the API server is borne.
    pub async fn follow_logs(
        &self,
        pod: &str,
        container: &str,
        lines: &Sender<String>,
        ended: &CancellationToken,
    ) {
        let mut last = None;
        loop {
            let reading = self.read(pod, container, lines, &mut last);
            let over = async {
                ended.cancelled().await;
                sleep(LAST_WORDS).await;
            };
            let read = tokio::select! {
                read = reading => read,
                () = over => return,
            };
            if let Err(error) = read {
                tracing::debug!(pod, %error, "what a container says cannot be read now");
            }
            if lines.is_closed() || ended.is_cancelled() {
                return;
            }
            // A container that ends meanwhile is read once more.
            let _ = timeout(PAUSE, ended.cancelled()).await;
        }
    }

    /// One connection, to its end.
    async fn read(
        &self,
        pod: &str,
        container: &str,
        lines: &Sender<String>,
        last: &mut Option<Timestamp>,
    ) -> Result<(), kube::Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let asked = LogParams {
            container: Some(container.to_owned()),
            follow: true,
            timestamps: true,
            since_time: *last,
            ..LogParams::default()
        };
        let mut read = api.log_stream(pod, &asked).await?.lines();
        while let Some(line) = read.try_next().await.map_err(kube::Error::ReadEvents)? {
            let Some((time, text)) = line.split_once(' ') else { continue };
            let Ok(time) = time.parse::<Timestamp>() else { continue };
            if last.is_some_and(|last| time <= last) {
                continue;
            }
            *last = Some(time);
            if lines.send(text.to_owned()).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}
