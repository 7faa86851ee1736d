//! The kinds of both APIs, as their users and their upstreams write them.

mod stash;
mod velero;
