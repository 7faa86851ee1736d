//! The real program where there is no cluster.

mod cli;
mod repository;
mod volumes;
