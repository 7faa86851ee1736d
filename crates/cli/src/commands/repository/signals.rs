//! INT, TERM and HUP: the first asks the command to come to rest and to give its lock back, the second ends it.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::error::CliError;

/// The signals that mean "stop".
pub(crate) struct Stops {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Stops {
    pub(crate) fn listen() -> Result<Self, CliError> {
        let listen =
            |kind| signal(kind).map_err(|error| CliError::failed("cannot listen for signals", error));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> rustix::process::Signal {
        tokio::select! {
            _ = self.interrupt.recv() => rustix::process::Signal::INT,
            _ = self.terminate.recv() => rustix::process::Signal::TERM,
            _ = self.hangup.recv() => rustix::process::Signal::HUP,
        }
    }
}

/// A token that the first signal cancels; the second ends the process if `impatient`.
pub(crate) fn interruption(impatient: bool) -> Result<CancellationToken, CliError> {
    let mut stops = Stops::listen()?;
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        stops.next().await;
        cancelled.cancel();
        if impatient {
            stops.next().await;
            std::process::exit(130);
        }
    });
    Ok(token)
}
