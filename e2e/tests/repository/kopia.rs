//! Genuine kopia writes repositories in each combination of format version, hash, encryption, compression and error
//! correction that it offers; our program lists, checks and restores them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use lifeboat_e2e::tree::{Listing, Random, change};
use lifeboat_e2e::{Program, variable};
use rstest::rstest;
use tempfile::TempDir;

use super::directory;

const PASSWORD: &str = "correct horse";

/// A repository in a directory, and kopia's own files beside it.
struct Kopia {
    work: TempDir,
}

impl Kopia {
    /// Creates a repository.
    fn create(flags: &[&str]) -> Self {
        let kopia = Self { work: directory() };
        fs::create_dir(kopia.path("repository")).unwrap();
        let place = kopia.text("repository");
        kopia.kopia(&[&["repository", "create", "filesystem", "--path", &place], flags].concat());
        kopia
    }

    fn path(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A command of genuine kopia that must succeed.
    fn kopia(&self, arguments: &[&str]) -> String {
        self.program(arguments).ok()
    }

    fn program(&self, arguments: &[&str]) -> Program {
        Program::new(&variable("LIFEBOAT_KOPIA"))
            .env("KOPIA_CONFIG_PATH", &self.text("config"))
            .env("KOPIA_CACHE_DIRECTORY", &self.text("cache"))
            .env("KOPIA_LOG_DIR", &self.text("logs"))
            .env("KOPIA_PASSWORD", PASSWORD)
            .env("KOPIA_CHECK_FOR_UPDATES", "false")
            .args(arguments)
    }

    /// A command of ours that must succeed.
    fn ours(&self, arguments: &[&str]) -> String {
        Program::new(&variable("LIFEBOAT_BIN"))
            .arg("kopia")
            .env("KOPIA_REPOSITORY", &self.text("repository"))
            .env("KOPIA_PASSWORD", PASSWORD)
            .args(arguments)
            .ok()
    }

    /// Backs up a directory.
    fn snapshot(&self, source: &Path) {
        self.kopia(&["snapshot", "create", source.to_str().unwrap()]);
    }

    /// The latest snapshot is checked and restored, and is what it was made of.
    fn assert_restored(&self, expected: &Listing) {
        self.ours(&["check", "--read-data"]);
        let target = self.path("target");
        self.ours(&["restore", "latest", "--verify", "--target", target.to_str().unwrap()]);
        stored(expected.clone()).assert_same(&stored(Listing::of(&target)), "restored by us");
        fs::remove_dir_all(target).unwrap();
    }
}

/// What kopia stores: no attributes, no further names of a file. The root is the target itself.
fn stored(mut listing: Listing) -> Listing {
    listing.0.remove(Path::new(""));
    for entry in listing.0.values_mut() {
        entry.attributes = BTreeMap::new();
        entry.names = (1, PathBuf::new());
    }
    listing
}

fn source(work: &Path, seed: u64) -> PathBuf {
    let source = work.join("source");
    fs::create_dir_all(&source).unwrap();
    change(&source, &mut Random::new(seed), 150, 200_000);
    source
}

const HASHES: [&str; 11] = [
    "BLAKE2B-256",
    "BLAKE2B-256-128",
    "BLAKE2S-128",
    "BLAKE2S-256",
    "BLAKE3-256",
    "BLAKE3-256-128",
    "HMAC-SHA224",
    "HMAC-SHA256",
    "HMAC-SHA256-128",
    "HMAC-SHA3-224",
    "HMAC-SHA3-256",
];

/// Each version and cipher with each hash; the error correction differs from hash to hash. kopia cannot read version 1
/// with error correction.
#[rstest]
fn every_version_hash_and_encryption_is_restored(
    #[values("1", "2", "3")] version: &str,
    #[values("AES256-GCM-HMAC-SHA256", "CHACHA20-POLY1305-HMAC-SHA256")] encryption: &str,
) {
    for (number, hash) in HASHES.into_iter().enumerate() {
        let percent = if version == "1" { 0 } else { [0, 1, 2, 3, 5, 10, 50][number % 7] };
        let kopia = Kopia::create(&[
            &format!("--format-version={version}"),
            &format!("--block-hash={hash}"),
            &format!("--encryption={encryption}"),
            "--ecc=REED-SOLOMON-CRC32",
            &format!("--ecc-overhead-percent={percent}"),
        ]);
        let source = source(kopia.work.path(), number as u64);
        kopia.snapshot(&source);
        kopia.assert_restored(&Listing::of(&source));
    }
}

#[rstest]
fn every_compression_is_restored(#[values("1", "3")] version: &str) {
    let families = ["deflate", "gzip", "lz4", "pgzip", "s2", "zstd"];
    let kopia = Kopia::create(&[&format!("--format-version={version}")]);
    // kopia lists them where it refuses another one.
    let refused = kopia.program(&["policy", "set", "--global", "--compression=none-such"]).run();
    let listed = refused.stderr.split("must be one of ").nth(1).and_then(|text| text.split(", got").next());
    let names: Vec<&str> = listed
        .unwrap_or_default()
        .split(',')
        .filter(|name| families.iter().any(|family| name.starts_with(family)))
        .collect();
    assert!(families.iter().all(|family| names.iter().any(|name| name.starts_with(family))), "{names:?}");
    for (number, name) in names.iter().enumerate() {
        let source = source(&kopia.path(&format!("source-{number}")), number as u64);
        kopia.kopia(&["policy", "set", source.to_str().unwrap(), &format!("--compression={name}")]);
        kopia.snapshot(&source);
        kopia.assert_restored(&Listing::of(&source));
    }
}

/// A directory with so many entries, and a file with so many parts, that both are lists of lists or of parts.
#[rstest]
fn large_directories_and_files_are_restored(#[values("FIXED-128K", "DYNAMIC-1M-BUZHASH")] splitter: &str) {
    let kopia = Kopia::create(&[&format!("--object-splitter={splitter}")]);
    kopia.kopia(&["policy", "set", "--global", "--compression=zstd-fastest"]);
    let source = kopia.path("source");
    fs::create_dir(&source).unwrap();
    for number in 0..3000 {
        fs::write(source.join(format!("file number {number}")), number.to_string()).unwrap();
    }
    fs::write(source.join("random"), Random::new(1).bytes(20_000_000)).unwrap();
    fs::File::create(source.join("zeros")).unwrap().set_len(500_000_000).unwrap();
    kopia.snapshot(&source);
    kopia.assert_restored(&Listing::of(&source));
}

/// Snapshots are added and deleted, and kopia's maintenance rewrites and removes packs and indexes.
#[rstest]
fn after_maintenance_everything_is_still_restored(#[values("1", "3")] version: &str) {
    let kopia = Kopia::create(&[&format!("--format-version={version}")]);
    let source = kopia.path("source");
    fs::create_dir(&source).unwrap();
    let mut random = Random::new(9);
    for round in 0..8 {
        change(&source, &mut random, 40, 100_000);
        kopia.snapshot(&source);
        if round % 3 == 2 {
            let first = kopia.ours(&["snapshots", "--json"]);
            let snapshots: serde_json::Value = serde_json::from_str(first.trim()).unwrap();
            kopia.kopia(&["snapshot", "delete", "--delete", snapshots[0]["id"].as_str().unwrap()]);
            kopia.kopia(&["maintenance", "run", "--full", "--safety=none"]);
        }
    }
    kopia.assert_restored(&Listing::of(&source));
}

#[test]
fn a_block_device_is_restored_to_an_image() {
    let kopia = Kopia::create(&[]);
    let content = "block device ".repeat(50_000);
    Program::new(&variable("LIFEBOAT_KOPIA"))
        .env("KOPIA_CONFIG_PATH", &kopia.text("config"))
        .env("KOPIA_PASSWORD", PASSWORD)
        .env("KOPIA_LOG_DIR", &kopia.text("logs"))
        .args(["snapshot", "create", "--stdin-file=/a device", "/a device"])
        .input(&content)
        .ok();
    let image = kopia.path("image");
    fs::File::create(&image).unwrap().set_len(content.len() as u64).unwrap();
    kopia.ours(&["restore", "latest", "--verify", "--device", image.to_str().unwrap()]);
    assert!(fs::read_to_string(image).unwrap() == content);
}

#[test]
fn a_wrong_password_has_its_exit_code() {
    let kopia = Kopia::create(&[]);
    let output = Program::new(&variable("LIFEBOAT_BIN"))
        .args(["kopia", "snapshots", "--repo", &kopia.text("repository")])
        .env("KOPIA_PASSWORD", "wrong")
        .run();
    assert_eq!(output.code, 12, "{}", output.stderr);
    assert!(output.stderr.contains("velero-repo-credentials"), "{}", output.stderr);
}
