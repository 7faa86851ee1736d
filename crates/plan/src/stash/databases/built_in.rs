//! The names of built-in tasks: `<family>-backup-<version>` and `<family>-restore-<version>`, as upstream's catalogue has them.

use std::collections::BTreeMap;
use std::fmt;

/// A family of databases with one set of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    Mysql,
    Mariadb,
    Postgres,
}

/// Whether data is read from the application or written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Backup,
    Restore,
}

/// A built-in task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    pub family: Family,
    pub direction: Direction,
    /// The version of the database, and so of its tools.
    pub version: String,
}

impl Family {
    pub const ALL: [Self; 3] = [Self::Mysql, Self::Mariadb, Self::Postgres];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mysql => "mysql",
            Self::Mariadb => "mariadb",
            Self::Postgres => "postgres",
        }
    }

    pub(super) fn port(self) -> u16 {
        match self {
            Self::Mysql | Self::Mariadb => 3306,
            Self::Postgres => 5432,
        }
    }

    /// The default user, if the AppBinding names none.
    pub(super) fn user(self) -> &'static str {
        match self {
            Self::Mysql | Self::Mariadb => "root",
            Self::Postgres => "postgres",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl Direction {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::Restore => "restore",
        }
    }
}

impl BuiltIn {
    /// The built-in task of this name; None if there is none.
    pub fn parse(name: &str) -> Option<Self> {
        for family in Family::ALL {
            for direction in [Direction::Backup, Direction::Restore] {
                let prefix = format!("{family}-{}-", direction.as_str());
                let version = name.strip_prefix(&prefix).filter(|version| is_tag(version));
                if let Some(version) = version {
                    return Some(Self { family, direction, version: version.to_owned() });
                }
            }
        }
        None
    }

    /// The image with its tools. `images`: those that the administrator set, by family.
    pub fn image(&self, images: &BTreeMap<String, String>) -> String {
        let own = images.get(self.family.as_str()).cloned();
        own.unwrap_or_else(|| format!("docker.io/library/{}:{}", self.family, self.version))
    }
}

/// Whether the text can be the tag of an image with a version in it.
fn is_tag(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.starts_with(|first: char| first.is_ascii_digit()) && text.len() <= 128 && text.bytes().all(is_plain)
}
