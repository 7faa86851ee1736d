//! The newest snapshots of a host.
