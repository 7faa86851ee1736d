//! Restoring objects: what is done with one item, in which order items start, what they wait for, and what a preview says of
//! it. Knows no Velero kind's life cycle: where items come from is an [`ItemSource`](source::ItemSource), what is done to each
//! is an [`ItemHandler`](handler::ItemHandler), what is done to the cluster are [`Effects`](effects::Effects), and
//! what happened goes to a [`Recorder`](recorder::Recorder).
//!
//! ```text
//! run::drive -> item::steps -> namespaces, handler.transform, gates -> apply -> existing
//! ```

mod apply;
pub(crate) mod effects;
mod existing;
mod gates;
pub(crate) mod handler;
pub(crate) mod item;
mod namespaces;
pub(crate) mod outcome;
pub(crate) mod pace;
pub(crate) mod plan;
pub(crate) mod progress;
pub(crate) mod recorder;
pub(crate) mod run;
mod schedule;
pub(crate) mod source;
pub(crate) mod target;
