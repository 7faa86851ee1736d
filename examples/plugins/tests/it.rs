//! The examples as real processes under our host and, for `cargo xtask test plugins`, under Velero's own code.

mod host;
#[cfg(feature = "go-plugins")]
mod velero;
