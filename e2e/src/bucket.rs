//! What is in the bucket under one prefix, seen and changed past every server: with curl, which signs requests itself.

use std::fs;
use std::path::Path;

use crate::{Program, s3};

const NAME: &str = "lifeboat";

/// Everything below `prefix/` in the tests' bucket.
#[derive(Clone, Debug)]
pub struct Bucket {
    prefix: String,
}

impl Bucket {
    pub fn below(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// The keys, without the prefix.
    pub fn keys(&self) -> Vec<String> {
        let listing = query(&format!("list-type=2&prefix={}%2F", self.prefix));
        let start = format!("{}/", self.prefix);
        tagged(&listing, "Key").iter().filter_map(|key| key.strip_prefix(&start)).map(str::to_owned).collect()
    }

    /// Uploads that were begun and neither finished nor given up, without the prefix.
    pub fn open_uploads(&self) -> Vec<String> {
        let listing = query(&format!("prefix={}%2F&uploads=", self.prefix));
        let all = listing.split("<Upload>").skip(1);
        let mine = all.flat_map(|upload| tagged(upload, "Key"));
        mine.filter(|key| key.starts_with(&self.prefix)).collect()
    }

    /// Copies an object into a file.
    pub fn get(&self, key: &str, file: &Path) {
        curl().args(["--output", &file.to_string_lossy()]).arg(&self.url(key)).ok();
    }

    /// Makes an object of a file.
    pub fn put(&self, key: &str, file: &Path) {
        let data = format!("@{}", file.display());
        let kind = "Content-Type: application/octet-stream";
        curl().args(["-X", "PUT", "-H", kind, "--data-binary", &data]).arg(&self.url(key)).ok();
    }

    /// Replaces an object by these bytes.
    pub fn put_bytes(&self, key: &str, bytes: &[u8]) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        self.put(key, file.path());
    }

    fn url(&self, key: &str) -> String {
        format!("{}/{NAME}/{}/{key}", s3().endpoint, self.prefix)
    }
}

fn query(query: &str) -> String {
    curl().arg(&format!("{}/{NAME}?{query}", s3().endpoint)).ok()
}

fn curl() -> Program {
    let s3 = s3();
    Program::new("curl").args([
        "--silent",
        "--show-error",
        "--fail",
        "--aws-sigv4",
        &format!("aws:amz:{}:s3", s3.region),
        "--user",
        &format!("{}:{}", s3.access_key, s3.secret_key),
    ])
}

/// The texts between `<tag>` and its end.
fn tagged(text: &str, tag: &str) -> Vec<String> {
    let (start, end) = (format!("<{tag}>"), format!("</{tag}>"));
    text.split(&start).skip(1).filter_map(|rest| rest.split(&end).next()).map(str::to_owned).collect()
}
