//! The test images: takes a recipe and returns its archive, from the machine's cache or built with mmdebstrap from the
//! machine's own apt sources. The cache is outside the checkout, so all clones on the machine share it.
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::layer::EPOCH;
use super::lifeboat::megabytes;
use super::oci::{self, Image, Layer};
use super::{progress, sources};
use crate::apt::apt_install;
use crate::run;

const CACHE: &str = "/var/cache/lifeboat-box/images";

const OPTIONS: &[&str] = &[
    "--variant=minbase",
    "--format=tar",
    "--aptopt=APT::Install-Recommends \"0\"",
    "--dpkgopt=force-unsafe-io",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/info/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
];

/// Removes what depends on this machine or on the time of installation: names, sources, logs, caches, dates.
const CLEAN: &str = r"
rm -f etc/apt/sources.list etc/apt/sources.list.d/* etc/apt/apt.conf.d/99mmdebstrap
rm -f etc/dpkg/dpkg.cfg.d/99mmdebstrap etc/hostname etc/resolv.conf etc/machine-id var/lib/dbus/machine-id
rm -rf var/cache/* var/lib/apt/lists/* usr/share/lintian
rm -f var/lib/dpkg/*-old etc/passwd- etc/group- etc/shadow- etc/gshadow-
find var/log -type f -delete
sed -i -E 's/^([^:]*:[^:]*):[0-9]+:/\1:19723:/' etc/shadow
";

/// A test image as data: what is installed, removed and added. See `recipes.rs`.
pub(super) struct Recipe {
    pub(super) name: &'static str,
    pub(super) reference: &'static str,
    /// Comma-separated groups.
    pub(super) packages: &'static [&'static str],
    /// Shell commands, run in the root of the image.
    pub(super) clean: &'static str,
    /// Path in the image and text.
    pub(super) scripts: &'static [(&'static str, &'static str)],
}

pub(super) fn build(recipe: &Recipe) -> Result<PathBuf> {
    let suite = codename(&fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?)?;
    let directory = cache()?.join(key(recipe, &suite)?);
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let lock = directory.join("lock");
    let lock = File::create(&lock).with_context(|| format!("cannot create {}", lock.display()))?;
    lock.lock().context("cannot wait for another clone that builds this image")?;
    let archive = directory.join(format!("{}.tar", recipe.name));
    if archive.exists() {
        progress(&format!("{} is in the cache", recipe.reference));
        return Ok(archive);
    }
    let work = directory.join("work");
    remove(&work)?; // of a run that was killed
    fs::create_dir(&work).with_context(|| format!("cannot create {}", work.display()))?;
    let made = make(recipe, &suite, &work, &archive);
    remove(&work)?;
    made.map(|()| archive)
}

fn make(recipe: &Recipe, suite: &str, work: &Path, archive: &Path) -> Result<()> {
    apt_install(&["mmdebstrap"])?;
    progress(&format!(
        "building {} from Debian packages ({suite}); this takes a minute or two",
        recipe.reference
    ));
    let layer = bootstrap(recipe, suite, work)?;
    let image = Image {
        reference: recipe.reference,
        architecture: run::architecture()?,
        config: json!({
            "Cmd": ["/bin/bash"],
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "WorkingDir": "/",
            "Labels": { "org.opencontainers.image.title": format!("Lifeboat test image: {}", recipe.name) },
        }),
        layer: Layer::plain(&layer)?,
    };
    oci::write(image, archive)?;
    let size = fs::metadata(archive).with_context(|| format!("cannot read {}", archive.display()))?.len();
    progress(&format!("{}: {:.0} MB", recipe.reference, megabytes(size)));
    Ok(())
}

/// Runs mmdebstrap; returns the tar of the image's files.
fn bootstrap(recipe: &Recipe, suite: &str, work: &Path) -> Result<PathBuf> {
    let file = |name: &str, text: &str| {
        let path = work.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display())).map(|()| path)
    };
    let hook = file("customize.sh", &customize(recipe))?;
    let sources = sources::of_machine(Path::new("/etc/apt"), suite)?;
    let layer = work.join("layer.tar");
    let mut command = mmdebstrap();
    command
        .args(OPTIONS)
        .arg(format!("--include={}", recipe.packages.join(",")))
        .arg(format!("--customize-hook=sh -eu '{}' \"$1\"", hook.display()))
        .arg(suite)
        .arg(&layer)
        .env("SOURCE_DATE_EPOCH", EPOCH.to_string())
        .env("TMPDIR", work);
    for (name, text) in [("machine.list", &sources.one_line), ("machine.sources", &sources.deb822)] {
        if !text.is_empty() {
            command.arg(file(name, text)?);
        }
    }
    run::run(&mut command)?;
    Ok(layer)
}

/// As root, mmdebstrap mounts /proc and /sys of the machine into the tree it builds. In its own namespaces, mounts and
/// processes vanish when it ends; otherwise a killed run would leave mounts that [`remove`] would descend into.
fn mmdebstrap() -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new("mmdebstrap"); // makes its own namespaces
    }
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--propagation=private",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "mmdebstrap",
    ]);
    command
}

/// The shell script that finishes the image; its argument is the image's root.
fn customize(recipe: &Recipe) -> String {
    let mut text = format!("cd \"$1\"\n{CLEAN}{}", recipe.clean);
    for (path, script) in recipe.scripts {
        let _ = write!(text, "cat > {path} <<'END-OF-SCRIPT'\n{script}END-OF-SCRIPT\nchmod 755 {path}\n");
    }
    text
}

/// A hash of everything that determines the content, except the package versions of the day.
fn key(recipe: &Recipe, suite: &str) -> Result<String> {
    let packages = recipe.packages.join(",");
    let parts =
        [suite, run::architecture()?, recipe.reference, &packages, &OPTIONS.join("\n"), &customize(recipe)];
    Ok(run::hex(&Sha256::digest(parts.join("\0")))[..16].to_owned())
}

/// The machine's cache, or the user's if that is not writable.
fn cache() -> Result<PathBuf> {
    match fs::create_dir_all(CACHE) {
        Ok(()) => Ok(PathBuf::from(CACHE)),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let home = std::env::home_dir().context("no home directory to keep images in")?;
            Ok(home.join(".cache/lifeboat-box/images"))
        }
        Err(error) => Err(error).with_context(|| format!("cannot create {CACHE}")),
    }
}

fn codename(os_release: &str) -> Result<String> {
    let name = os_release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let name = name.map(|name| name.trim_matches('"')).filter(|name| !name.is_empty());
    let name =
        name.context("/etc/os-release names no VERSION_CODENAME: the test images need Debian or Ubuntu")?;
    Ok(name.to_owned())
}

fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::image::recipes;

    #[test]
    fn another_release_or_recipe_is_another_place_in_the_cache() {
        let key = |recipe, suite| super::key(recipe, suite).unwrap();
        let debian = key(&recipes::DEBIAN, "bookworm");
        assert_eq!(debian, key(&recipes::DEBIAN, "bookworm"));
        assert_ne!(debian, key(&recipes::DEBIAN, "trixie"));
        assert_ne!(debian, key(&recipes::DATABASES, "bookworm"));
    }

    #[test]
    fn the_release_is_read_from_os_release() {
        assert_eq!(codename("ID=debian\nVERSION_CODENAME=bookworm\n").unwrap(), "bookworm");
        assert_eq!(codename("VERSION_CODENAME=\"noble\"\n").unwrap(), "noble");
        assert!(codename("ID=arch\n").is_err());
    }

    #[test]
    fn the_scripts_are_valid_shell() {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in recipes::DATABASES.scripts {
            let path = directory.path().join(name.replace('/', "-"));
            std::fs::write(&path, text).unwrap();
            assert!(Command::new("sh").arg("-n").arg(&path).status().unwrap().success(), "{name}");
        }
    }
}
