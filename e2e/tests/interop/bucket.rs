//! Files of the bucket, read with curl: takes the name of a backup and returns its files and their content.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use lifeboat_e2e::{Program, s3, variable};
use serde_json::Value;
use tempfile::TempDir;

/// A backup's directory, copied to this machine.
pub(super) struct Files {
    name: String,
    directory: TempDir,
}

impl Files {
    pub(super) fn fetch(name: &str) -> Self {
        let prefix = format!("{}/backups/{name}/", variable("LIFEBOAT_PEER_PREFIX"));
        let listed = curl(&format!("lifeboat?list-type=2&prefix={}", prefix.replace('/', "%2F")), &[]);
        let files = Self { name: name.to_owned(), directory: tempfile::tempdir().unwrap() };
        for part in listed.split("<Key>").skip(1) {
            let key = part.split("</Key>").next().unwrap();
            let file = files.path(key.strip_prefix(&prefix).unwrap());
            curl(&format!("lifeboat/{key}"), &["--output", &file.to_string_lossy()]);
        }
        files
    }

    fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    /// The files, with `NAME` for the name of the backup.
    pub(super) fn names(&self) -> Vec<String> {
        names(self.directory.path(), &self.name)
    }

    /// A JSON file, `NAME` in its name.
    pub(super) fn json(&self, file: &str) -> Value {
        let path = self.path(&file.replace("NAME", &self.name));
        let path = path.to_string_lossy();
        let text =
            if path.ends_with(".gz") { Program::new("gzip").args(["-dc", &path]).ok() } else { read(&path) };
        serde_json::from_str(&text).unwrap()
    }

    /// The entries of the archive, in their order.
    pub(super) fn entries(&self) -> Vec<String> {
        Program::new("tar").args(["tzf", &self.archive()]).ok().lines().map(str::to_owned).collect()
    }

    /// The objects in the archive, by entry.
    pub(super) fn objects(&self) -> BTreeMap<String, Value> {
        let unpacked = tempfile::tempdir().unwrap();
        Program::new("tar").args(["xzf", &self.archive(), "-C", &unpacked.path().to_string_lossy()]).ok();
        let object = |entry: &String| {
            serde_json::from_str(&read(&unpacked.path().join(entry).to_string_lossy())).unwrap()
        };
        let entries = self.entries().into_iter().filter(|entry| entry.starts_with("resources/"));
        entries.map(|entry| (entry.clone(), object(&entry))).collect()
    }

    fn archive(&self) -> String {
        self.path(&format!("{}.tar.gz", self.name)).to_string_lossy().into_owned()
    }
}

/// Names of files, with `NAME` for `name`.
pub(super) fn names(directory: &Path, name: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut all: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().replace(name, "NAME")).collect();
    all.sort();
    all
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap()
}

/// Credentials are passed on standard input, not in arguments.
fn curl(path: &str, arguments: &[&str]) -> String {
    let storage = s3();
    let user = format!("user = \"{}:{}\"\n", storage.access_key, storage.secret_key);
    Program::new("curl")
        .args(["--silent", "--show-error", "--fail", "--config", "-", "--aws-sigv4"])
        .arg(&format!("aws:amz:{}:s3", storage.region))
        .args(arguments)
        .arg(&format!("{}/{path}", storage.endpoint))
        .input(&user)
        .ok()
}
