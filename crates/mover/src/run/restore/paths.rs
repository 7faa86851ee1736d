//! Which paths of a snapshot are restored: those of the task, with what is below them; or everything. The done
//! file of a restore and what is beside it are never restored.

use std::path::{Component, Path};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lifeboat_repository::restore::{Select, Selection};

use crate::report::{Cause, Failure};

/// The paths, as in `/etc/hosts`, and whether each was met.
pub(super) struct Wanted {
    paths: Arc<Vec<(Vec<u8>, AtomicBool)>>,
    /// The directory at the root that the done file is in.
    never: Option<Vec<u8>>,
}

impl Wanted {
    pub(super) fn new(paths: &[String], done_file: Option<&Path>) -> Result<Self, Failure> {
        let paths = paths.iter().map(|path| Ok((cleaned(path)?, AtomicBool::new(false))));
        let first = done_file.and_then(|file| file.components().next());
        let never = first.map(|first| [b"/", first.as_os_str().as_encoded_bytes()].concat());
        Ok(Self { paths: Arc::new(paths.collect::<Result<_, Failure>>()?), never })
    }

    /// The selection as the engine takes it.
    pub(super) fn select(&self) -> Select {
        let (paths, never) = (Arc::clone(&self.paths), self.never.clone());
        Arc::new(move |path, _is_directory| {
            if never.as_deref().is_some_and(|never| is_in(path, never)) {
                return Selection { include: false, descend: false };
            }
            if paths.is_empty() {
                return Selection::ALL;
            }
            let mut selection = Selection { include: false, descend: false };
            for (wanted, met) in paths.iter() {
                if path == wanted {
                    met.store(true, Ordering::Relaxed);
                }
                selection.include |= is_in(path, wanted);
                selection.descend |= is_in(path, wanted) || is_in(wanted, path);
            }
            selection
        })
    }

    /// The paths that the snapshot does not have.
    pub(super) fn missing(&self) -> impl Iterator<Item = String> {
        let missing = self.paths.iter().filter(|(_, met)| !met.load(Ordering::Relaxed));
        missing.map(|(path, _)| String::from_utf8_lossy(path).into_owned())
    }
}

/// Whether `path` is `directory` or below it.
fn is_in(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || directory.ends_with(b"/"))
}

fn cleaned(path: &str) -> Result<Vec<u8>, Failure> {
    let mut clean = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => clean.extend([b"/", name.as_encoded_bytes()].concat()),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => clean.clear(),
        }
    }
    if !clean.is_empty() && !path.split('/').any(|part| part == "..") {
        return Ok(clean);
    }
    let message =
        format!("paths: '{path}' names no file or directory of the volume; expected a path like /data/file");
    Err(Failure { cause: Cause::Task, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case(&["/a/b"], "/a", (false, true))]
    #[case(&["/a/b"], "/a/b", (true, true))]
    #[case(&["a/b/"], "/a/b/c", (true, true))]
    #[case(&["/a/b"], "/a/bc", (false, false))]
    #[case(&["/a/b", "/x"], "/x", (true, true))]
    #[case(&[], "/x", (true, true))]
    #[case(&[], "/.velero", (false, false))]
    #[case(&[], "/.velero/uid", (false, false))]
    #[case(&[], "/.velerox", (true, true))]
    fn paths_are_chosen_with_what_is_below_them(
        #[case] paths: &[&str],
        #[case] path: &str,
        #[case] expected: (bool, bool),
    ) {
        let paths: Vec<_> = paths.iter().map(|&path| path.to_owned()).collect();
        let wanted = Wanted::new(&paths, Some(Path::new(".velero/uid"))).unwrap();
        let selection = wanted.select()(path.as_bytes(), true);
        assert_eq!((selection.include, selection.descend), expected);
    }

    #[test]
    fn a_path_that_is_not_met_is_missing() {
        let wanted = Wanted::new(&["/a".to_owned(), "/b".to_owned()], None).unwrap();
        wanted.select()(b"/a", false);
        assert_eq!(wanted.missing().collect::<Vec<_>>(), ["/b"]);
        assert!(Wanted::new(&["../etc".to_owned()], None).is_err());
        assert!(Wanted::new(&["/".to_owned()], None).is_err());
    }
}
