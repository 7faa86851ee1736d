//! The arguments `"$@"` of a command, by the program that gets them. Pure.

use super::AgentError;

/// Which databases a Restic or a Recovery names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Database {
    /// None is named.
    #[default]
    Unnamed,
    All,
    Named(String),
}

impl Database {
    /// The word that stands for all databases.
    const ALL: &str = "all";

    /// The field `database`, which may be missing. A name is an argument of a program, so it must not look like an option.
    pub fn parse(name: Option<&str>) -> Result<Self, AgentError> {
        match name.unwrap_or_default() {
            "" => Ok(Self::Unnamed),
            Self::ALL => Ok(Self::All),
            name if name.starts_with('-') || name.contains('\0') => {
                Err(AgentError::DatabaseName { name: name.to_owned() })
            }
            name => Ok(Self::Named(name.to_owned())),
        }
    }

    /// The databases of a recovery: what it names itself, else what the snapshot's tag says.
    pub fn of_recovery(named: Option<&str>, tag: Option<&str>) -> Result<Self, AgentError> {
        Self::parse(named.filter(|name| !name.is_empty()).or(tag))
    }

    /// The value of `DB_NAME`.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Unnamed => None,
            Self::All => Some(Self::ALL),
            Self::Named(name) => Some(name),
        }
    }
}

/// Whether a dump by this program names its databases itself, so that the program that loads it needs no name.
pub(super) fn names_its_databases(program: &str) -> bool {
    matches!(program, "mysqldump" | "mariadb-dump" | "pg_dumpall")
}

/// The arguments of a program that dumps: the names of the databases.
pub(super) fn of_backup(program: Option<&str>, database: &Database) -> Vec<String> {
    let words: &[&str] = match (program, database) {
        // Without a name these programs refuse to run.
        (Some("mysqldump" | "mariadb-dump"), Database::All | Database::Unnamed) => &["--all-databases"],
        (Some("mysqldump" | "mariadb-dump"), Database::Named(name)) => &["--databases", name],
        (_, Database::Named(name)) => &[name],
        (_, Database::All | Database::Unnamed) => &[],
    };
    words.iter().map(|&word| word.to_owned()).collect()
}

/// The arguments of a program that loads. `dump_names_it`: whether the dump says which database it is for.
pub(super) fn of_recovery(database: &Database, dump_names_it: bool) -> Vec<String> {
    match database {
        Database::Named(name) if !dump_names_it => vec![name.clone()],
        _ => Vec::new(),
    }
}
