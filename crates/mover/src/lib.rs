//! The mover: the program that reads and writes users' data. It reads a task file, copies bytes between a volume (or
//! a command) and a repository, and reports; it makes no decisions, has no Kubernetes client and resumes nothing.
//! Both sides of the protocol are here: the server writes a [`task`], the mover writes a [`report`]; [`run`] carries
//! out a task. See docs/design/0005-movers.md.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod agent;
pub mod program;
pub mod report;
pub mod run;
pub mod task;
pub mod wait;

#[cfg(test)]
mod tests;
