//! Object storage: S3, Google Cloud Storage, Azure, restic's REST server and a local directory.
//!
//! `open` turns the settings of a BackupStorageLocation into a [`Store`]; `probe` validates it. A `Store` is built on
//! the trait [`Backend`], whose methods are single requests and whose documentation states what storage must
//! guarantee, with layers around it (retry, limit, observer, and faults in tests). With the feature `testing`, every
//! backend and layer is checked by [`testing::conformance`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod backend;
mod backends;
mod config;
mod credentials;
mod error;
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
pub use key::Key;
pub use layers::bandwidth::Bandwidth;
pub use layers::retry::RetryPolicy;
pub use open::{RestConfig, open};
pub use probe::{LOCATION_DIRECTORIES, probe};
pub use store::{Directory, Store, Tuning};
