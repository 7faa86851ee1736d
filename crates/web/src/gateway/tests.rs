//! Tests of the gateway: its protocol with a client in the same process, requests that it refuses, and the client of crate
//! `store` over TLS.

mod client;
mod protocol;
mod refused;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::*;
use crate::Metrics;

/// The repository that every token except `elsewhere` gives access to.
const REPOSITORY: &str = "stash/shop/r";

/// The prefix of all tokens.
const TOKEN: &str = "TOKEN-";

fn id(content: &[u8]) -> String {
    super::spool::hex(&Sha256::digest(content))
}

/// A lock: its user, `shared` or `exclusive`, and how many seconds ago it was made.
fn lock(user: &str, kind: &str) -> Vec<u8> {
    format!("lock {user} {kind} 5").into_bytes()
}

/// Repositories in memory, by path, and the tokens that are accepted: a word after [`TOKEN`].
#[derive(Clone, Default)]
struct Repositories(Arc<Mutex<BTreeMap<String, Bytes>>>);

impl Repositories {
    fn get(&self, path: &str) -> Option<Bytes> {
        self.0.lock().unwrap().get(path).cloned()
    }

    fn put(&self, path: &str, content: &[u8]) {
        self.0.lock().unwrap().insert(path.to_owned(), Bytes::copy_from_slice(content));
    }

    /// Adds a file named by its content; gives its path.
    fn add(&self, directory: &str, content: &[u8]) -> String {
        let path = format!("{REPOSITORY}/{directory}/{}", id(content));
        self.put(&path, content);
        path
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

#[async_trait]
impl Gatekeeper for Repositories {
    async fn grant(&self, token: &str) -> Result<Grant, NoGrant> {
        let word = token.strip_prefix(TOKEN).ok_or(NoGrant::Invalid)?;
        let (repository, task, access) = match word {
            "backup" => (REPOSITORY, "b", FileAccess::Add),
            "another-backup" => (REPOSITORY, "b2", FileAccess::Add),
            "restore" => (REPOSITORY, "r", FileAccess::Read),
            "ended" => (REPOSITORY, "b", FileAccess::Ended),
            "elsewhere" => ("stash/bank/r", "e", FileAccess::Add),
            "expired" => return Err(NoGrant::Expired),
            "unknown-now" => return Err(NoGrant::Unavailable("the API server is away".into())),
            _ => return Err(NoGrant::Invalid),
        };
        let (repository, task) = (repository.to_owned(), task.to_owned());
        Ok(Grant { lock_user: format!("user-{task}"), repository, task, access })
    }

    async fn files(&self, grant: &Grant) -> Result<Arc<dyn RepositoryFiles>, FilesError> {
        Ok(Arc::new(Files { all: self.clone(), below: grant.repository.clone() }))
    }
}

struct Files {
    all: Repositories,
    below: String,
}

impl Files {
    fn path(&self, name: &FileName) -> String {
        format!("{}/{name}", self.below)
    }

    fn content(&self, name: &FileName) -> Result<Bytes, FilesError> {
        self.all.get(&self.path(name)).ok_or(FilesError::NotFound)
    }
}

#[async_trait]
impl RepositoryFiles for Files {
    async fn list(&self, file_type: FileType) -> Result<FileList, FilesError> {
        let prefix = format!("{}/{}/", self.below, file_type.directory());
        let all = self.all.0.lock().unwrap();
        let found = all.iter().filter_map(|(path, content)| {
            let id = path.strip_prefix(&prefix)?.to_owned();
            Some(Ok(ListedFile { id, size: content.len() as u64 }))
        });
        Ok(stream::iter(found.collect::<Vec<_>>()).boxed())
    }

    async fn size(&self, name: &FileName) -> Result<u64, FilesError> {
        Ok(self.content(name)?.len() as u64)
    }

    async fn read(&self, name: &FileName, range: Option<Range<u64>>) -> Result<FileContent, FilesError> {
        let content = self.content(name)?;
        let size = content.len() as u64;
        let part = match range {
            Some(range) => {
                let at = |offset: u64| usize::try_from(offset).unwrap();
                content.slice(at(range.start)..at(range.end))
            }
            None => content,
        };
        Ok(FileContent { size, body: stream::iter([Ok(part)]).boxed() })
    }

    async fn create(&self, name: &FileName, content: Bytes) -> Result<(), FilesError> {
        let mut all = self.all.0.lock().unwrap();
        if all.contains_key(&self.path(name)) {
            return Err(FilesError::Exists);
        }
        all.insert(self.path(name), content);
        Ok(())
    }

    async fn delete(&self, name: &FileName) -> Result<(), FilesError> {
        let removed = self.all.0.lock().unwrap().remove(&self.path(name));
        removed.map(drop).ok_or(FilesError::NotFound)
    }

    fn lock(&self, content: &[u8]) -> Option<LockFacts> {
        let text = std::str::from_utf8(content).ok()?.strip_prefix("lock ")?;
        let [user, kind, age] = text.split(' ').collect::<Vec<_>>()[..] else { return None };
        let time = Timestamp::now() - jiff::SignedDuration::from_secs(age.parse().ok()?);
        Some(LockFacts { user: user.to_owned(), exclusive: kind == "exclusive", time })
    }
}

/// A gateway in front of repositories, and its spool.
struct World {
    repositories: Repositories,
    gateway: Arc<Gateway>,
    metrics: Metrics,
    spool: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let repositories = Repositories::default();
        repositories.put(&format!("{REPOSITORY}/config"), b"sealed config");
        let (metrics, spool) = (Metrics::new("0"), tempfile::tempdir().unwrap());
        let gateway = Gateway::new(Arc::new(repositories.clone()), spool.path().to_owned(), &metrics);
        Self { repositories, gateway: Arc::new(gateway), metrics, spool }
    }

    async fn ask(&self, token: &str, method: &str, path: &str, content: &[u8]) -> Answer {
        self.ask_with(token, method, path, content, &[]).await
    }

    async fn ask_with(
        &self,
        token: &str,
        method: &str,
        path: &str,
        content: &[u8],
        headers: &[(&str, &str)],
    ) -> Answer {
        let credentials = STANDARD.encode(format!("lifeboat:{TOKEN}{token}"));
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::AUTHORIZATION, format!("Basic {credentials}"));
        if method == "POST" {
            request = request.header(header::CONTENT_LENGTH, content.len());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Body::from(content.to_vec())).unwrap()).await
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.gateway.answer(request, &self.gateway.connection()).await;
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        Answer { status: parts.status, headers: parts.headers, body }
    }
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}
