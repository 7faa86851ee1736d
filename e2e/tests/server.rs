//! The server on a real cluster: locations and their errors, leadership, restarts, installation.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

mod installation;
mod leadership;
mod limited;
mod locations;
mod objects;
mod password;
