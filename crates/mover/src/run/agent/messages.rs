//! What the mover says about the commands of an agent. Pure.

use crate::agent::Request;

pub(super) const EMPTY: &str = "the commands passed nothing to `restic backup`: an empty dump is no backup, so no snapshot was \
     made; check the command before the pipe and the name of the database";
pub(super) const NOT_CALLED: &str = "the commands ended, and none of them called `restic`; write them as `DUMP | restic -r {{RepoName}} \
     backup` or `restic -r {{RepoName}} restore | LOAD`";
pub(super) const KILLED: &str =
    "`restic` ended before it had passed everything on; it was killed, or its pipe was closed";
pub(super) const TWICE: &str = "the commands called `restic` a second time; a run makes or recovers one snapshot: use an agent of its \
     own for each";
pub(super) const BACKGROUND: &str = "the line ended while `restic` was still running, so nothing says whether the dump is whole; remove \
     the `&`, or `wait` for it at the end of the line";
pub(super) const CLOSED_EARLY: &str = "the command after `restic restore` ended before it had read the whole snapshot, so the data was not recovered";
pub(super) const NO_SHELL: &str = "the image has no shell (`sh`), which the agent's command needs; use an image with one, or write \
     the command as a program and its arguments";
pub(super) const NO_PIPEFAIL: &str = "the agent's command has operators beside `|`, and the image's shell has no `pipefail`, without \
     which a dump that failed looks like a good one; write it as one plain pipeline, or use an image whose `sh` is bash, \
     busybox or a newer dash";

/// Why a request has no place in a backup.
pub(super) fn not_in_a_backup(request: &Request) -> String {
    format!("the agent's command for a backup called `{}`; it has to call `restic backup`", request.command())
}

/// Why a request has no place in the recovery of this snapshot; None if it has.
pub(super) fn not_in_a_recovery(request: &Request, id: &str) -> Option<String> {
    /// The shortest beginning of an ID that names a snapshot.
    const SHORTEST: usize = 8;
    match request {
        Request::Restore { snapshot: None } => None,
        Request::Restore { snapshot: Some(name) } => {
            let is_meant = name == "latest" || (name.len() >= SHORTEST && id.starts_with(name.as_str()));
            let text = format!(
                "the agent's command asked for snapshot '{name}', but snapshot {id} is recovered; leave the name out, or write \
                 {{{{Snapshot}}}}"
            );
            (!is_meant).then_some(text)
        }
        Request::Backup => Some(format!(
            "the agent's command for a recovery called `{}`; it has to call `restic restore`",
            request.command()
        )),
    }
}
