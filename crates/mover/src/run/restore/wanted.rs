//! Selects the entries of a snapshot that are restored: those at or below the task's paths that match an include
//! pattern and no exclude pattern; everything if the task has none of these. The done file of a restore and its
//! directory are never restored.

use std::path::{Component, Path};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lifeboat_repository::restore::{Select, Selection};
use lifeboat_repository::source::patterns::{Case, Patterns};
use lifeboat_repository::source::selection::Selection as PatternSelection;

use crate::report::{Cause, Failure};
use crate::run::backup::DONE_FILES;
use crate::run::failure;
use crate::task::RestoreWork;

/// The task's selection. Paths and patterns are those of the snapshot, such as `/etc/hosts`.
pub(super) struct Wanted {
    inner: Arc<Inner>,
}

struct Inner {
    /// The directory at which the restore starts; empty for the root of the snapshot.
    folder: Vec<u8>,
    /// Each path, and whether the snapshot has it.
    paths: Vec<(Vec<u8>, AtomicBool)>,
    include: PatternSelection,
    exclude: PatternSelection,
    /// The directory at the root of the target that contains the done file.
    never: Option<Vec<u8>>,
}

impl Wanted {
    pub(super) fn new(work: &RestoreWork) -> Result<Self, Failure> {
        let folder = work.folder.as_deref().map(|folder| cleaned("folder", folder)).transpose()?;
        let folder = folder.unwrap_or_default();
        let paths = work.paths.iter().map(|path| wanted_path(path, &folder));
        let first = work.done_file.as_deref().and_then(|file| file.components().next());
        // The done file is at the root of the volume, even if only a directory below it is restored.
        let first = first.filter(|_| work.sub_path.is_none());
        let never = first.map(|first| [b"/", first.as_os_str().as_encoded_bytes()].concat());
        // No snapshot of a volume has the done files of earlier restores, and they stay where it is made exactly like the snapshot.
        let kept = work.exact && work.sub_path.is_none();
        let never = never.or_else(|| kept.then(|| DONE_FILES.as_bytes().to_vec()));
        let inner = Inner {
            paths: paths.collect::<Result<_, Failure>>()?,
            include: patterns("include", &work.include, PatternSelection::Include)?,
            exclude: patterns("exclude", &work.exclude, PatternSelection::Exclude)?,
            folder,
            never,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The selection in the form that the engine takes.
    pub(super) fn select(&self) -> Select {
        let inner = Arc::clone(&self.inner);
        Arc::new(move |path, is_directory| inner.select(path, is_directory))
    }

    /// Whether everything in the folder is restored.
    pub(super) fn is_everything(&self) -> bool {
        let Inner { paths, folder, .. } = &*self.inner;
        !self.has_patterns() && (paths.is_empty() || paths.iter().any(|(path, _)| is_in(folder, path)))
    }

    pub(super) fn has_patterns(&self) -> bool {
        let is_set = |selection: &PatternSelection| !matches!(selection, PatternSelection::Everything);
        is_set(&self.inner.include) || is_set(&self.inner.exclude)
    }

    /// The paths that the snapshot does not have.
    pub(super) fn missing(&self) -> impl Iterator<Item = String> {
        let missing = self.inner.paths.iter().filter(|(_, met)| !met.load(Ordering::Relaxed));
        missing.map(|(path, _)| String::from_utf8_lossy(path).into_owned())
    }
}

impl Inner {
    /// `below` is the path below the folder.
    fn select(&self, below: &[u8], is_directory: bool) -> Selection {
        const NOTHING: Selection = Selection { include: false, descend: false };
        if self.never.as_deref().is_some_and(|never| is_in(below, never)) {
            return NOTHING;
        }
        let path = [&self.folder, below].concat();
        let by_path = self.by_path(&path);
        let (include, exclude) =
            (self.include.select(&path, is_directory), self.exclude.select(&path, is_directory));
        Selection {
            include: by_path.include && include.matched && exclude.matched,
            // For a file, `below` is always false, and the engine does not ask.
            descend: by_path.descend && (!is_directory || (include.below && exclude.below)),
        }
    }

    fn by_path(&self, path: &[u8]) -> Selection {
        if self.paths.is_empty() {
            return Selection::ALL;
        }
        let mut selection = Selection { include: false, descend: false };
        for (wanted, met) in &self.paths {
            if path == wanted {
                met.store(true, Ordering::Relaxed);
            }
            selection.include |= is_in(path, wanted);
            selection.descend |= is_in(path, wanted) || is_in(wanted, path);
        }
        selection
    }
}

fn wanted_path(path: &str, folder: &[u8]) -> Result<(Vec<u8>, AtomicBool), Failure> {
    let clean = cleaned("paths", path)?;
    // The engine never asks about the folder itself, which the snapshot is known to have.
    let is_met = is_in(folder, &clean);
    if is_met || is_in(&clean, folder) {
        return Ok((clean, AtomicBool::new(is_met)));
    }
    let folder = String::from_utf8_lossy(folder);
    let message = format!("paths: '{path}' is not below the folder '{folder}' that is restored");
    Err(Failure { cause: Cause::Task, message })
}

fn patterns(
    field: &str,
    given: &[String],
    selection: fn(Vec<Patterns>) -> PatternSelection,
) -> Result<PatternSelection, Failure> {
    let patterns = Patterns::parse(given, Case::Matters).map_err(|error| Failure {
        cause: Cause::Task,
        message: format!("{field}: {}", failure::message(&error)),
    })?;
    Ok(if patterns.is_empty() { PatternSelection::Everything } else { selection(vec![patterns]) })
}

/// Whether `path` is `directory` or below it.
fn is_in(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || directory.ends_with(b"/"))
}

fn cleaned(field: &str, path: &str) -> Result<Vec<u8>, Failure> {
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
    let message = format!(
        "{field}: '{path}' names no file or directory of the snapshot; expected a path like /data/file"
    );
    Err(Failure { cause: Cause::Task, message })
}

#[cfg(test)]
mod tests;
