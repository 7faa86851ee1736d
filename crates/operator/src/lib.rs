//! The server: connects, takes part in the leader election, runs the controllers of each API while it is the leader, and
//! serves metrics and probes. `lifeboat server` calls [`run`]. The controllers are in the crates of their APIs.

mod apis;
mod kinds;
mod runtime;
mod settings;

pub use runtime::{ServerError, run};
pub use settings::{GatewaySettings, MoverSettings, ServerSettings};
