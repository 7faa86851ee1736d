//! Files with credentials, which plugins are handed by their path: readable by this user only, and gone when nobody uses them.
//! Written for locations of both kinds; what a server that was killed left behind goes when the next one starts.

use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// The names of this process's files begin so. In a container the server has the same number each time, so that it knows the
/// files of the one before; beside other servers on one machine it touches none of theirs.
fn prefix() -> String {
    format!("lifeboat-credentials-{}-", std::process::id())
}

/// As every file of `tempfile` it has mode 0600 and goes when it is dropped.
pub(crate) fn write(directory: &Path, content: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix(&prefix()).tempfile_in(directory)?;
    file.write_all(content)?;
    file.flush()?;
    Ok(file)
}

/// Removes what was left; called once, before anything is written.
pub(crate) fn clear(directory: &Path) {
    let prefix = prefix();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_one = entry.file_name().to_string_lossy().starts_with(&prefix);
        if is_one && let Err(error) = std::fs::remove_file(entry.path()) {
            tracing::warn!(path = %entry.path().display(), %error, "cannot remove credentials that were left behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_server_left_goes_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let (_, left) = write(directory.path(), b"secret").unwrap().keep().unwrap();
        let others = ["lifeboat-credentials-0-x", "spool-1"].map(|name| directory.path().join(name));
        for path in &others {
            std::fs::write(path, "").unwrap();
        }
        clear(directory.path());
        assert!(!left.exists());
        assert!(others.iter().all(|path| path.exists()));
        clear(&directory.path().join("missing"));
    }
}
