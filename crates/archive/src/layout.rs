//! Where the files of a backup and of a restore are: Velero's layout, below the location's prefix. Names come from
//! objects and from listings of buckets, so they are checked once, here.

use std::fmt;

/// The directory that holds a directory for each backup.
pub const BACKUPS: &str = "backups/";
/// The directory that holds a directory for each restore.
pub const RESTORES: &str = "restores/";

/// A name that no Backup or Restore can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{name}' is no name of a backup or restore: {problem}")]
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

    /// `backups/NAME/`: everything of the backup is below it.
    pub fn directory(&self) -> String {
        format!("{BACKUPS}{}/", self.name)
    }

    /// The Backup object: written last, and what makes a directory a backup.
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

    /// Lifeboat's own: the PodVolumeBackups of volumes in restic repositories. In upstream's file they would make a whole
    /// backup invisible to Velero from 1.19 on.
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

    /// Written by old versions of Velero only.
    pub fn csi_snapshots(&self) -> String {
        self.named("-csi-volumesnapshots.json.gz")
    }

    /// Written by old versions of Velero only.
    pub fn csi_contents(&self) -> String {
        self.named("-csi-volumesnapshotcontents.json.gz")
    }

    /// Written by old versions of Velero only.
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

    /// `restores/NAME/`: everything of the restore is below it.
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

    /// The one file whose name does not begin with `restore-`.
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

/// What Kubernetes takes as the name of a custom resource.
fn checked(name: &str) -> Result<String, NameError> {
    let problem = if name.is_empty() {
        "it is empty"
    } else if name.len() > 253 {
        "it has more than 253 characters"
    } else if !name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'.') {
        "only lower case letters, digits, '-' and '.' are allowed"
    } else if !name.split('.').all(|part| !part.is_empty() && !part.starts_with('-') && !part.ends_with('-'))
    {
        "it must begin and end with a letter or digit, also around each '.'"
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
