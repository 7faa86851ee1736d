//! The server's settings, resolved once by the CLI (flag, then environment, then default) and passed down.

use std::net::SocketAddr;
use std::time::Duration;

use lifeboat_plan::lease::LeaseTimes;

/// All that can be set about a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Where Lifeboat's own objects live.
    pub namespace: String,
    /// The name of this replica in the election and in events.
    pub identity: String,
    /// Metrics and probes.
    pub metrics_address: SocketAddr,
    /// How often a location without its own frequency is validated.
    pub validation_frequency: Duration,
    /// Whether schedules that do not say so leave out a run that is due at once.
    pub schedule_skip_immediately: bool,
    pub lease: LeaseTimes,
    /// The server's own cloud identity, for locations without credentials.
    pub cloud: lifeboat_store::Environment,
}
