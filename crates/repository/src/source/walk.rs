//! The walk over all targets of a backup: returns directories, files, links and devices one after the other, as they
//! will be in the snapshot, without what the filter excludes. No recursion: a tree may have any depth. Used by the
//! backup pipeline and by the scan that counts in advance.

use std::ffi::CString;
use std::io;
use std::sync::Arc;

use super::directory::{DirectoryHandle, Names};
use super::filter::{Filter, Surroundings};
use super::path;
use super::stat::Stat;
use super::targets::{Target, Targets};
use crate::error::Error;
use crate::node::NodeKind;

/// A step of the walk.
#[derive(Debug)]
pub enum Event {
    /// A directory; its entries follow, until its `Leave`.
    Enter(Entered),
    /// Anything else: file, link, device, pipe. Sockets are left out, as in restic.
    Item(Item),
    /// The end of the directory that was entered last.
    Leave,
    /// Something could not be read and is left out.
    Problem(Error),
    /// A rule could not be applied, so nothing is left out because of it.
    Warning(Error),
}

/// An opened directory.
#[derive(Debug)]
pub struct Entered {
    /// Its name in the snapshot.
    pub name: Vec<u8>,
    /// Its absolute path in the file system.
    pub path: Vec<u8>,
    pub directory: Arc<DirectoryHandle>,
    /// It is included only because targets are below it: nothing else of its content is stored.
    pub is_above_targets: bool,
    /// It exists only in the snapshot: `directory` is the stored one below it.
    pub is_synthesized: bool,
}

/// An entry of a directory that is not a directory itself.
#[derive(Debug)]
pub struct Item {
    /// Its name in the snapshot.
    pub name: Vec<u8>,
    /// Its absolute path in the file system.
    pub path: Vec<u8>,
    /// The directory that contains it.
    pub directory: Arc<DirectoryHandle>,
    pub stat: Stat,
}

impl Item {
    /// Its name in its directory. Differs from `name` only if two targets have the same name.
    pub fn file_name(&self) -> &[u8] {
        path::split(&self.path).map_or(&self.name, |(_, name)| name)
    }
}

/// The walk; an iterator over events.
#[derive(Debug)]
pub struct Walk<'a> {
    filter: &'a Filter,
    /// The directory that relative targets are relative to.
    current: &'a [u8],
    stack: Vec<Frame>,
    /// The path of the directory on top of the stack.
    path: Vec<u8>,
    problems: Vec<Error>,
}

#[derive(Debug)]
enum Frame {
    Targets(std::collections::btree_map::IntoIter<Vec<u8>, Target>),
    /// A synthesized directory, and what is stored below it; None once that was entered.
    Synthesized(Option<Box<Placed>>),
    Directory(OpenDirectory),
}

/// A directory whose entries are being walked.
#[derive(Debug)]
struct OpenDirectory {
    directory: Arc<DirectoryHandle>,
    names: Names,
    surroundings: Surroundings,
    path_length: usize,
}

/// A directory and the remaining path to its position in the snapshot.
#[derive(Debug)]
struct Placed {
    /// Path components that are still to be entered; the last is the directory's own name.
    names: std::vec::IntoIter<Vec<u8>>,
    content: OpenDirectory,
}

impl<'a> Walk<'a> {
    /// `current` is the absolute path of the current directory.
    pub fn new(targets: Targets, filter: &'a Filter, current: &'a [u8]) -> Self {
        let stack = vec![Frame::Targets(targets.into_iter())];
        Self { filter, current, stack, path: Vec::new(), problems: Vec::new() }
    }

    /// Everything in one directory, stored at an absolute, cleaned path of the snapshot. Paths start at the
    /// snapshot's root.
    pub fn at(directory: Arc<DirectoryHandle>, path: &[u8], filter: &'a Filter) -> io::Result<Self> {
        let names = directory.names()?;
        Ok(Self::placed(directory, names, path, filter))
    }

    /// One entry of a directory, stored at an absolute, cleaned path of the snapshot whose last component is its name.
    pub fn of_entry(directory: Arc<DirectoryHandle>, path: &[u8], filter: &'a Filter) -> io::Result<Self> {
        let (above, name) = path::split(path).ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
        directory.stat(name)?;
        let name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(Self::placed(directory, Names::of(&name)?, above, filter))
    }

    /// These entries of a directory, which is stored at a path of the snapshot.
    fn placed(directory: Arc<DirectoryHandle>, names: Names, path: &[u8], filter: &'a Filter) -> Self {
        let mut problems = Vec::new();
        let surroundings = filter.surroundings(&directory, path, None, &mut problems);
        let content = OpenDirectory { directory, names, surroundings, path_length: path.len() };
        let components = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let above: Vec<_> = components.map(<[u8]>::to_vec).collect();
        let lowest = if above.is_empty() {
            Frame::Directory(content)
        } else {
            Frame::Synthesized(Some(Box::new(Placed { names: above.into_iter(), content })))
        };
        Self { filter, current: b"/", stack: vec![lowest], path: b"/".to_vec(), problems }
    }

    /// The next event of the frame on top; `None` to try again.
    fn step(&mut self) -> Option<Event> {
        match self.stack.last_mut()? {
            Frame::Targets(targets) => match targets.next() {
                Some((name, target)) => self.target(name, target),
                None => self.leave(),
            },
            Frame::Synthesized(placed) => match placed.take() {
                Some(placed) => self.place(*placed),
                None => self.leave(),
            },
            Frame::Directory(open) => {
                self.path.truncate(open.path_length);
                match open.names.next() {
                    Some(name) => self.entry(&name),
                    None => self.leave(),
                }
            }
        }
    }

