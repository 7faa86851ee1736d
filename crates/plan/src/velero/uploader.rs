//! Settings for copying files: from `uploaderConfig` of Backups and Restores into the settings of the objects of single
//! volumes (`uploaderSettings` of PodVolumeBackups and PodVolumeRestores, `dataMoverConfig` of DataUploads and
//! DataDownloads), and from those into what a mover does. Keys and values are upstream's, so that objects of either
//! server mean the same. Called by the pipelines, which write the settings, and by the controllers of the four kinds.

use std::collections::BTreeMap;

use lifeboat_api::velero::{UploaderConfigForBackup, UploaderConfigForRestore};

/// How many files are read at once.
const PARALLEL_UPLOAD: &str = "ParallelFilesUpload";
/// How many files are written at once.
const PARALLEL_DOWNLOAD: &str = "ParallelFilesDownload";
/// Whether zeros become holes.
const SPARSE: &str = "WriteSparseFiles";

/// The most threads of a mover. Each takes memory, of which a mover has 1 GiB by default; a larger number is lowered to
/// this one.
pub const MOST_THREADS: usize = 16;

/// The settings of one volume's object.
pub type UploaderSettings = BTreeMap<String, String>;

/// A setting whose value has no meaning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the uploader setting {key} is {value:?}; expected {expected}")]
pub struct UploaderSettingError {
    key: &'static str,
    value: String,
    expected: &'static str,
}

/// How a mover writes files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writing {
    /// None: the mover's own default.
    pub threads: Option<usize>,
    pub sparse: bool,
}

/// The settings for objects of a Backup.
pub fn for_backup(config: Option<&UploaderConfigForBackup>) -> UploaderSettings {
    let count = config.and_then(|config| config.parallel_files_upload);
    number(PARALLEL_UPLOAD, count).into_iter().collect()
}

/// The settings for objects of a Restore.
pub fn for_restore(config: Option<&UploaderConfigForRestore>) -> UploaderSettings {
    let count = config.and_then(|config| config.parallel_files_download);
    let sparse = config.and_then(|config| config.write_sparse_files);
    let sparse = sparse.map(|sparse| (SPARSE.to_owned(), sparse.to_string()));
    number(PARALLEL_DOWNLOAD, count).into_iter().chain(sparse).collect()
}

/// How many threads a mover that reads files has; None for its own default.
pub fn reading_threads(settings: Option<&UploaderSettings>) -> Result<Option<usize>, UploaderSettingError> {
    threads(settings, PARALLEL_UPLOAD)
}

/// How a mover writes files. Without a setting it leaves holes where files have zeros.
pub fn writing(settings: Option<&UploaderSettings>) -> Result<Writing, UploaderSettingError> {
    let sparse = match settings.and_then(|all| all.get(SPARSE)) {
        None => true,
        Some(value) => boolean(value).ok_or_else(|| UploaderSettingError {
            key: SPARSE,
            value: value.clone(),
            expected: "true or false",
        })?,
    };
    Ok(Writing { threads: threads(settings, PARALLEL_DOWNLOAD)?, sparse })
}

/// A number that is not positive means the default, as for upstream.
fn number(key: &str, count: Option<i64>) -> Option<(String, String)> {
    count.filter(|count| *count > 0).map(|count| (key.to_owned(), count.to_string()))
}

fn threads(
    settings: Option<&UploaderSettings>,
    key: &'static str,
) -> Result<Option<usize>, UploaderSettingError> {
    let Some(value) = settings.and_then(|all| all.get(key)) else { return Ok(None) };
    let count: i64 = value.parse().map_err(|_| UploaderSettingError {
        key,
        value: value.clone(),
        expected: "a number of files",
    })?;
    let count = usize::try_from(count).unwrap_or_default().min(MOST_THREADS);
    Ok((count > 0).then_some(count))
}

/// The spellings that Go's `strconv.ParseBool` reads.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn settings(all: &[(&str, &str)]) -> UploaderSettings {
        all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[rstest]
    #[case::nothing(None, &[])]
    #[case::the_default(Some(0), &[])]
    #[case::negative(Some(-1), &[])]
    #[case::given(Some(7), &[("ParallelFilesUpload", "7")])]
    fn a_backup_s_settings_have_upstreams_keys(
        #[case] count: Option<i64>,
        #[case] expected: &[(&str, &str)],
    ) {
        let config = UploaderConfigForBackup { parallel_files_upload: count };
        assert_eq!(for_backup(Some(&config)), settings(expected));
        assert_eq!(for_backup(None), settings(&[]));
    }

    #[rstest]
    #[case::nothing(None, None, &[])]
    #[case::both(Some(false), Some(3), &[("WriteSparseFiles", "false"), ("ParallelFilesDownload", "3")])]
    #[case::sparse(Some(true), Some(0), &[("WriteSparseFiles", "true")])]
    fn a_restore_s_settings_have_upstreams_keys(
        #[case] sparse: Option<bool>,
        #[case] count: Option<i64>,
        #[case] expected: &[(&str, &str)],
    ) {
        let config = UploaderConfigForRestore { write_sparse_files: sparse, parallel_files_download: count };
        assert_eq!(for_restore(Some(&config)), settings(expected));
    }

    #[rstest]
    #[case::none(&[], None, Writing { threads: None, sparse: true })]
    #[case::upstreams_zero(&[("ParallelFilesUpload", "0")], None, Writing { threads: None, sparse: true })]
    #[case::each_its_own(&[("ParallelFilesUpload", "2"), ("ParallelFilesDownload", "3"), ("WriteSparseFiles", "F")],
        Some(2), Writing { threads: Some(3), sparse: false })]
    #[case::more_than_a_mover_has_room_for(&[("ParallelFilesUpload", "1000"), ("ParallelFilesDownload", "17")],
        Some(16), Writing { threads: Some(16), sparse: true })]
    #[case::keys_of_other_movers(&[("chunks", "x")], None, Writing { threads: None, sparse: true })]
    fn settings_are_read(
        #[case] all: &[(&str, &str)],
        #[case] reads: Option<usize>,
        #[case] writes: Writing,
    ) {
        let all = settings(all);
        assert_eq!((reading_threads(Some(&all)), writing(Some(&all))), (Ok(reads), Ok(writes)));
    }

    #[test]
    fn a_value_without_a_meaning_is_named() {
        let error = reading_threads(Some(&settings(&[("ParallelFilesUpload", "many")]))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the uploader setting ParallelFilesUpload is \"many\"; expected a number of files"
        );
        let error = writing(Some(&settings(&[("WriteSparseFiles", "yes")]))).unwrap_err();
        assert!(error.to_string().contains("WriteSparseFiles is \"yes\"; expected true or false"), "{error}");
    }
}
