//! Files with the credentials of a location, for its plugin: they exist as long as they are used. A server that is
//! killed cannot remove them; the next one in the same container does.

use std::io::Write as _;
use std::path::Path;

use tempfile::NamedTempFile;

/// Prefix of the files' names, followed by the process ID and a dash.
const PREFIX: &str = "lifeboat-credentials-";

/// Writes a file that only this user can read, as every file of `tempfile`; it is removed when dropped.
pub(crate) fn write(directory: &Path, content: &[u8]) -> std::io::Result<NamedTempFile> {
    let prefix = format!("{PREFIX}{}-", std::process::id());
    let mut file = tempfile::Builder::new().prefix(&prefix).tempfile_in(directory)?;
    file.write_all(content)?;
    file.flush()?;
    Ok(file)
}

/// Removes the files of servers that are gone. Called before this server writes any, because in a restarted container
/// the earlier server had the same process ID.
pub(crate) fn clear(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
        let Some(process) = process.and_then(|(process, _)| process.parse::<u32>().ok()) else { continue };
        let lives = process != std::process::id() && Path::new("/proc").join(process.to_string()).exists();
        if !lives && let Err(error) = std::fs::remove_file(entry.path()) {
            tracing::warn!(%error, path = %entry.path().display(), "cannot remove old credentials");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_servers_that_are_gone_go_and_others_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let own = format!("{PREFIX}{}-abc", std::process::id());
        let parent = format!("{PREFIX}{}-abc", std::os::unix::process::parent_id());
        let gone = format!("{PREFIX}4294967295-abc");
        for name in [own.as_str(), parent.as_str(), gone.as_str(), "other"] {
            std::fs::write(path(name), "secret").unwrap();
        }
        clear(directory.path());
        assert!(!path(&own).exists() && !path(&gone).exists());
        assert!(path(&parent).exists() && path("other").exists());
    }
}
