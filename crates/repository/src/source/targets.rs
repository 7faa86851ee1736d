//! The tree of a snapshot for the targets of a backup, by restic's rules: `/a/b` and `/c` give a tree with `a/b` and
//! `c`; relative targets start at their first own component; two different directories of one name get `-1`, `-2` …;
//! `.`, `..` and `/` stand for their content. Pure: directories are listed by a function argument.

use std::collections::BTreeMap;

use super::path::{absolute, clean, join};
use crate::error::{Error, Result};

/// Returns the names in a directory, in any order. Symbolic links are followed, because the user typed the targets.
pub type List<'a> = dyn FnMut(&[u8]) -> Result<Vec<Vec<u8>>> + 'a;

/// The top of a snapshot's tree: names and targets.
pub type Targets = BTreeMap<Vec<u8>, Target>;

/// An entry of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The file or directory at `path`, with all its content.
    Leaf {
        path: Vec<u8>,
        /// The user named it: exclusions do not apply to it, only to its content.
        explicit: bool,
    },
    /// A directory above targets: its metadata is that of `path`; of its content, only the way to the targets is
    /// stored.
    Above { path: Vec<u8>, children: Targets },
}

/// The tree for the user's targets.
pub fn tree<P: AsRef<[u8]>>(given: impl IntoIterator<Item = P>, list: &mut List<'_>) -> Result<Targets> {
    let mut root = Draft::default();
    let mut seen = std::collections::HashSet::new();
    for given in given {
        for (path, explicit) in resolved(given.as_ref(), list)? {
            if seen.insert(path.clone()) {
                root.add_at_top(&path, explicit)?;
            }
        }
    }
    root.unroll(list)?;
    root.children.into_iter().map(|(name, draft)| Ok((name, draft.finish()?))).collect()
}

/// The paths in the snapshot's metadata: absolute, in the given order.
pub fn snapshot_paths<P: AsRef<[u8]>>(given: impl IntoIterator<Item = P>, current: &[u8]) -> Vec<Vec<u8>> {
    given.into_iter().map(|path| absolute(current, path.as_ref())).collect()
}

/// A target without a component of its own is replaced by its content.
fn resolved(given: &[u8], list: &mut List<'_>) -> Result<Vec<(Vec<u8>, bool)>> {
    if given.is_empty() {
        return Err(Error::invalid("a target of the backup", "its path is empty"));
    }
    let path = clean(given);
    if !components(&path).is_empty() {
        return Ok(vec![(path, true)]);
    }
    let mut names = list(&path)?;
    names.sort_unstable();
    Ok(names.iter().map(|name| (join(&path, name), false)).collect())
}

/// The components, without the leading `..` of a relative path.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let anchored = join(b"/", path);
    anchored.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect()
}

/// The directory that contains the first own component of a cleaned path: `/`, `.`, `..`, `../..` …
fn root_of(path: &[u8]) -> Vec<u8> {
    if path.starts_with(b"/") {
        return b"/".to_vec();
    }
    let ups = path.split(|byte| *byte == b'/').filter(|part| *part == b"..");
    ups.fold(b".".to_vec(), |root, up| join(&root, up))
}

/// The tree while targets are added.
#[derive(Debug, Default)]
struct Draft {
    children: BTreeMap<Vec<u8>, Draft>,
    /// Set for a target.
    path: Option<Vec<u8>>,
    explicit: bool,
    /// Set for a directory above a target.
    metadata: Option<Vec<u8>>,
    /// At the top: distinguishes entries of the same name.
    root: Vec<u8>,
}

impl Draft {
    fn add_at_top(&mut self, path: &[u8], explicit: bool) -> Result<()> {
        let components = components(path);
        let Some((first, rest)) = components.split_first() else {
            return Err(Error::invalid("a target of the backup", "its path has no component"));
        };
        let root = root_of(path);
        let mut name = first.clone();
        let mut number = 0;
        while self.children.get(&name).is_some_and(|other| other.root != root) {
            number += 1;
            name = [first.as_slice(), format!("-{number}").as_bytes()].concat();
        }
        let child = self.children.entry(name).or_default();
        child.root.clone_from(&root);
        if rest.is_empty() {
            child.path = Some(path.to_vec());
            child.explicit = explicit;
            return Ok(());
        }
        child.add(path, join(&root, first), rest, explicit)
    }

    /// Adds the target at `rest` below this directory, which is at `here`.
    fn add(&mut self, path: &[u8], here: Vec<u8>, rest: &[Vec<u8>], explicit: bool) -> Result<()> {
        let mut draft = self;
        let mut here = here;
        for component in rest {
            let below = join(&here, component);
            draft.metadata = Some(here);
            draft = draft.children.entry(component.clone()).or_default();
            here = below;
        }
        if draft.path.is_some() {
            let what = format!("the target '{}'", String::from_utf8_lossy(path));
            return Err(Error::invalid(what, "it is given twice, through different paths"));
        }
        draft.path = Some(path.to_vec());
        draft.explicit = explicit;
        Ok(())
    }

