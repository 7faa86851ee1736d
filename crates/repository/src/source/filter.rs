//! What a backup leaves out, besides patterns on names: large files, directories with a tag file, other file systems.
//! The walk asks by name first, which costs nothing, and then with the `Stat`.

use std::collections::HashMap;
use std::io::Read;

use super::directory::DirectoryHandle;
use super::path;
use super::patterns::Patterns;
use super::stat::Stat;
use crate::error::{Error, Result};

/// `--exclude-caches`: as in the Cache Directory Tagging Specification.
const CACHE_TAG: &str = "CACHEDIR.TAG:Signature: 8a477f597d28d172789f06886806bc55";

/// All rules of a backup; by default nothing is left out. None of them applies to the targets that the user named.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// `--exclude` and `--iexclude` with the content of their files: each list separately.
    pub patterns: Vec<Patterns>,
    /// Absolute paths of directories that are left out with all their content, such as our own cache.
    pub own_directories: Vec<Vec<u8>>,
    /// `--exclude-larger-than`
    pub larger_than: Option<u64>,
    /// `--exclude-if-present` and `--exclude-caches`
    pub tag_files: Vec<TagFile>,
    /// `--one-file-system`: the file system of each target, by its absolute path. See `file_systems`.
    pub file_systems: HashMap<Vec<u8>, u64>,
}

/// A file whose presence excludes the other entries of its directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagFile {
    name: Vec<u8>,
    /// What it has to start with; empty for any content.
    header: Vec<u8>,
}

/// The properties of a directory that affect its entries.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The indexes of the tag files that it has.
    tags: Vec<usize>,
    /// The file system to which the backup is limited.
    file_system: Option<u64>,
    /// Whether the directory itself is on another file system: then it is a mount point, and is stored empty.
    elsewhere: bool,
}

