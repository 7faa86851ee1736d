//! Object storage: S3, Google Cloud Storage, Azure, restic's REST server and a local directory.
//!
//! `open` turns the settings of a BackupStorageLocation into a [`Store`]; `probe` validates it. A `Store` is built on
//! the trait [`Backend`], whose methods are single requests and whose documentation states what storage must
//! guarantee, with layers around it (retry, limit, observer, and faults in tests). With the feature `testing`, every
//! backend and layer is checked by [`testing::conformance`].
//!
//! `open_for_tenant` opens storage that a tenant describes: with the given credentials only, at no address of the machine
//! itself ([`Guard`]), and without showing what the server answers.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod backend;
mod backends;
mod config;
mod credentials;
mod error;
mod guard;
mod http;
mod key;
pub mod layers;
mod open;
mod probe;
mod store;
#[cfg(feature = "testing")]
pub mod testing;

pub use backend::{Backend, ObjectInfo, ReadOptions, Reading};
pub use backends::local::{Local, abandon_unfinished};
pub use backends::memory::Memory;
pub use config::{Environment, Files, Provider, StoreConfig, Tls, ValidConfig};
pub use error::{BadCertificate, BadCredentials, Error, Result, Retry, Unreachable};
pub use guard::Guard;
pub use key::Key;
pub use layers::bandwidth::Bandwidth;
pub use layers::outage::{Away, Outage};
pub use layers::retry::RetryPolicy;
pub use open::{RestConfig, open, open_for_tenant};
pub use probe::{LOCATION_DIRECTORIES, probe};
pub use store::{Directory, Store, Tuning};
