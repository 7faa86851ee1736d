//! Group `appcatalog.appscode.com`: AppBinding, which describes how to connect to a database or other
//! application.
//!
//! Stash's database addons, KubeDB and others share it; Lifeboat reads it and never writes to it.
#![allow(unreachable_pub, reason = "KubeSchema copies each struct, `pub` and all, into a function")]

mod app_binding;

pub use app_binding::{
    AddKeyTransform, AddKeysFromTransform, AppBinding, AppBindingSpec, ClientConfig, RemoveKeyTransform,
    RenameKeyTransform, SecretRef, SecretTransform, ServiceReference,
};

use crate::definition::Crd;
use crate::stash::Strict;

/// The API group of all kinds here.
pub const GROUP: &str = "appcatalog.appscode.com";

/// The CRDs of the group.
pub fn crds() -> Vec<Crd> {
    vec![Crd::of::<Strict<AppBinding>>()]
}
