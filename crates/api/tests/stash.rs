//! The Stash kinds and AppBinding as their users write them: every fixture of theirs is read into the Rust
//! types and written back, and comes out as it went in. What the API server makes of them is tested in `e2e`.

mod fixtures;
mod reading;
mod round_trip;
mod schema;
