//! The `lifeboat` image: takes the workspace and a cargo profile and returns the archive in the target directory.
//! Builds the program statically and refuses one that is not, because the image contains no loader.
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::layer::{Owner, ROOT, Tree};
use super::oci::{self, Image, Layer};
use super::{LIFEBOAT, Profile, host_files, program, progress};
use crate::run;

/// The maximum size of the archive, from issue 3.
const LIMIT: u64 = 40_000_000;
/// The user that runs the program; above every number that a distribution assigns.
const USER: Owner = Owner(65532);

/// `--tag` as a full reference.
pub(super) fn reference(tag: &str) -> Result<String> {
    let (name, _) = LIFEBOAT.split_once(':').context("the default reference has a tag")?;
    let (name, tag) = match tag.rsplit_once(':') {
        Some((name, tag)) => (name, tag),
        None => (name, tag),
    };
    let word = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let lower = |c: char| (word(c) && !c.is_ascii_uppercase()) || "/:".contains(c);
    if tag.is_empty() || tag.starts_with(['.', '-']) || !tag.chars().all(word) || tag.len() > 128 {
        bail!("'{tag}' is not an image tag: letters, digits, '.', '_' and '-' only");
    }
    if !name.contains('/') || !name.chars().all(lower) {
        bail!("'{name}' is not a full image name: write HOST/NAME:TAG, in lower case");
    }
    Ok(format!("{name}:{tag}"))
}

/// Builds the program if needed, then the archive.
pub(super) fn build(profile: Profile, reference: &str) -> Result<PathBuf> {
    pack(&program::build("lifeboat", profile)?, profile, reference)
}

/// Makes the archive of an existing program.
pub(super) fn pack(program: &Path, profile: Profile, reference: &str) -> Result<PathBuf> {
    let architecture = run::architecture()?;
    program::require_static(program)?;
    let program = fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    let layer = Layer::gzip(&tree(program)?.to_tar()?)?;
    let directory = run::target_directory()?.join("images").join(profile.name());
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let archive = directory.join("lifeboat.tar");
    oci::write(Image { reference, architecture, config: config(), layer }, &archive)?;
    let size = check_size(&archive)?;
    progress(&format!("{reference}: {:.1} MB", megabytes(size)));
    Ok(archive)
}

/// Builds the program if needed, without an image; returns its path.
pub(super) fn binary(profile: Profile) -> Result<PathBuf> {
    program::build("lifeboat", profile)
}

fn tree(program: Vec<u8>) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.file("lifeboat", 0o755, program);
    tree.file("etc/passwd", 0o644, passwd().into_bytes());
    tree.file("etc/group", 0o644, group().into_bytes());
    tree.file("etc/ssl/certs/ca-certificates.crt", 0o644, host_files::ca_bundle()?);
    for (name, content) in host_files::zones()? {
        tree.file(&format!("usr/share/zoneinfo/{name}"), 0o644, content);
    }
    tree.directory("tmp", 0o1777, ROOT);
    tree.directory("plugins", 0o755, USER);
    Ok(tree)
}

fn passwd() -> String {
    let user = USER.0;
    format!(
        "root:x:0:0:root:/:/sbin/nologin\n\
         lifeboat:x:{user}:{user}:lifeboat:/tmp:/sbin/nologin\n\
         nobody:x:65534:65534:nobody:/:/sbin/nologin\n"
    )
}

fn group() -> String {
    format!("root:x:0:\nlifeboat:x:{}:\nnogroup:x:65534:\n", USER.0)
}

fn config() -> Value {
    let user = USER.0;
    json!({
        "User": format!("{user}:{user}"),
        "Entrypoint": ["/lifeboat"],
        "Env": ["PATH=/"],
        "WorkingDir": "/",
        "Labels": {
            "org.opencontainers.image.title": "lifeboat",
            "org.opencontainers.image.description": "Backup and recovery for applications on Kubernetes",
            "org.opencontainers.image.version": env!("CARGO_PKG_VERSION"),
            "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
        },
    })
}

fn check_size(archive: &Path) -> Result<u64> {
    let size = fs::metadata(archive).with_context(|| format!("cannot read {}", archive.display()))?.len();
    if size >= LIMIT {
        bail!("{} has {:.1} MB; the limit is {:.0} MB", archive.display(), megabytes(size), megabytes(LIMIT));
    }
    Ok(size)
}

#[allow(clippy::cast_precision_loss)] // for people
pub(super) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_image_holds_what_the_program_needs_and_nothing_else() {
        let tar = tree(b"program".to_vec()).unwrap().to_tar().unwrap();
        let mut archive = tar::Archive::new(tar.as_slice());
        let mut others = Vec::new();
        for entry in archive.entries().unwrap() {
            let path = entry.unwrap().path().unwrap().display().to_string();
            if !path.starts_with("usr/share/zoneinfo/") {
                others.push(path);
            }
        }
        let expected = "etc/ etc/group etc/passwd etc/ssl/ etc/ssl/certs/ etc/ssl/certs/ca-certificates.crt \
                        lifeboat plugins/ tmp/ usr/ usr/share/";
        assert_eq!(others.join(" "), expected);
    }

    #[test]
    fn an_archive_at_the_limit_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lifeboat.tar");
        let file = fs::File::create(&path).unwrap();
        file.set_len(LIMIT - 1).unwrap();
        assert_eq!(check_size(&path).unwrap(), LIMIT - 1);
        file.set_len(LIMIT).unwrap();
        assert!(check_size(&path).unwrap_err().to_string().contains("the limit is 40 MB"));
    }

    #[test]
    fn a_tag_becomes_a_full_reference() {
        assert_eq!(reference("dev").unwrap(), LIFEBOAT);
        assert_eq!(reference("1.0-rc.1").unwrap(), "localhost/lifeboat:1.0-rc.1");
        assert_eq!(reference("registry.example:5000/a/b:1").unwrap(), "registry.example:5000/a/b:1");
        for wrong in ["", "a b", "lifeboat:1", "HOST/lifeboat:1", "registry.example/lifeboat", "x:"] {
            assert!(reference(wrong).is_err(), "{wrong}");
        }
    }
}
