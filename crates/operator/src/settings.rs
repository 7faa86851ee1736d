//! The server's settings, resolved once by the CLI (flag, then environment, then default) and passed down.

use std::net::SocketAddr;

use lifeboat_plan::lease::LeaseTimes;
use lifeboat_stash::StashSettings;
pub use lifeboat_transfer::MoverSettings;
use lifeboat_velero::VeleroSettings;

/// All that can be set about a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Where Lifeboat's own objects live.
    pub namespace: String,
    /// The name of this replica in the election, in events and in locks of repositories.
    pub identity: String,
    /// Metrics and probes.
    pub metrics_address: SocketAddr,
    pub lease: LeaseTimes,
    /// One queue of movers serves all APIs.
    pub movers: MoverSettings,
    pub velero: VeleroSettings,
    /// Stash's API; None where the server does not serve it.
    pub stash: Option<StashSettings>,
}
