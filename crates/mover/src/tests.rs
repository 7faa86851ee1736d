//! Whole tasks with real directories and repositories on disk.

mod backup;
mod devices;
mod faults;
mod maintain;
mod parts;
mod placed;
mod protocol;
mod restore;
mod space;
mod world;