impl Filter {
    /// Called first, with the absolute path.
    pub fn keeps_name(&self, path: &[u8]) -> bool {
        let is_own = |own: &Vec<u8>| {
            path.strip_prefix(own.as_slice()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        !self.own_directories.iter().any(is_own) && !self.patterns.iter().any(|list| list.matches(path))
    }

    /// Called second, with the metadata, for entries that passed `keeps_name`.
    pub fn keeps(&self, surroundings: &Surroundings, path: &[u8], name: &[u8], stat: &Stat) -> bool {
        let is_too_large = !stat.is_directory() && self.larger_than.is_some_and(|most| stat.size > most);
        let is_tagged = surroundings.tags.iter().any(|index| self.tag_files[*index].name != name);
        let own_system = self.file_systems.get(path).copied().or(surroundings.file_system);
        let is_elsewhere = own_system.is_some_and(|system| system != stat.device_id);
        // A mount point is stored as an empty directory.
        let is_mount_point = stat.is_directory() && !surroundings.elsewhere;
        !is_too_large && !is_tagged && (!is_elsewhere || is_mount_point)
    }

    /// Reads the properties of a directory before its entries are checked. `above` are those of its parent; None for
    /// the first. Problems with a tag file are added to `problems`.
    pub fn surroundings(
        &self,
        directory: &DirectoryHandle,
        path: &[u8],
        above: Option<&Surroundings>,
        problems: &mut Vec<Error>,
    ) -> Surroundings {
        let tags = (0..self.tag_files.len()).filter(|index| {
            let tag = &self.tag_files[*index];
            tag.is_in(directory).unwrap_or_else(|problem| {
                let what = path::join(path, &tag.name);
                let what = format!("the exclusion tag file '{}'", String::from_utf8_lossy(&what));
                problems.push(Error::invalid(what, format!("{problem}; nothing is left out because of it")));
                false
            })
        });
        Surroundings { tags: tags.collect(), ..self.without_tags(directory, path, above) }
    }

    /// Like `surroundings`, for the directory of a target that the user named: tag files beside it do not count.
    pub(super) fn without_tags(
        &self,
        directory: &DirectoryHandle,
        path: &[u8],
        above: Option<&Surroundings>,
    ) -> Surroundings {
        let inherited = || match above {
            Some(above) => above.file_system,
            None => self.file_system_above(path),
        };
        let file_system = self.file_systems.get(path).copied().or_else(inherited);
        let elsewhere = file_system.is_some_and(|system| system != directory.device_id());
        Surroundings { tags: Vec::new(), file_system, elsewhere }
    }

    fn file_system_above(&self, path: &[u8]) -> Option<u64> {
        let above = std::iter::successors(path::split(path), |(dir, _)| path::split(dir));
        above.map(|(dir, _)| dir).find_map(|dir| self.file_systems.get(dir).copied())
    }
}

/// For `Filter::file_systems`: the file system of each target.
pub fn file_systems<P: AsRef<[u8]>>(
    targets: impl IntoIterator<Item = P>,
    current: &[u8],
) -> Result<HashMap<Vec<u8>, u64>> {
    let system = |target: P| {
        let path = path::absolute(current, target.as_ref());
        let stat = Stat::at(rustix::fs::CWD, &path)
            .map_err(Error::file("read the metadata of", super::os_path(&path)))?;
        Ok((path, stat.device_id))
    };
    targets.into_iter().map(system).collect()
}

/// `--exclude-larger-than`: a number of bytes, or with `k`, `m`, `g` or `t`, of 1024, 1024² … bytes.
pub fn parse_size(text: &str) -> Result<u64> {
    let unit = match text.as_bytes().last().map(u8::to_ascii_lowercase) {
        Some(b'b') => Some(0),
        Some(b'k') => Some(10),
        Some(b'm') => Some(20),
        Some(b'g') => Some(30),
        Some(b't') => Some(40),
        _ => None,
    };
    let digits = if unit.is_some() { &text[..text.len() - 1] } else { text };
    let number = digits.parse::<u64>().ok();
    let bytes = number.and_then(|number| number.checked_mul(1 << unit.unwrap_or(0)));
    bytes.filter(|bytes| i64::try_from(*bytes).is_ok()).ok_or_else(|| {
        Error::invalid(format!("the size '{text}'"), "expected a number, optionally followed by k, m, g or t")
    })
}

impl TagFile {
    /// `name` or `name:header`.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let mut parts = text.splitn(2, |byte| *byte == b':');
        let name = parts.next().unwrap_or_default().to_vec();
        if name.is_empty() || name.contains(&b'/') {
            let what = format!("the exclusion tag file '{}'", String::from_utf8_lossy(text));
            return Err(Error::invalid(what, "its name is empty or has a '/'"));
        }
        Ok(Self { name, header: parts.next().unwrap_or_default().to_vec() })
    }

    /// `--exclude-caches`
    pub fn of_caches() -> Self {
        let (name, header) = CACHE_TAG.split_once(':').unwrap_or_default();
        Self { name: name.into(), header: header.into() }
    }

    /// Whether the directory has the file; an error if it has one that does not count.
    fn is_in(&self, directory: &DirectoryHandle) -> std::result::Result<bool, String> {
        match directory.stat(&self.name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error.to_string()),
            Ok(_) if self.header.is_empty() => return Ok(true),
            Ok(_) => {}
        }
        let (file, _) = directory.open_file(&self.name).map_err(|error| error.to_string())?;
        let mut start = Vec::with_capacity(self.header.len());
        let length = u64::try_from(self.header.len()).unwrap_or(u64::MAX);
        file.take(length).read_to_end(&mut start).map_err(|error| error.to_string())?;
        if start == self.header { Ok(true) } else { Err("it does not start with its signature".to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::patterns::Case;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    const FILE: Stat = stat(0o100_644, 10, 1);

    const fn stat(mode: u32, size: u64, device_id: u64) -> Stat {
        let time = crate::node::NodeTime { seconds: 0, nanoseconds: 0, offset: 0 };
        Stat {
            mode,
            size,
            allocated: size,
            device_id,
            inode: 0,
            links: 1,
            uid: 0,
            gid: 0,
            device: 0,
            mtime: time,
            atime: time,
            ctime: time,
        }
    }

    #[rstest::rstest]
    #[case("0", Some(0))]
    #[case("17", Some(17))]
    #[case("17b", Some(17))]
    #[case("3K", Some(3 << 10))]
    #[case("3m", Some(3 << 20))]
    #[case("3G", Some(3 << 30))]
    #[case("3t", Some(3 << 40))]
    #[case("", None)]
    #[case("k", None)]
    #[case("-1", None)]
    #[case("1.5G", None)]
    #[case("1 k", None)]
    #[case("8388608t", None)]
    #[case("1ä", None)]
    fn sizes_have_units_of_1024(#[case] text: &str, #[case] expected: Option<u64>) {
        assert_eq!(parse_size(text).ok(), expected);
    }

    #[test]
    fn large_files_are_left_out_but_not_directories() {
        let filter = Filter { larger_than: Some(9), ..Filter::default() };
        let keeps = |stat: &Stat| filter.keeps(&Surroundings::default(), b"/a", b"a", stat);
        assert!(!keeps(&FILE));
        assert!(keeps(&stat(0o100_644, 9, 1)));
        assert!(keeps(&stat(0o040_755, 10, 1)));
    }

    #[test]
    fn names_are_asked_about_in_every_list() {
        let patterns = vec![
            Patterns::parse(["*.TMP"], Case::Ignored).unwrap(),
            Patterns::parse(["/a/b", "!/a/b/c"], Case::Matters).unwrap(),
        ];
        let filter = Filter { patterns, own_directories: vec![b"/cache".to_vec()], ..Filter::default() };
        let kept = ["/x.tmp", "/a/b/d", "/a/b/c", "/cache", "/cache/x", "/caches"];
        let kept = kept.map(|path| filter.keeps_name(path.as_bytes()));
        assert_eq!(kept, [false, false, true, false, false, true]);
    }

    #[rstest::rstest]
    #[case(false, FILE, true, "the same file system")]
    #[case(false, stat(0o100_644, 1, 2), false, "a file on another one")]
    #[case(false, stat(0o040_755, 1, 2), true, "a mount point")]
    #[case(true, stat(0o040_755, 1, 2), false, "a directory in a mount point")]
    #[case(true, stat(0o100_644, 1, 2), false, "a file in a mount point")]
    #[case(true, FILE, true, "back on the right one")]
    fn the_walk_stays_on_a_file_system(
        #[case] elsewhere: bool,
        #[case] stat: Stat,
        #[case] expected: bool,
        #[case] reason: &str,
    ) {
        let surroundings = Surroundings { tags: vec![], file_system: Some(1), elsewhere };
        assert_eq!(Filter::default().keeps(&surroundings, b"/a/b", b"b", &stat), expected, "{reason}");
    }

    #[test]
    fn a_target_on_another_file_system_is_its_own_measure() {
        let file_systems = HashMap::from([(b"/a".to_vec(), 1), (b"/a/b".to_vec(), 2)]);
        let filter = Filter { file_systems, ..Filter::default() };
        let surroundings = Surroundings { file_system: Some(1), ..Surroundings::default() };
        assert!(filter.keeps(&surroundings, b"/a/b", b"b", &stat(0o100_644, 1, 2)));
        assert_eq!(filter.file_system_above(b"/a/b/c/d"), Some(2));
        assert_eq!(filter.file_system_above(b"/a/c/d"), Some(1));
        assert_eq!(filter.file_system_above(b"/c"), None);
    }

    #[rstest::rstest]
    #[case("TAG", None, &[], 0, "no such file")]
    #[case("TAG", Some(""), &["other"], 0, "mere presence")]
    #[case("TAG:right", Some("right and more"), &["other"], 0, "the header fits")]
    #[case("TAG:right", Some("wrong and more"), &[], 1, "another header")]
    #[case("TAG:right", Some("rig"), &[], 1, "too short")]
    fn a_tag_file_leaves_out_what_is_beside_it(
        #[case] tag: &str,
        #[case] content: Option<&str>,
        #[case] left_out: &[&str],
        #[case] problems: usize,
        #[case] reason: &str,
    ) {
        let dir = tempfile::tempdir().unwrap();
        if let Some(content) = content {
            fs::write(dir.path().join("TAG"), content).unwrap();
        }
        let path = dir.path().as_os_str().as_bytes();
        let tag_files = vec![TagFile::of_caches(), TagFile::parse(tag.as_bytes()).unwrap()];
        let filter = Filter { tag_files, ..Filter::default() };
        let mut found = Vec::new();
        let directory = DirectoryHandle::open(path).unwrap();
        let surroundings = filter.surroundings(&directory, path, None, &mut found);
        let gone: Vec<_> = ["TAG", "other"]
            .into_iter()
            .filter(|name| !filter.keeps(&surroundings, b"/x", name.as_bytes(), &FILE))
            .collect();
        assert_eq!((gone.as_slice(), found.len()), (left_out, problems), "{reason}");
    }

    #[test]
    fn tag_files_need_a_name() {
        for text in ["", ":header", "a/b"] {
            assert!(TagFile::parse(text.as_bytes()).is_err());
        }
        let caches = TagFile::of_caches();
        assert_eq!(caches, TagFile::parse(CACHE_TAG.as_bytes()).unwrap());
    }
}
