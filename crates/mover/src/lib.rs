//! The mover: the one program that touches users' data. It reads a task file, moves bytes between a volume (or a
//! command) and a repository, and reports; it decides nothing, knows no Kubernetes and resumes nothing. Both sides of
//! the protocol are here: [`task`] is what the server writes, [`report`] what the mover answers; [`run`] carries a task out. See
//! docs/design/0005-movers.md.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod report;
pub mod run;
pub mod task;
pub mod wait;

#[cfg(test)]
mod tests;
