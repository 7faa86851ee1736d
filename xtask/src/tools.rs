//! Other projects' programs that tests and comparisons run, built from source through Go's modules or taken from a
//! Debian package. Like the box's own programs they are cached outside the checkout under a hash of their inputs, so
//! that all clones share them. `cargo xtask test` and `bench` call this. helm is `cluster_box::tool`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cluster_box::programs::{Group, go, go_build, provide};
use crate::{apt, run};

const VELERO: Group = Group {
    name: "velero",
    source: "e2e/programs/velero",
    make: make_velero,
    about: "genuine Velero (about 3 minutes)",
};

/// Waits in restored pods. Its name does not begin with `velero-`: see DEBIAN_RESTIC.
const RESTORE_HELPER: Group = Group {
    name: "restore-helper",
    source: "e2e/programs/velero",
    make: make_restore_helper,
    about: "Velero's helper for restores",
};

/// Its directory contains nothing else, because it is the plugin directory of Velero's server.
const AWS_PLUGIN: Group = Group {
    name: "aws-plugin",
    source: "e2e/programs/aws-plugin",
    make: make_aws_plugin,
    about: "Velero's plugin for S3 (about a minute)",
};

/// Our plugins on Velero's own framework, and Velero's own plugin host.
const RECORDER: Group = Group {
    name: "recorder-plugin",
    source: "e2e/plugins/recorder",
    make: make_recorder,
    about: "the recording plugins",
};

const RESTIC: Group =
    Group { name: "restic", source: "e2e/programs/restic", make: make_restic, about: "restic" };

/// The cache distinguishes groups by their name and a dash, so no name may be the beginning of another one.
const DEBIAN_RESTIC: Group = Group {
    name: "debian-restic",
    source: "e2e/programs/debian-restic",
    make: make_debian_restic,
    about: "the restic that Debian 12 ships",
};

const REST_SERVER: Group = Group {
    name: "rest-server",
    source: "e2e/programs/rest-server",
    make: make_rest_server,
    about: "restic's REST server",
};

const KOPIA: Group =
    Group { name: "kopia", source: "e2e/programs/kopia", make: make_kopia, about: "kopia (about 2 minutes)" };

const VELERO_MODULE: &str = "github.com/vmware-tanzu/velero";
const KOPIA_MODULE: &str = "github.com/kopia/kopia";

/// Genuine Velero, command line and server in one program; built if it is not in the cache.
pub(crate) fn velero() -> Result<PathBuf> {
    Ok(provide(&VELERO)?.join("velero"))
}

/// The program of the init container in which pods restored by Velero wait for their data.
pub(crate) fn velero_restore_helper() -> Result<PathBuf> {
    Ok(provide(&RESTORE_HELPER)?.join("velero-restore-helper"))
}

/// The directory with Velero's own plugin for S3.
pub(crate) fn velero_plugins() -> Result<PathBuf> {
    provide(&AWS_PLUGIN)
}

/// The plugins that record their requests.
pub(crate) fn recorder_plugin() -> Result<PathBuf> {
    Ok(provide(&RECORDER)?.join("recorder"))
}

/// A restore action that applies to everything and changes nothing.
pub(crate) fn everything_plugin() -> Result<PathBuf> {
    Ok(provide(&RECORDER)?.join("everything"))
}

/// The program that copies a plugin out of its image.
pub(crate) fn plugin_copier() -> Result<PathBuf> {
    Ok(provide(&RECORDER)?.join("cp-plugin"))
}

/// Velero's plugin code as a program.
pub(crate) fn velero_host() -> Result<PathBuf> {
    Ok(provide(&RECORDER)?.join("velerohost"))
}

/// Genuine restic, in the version whose format we write.
pub(crate) fn restic() -> Result<PathBuf> {
    Ok(provide(&RESTIC)?.join("restic"))
}

/// restic 0.14, the oldest version that distributions still ship: it writes formats v1 and v2.
pub(crate) fn debian_restic() -> Result<PathBuf> {
    Ok(provide(&DEBIAN_RESTIC)?.join("restic"))
}