    /// A target that contains other targets becomes a directory above all its content.
    fn unroll(&mut self, list: &mut List<'_>) -> Result<()> {
        let mut todo = vec![self];
        while let Some(draft) = todo.pop() {
            if let (Some(path), false) = (&draft.path, draft.children.is_empty()) {
                for name in list(path)? {
                    let below = join(path, &name);
                    let child = draft.children.entry(name).or_default();
                    if child.path.as_ref().is_some_and(|other| *other != below) {
                        let what = format!("the target '{}'", String::from_utf8_lossy(&below));
                        return Err(Error::invalid(what, "another target has the same path in the snapshot"));
                    }
                    child.path = Some(below);
                }
                draft.path = None;
                draft.explicit = false;
            }
            todo.extend(draft.children.values_mut());
        }
        Ok(())
    }

    fn finish(self) -> Result<Target> {
        match (self.path, self.metadata) {
            (Some(path), _) => Ok(Target::Leaf { path, explicit: self.explicit }),
            (None, Some(path)) => {
                let children = self.children.into_iter();
                let children = children.map(|(name, draft)| Ok((name, draft.finish()?)));
                Ok(Target::Above { path, children: children.collect::<Result<_>>()? })
            }
            (None, None) => Err(Error::invalid("a target of the backup", "its directory is unknown")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name=path` for a leaf, with `!` if it is explicit; `name=path(…)` for a directory above targets.
    fn show(targets: &Targets) -> String {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let entry = |(name, target): (&Vec<u8>, &Target)| match target {
            Target::Leaf { path, explicit } => {
                format!("{}{}{}", text(name), if *explicit { "!" } else { "=" }, text(path))
            }
            Target::Above { path, children } => format!("{}={}({})", text(name), text(path), show(children)),
        };
        targets.iter().map(entry).collect::<Vec<_>>().join(" ")
    }

    fn names(path: &[u8]) -> Result<Vec<Vec<u8>>> {
        let names: &[&[u8]] = match path {
            b"" => return Err(Error::invalid("the empty path", "asked for")),
            b"." | b"/srv" => &[b"y", b"x"],
            b".." | b"/" => &[b"work", b"tmp"],
            b"/a" => &[b"c", b"b", b"d"],
            b"/a/b" => &[b"e", b"f"],
            _ => &[],
        };
        Ok(names.iter().map(|name| name.to_vec()).collect())
    }

    #[rstest::rstest]
    #[case(&["/a"], "a!/a", "one directory")]
    #[case(&["/a/"], "a!/a", "cleaned")]
    #[case(&["/a/b", "/c"], "a=/a(b!/a/b) c!/c", "directories above targets are kept")]
    #[case(&["/a/b", "/a/c"], "a=/a(b!/a/b c!/a/c)", "two below one")]
    #[case(&["x"], "x!x", "relative")]
    #[case(&["x/y/z"], "x=x(y=x/y(z!x/y/z))", "relative, deeper")]
    #[case(&["../x/y"], "x=../x(y!../x/y)", "relative, from above")]
    #[case(&["../../x"], "x!../../x", "from further above")]
    #[case(&["."], "x=x y=y", "what the current directory contains")]
    #[case(&[".."], "tmp=../tmp work=../work", "what the directory above contains")]
    #[case(&["/"], "tmp=/tmp work=/work", "what the root contains")]
    #[case(&["x", "./x", "x/"], "x!x", "the same three times")]
    #[case(&["x", "/x"], "x!x x-1!/x", "two of one name")]
    #[case(&["x/y", "/x/y", "../x/y"], "x=x(y!x/y) x-1=/x(y!/x/y) x-2=../x(y!../x/y)", "three of one name")]
    #[case(&["/a", "/a/b"], "a=/a(b!/a/b c=/a/c d=/a/d)", "a target in a target stays explicit")]
    #[case(&["/a/b", "/a"], "a=/a(b!/a/b c=/a/c d=/a/d)", "in the other order")]
    #[case(&["/a", "/a/b/e"], "a=/a(b=/a/b(e!/a/b/e f=/a/b/f) c=/a/c d=/a/d)", "two levels")]
    #[case(&["/a", "/a/gone"], "a=/a(b=/a/b c=/a/c d=/a/d gone!/a/gone)", "one that is not listed")]
    #[case(&[".", "x"], "x=x y=y", "named after it was expanded")]
    #[case(&["x", "."], "x!x y=y", "named before it was expanded")]
    fn targets_make_the_tree_that_restic_makes(
        #[case] given: &[&str],
        #[case] expected: &str,
        #[case] reason: &str,
    ) {
        assert_eq!(show(&tree(given, &mut names).unwrap()), expected, "{reason}");
    }

    #[test]
    fn an_empty_target_is_refused() {
        assert!(tree([""], &mut names).is_err());
    }

    #[test]
    fn the_snapshot_names_absolute_paths() {
        let paths = snapshot_paths(["b", "../c/", "/a"], b"/srv");
        assert_eq!(paths, [b"/srv/b".to_vec(), b"/c".to_vec(), b"/a".to_vec()]);
    }
}
