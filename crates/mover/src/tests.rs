//! Whole tasks with real directories and repositories on disk.

mod agents;
mod backup;
mod call;
mod devices;
mod directory;
mod exact;
mod faults;
mod forget;
mod look;
mod maintain;
mod parts;
mod placed;
mod protocol;
mod rest;
mod restore;
mod server;
mod space;
mod world;
