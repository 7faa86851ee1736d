//! Tests that need no real object store: the conformance suite over memory, directory and layers; the behaviour of
//! the layers; and the requests as they are sent, against a small HTTP and TLS server.
#![allow(clippy::unwrap_used, clippy::panic)]

#[cfg(feature = "real-rest")]
mod rest;
#[cfg(feature = "real-s3")]
mod s3;

mod it {
    mod bandwidth;
    mod conformance;
    mod errors;
    mod layers;
    mod local;
    mod probe;
    mod rest;
    mod roles;
    pub(crate) mod server;
    mod tenant;
    mod tls;
    mod wire;
}
