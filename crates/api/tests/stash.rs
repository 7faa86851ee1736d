//! The Stash kinds and AppBinding as their users write them: every fixture is read into the Rust types and written
//! back unchanged. How the API server handles them is tested in `e2e`.

mod fixtures;
mod reading;
mod round_trip;
mod schema;
