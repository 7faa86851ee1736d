//! Snapshots and hosts for the tests of `rules`.
