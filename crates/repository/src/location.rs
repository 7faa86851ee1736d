//! The location of a repository in restic's syntax (`/srv/repo`, `s3:https://host/bucket/path`,
//! `rest:https://host/`), and how to open a `Store` there. `parse` is pure; the only secret that it handles is the
//! password in a REST URL. Everything else is passed in `OpenSettings`: the environment as a map, `-o` options,
//! certificates, limits. Called by the command line.

mod options;
mod s3;
mod settings;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use lifeboat_store::{Local, Store};
use secrecy::SecretString;
use url::Url;

use crate::error::{Error, Result};

pub use settings::OpenSettings;

/// The location of a repository.
#[derive(Debug, Clone)]
pub struct Location {
    address: StoreAddress,
}

#[derive(Debug, Clone)]
enum StoreAddress {
    Local(PathBuf),
    S3(s3::Bucket),
    Google { bucket: String, prefix: String },
    Azure { container: String, prefix: String },
    Rest { url: Url, user: Option<String>, password: Option<SecretString> },
}

impl Location {
    /// Parses a location. Pure: no network or file access.
    pub fn parse(text: &str) -> Result<Self> {
        if text.trim().is_empty() {
            return Err(Error::invalid(
                "the repository's location",
                "it is empty; set --repo or RESTIC_REPOSITORY",
            ));
        }
        if text.contains('\0') {
            return Err(bad(text, "it contains a NUL character"));
        }
        let address = match text.split_once(':') {
            _ if is_path(text) => StoreAddress::Local(text.into()),
            None => StoreAddress::Local(text.into()),
            Some(("local", path)) => local(text, path)?,
            Some(("file", rest)) => file_url(text, rest)?,
            Some(("s3", rest)) => StoreAddress::S3(s3::Bucket::parse(text, rest)?),
            Some(("gs", rest)) => {
                let (bucket, prefix) = bucket_and_prefix(text, rest, "gs:BUCKET:/PREFIX")?;
                StoreAddress::Google { bucket, prefix }
            }
            Some(("azure", rest)) => {
                let (container, prefix) = bucket_and_prefix(text, rest, "azure:CONTAINER:/PREFIX")?;
                StoreAddress::Azure { container, prefix }
            }
            Some(("rest", rest)) => rest_url(text, rest)?,
            Some((scheme, rest)) => return Err(refused(text, scheme, rest)),
        };
        Ok(Self { address })
    }

    /// Opens the store, named after the location; nothing is created.
    pub async fn open(&self, settings: &OpenSettings) -> Result<Store> {
        Ok(self.opened(settings).await?.with_name(&self.to_string()))
    }

    /// Opens the store for `init`: creates the directory, or the repository on the REST server. A bucket must exist.
    pub async fn create(&self, settings: &OpenSettings) -> Result<Store> {
        Ok(self.created(settings).await?.with_name(&self.to_string()))
    }

    /// The text before the colon, which is also the prefix of the backend's `-o` options.
    pub fn scheme(&self) -> &'static str {
        match &self.address {
            StoreAddress::Local(_) => "local",
            StoreAddress::S3(_) => "s3",
            StoreAddress::Google { .. } => "gs",
            StoreAddress::Azure { .. } => "azure",
            StoreAddress::Rest { .. } => "rest",
        }
    }

    /// The directory, if the repository is in one.
    pub fn directory(&self) -> Option<&std::path::Path> {
        match &self.address {
            StoreAddress::Local(path) => Some(path),
            _ => None,
        }
    }

    async fn opened(&self, settings: &OpenSettings) -> Result<Store> {
        settings.check(self.scheme())?;
        match &self.address {
            StoreAddress::Local(path) => self.local(Local::new(path.clone()), settings),
            StoreAddress::Rest { .. } => {
                let config = self.rest(settings)?;
                config.open(settings.tuning(self.scheme())?).map_err(self.failed("open"))
            }
            _ => {
                let (config, environment) = self.config(settings)?;
                settings.open(self.scheme(), config, environment).await.map_err(|error| match error {
                    Error::Store { source, .. } => self.failed("open")(source),
                    other => other,
                })
            }
        }
    }

    async fn created(&self, settings: &OpenSettings) -> Result<Store> {
        settings.check(self.scheme())?;
        match &self.address {
            StoreAddress::Local(path) => self.local(Local::create(path.clone()), settings),
            StoreAddress::Rest { .. } => {
                let config = self.rest(settings)?;
                config.create(settings.tuning(self.scheme())?).await.map_err(self.failed("create"))
            }
            _ => self.opened(settings).await,
        }
    }

    fn local(&self, opened: lifeboat_store::Result<Local>, settings: &OpenSettings) -> Result<Store> {
        let opened = opened.map_err(|error| match error {
            lifeboat_store::Error::BucketNotFound { .. } => {
                Error::NoRepository { location: self.to_string() }
            }
            other => self.failed("open")(other),
        })?;
        Store::new(Arc::new(opened), "", settings.tuning(self.scheme())?).map_err(self.failed("open"))
    }

    fn failed(&self, verb: &str) -> impl FnOnce(lifeboat_store::Error) -> Error {
        Error::store(format!("{verb} '{self}'"))
    }
}

