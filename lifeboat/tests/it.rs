//! Tests that run the real program without a cluster.

mod agents;
mod cli;
mod repository;
mod volumes;
