//! Lists a snapshot: all of it, or some directories, recursively or not. Entries are returned one at a time, in path
//! order; the CLI prints them.

mod json;

pub(crate) use json::time_text;
pub use json::{LsNode, mode_text};

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::id::BlobId;
use crate::lock::{LockKind, LockOptions};
use crate::locked::locked;
use crate::node::Node;
use crate::repository::Repository;
use crate::walk::{Step, Walk, find_directory};

/// What to list.
#[derive(Debug, Clone, Default)]
pub struct LsOptions {
    /// The folder of `SNAPSHOT:FOLDER`; paths are relative to it.
    pub subfolder: Option<PathBuf>,
    /// Absolute paths of directories; if empty, everything is listed.
    pub directories: Vec<PathBuf>,
    /// If directories are given: include everything below their subdirectories, too.
    pub recursive: bool,
}

/// One step of a listing.
#[derive(Debug)]
pub enum Listed {
    Node {
        path: Vec<u8>,
        node: Box<Node>,
        /// Only a parent of a requested directory: not part of a plain listing.
        on_the_way: bool,
    },
    /// The end of a directory.
    Leave { path: Vec<u8> },
}

/// Lists a snapshot's tree, under a shared lock or without a lock.
pub async fn ls(
    repository: &Repository,
    tree: BlobId,
    options: &LsOptions,
    lock: Option<&LockOptions>,
    each: &mut (dyn FnMut(Listed) -> Result<()> + Send),
    cancel: &CancellationToken,
) -> Result<()> {
    if let Some(relative) = options.directories.iter().find(|path| !path.is_absolute()) {
        return Err(Error::invalid(
            format!("directory '{}'", relative.display()),
            "it does not start with '/'",
        ));
    }
    locked(repository, LockKind::Shared, lock, async |_| {
        let reader = BlobReader::new(repository, Arc::new(repository.load_index().await?));
        let root =
            find_directory(&reader, tree, options.subfolder.as_deref().unwrap_or(Path::new("/"))).await?;
        let mut walk = Walk::start(&reader, b"/", &root, cancel).await?;
        while let Some(step) = walk.step().await? {
            match step {
                Step::Enter { path, node } => {
                    let selection = select(&path, options);
                    let is_directory = node.is_directory();
                    if !selection.descend && is_directory {
                        walk.skip();
                    }
                    if selection.listed || selection.descend {
                        each(Listed::Node {
                            path: path.clone(),
                            node: Box::new(node),
                            on_the_way: !selection.listed,
                        })?;
                    }
                    if selection.listed && !selection.descend && is_directory {
                        each(Listed::Leave { path })?;
                    }
                }
                Step::Leave { path, .. } => each(Listed::Leave { path })?,
                Step::Unreadable { error, .. } => return Err(error),
            }
        }
        Ok(())
    })
    .await
}

/// Whether a path is listed and whether the walk descends into it.
struct PathSelection {
    listed: bool,
    descend: bool,
}

fn select(path: &[u8], options: &LsOptions) -> PathSelection {
    let all = options.directories.is_empty();
    let directories = || options.directories.iter().map(|directory| without_slashes(directory));
    let within = all || directories().any(|directory| is_within(directory, path));
    let leads = all || directories().any(|directory| is_within(path, directory));
    let descend = (within && options.recursive) || leads;
    PathSelection { listed: within, descend }
}

fn without_slashes(directory: &Path) -> &[u8] {
    let mut bytes = directory.as_os_str().as_bytes();
    while let [rest @ .., b'/'] = bytes {
        bytes = rest;
    }
    bytes
}

/// Whether `path` is `directory` or below it.
fn is_within(directory: &[u8], path: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{memory_repository, save_snapshot};

    async fn list(directories: &[&str], recursive: bool, subfolder: Option<&str>) -> Result<Vec<String>> {
        let repository = memory_repository().await;
        let files: &[(&str, &[u8])] = &[("a/b/c", b"x"), ("a/d", b"y"), ("ab", b"z")];
        let (_, snapshot) = save_snapshot(&repository, 1, files).await;
        let options = LsOptions {
            subfolder: subfolder.map(PathBuf::from),
            directories: directories.iter().map(PathBuf::from).collect(),
            recursive,
        };
        let mut paths = Vec::new();
        let mut each = |listed| {
            if let Listed::Node { path, on_the_way: false, .. } = listed {
                paths.push(String::from_utf8(path).unwrap());
            }
            Ok(())
        };
        ls(&repository, snapshot.tree, &options, None, &mut each, &CancellationToken::new()).await?;
        Ok(paths)
    }

    #[rstest::rstest]
    #[case::everything(&[], false, None, "/a /a/b /a/b/c /a/d /ab")]
    #[case::one_directory(&["/a"], false, None, "/a /a/b /a/d")]
    #[case::with_a_slash(&["/a/"], false, None, "/a /a/b /a/d")]
    #[case::and_below(&["/a"], true, None, "/a /a/b /a/b/c /a/d")]
    #[case::deeper(&["/a/b"], false, None, "/a/b /a/b/c")]
    #[case::the_root(&["/"], false, None, "/a /ab")]
    #[case::nowhere(&["/x"], true, None, "")]
    #[case::a_subfolder(&[], false, Some("/a"), "/b /b/c /d")]
    #[tokio::test]
    async fn directories_are_listed_as_asked(
        #[case] directories: &[&str],
        #[case] recursive: bool,
        #[case] subfolder: Option<&str>,
        #[case] expected: &str,
    ) {
        assert_eq!(list(directories, recursive, subfolder).await.unwrap().join(" "), expected);
    }

    #[tokio::test]
    async fn missing_and_relative_paths_are_refused() {
        assert!(list(&["a"], false, None).await.is_err());
        assert!(list(&[], false, Some("/nothing")).await.is_err());
        assert!(list(&[], false, Some("/ab")).await.is_err());
    }
}
