//! The objects in the bucket below one prefix, read and changed without any server: with curl, which signs requests
//! itself.

use std::path::Path;

use crate::{Program, s3};

const NAME: &str = "lifeboat";

/// All objects below `prefix/` in the tests' bucket.
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

    /// Uploads that were started and neither completed nor aborted, without the prefix.
    pub fn open_uploads(&self) -> Vec<String> {
        let listing = query(&format!("prefix={}%2F&uploads=", self.prefix));
        let all = listing.split("<Upload>").skip(1);
        let mine = all.flat_map(|upload| tagged(upload, "Key"));
        mine.filter(|key| key.starts_with(&self.prefix)).collect()
    }

    /// Downloads an object into a file.
    pub fn get(&self, key: &str, file: &Path) {
        curl().args(["--output", &file.to_string_lossy()]).arg(&self.url(key)).ok();
    }

    /// Uploads a file as an object.
    pub fn put(&self, key: &str, file: &Path) {
        let unsigned = "x-amz-content-sha256: UNSIGNED-PAYLOAD";
        curl().args(["-H", unsigned, "-T", &file.to_string_lossy()]).arg(&self.url(key)).ok();
    }

    /// Removes an object.
    pub fn delete(&self, key: &str) {
        curl().args(["-X", "DELETE"]).arg(&self.url(key)).ok();
    }

    fn url(&self, key: &str) -> String {
        format!("{}/{NAME}/{}/{key}", s3().endpoint, self.prefix)
    }
}

fn query(query: &str) -> String {
    curl().arg(&format!("{}/{NAME}?{query}", s3().endpoint)).ok()
}

/// The credentials are passed on standard input, because a failing test prints its command.
fn curl() -> Program {
    let s3 = s3();
    let keys = format!("user = \"{}:{}\"\n", s3.access_key, s3.secret_key);
    let provider = format!("aws:amz:{}:s3", s3.region);
    Program::new("curl")
        .args(["--silent", "--show-error", "--fail", "--config", "-", "--aws-sigv4", &provider])
        .input(&keys)
}

/// The texts between `<tag>` and its end.
fn tagged(text: &str, tag: &str) -> Vec<String> {
    let (start, end) = (format!("<{tag}>"), format!("</{tag}>"));
    text.split(&start).skip(1).filter_map(|rest| rest.split(&end).next()).map(str::to_owned).collect()
}
