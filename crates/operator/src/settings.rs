//! The server's settings, resolved once by the CLI (flag, then environment, then default) and passed down.

use std::net::SocketAddr;

use lifeboat_plan::lease::LeaseTimes;
use lifeboat_stash::StashSettings;
pub use lifeboat_transfer::MoverSettings;
pub use lifeboat_transfer::gateway::GatewaySettings;
use lifeboat_velero::VeleroSettings;

/// All settings of a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The namespace of Lifeboat's own objects.
    pub namespace: String,
    /// The name of this replica in the election, in events and in locks of repositories.
    pub identity: String,
    /// The address that serves metrics and probes.
    pub metrics_address: SocketAddr,
    pub lease: LeaseTimes,
    /// Settings of movers, which all APIs share.
    pub movers: MoverSettings,
    /// The gateway of movers, which runs if an API needs it.
    pub gateway: GatewaySettings,
    pub velero: VeleroSettings,
    /// Settings of Stash's API; None if the server does not serve it.
    pub stash: Option<StashSettings>,
}
