//! Restoring objects for any API: what is done with one item, in which order items start, what they wait for, and what a
//! preview says of it. Where items come from is an [`ItemSource`](source::ItemSource), what is done to each is an
//! [`ItemHandler`](pipeline::handler::ItemHandler), what is done to the cluster are [`Effects`](effects::Effects), and what
//! happened goes to a [`Recorder`](pipeline::recorder::Recorder).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod effects;
pub mod outcome;
pub mod pace;
pub mod pipeline;
pub mod preview;
pub mod progress;
pub mod source;
