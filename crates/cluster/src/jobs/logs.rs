//! Reads a container's log line by line while it runs. After a lost connection it continues where it stopped, so that
//! no line is reported twice and few are missed.

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

/// The pause between two attempts to read.
const PAUSE: Duration = Duration::from_secs(1);
/// How long to wait for the last lines of a container that has ended.
const LAST_LINES: Duration = Duration::from_secs(3);

impl Jobs {
    /// Sends each line of the container's log to `lines`, until the container has ended (`ended` is cancelled then) and
    /// its last line was read, or until the receiver is dropped. Errors of the API server are retried.
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
                sleep(LAST_LINES).await;
            };
            let read = tokio::select! {
                read = reading => read,
                () = over => return,
            };
            if let Err(error) = read {
                tracing::debug!(pod, %error, "cannot read a container's log; trying again");
            }
            if lines.is_closed() || ended.is_cancelled() {
                return;
            }
            // If the container ends meanwhile, its log is read once more.
            let _ = timeout(PAUSE, ended.cancelled()).await;
        }
    }

    /// Reads one connection to its end.
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