/// restic's own server for repositories over HTTP.
pub(crate) fn rest_server() -> Result<PathBuf> {
    Ok(provide(&REST_SERVER)?.join("rest-server"))
}

pub(crate) fn kopia() -> Result<PathBuf> {
    Ok(provide(&KOPIA)?.join("kopia"))
}

/// Velero's own custom resource definitions, from the module that its command line is built from.
pub(crate) fn velero_crds() -> Result<PathBuf> {
    let source = run::checkout().join(VELERO.source);
    let text = run::output(go(&source).args(["mod", "download", "-json", VELERO_MODULE]))?;
    let module: serde_json::Value =
        serde_json::from_str(&text).context("cannot read what go mod download printed")?;
    let directory = module["Dir"].as_str().context("go mod download named no directory")?;
    Ok(Path::new(directory).join("config/crd"))
}

/// Without a version the client warns about every server; the version is read from `go.mod`.
fn make_velero(source: &Path, out: &Path) -> Result<()> {
    let flags = format!("-X {VELERO_MODULE}/pkg/buildinfo.Version={}", version(source, VELERO_MODULE)?);
    go_build(source, &flags, &out.join("velero"), &[&format!("{VELERO_MODULE}/cmd/velero")])
}

fn make_restore_helper(source: &Path, out: &Path) -> Result<()> {
    let package = format!("{VELERO_MODULE}/cmd/velero-restore-helper");
    go_build(source, "", &out.join("velero-restore-helper"), &[&package])
}

fn make_aws_plugin(source: &Path, out: &Path) -> Result<()> {
    let package = "github.com/vmware-tanzu/velero-plugin-for-aws/velero-plugin-for-aws";
    go_build(source, "", &out.join("velero-plugin-for-aws"), &[package])
}

fn make_recorder(source: &Path, out: &Path) -> Result<()> {
    go_build(source, "", &out.join("recorder"), &["."])?;
    go_build(source, "", &out.join("velerohost"), &["./velerohost"])?;
    go_build(source, "", &out.join("cp-plugin"), &["./cp-plugin"])?;
    go_build(source, "", &out.join("everything"), &["./everything"])
}

fn make_restic(source: &Path, out: &Path) -> Result<()> {
    go_build(source, "", &out.join("restic"), &["github.com/restic/restic/cmd/restic"])
}

fn make_rest_server(source: &Path, out: &Path) -> Result<()> {
    go_build(source, "", &out.join("rest-server"), &["github.com/restic/rest-server/cmd/rest-server"])
}

fn make_kopia(source: &Path, out: &Path) -> Result<()> {
    let flags = format!("-X {KOPIA_MODULE}/repo.BuildVersion={}", version(source, KOPIA_MODULE)?);
    go_build(source, &flags, &out.join("kopia"), &[KOPIA_MODULE])
}

/// The version of a module that `go.mod` names.
fn version(source: &Path, module: &str) -> Result<String> {
    Ok(run::output(go(source).args(["list", "-m", "-f", "{{.Version}}", module]))?.trim().to_owned())
}

/// Extracts the program from its Debian package, which is not installed.
fn make_debian_restic(source: &Path, out: &Path) -> Result<()> {
    let wanted = fs::read_to_string(source.join("package")).context("cannot read the package's name")?;
    let (package, version) = wanted.trim().split_once(' ').context("expected a package and its version")?;
    apt::unpack(package, &out.join("unpacked"))?;
    let program = out.join("restic");
    fs::rename(out.join("unpacked/usr/bin/restic"), &program).context("the package contains no restic")?;
    fs::remove_dir_all(out.join("unpacked"))?;
    let found = run::output(Command::new(&program).arg("version"))?;
    if !found.starts_with(&format!("restic {version}.")) {
        bail!(
            "the tests read repositories of restic {version}, which Debian 12 ships; the apt sources of this machine \
             have {:?}",
            found.trim()
        );
    }
    Ok(())
}
