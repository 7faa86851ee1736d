//! Restores objects for any API: what is done with one item, in which order items start, what they wait for, and what
//! a dry run reports. Items come from an [`ItemSource`](source::ItemSource), an
//! [`ItemHandler`](pipeline::handler::ItemHandler) changes them, [`Effects`](effects::Effects) change the cluster,
//! and a [`Recorder`](pipeline::recorder::Recorder) gets the results.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod effects;
pub mod outcome;
pub mod pace;
pub mod pipeline;
pub mod preview;
pub mod progress;
pub mod source;
