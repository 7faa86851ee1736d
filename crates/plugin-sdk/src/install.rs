//! `PROGRAM install [DIRECTORY]`: the program copies itself into a plugin directory. Hosts run plugin images as init
//! containers with that directory at `/target`, so that an image needs neither a shell nor a copy program.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::{ServeError, Served};

const TARGET: &str = "/target";

/// The target directory, if the arguments ask for an installation.
pub(crate) fn asked_for(
    mut arguments: impl Iterator<Item = OsString>,
) -> Result<Option<PathBuf>, ServeError> {
    if arguments.next().is_none_or(|first| first != "install") {
        return Ok(None);
    }
    let rest: Vec<OsString> = arguments.collect();
    match rest.as_slice() {
        [] => Ok(Some(PathBuf::from(TARGET))),
        [directory] if !directory.as_encoded_bytes().starts_with(b"-") => Ok(Some(PathBuf::from(directory))),
        _ => Err(ServeError::InstallArguments),
    }
}

pub(crate) fn install(directory: &Path) -> Served {
    let copied = std::env::current_exe().and_then(|program| copy(&program, directory));
    copied.map_err(|error| ServeError::Install { path: directory.display().to_string(), error })
}

/// Copies under a temporary name that no host takes for a program, because a host may read the directory meanwhile.
fn copy(program: &Path, directory: &Path) -> io::Result<()> {
    let name = program.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut partial = OsString::from(".");
    partial.push(name);
    let partial = directory.join(partial);
    let mut file = File::create(&partial)?;
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    io::copy(&mut File::open(program)?, &mut file)?;
    file.sync_all()?;
    file.set_permissions(fs::Permissions::from_mode(0o755))?;
    drop(file);
    fs::rename(partial, directory.join(name))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_the_word_install_asks_for_it() {
        let asked = |arguments: &[&str]| asked_for(arguments.iter().map(OsString::from)).unwrap();
        assert_eq!(asked(&["install"]), Some("/target".into()));
        assert_eq!(asked(&["install", "/here"]), Some("/here".into()));
        assert_eq!(asked(&["--log-level=info", "install"]), None);
        assert_eq!(asked(&[]), None);
    }

    #[test]
    fn what_install_does_not_understand_is_refused() {
        for arguments in [&["install", "--help"][..], &["install", "/a", "/b"][..]] {
            let error = asked_for(arguments.iter().map(OsString::from)).unwrap_err().to_string();
            assert!(error.contains("install [DIRECTORY]"), "{error}");
        }
    }

    #[test]
    fn the_copy_can_be_run_and_replaces_an_older_one() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("plugin");
        fs::write(&program, "new").unwrap();
        let target = tempfile::tempdir().unwrap();
        fs::write(target.path().join("plugin"), "old and longer").unwrap();
        copy(&program, target.path()).unwrap();
        let copied = target.path().join("plugin");
        assert_eq!(fs::read(&copied).unwrap(), b"new");
        assert_eq!(fs::metadata(&copied).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::read_dir(target.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = install(Path::new("/no/such/directory")).unwrap_err().to_string();
        assert!(error.contains("'/no/such/directory'"), "{error}");
    }
}
