//! The certificate of this replica: issued by the authority that all replicas share, kept in memory, renewed daily
//! and when the authority changes.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use lifeboat_web::gateway::{ServerTls, server_config};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Gateway;
use super::secrets::SecretsError;

/// How long a certificate is valid, and when it is renewed.
const LIFE: Duration = Duration::from_hours(24 * 14);
const RENEWAL: Duration = Duration::from_hours(24);
/// How often the authority is read, and how often the first read is tried again.
const LOOK: Duration = Duration::from_mins(10);
const RETRY: Duration = Duration::from_secs(5);

/// Where the newest certificate is put, and which one it is.
pub(super) struct Certificates {
    sender: watch::Sender<Arc<ServerTls>>,
    made: Timestamp,
    authority_end: Timestamp,
}

impl Gateway {
    /// Makes the first certificate; None if `stop` is cancelled before that.
    pub(super) async fn first_certificate(
        &self,
        stop: &CancellationToken,
    ) -> Option<(Certificates, watch::Receiver<Arc<ServerTls>>)> {
        loop {
            match self.certificate().await {
                Ok((tls, made, authority_end)) => {
                    let (sender, receiver) = watch::channel(tls);
                    return Some((Certificates { sender, made, authority_end }, receiver));
                }
                Err(error) => {
                    let error = error.chain();
                    tracing::warn!(error, "the gateway has no certificate yet; trying again");
                }
            }
            tokio::select! {
                () = stop.cancelled() => return None,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }

    /// Renews the certificate for as long as it is polled.
    pub(super) async fn renew_certificates(&self, mut known: Certificates) {
        loop {
            tokio::time::sleep(LOOK).await;
            if let Err(error) = self.renew(&mut known).await {
                let error = error.chain();
                tracing::warn!(error, "the certificate of the gateway cannot be renewed; trying again");
            }
        }
    }

    async fn renew(&self, known: &mut Certificates) -> Result<(), SecretsError> {
        let age = self.shared.core.now().duration_since(known.made);
        let is_old = age.unsigned_abs() >= RENEWAL;
        if !is_old && self.secrets().await?.authority_end == known.authority_end {
            return Ok(());
        }
        let (tls, made, authority_end) = self.certificate().await?;
        known.sender.send_replace(tls);
        (known.made, known.authority_end) = (made, authority_end);
        Ok(())
    }

    async fn certificate(&self) -> Result<(Arc<ServerTls>, Timestamp, Timestamp), SecretsError> {
        let (secrets, now) = (self.secrets().await?, self.shared.core.now());
        let end = now.saturating_add(LIFE).unwrap_or(now).min(secrets.authority_end);
        let tls = server_config(&secrets.authority, &self.names(), now, end)?;
        Ok((tls, now, secrets.authority_end))
    }
}
