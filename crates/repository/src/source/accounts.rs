//! Names of users and groups, from `/etc/passwd` and `/etc/group`. There is no other source: the binary is static, so
//! it cannot use the system's name services. Backup writes the names into nodes, restore looks them up with
//! `--ownership-by-name`.

use std::collections::HashMap;
use std::path::Path;

/// Names by number and numbers by name; the first matching line wins, as in the system's own lookup.
#[derive(Debug, Clone, Default)]
pub struct Accounts {
    users: Names,
    groups: Names,
}

#[derive(Debug, Clone, Default)]
struct Names {
    by_id: HashMap<u32, String>,
    by_name: HashMap<String, u32>,
}

impl Accounts {
    /// From the files of this system; files that are missing or unreadable count as empty.
    pub fn of_system() -> Self {
        let read = |path: &str| std::fs::read(Path::new(path)).unwrap_or_default();
        Self::parse(&read("/etc/passwd"), &read("/etc/group"))
    }

    /// From the content of the two files.
    pub fn parse(passwd: &[u8], group: &[u8]) -> Self {
        Self { users: Names::parse(passwd, 6), groups: Names::parse(group, 4) }
    }

    /// Empty if no user has this number.
    pub fn user_name(&self, uid: u32) -> &str {
        self.users.by_id.get(&uid).map_or("", String::as_str)
    }

    /// Empty if no group has this number.
    pub fn group_name(&self, gid: u32) -> &str {
        self.groups.by_id.get(&gid).map_or("", String::as_str)
    }

    pub fn user_id(&self, name: &str) -> Option<u32> {
        self.users.by_name.get(name).copied()
    }

    pub fn group_id(&self, name: &str) -> Option<u32> {
        self.groups.by_name.get(name).copied()
    }
}

impl Names {
    /// Lines of `name:password:number:…` with at least `fields` fields.
    fn parse(text: &[u8], fields: usize) -> Self {
        let mut names = Self::default();
        for line in String::from_utf8_lossy(text).lines().map(str::trim) {
            let parts: Vec<_> = line.split(':').collect();
            let &[name, _, id, ..] = parts.as_slice() else { continue };
            // `+` and `-` are directives of NIS, not names.
            if parts.len() < fields || name.is_empty() || name.starts_with(['#', '+', '-']) {
                continue;
            }
            if let Ok(id) = id.parse() {
                names.by_id.entry(id).or_insert_with(|| name.to_owned());
                names.by_name.entry(name.to_owned()).or_insert(id);
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_both_ways_and_broken_lines_are_skipped() {
        let passwd =
            b"root:x:0:0:root:/root:/bin/sh\n# a comment:x:5:5:::\n\n  www:x:33:33:::\ntoor:x:0:0:::\n\
            +nis:x:77:77:::\nshort:x:99\nodd:x:no:1:::\n:x:50:50:::\nroot:x:1000:1:::\n";
        let group = b"root:x:0:\nwheel:x:10:a,b\nfew:x:11\n";
        let accounts = Accounts::parse(passwd, group);
        let users: Vec<_> = [0, 33, 5, 77, 99, 50, 1000].map(|uid| accounts.user_name(uid)).into();
        assert_eq!(users, ["root", "www", "", "", "", "", "root"]);
        assert_eq!([0, 10, 11].map(|gid| accounts.group_name(gid)), ["root", "wheel", ""]);
        assert_eq!(
            ["root", "toor", "www", "odd"].map(|name| accounts.user_id(name)),
            [Some(0), Some(0), Some(33), None]
        );
        assert_eq!(["wheel", "few"].map(|name| accounts.group_id(name)), [Some(10), None]);
    }
}
