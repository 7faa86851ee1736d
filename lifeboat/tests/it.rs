//! Tests that run the real program without a cluster.

mod cli;
mod repository;
mod volumes;
