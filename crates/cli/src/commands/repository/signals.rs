//! Handling of INT, TERM and HUP: the first signal asks the command to stop and to release its lock, the second one
//! ends the process.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::error::CliError;

/// Signals within this time after the first one do not count as a second request.
const MOMENT: Duration = Duration::from_secs(1);

/// The signals that ask the command to stop.
pub(crate) struct Stops {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: unix::Signal,
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

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.hangup.recv() => Signal::HUP,
        }
    }
}

/// A token that the first signal cancels. If `impatient`, the second signal ends the process.
pub(crate) fn interruption(impatient: bool) -> Result<CancellationToken, CliError> {
    let mut stops = Stops::listen()?;
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        stops.next().await;
        cancelled.cancel();
        if impatient {
            let first = Instant::now();
            // A closing terminal sends several signals at once, while a user needs a moment for the second one.
            while stops.next().await == Signal::HUP || first.elapsed() < MOMENT {}
            lifeboat_store::abandon_unfinished();
            std::process::exit(130);
        }
    });
    Ok(token)
}
