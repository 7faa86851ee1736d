//! The server on a real cluster: locations and what can be wrong with them, leadership, restarts, installation.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

#[path = "server/installation.rs"]
mod installation;
#[path = "server/leadership.rs"]
mod leadership;
#[path = "server/locations.rs"]
mod locations;
#[path = "server/objects.rs"]
mod objects;
#[path = "server/password.rs"]
mod password;
