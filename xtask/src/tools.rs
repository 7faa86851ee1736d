//! Programs of others that tests run for real, built from source through Go's modules and kept outside the checkout.

use std::path::PathBuf;

use anyhow::Result;

/// The stock Velero command line.
pub(crate) fn velero() -> Result<PathBuf> {
    anyhow::bail!("not there")
}
