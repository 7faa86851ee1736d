//! Programs of others that tests run for real, built from source through Go's modules. They are built and kept as the
//! box's own programs are: outside the checkout, under a hash of what they were made from, so that every clone shares
//! them. `cargo xtask test` calls this. helm is `cluster_box::tool`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cluster_box::programs::{Group, go, go_build, provide};
use crate::run;

const VELERO: Group = Group {
    name: "velero",
    source: "e2e/programs/velero",
    make: make_velero,
    about: "the stock Velero command line (about 3 minutes)",
};

const VELERO_MODULE: &str = "github.com/vmware-tanzu/velero";

/// The stock Velero command line; builds it if it is not in the cache.
pub(crate) fn velero() -> Result<PathBuf> {
    Ok(provide(&VELERO)?.join("velero"))
}

/// Upstream's own custom resource definitions, in the module that the command line is built from.
pub(crate) fn velero_crds() -> Result<PathBuf> {
    let source = run::checkout().join(VELERO.source);
    let text = run::output(go(&source).args(["mod", "download", "-json", VELERO_MODULE]))?;
    let module: serde_json::Value =
        serde_json::from_str(&text).context("cannot read what go mod download printed")?;
    let directory = module["Dir"].as_str().context("go mod download named no directory")?;
    Ok(Path::new(directory).join("config/crd"))
}

/// Without a version of its own the client warns about every server; `go.mod` says which it is.
fn make_velero(source: &Path, out: &Path) -> Result<()> {
    let version = run::output(go(source).args(["list", "-m", "-f", "{{.Version}}", VELERO_MODULE]))?;
    let flags = format!("-X {VELERO_MODULE}/pkg/buildinfo.Version={}", version.trim());
    go_build(source, &flags, &out.join("velero"), &[&format!("{VELERO_MODULE}/cmd/velero")])
}
