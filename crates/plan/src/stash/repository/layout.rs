//! Which objects below a repository's prefix are its own files, for the deletion of its data. A bucket may hold other
//! objects below the prefix, and other repositories, even in directories with the names of restic's: only an object
//! whose whole key matches the layout belongs to the repository.

/// The directories of a repository: restic's, and Lifeboat's, in the order in which their files are deleted. The
/// config is in none of them.
pub const DIRECTORIES: [&str; 6] = ["snapshots", "index", "data", "locks", "lifeboat", "keys"];
/// The config of a repository.
pub const CONFIG: &str = "config";

/// The digits of a file's ID.
const ID: usize = 64;
/// The digits in the name of a state in the backend.
const STATE: usize = 32;
/// How many names of objects that stay are shown, and how many characters of each.
const SHOWN: usize = 10;
const LONGEST: usize = 100;

/// Whether a key below the repository's prefix is one of the repository's own files. The config of another repository is in a
/// directory, and no file of another repository has a key that the layout gives to this one.
pub fn is_own_file(key: &str) -> bool {
    let parts: Vec<&str> = key.split('/').collect();
    match parts.as_slice() {
        [CONFIG] => true,
        ["keys" | "locks" | "snapshots" | "index", id] | ["lifeboat", "prune", id] => is_hex(id, ID),
        ["data", directory, id] => directory.len() == 2 && id.starts_with(directory) && is_hex(id, ID),
        ["lifeboat", "state", name] => is_hex(name, STATE),
        _ => false,
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// What stays when the files of a repository are deleted: how many objects and directories, and the first of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    count: u64,
    first: Vec<String>,
}

impl Left {
    pub fn add(&mut self, name: &str) {
        self.count += 1;
        if self.first.len() < SHOWN {
            self.first.push(shown(name));
        }
    }

    pub fn is_nothing(&self) -> bool {
        self.count == 0
    }
}

/// As in "3 others stay: a, b, c"; empty if nothing stays.
impl std::fmt::Display for Left {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_nothing() {
            return Ok(());
        }
        let more = self.count - self.first.len() as u64;
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        write!(
            formatter,
            "{} that are no files of the repository stay: {}{more}",
            self.count,
            self.first.join(", ")
        )
    }
}

/// A name of the bucket, which anyone may have chosen.
fn shown(name: &str) -> String {
    let plain = name.chars().map(|c| if c.is_control() { '?' } else { c });
    let mut text: String = plain.take(LONGEST).collect();
    if name.chars().count() > LONGEST {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// An ID, with `ID` in the keys below.
    const HEX: &str = "ab0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcd";

    #[rstest]
    #[case::config("config")]
    #[case::key("keys/ID")]
    #[case::lock("locks/ID")]
    #[case::snapshot("snapshots/ID")]
    #[case::index("index/ID")]
    #[case::pack("data/ab/ID")]
    #[case::marks_of_a_prune("lifeboat/prune/ID")]
    #[case::state("lifeboat/state/0123456789abcdef0123456789abcdef")]
    fn a_file_of_the_layout_is_the_repositorys_own(#[case] key: &str) {
        assert!(is_own_file(&key.replace("ID", HEX)), "{key}");
    }

    #[rstest]
    #[case::of_a_repository_below("team-b/config")]
    #[case::of_a_repository_in_data("data/config")]
    #[case::its_keys("data/keys/ID")]
    #[case::its_packs("data/data/ab/ID")]
    #[case::of_a_repository_in_a_directory_of_data("data/ab/config")]
    #[case::its_snapshots("data/ab/snapshots/ID")]
    #[case::of_a_repository_in_keys("keys/config")]
    #[case::its_locks("keys/locks/ID")]
    #[case::of_a_repository_in_lifeboat("lifeboat/config")]
    #[case::its_index("lifeboat/index/ID")]
    #[case::of_a_person("photos/a.jpg")]
    #[case::beside_the_config("config.bak")]
    #[case::no_id("keys/x")]
    #[case::a_longer_name("keys/ID0")]
    #[case::a_temporary_file("snapshots/ID-tmp-1")]
    #[case::capitals("keys/AB0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCD")]
    #[case::a_pack_in_another_directory("data/cd/ID")]
    #[case::a_pack_without_a_directory("data/ID")]
    #[case::a_directory_marker("data/")]
    #[case::the_name_of_a_directory("data")]
    #[case::nothing("")]
    fn whatever_else_is_there_is_not(#[case] key: &str) {
        assert!(!is_own_file(&key.replace("ID", HEX)), "{key}");
    }

    #[test]
    fn what_stays_is_counted_and_named_as_far_as_there_is_room() {
        let mut left = Left::default();
        assert_eq!((left.is_nothing(), left.to_string()), (true, String::new()));
        left.add("data/config");
        assert_eq!(left.to_string(), "1 that are no files of the repository stay: data/config");
        left.add(&format!("a\n{}", "ü".repeat(5000)));
        for number in 0..1_000_000 {
            left.add(&number.to_string());
        }
        let text = left.to_string();
        assert!(text.starts_with("1000002 that") && text.ends_with("and 999992 more"), "{text}");
        assert!(text.len() < 1500 && text.contains("a?ü") && !text.contains('\n'), "{text}");
    }
}
