//! The server: connects, stands for election, runs the controllers of each API while it leads, serves metrics and probes.
//! [`run`] is what `lifeboat server` calls. What the controllers do is in the crate of their API.

mod apis;
mod runtime;
mod settings;

pub use runtime::{ServerError, run};
pub use settings::{MoverSettings, ServerSettings};
