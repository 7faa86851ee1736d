//! The init container of a restored pod: waits until every volume below a directory has the file that a mover writes
//! after it has restored and verified everything. The files are kept: when a node restarts, init containers run
//! again, but no mover does. Called by `lifeboat restore-wait`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// The directory in which a restored pod's init container has the volumes.
pub const VOLUMES: &str = "/restores";
/// The directory of the done file in each volume; Velero's name.
pub const DIRECTORY: &str = ".velero";
const INTERVAL: Duration = Duration::from_secs(1);
/// After how many polls the missing volumes are reported again.
const REPORT_EVERY: u32 = 30;

/// Waits for all volumes; false if `stop` was cancelled first. `report` gets lines for the user.
pub async fn wait(
    volumes: &Path,
    uid: &str,
    report: &mut (dyn FnMut(&str) + Send),
    stop: &CancellationToken,
) -> io::Result<bool> {
    let all = directories(volumes)?;
    let mut reported: Vec<PathBuf> = Vec::new();
    for round in 0_u32.. {
        let missing: Vec<_> = all.iter().filter(|volume| !is_there(volume, uid)).cloned().collect();
        if missing.is_empty() {
            break;
        }
        if missing != reported || round % REPORT_EVERY == 0 {
            for volume in &missing {
                report(&format!("waiting for {}", volume.join(DIRECTORY).join(uid).display()));
            }
            reported = missing;
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = stop.cancelled() => return Ok(false),
        }
    }
    report("all volumes are restored");
    Ok(true)
}

fn directories(volumes: &Path) -> io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(volumes)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            all.push(entry.path());
        }
    }
    all.sort();
    Ok(all)
}

/// Whether the file exists; a symbolic link does not count.
fn is_there(volume: &Path, uid: &str) -> bool {
    let file = volume.join(DIRECTORY).join(uid);
    let is_real =
        |path: &Path, is: fn(&std::fs::Metadata) -> bool| path.symlink_metadata().is_ok_and(|it| is(&it));
    is_real(&volume.join(DIRECTORY), std::fs::Metadata::is_dir) && is_real(&file, std::fs::Metadata::is_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(root: &Path, name: &str) -> PathBuf {
        let volume = root.join(name);
        std::fs::create_dir_all(volume.join(DIRECTORY)).unwrap();
        volume
    }

    #[tokio::test(start_paused = true)]
    async fn it_waits_for_every_volume_and_once_more_after_a_restart_for_none() {
        let root = tempfile::tempdir().unwrap();
        let (one, two) = (volume(root.path(), "one"), volume(root.path(), "two"));
        std::fs::write(one.join(DIRECTORY).join("uid"), "").unwrap();
        std::fs::write(two.join(DIRECTORY).join("other"), "").unwrap();
        let mut lines = Vec::new();
        let mut report = |line: &str| {
            // The mover of the second volume ends during the wait.
            std::fs::write(two.join(DIRECTORY).join("uid"), "").unwrap();
            lines.push(line.to_owned());
        };
        assert!(wait(root.path(), "uid", &mut report, &CancellationToken::new()).await.unwrap());
        let expected = format!("waiting for {}", two.join(DIRECTORY).join("uid").display());
        assert_eq!(lines, [expected.as_str(), "all volumes are restored"]);
        let mut lines = Vec::new();
        let mut report = |line: &str| lines.push(line.to_owned());
        assert!(wait(root.path(), "uid", &mut report, &CancellationToken::new()).await.unwrap());
        assert_eq!(lines, ["all volumes are restored"]);
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_when_it_is_cancelled_and_a_planted_link_does_not_count() {
        let root = tempfile::tempdir().unwrap();
        let volume = root.path().join("one");
        std::fs::create_dir(&volume).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join("uid"), "").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), volume.join(DIRECTORY)).unwrap();
        let stop = CancellationToken::new();
        let mut report = |_: &str| stop.cancel();
        assert!(!wait(root.path(), "uid", &mut report, &stop.clone()).await.unwrap());
    }
}
