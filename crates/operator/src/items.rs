//! Restoring objects: what is done with one item, in which order items start, what they wait for, and what a dry run says.

pub(crate) mod apply;
pub(crate) mod existing;
pub(crate) mod gates;
pub(crate) mod item;
pub(crate) mod namespaces;
pub(crate) mod pace;
pub(crate) mod plan;
pub(crate) mod run;
