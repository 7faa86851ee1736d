//! What kinds of all groups share: Go durations, string enums that survive unknown values, the Kubernetes
//! types our objects embed, and small schema helpers for the derives.
//!
//! Used by `velero` and `stash` here, and by all code that reads a duration or a phase from their objects.

mod duration;
mod identity;
pub mod names;
mod refs;
mod schema;
mod string_enum;
pub mod time;

pub use duration::{GoDuration, ParseDurationError};
pub use identity::{BackupUid, LocationName, NamespaceName, RepositoryName, StorageName, TaskId};
pub use k8s_openapi::ByteString;
pub use k8s_openapi::api::core::v1::{ObjectReference, TypedLocalObjectReference};
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
pub use refs::SecretKeySelector;
pub(crate) use schema::{atomic, atomic_items, base64_bytes};
pub(crate) use string_enum::string_enum;