    fn leave(&mut self) -> Option<Event> {
        self.stack.pop();
        // The lowest frame is the snapshot itself, which was never entered.
        (!self.stack.is_empty()).then_some(Event::Leave)
    }

    /// Enters the next parent directory of the stored one, or the stored one itself.
    fn place(&mut self, mut placed: Placed) -> Option<Event> {
        let name = placed.names.next()?;
        self.path = path::join(&self.path, &name);
        let (path, directory) = (self.path.clone(), Arc::clone(&placed.content.directory));
        let is_synthesized = !placed.names.as_slice().is_empty();
        self.stack.push(if is_synthesized {
            Frame::Synthesized(Some(Box::new(placed)))
        } else {
            Frame::Directory(placed.content)
        });
        Some(Event::Enter(Entered {
            name,
            path,
            directory,
            is_above_targets: is_synthesized,
            is_synthesized,
        }))
    }

    fn target(&mut self, name: Vec<u8>, target: Target) -> Option<Event> {
        match target {
            Target::Above { path: given, children } => {
                let path = path::absolute(self.current, &given);
                let directory = match DirectoryHandle::open(&given) {
                    Ok(directory) => directory,
                    Err(error) => return Some(problem("open the directory", &path, error)),
                };
                self.stack.push(Frame::Targets(children.into_iter()));
                let entered =
                    Entered { name, path, directory, is_above_targets: true, is_synthesized: false };
                Some(Event::Enter(entered))
            }
            Target::Leaf { path: given, explicit } => {
                self.path = path::absolute(self.current, &given);
                if !explicit && !self.filter.keeps_name(&self.path) {
                    return None;
                }
                self.leaf(name, &given, explicit)
            }
        }
    }

    /// A target: found by its path; symbolic links above it are followed, but it is not.
    fn leaf(&mut self, name: Vec<u8>, given: &[u8], explicit: bool) -> Option<Event> {
        let looked_up = path::split(given).ok_or(io::Error::from(io::ErrorKind::InvalidInput));
        let looked_up = looked_up.and_then(|(dir, file_name)| {
            let directory = DirectoryHandle::open(dir)?;
            let stat = directory.stat(file_name)?;
            Ok((directory, file_name, stat))
        });
        let (directory, file_name, stat) = match looked_up {
            Ok(found) => found,
            Err(error) if is_gone(&error) && !explicit => return None,
            Err(error) => return Some(problem("read the metadata of", &self.path, error)),
        };
        let above = path::split(&self.path).map_or(&b"/"[..], |(dir, _)| dir);
        let surroundings = if explicit {
            self.filter.without_tags(&directory, above, None)
        } else {
            self.filter.surroundings(&directory, above, None, &mut self.problems)
        };
        if !explicit && !self.filter.keeps(&surroundings, &self.path, file_name, &stat) {
            return None;
        }
        self.found(name, file_name, directory, stat, &surroundings)
    }

    /// An entry of the directory on top.
    fn entry(&mut self, name: &[u8]) -> Option<Event> {
        let Some(Frame::Directory(OpenDirectory { directory, surroundings, .. })) = self.stack.last() else {
            return None;
        };
        if !self.path.ends_with(b"/") {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name);
        if !self.filter.keeps_name(&self.path) {
            return None;
        }
        let stat = match directory.stat(name) {
            Ok(stat) => stat,
            Err(error) if is_gone(&error) => return None,
            Err(error) => return Some(problem("read the metadata of", &self.path, error)),
        };
        if !self.filter.keeps(surroundings, &self.path, name, &stat) {
            return None;
        }
        let (directory, surroundings) = (Arc::clone(directory), surroundings.clone());
        self.found(name.to_vec(), name, directory, stat, &surroundings)
    }

    /// An entry that passed the filter: `file_name` in `directory`, at `self.path`.
    fn found(
        &mut self,
        name: Vec<u8>,
        file_name: &[u8],
        directory: Arc<DirectoryHandle>,
        stat: Stat,
        surroundings: &Surroundings,
    ) -> Option<Event> {
        match stat.kind() {
            NodeKind::Socket => None,
            NodeKind::Directory => self.enter(name, file_name, &directory, surroundings),
            _ => Some(Event::Item(Item { name, path: self.path.clone(), directory, stat })),
        }
    }

    fn enter(
        &mut self,
        name: Vec<u8>,
        file_name: &[u8],
        parent: &Arc<DirectoryHandle>,
        above: &Surroundings,
    ) -> Option<Event> {
        let opened = parent.open_child(file_name).and_then(|directory| {
            let names = directory.names()?;
            Ok((directory, names))
        });
        let (directory, names) = match opened {
            Ok(opened) => opened,
            Err(error) if is_gone(&error) => return None,
            Err(error) => return Some(problem("read the directory", &self.path, error)),
        };
        let surroundings = self.filter.surroundings(&directory, &self.path, Some(above), &mut self.problems);
        self.stack.push(Frame::Directory(OpenDirectory {
            directory: Arc::clone(&directory),
            names,
            surroundings,
            path_length: self.path.len(),
        }));
        let path = self.path.clone();
        Some(Event::Enter(Entered { name, path, directory, is_above_targets: false, is_synthesized: false }))
    }
}

impl Iterator for Walk<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(problem) = self.problems.pop() {
                return Some(Event::Warning(problem));
            }
            if self.stack.is_empty() {
                return None;
            }
            if let Some(event) = self.step() {
                return Some(event);
            }
        }
    }
}

/// Removed after it was listed: not reported.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

fn problem(action: &'static str, path: &[u8], source: io::Error) -> Event {
    Event::Problem(Error::file(action, super::os_path(path))(source))
}

#[cfg(test)]
mod tests;
