//! The keys of the files of backups and restores: Velero's layout, below the location's prefix. Names come from
//! objects and from listings of buckets, so they are checked here, once.

use std::fmt;

/// The directory that contains a directory for each backup.
pub const BACKUPS: &str = "backups/";
/// The directory that contains a directory for each restore.
pub const RESTORES: &str = "restores/";

/// A name that no Backup or Restore can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{name}' is not a valid name of a backup or restore: {problem}")]
pub struct NameError {
    pub name: String,
    pub problem: &'static str,
}

/// The keys of a backup's files.
#[derive(Clone, PartialEq, Eq)]
pub struct BackupFiles {
    name: String,
}

impl BackupFiles {
    pub fn new(name: &str) -> Result<Self, NameError> {
        checked(name).map(|name| Self { name })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// `backups/NAME/`, the prefix of all files of the backup.
    pub fn directory(&self) -> String {
        format!("{BACKUPS}{}/", self.name)
    }

    /// The Backup object. It is written last; a directory without it is not a backup.
    pub fn metadata(&self) -> String {
        self.file("velero-backup.json")
    }

    /// The archive with the objects.
    pub fn contents(&self) -> String {
        self.named(".tar.gz")
    }

    pub fn log(&self) -> String {
        self.named("-logs.gz")
    }

    pub fn results(&self) -> String {
        self.named("-results.gz")
    }

    pub fn resource_list(&self) -> String {
        self.named("-resource-list.json.gz")
    }

    pub fn volume_info(&self) -> String {
        self.named("-volumeinfo.json.gz")
    }

    pub fn volume_snapshots(&self) -> String {
        self.named("-volumesnapshots.json.gz")
    }

    pub fn pod_volume_backups(&self) -> String {
        self.named("-podvolumebackups.json.gz")
    }

    /// Lifeboat's own: the PodVolumeBackups of volumes in restic repositories. In Velero's own file they would make
    /// the whole backup invisible to Velero 1.19 and later.
    pub fn volume_copies(&self) -> String {
        self.named("-lifeboat-podvolumebackups.json.gz")
    }

    /// Lifeboat's own: the VolumePluginBackups.
    pub fn volume_plugin_backups(&self) -> String {
        self.named("-volumepluginbackups.json.gz")
    }

    pub fn item_operations(&self) -> String {
        self.named("-itemoperations.json.gz")
    }

    /// Written only by old versions of Velero.
    pub fn csi_snapshots(&self) -> String {
        self.named("-csi-volumesnapshots.json.gz")
    }

    /// Written only by old versions of Velero.
    pub fn csi_contents(&self) -> String {
        self.named("-csi-volumesnapshotcontents.json.gz")
    }

    /// Written only by old versions of Velero.
    pub fn csi_classes(&self) -> String {
        self.named("-csi-volumesnapshotclasses.json.gz")
    }

    fn named(&self, rest: &str) -> String {
        format!("{BACKUPS}{0}/{0}{rest}", self.name)
    }

    fn file(&self, file: &str) -> String {
        format!("{BACKUPS}{}/{file}", self.name)
    }
}

impl fmt::Debug for BackupFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackupFiles({})", self.name)
    }
}

/// The keys of a restore's files.
#[derive(Clone, PartialEq, Eq)]
pub struct RestoreFiles {
    name: String,
}

impl RestoreFiles {
    pub fn new(name: &str) -> Result<Self, NameError> {
        checked(name).map(|name| Self { name })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// `restores/NAME/`, the prefix of all files of the restore.
    pub fn directory(&self) -> String {
        format!("{RESTORES}{}/", self.name)
    }

    pub fn log(&self) -> String {
        self.named("-logs.gz")
    }

    pub fn results(&self) -> String {
        self.named("-results.gz")
    }

    pub fn resource_list(&self) -> String {
        self.named("-resource-list.json.gz")
    }

    pub fn item_operations(&self) -> String {
        self.named("-itemoperations.json.gz")
    }

    /// The only file whose name does not start with `restore-`.
    pub fn volume_info(&self) -> String {
        format!("{RESTORES}{0}/{0}-volumeinfo.json.gz", self.name)
    }

    fn named(&self, rest: &str) -> String {
        format!("{RESTORES}{0}/restore-{0}{rest}", self.name)
    }
}

impl fmt::Debug for RestoreFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RestoreFiles({})", self.name)
    }
}

/// Checks what Kubernetes accepts as the name of a custom resource.
fn checked(name: &str) -> Result<String, NameError> {
    let problem = if name.is_empty() {
        "it is empty"
    } else if name.len() > 253 {
        "it has more than 253 characters"
    } else if !name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'.') {
        "only lower case letters, digits, '-' and '.' are allowed"
    } else if !name.split('.').all(|part| !part.is_empty() && !part.starts_with('-') && !part.ends_with('-'))
    {
        "it must start and end with a letter or digit, also around each '.'"
    } else {
        return Ok(name.to_owned());
    };
    Err(NameError { name: name.chars().take(253).collect(), problem })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn files_have_the_names_that_velero_gives_them() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/velero-1.18.3/bucket/");
        let backup = BackupFiles::new("golden").unwrap();
        let mut keys = vec![
            backup.metadata(),
            backup.contents(),
            backup.log(),
            backup.results(),
            backup.resource_list(),
            backup.volume_info(),
            backup.volume_snapshots(),
            backup.pod_volume_backups(),
            backup.item_operations(),
        ];
        let restore = RestoreFiles::new("golden-back").unwrap();
        keys.extend([
            restore.log(),
            restore.results(),
            restore.resource_list(),
            restore.item_operations(),
            restore.volume_info(),
        ]);
        let mut found = Vec::new();
        for directory in [backup.directory(), restore.directory()] {
            for entry in std::fs::read_dir(format!("{golden}{directory}")).unwrap() {
                found.push(format!("{directory}{}", entry.unwrap().file_name().to_str().unwrap()));
            }
        }
        keys.sort();
        found.sort();
        assert_eq!(keys, found);
    }

    #[rstest]
    #[case::plain("nightly-20260101", true)]
    #[case::dots("a.b-c.d", true)]
    #[case::empty("", false)]
    #[case::up("..", false)]
    #[case::slash("a/b", false)]
    #[case::upper("A", false)]
    #[case::dash_first("-a", false)]
    #[case::dash_last("a-", false)]
    #[case::empty_part("a..b", false)]
    #[case::space("a b", false)]
    fn only_names_of_objects_are_taken(#[case] name: &str, #[case] taken: bool) {
        assert_eq!(BackupFiles::new(name).is_ok(), taken);
        assert_eq!(RestoreFiles::new(name).is_ok(), taken);
    }

    #[test]
    fn a_name_that_is_too_long_is_refused() {
        assert!(BackupFiles::new(&"a".repeat(253)).is_ok());
        assert!(BackupFiles::new(&"a".repeat(254)).is_err());
    }
}
