//! Copies the program and its certificate authorities into a directory, from which they run in an image with other tools,
//! such as those of a database. Called by `lifeboat mover --copy-to` in an init container.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The running program.
const OWN: &str = "/proc/self/exe";
/// The certificate authorities of our image.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// The names of the copies.
const PROGRAM_COPY: &str = "lifeboat";
const AUTHORITIES_COPY: &str = "ca-certificates.crt";

/// Why a file could not be copied.
#[derive(Debug, thiserror::Error)]
#[error("cannot copy '{}' to '{}'", from.display(), to.display())]
pub struct CopyError {
    from: PathBuf,
    to: PathBuf,
    #[source]
    source: io::Error,
}

/// Copies the running program, with modes that let every user of the pod run it.
pub fn copy_to(directory: &Path) -> Result<(), CopyError> {
    copy_from(Path::new(OWN), Path::new(AUTHORITIES), directory)
}

fn copy_from(program: &Path, authorities: &Path, directory: &Path) -> Result<(), CopyError> {
    copy(program, &directory.join(PROGRAM_COPY), 0o755)?;
    match copy(authorities, &directory.join(AUTHORITIES_COPY), 0o644) {
        // An image of its own may have none.
        Err(error) if error.source.kind() == io::ErrorKind::NotFound && !authorities.exists() => Ok(()),
        copied => copied,
    }
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), CopyError> {
    // A container that was restarted finds its earlier copy, which may be incomplete.
    let copied = fs::copy(from, to).and_then(|_| fs::set_permissions(to, fs::Permissions::from_mode(mode)));
    copied.map_err(|source| CopyError { from: from.to_owned(), to: to.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_can_run_the_copy_and_read_the_authorities() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::write(path("own"), "program").unwrap();
        fs::create_dir(path("to")).unwrap();
        for authorities in [None, Some("pem")] {
            if let Some(pem) = authorities {
                fs::write(path("pem"), pem).unwrap();
            }
            copy_from(&path("own"), &path("pem"), &path("to")).unwrap();
            let found = fs::read_to_string(path("to/ca-certificates.crt")).ok();
            assert_eq!(found.as_deref(), authorities);
        }
        assert_eq!(fs::read_to_string(path("to/lifeboat")).unwrap(), "program");
        let mode = |name: &str| path(name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("to/lifeboat"), mode("to/ca-certificates.crt")), (0o755, 0o644));
        let error = copy_from(&path("own"), &path("pem"), &path("none")).unwrap_err().to_string();
        assert!(error.contains("/none/lifeboat'"), "{error}");
    }
}
