//! INT, TERM and HUP: the first asks the command to come to rest and to give its lock back, the second ends it.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::error::CliError;

/// How long after the first signal a second one means "at once".
const MOMENT: Duration = Duration::from_secs(1);

/// The signals that mean "stop".
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

    /// The next one.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.hangup.recv() => Signal::HUP,
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
            let first = Instant::now();
            // A terminal that goes away sends several at once; a person takes a moment before the second.
            while stops.next().await == Signal::HUP || first.elapsed() < MOMENT {}
            lifeboat_store::abandon_unfinished();
            std::process::exit(130);
        }
    });
    Ok(token)
}
