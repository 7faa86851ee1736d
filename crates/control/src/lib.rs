//! What every controller needs, whichever custom resources it serves: [`Core`] (client, events, metrics, clock,
//! scope), watches in a scope ([`Scope`], [`Watches`]) of objects whose shape is not trusted ([`dynamic`]), work that
//! outlives a reconcile ([`LongWork`]), pauses after failures ([`Backoff`]), locks by name ([`Turns`]), records of
//! effects ([`ConfigMapJournal`]), and reports of objects that cannot be read or written ([`Refused`], [`unreadable`]).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod backoff;
mod clock;
mod core;
pub mod dynamic;
mod journal;
mod locks;
mod long_work;
mod refused;
mod scope;
mod signal;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod turns;
pub mod unreadable;
mod watches;

pub use backoff::Backoff;
pub use clock::Clock;
pub use core::{Core, Written};
pub use journal::{ConfigMapJournal, JournalError};
pub use locks::locked;
pub use long_work::{LongWork, WorkEnd};
pub use refused::Refused;
pub use scope::Scope;
pub use signal::Signal;
pub use turns::Turns;
pub use watches::{Known, Watches};