impl FromStr for Location {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for Location {
    /// In restic's syntax, with `***` instead of a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            StoreAddress::Local(path) => write!(f, "{}", path.display()),
            StoreAddress::S3(bucket) => write!(f, "{bucket}"),
            StoreAddress::Google { bucket, prefix } => write!(f, "gs:{bucket}:/{prefix}"),
            StoreAddress::Azure { container, prefix } => write!(f, "azure:{container}:/{prefix}"),
            StoreAddress::Rest { url, user: None, password: None } => write!(f, "rest:{url}"),
            StoreAddress::Rest { url, user, password } => {
                let user = user.as_deref().unwrap_or_default();
                let secret = if password.is_some() { ":***" } else { "" };
                let (scheme, rest) = url.as_str().split_once("://").unwrap_or_default();
                write!(f, "rest:{scheme}://{user}{secret}@{rest}")
            }
        }
    }
}

/// Whether the text is a path, even if it contains colons.
fn is_path(text: &str) -> bool {
    text.starts_with(['/', '.', '~', '\\'])
}

fn local(text: &str, path: &str) -> Result<StoreAddress> {
    if path.is_empty() {
        return Err(bad(text, "expected 'local:PATH'"));
    }
    Ok(StoreAddress::Local(path.into()))
}

fn file_url(text: &str, rest: &str) -> Result<StoreAddress> {
    let url = Url::parse(&format!("file:{rest}")).ok().filter(|_| rest.starts_with("///"));
    match url.and_then(|url| url.to_file_path().ok()) {
        Some(path) => Ok(StoreAddress::Local(path)),
        None => Err(bad(text, "expected 'file:///ABSOLUTE/PATH'")),
    }
}

/// `BUCKET:/PREFIX`, or the `//BUCKET/PREFIX` of a URL.
fn bucket_and_prefix(text: &str, rest: &str, expected: &str) -> Result<(String, String)> {
    let parts = match rest.strip_prefix("//") {
        Some(rest) => Some(rest.split_once('/').unwrap_or((rest, ""))),
        None => rest.split_once(':'),
    };
    match parts {
        Some((bucket, prefix)) if !bucket.is_empty() && !bucket.contains('/') => {
            Ok((bucket.to_owned(), clean(text, prefix)?))
        }
        _ => Err(bad(text, &format!("expected '{expected}'"))),
    }
}

fn rest_url(text: &str, rest: &str) -> Result<StoreAddress> {
    let expected = "expected 'rest:https://USER:PASSWORD@HOST:PORT/PATH/'";
    if rest.starts_with("http+unix:") {
        return Err(bad(text, "Unix sockets are not supported; let the REST server listen on a port"));
    }
    let mut url = Url::parse(rest).map_err(|_| bad(text, expected))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(bad(text, expected));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad(text, "the URL of a REST server must not contain '?' or '#'; write '%3F' or '%23'"));
    }
    let decode = |part: &str| decoded(part).ok_or_else(|| bad(text, "user and password are not UTF-8"));
    let user = Some(url.username()).filter(|user| !user.is_empty()).map(decode).transpose()?;
    let password = url.password().map(decode).transpose()?.map(SecretString::from);
    if url.set_username("").is_err() || url.set_password(None).is_err() {
        return Err(bad(text, expected));
    }
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    Ok(StoreAddress::Rest { url, user, password })
}

/// Decodes `%40` to `@`.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits =
            after.get(..2).filter(|digits| first == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

/// A prefix as Go's `path.Clean` returns it, without slashes at its ends; one that leads outside is refused.
fn clean(text: &str, prefix: &str) -> Result<String> {
    let mut segments: Vec<&str> = Vec::new();
    for segment in prefix.split('/') {
        match segment {
            "" | "." => {}
            ".." => return Err(bad(text, "the path in a bucket must not contain '..'")),
            name => segments.push(name),
        }
    }
    Ok(segments.join("/"))
}

fn refused(text: &str, scheme: &str, rest: &str) -> Error {
    let instead = match scheme {
        "b2" => {
            let bucket = rest.split([':', '/']).find(|part| !part.is_empty()).unwrap_or("BUCKET");
            return bad(
                text,
                &format!(
                    "B2's own API is not spoken; use its S3 endpoint, 's3:s3.REGION.backblazeb2.com/{bucket}/PREFIX', \
                     with the application key in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                ),
            );
        }
        "swift" => {
            "Swift is not supported; use the S3 API that OpenStack and OVH offer for the same container: 's3:https://HOST/BUCKET'"
        }
        "sftp" => {
            "SFTP is not supported; mount the directory (sshfs, NFS) and give its path, or run restic's \
             rest-server on that host and use 'rest:https://HOST:8000/'"
        }
        "rclone" => {
            "rclone is not started from here; run `rclone serve restic REMOTE:PATH --addr localhost:8080` and use \
             'rest:http://localhost:8080/'"
        }
        "http" | "https" => "put the protocol before the URL: 'rest:' or 's3:'",
        "gcs" => "Google Cloud Storage is written 'gs:BUCKET:/PREFIX'",
        _ => {
            "no such backend: known are local, s3, gs, azure and rest; before a path with a colon in it, write \
             'local:'"
        }
    };
    bad(text, instead)
}

/// An error about a location, which is shown without a possible password.
fn bad(text: &str, problem: &str) -> Error {
    Error::invalid(format!("repository location '{}'", redacted(text)), problem)
}

/// The text before an `@` may contain a user and a password, wherever it is.
fn redacted(text: &str) -> String {
    match (text.split_once('@'), text.rsplit_once('@')) {
        (Some((before, _)), Some((_, host))) => {
            let scheme = before.find("://").map(|end| end + 3);
            let start = scheme.or_else(|| before.find(':').map(|end| end + 1)).unwrap_or(0);
            format!("{}***@{host}", &before[..start])
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
