//! Lists the snapshots of a repository for a server that cannot open it. A result holds 4 KiB, enough for about a dozen
//! snapshots, so they are printed as lines; the result has their number, so that the server can check whether it got all
//! of them. No lock is taken: a snapshot that is removed meanwhile is not listed. All that is written are states that the server keeps beside
//! the data; a look is of use without them, so their failure does not fail it.

use lifeboat_repository::files::FileKind;
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshots::{FoundSnapshot, newest_first};
use lifeboat_repository::states;
use tokio_util::sync::CancellationToken;

use super::WorkContext;
use super::failure::{self, Failed};
use super::open::Opened;
use crate::report::{Cause, Failure, LogLine, Looked, SnapshotLine};
use crate::task::{LookWork, StoredState};

/// Container runtimes split log lines of more than 16 KiB.
const LONGEST_LINE: usize = 8 * 1024;
/// The longest message about states, in characters: a result has 4 KiB.
const LONGEST_MESSAGE: usize = 300;

pub(super) async fn carry_out(
    context: &WorkContext,
    work: &LookWork,
    opened: &Opened,
    cancel: &CancellationToken,
) -> Result<Looked, Failed> {
    if let Some(state) = work.states.iter().find(|state| !states::is_name(&state.name)) {
        let message = format!("states: '{}' is not the name of a state", state.name);
        return Err(Failure { cause: Cause::Task, message }.into());
    }
    let (repository, engine) = (&opened.repository, failure::of(Cause::Other));
    context.progress.begin("listing snapshots");
    let reading = async {
        let states_failed = write(repository, &work.states).await.err();
        let loaded = repository.load_readable_snapshots().await?;
        let packs = repository.list(FileKind::Pack).await?;
        let bytes = packs.iter().map(|pack| pack.size).sum::<u64>();
        Ok::<_, lifeboat_repository::Error>((loaded, bytes, states_failed))
    };
    let (loaded, bytes, states_failed) = tokio::select! {
        read = reading => read.map_err(engine)?,
        () = cancel.cancelled() => return Err(Failed::Cancelled),
    };
    let (damaged, mut found) = (loaded.damaged.len() as u64, loaded.found);
    let snapshots = found.len() as u64 + damaged;
    newest_first(&mut found);
    found.truncate(usize::try_from(work.newest).unwrap_or(usize::MAX));
    for snapshots in lines(found.iter().map(line)) {
        context.reporter.line(&LogLine::Snapshots { snapshots });
    }
    let repository = repository.config().id.clone();
    let states_failed = states_failed.map(|error| error.to_string().chars().take(LONGEST_MESSAGE).collect());
    Ok(Looked { repository, snapshots, listed: found.len() as u64, damaged, bytes, states_failed })
}

/// Storage that has no place for them, such as a REST server, is no failure.
async fn write(repository: &Repository, states: &[StoredState]) -> Result<(), lifeboat_repository::Error> {
    for state in states {
        states::write(repository, &state.name, state.content.as_bytes()).await?;
    }
    Ok(())
}

fn line((id, snapshot): &FoundSnapshot) -> SnapshotLine {
    let counts = snapshot.summary.as_ref().map(|summary| summary.counts);
    SnapshotLine {
        id: id.to_string(),
        time: snapshot.time.timestamp(),
        host: snapshot.hostname.clone(),
        paths: snapshot.paths.clone(),
        tags: snapshot.tags.clone(),
        files: counts.map(|counts| counts.total_files_processed),
        bytes: counts.map(|counts| counts.total_bytes_processed),
    }
}

/// As many snapshots on a line as fit; at least one.
fn lines(snapshots: impl Iterator<Item = SnapshotLine>) -> Vec<Vec<SnapshotLine>> {
    let mut lines: Vec<Vec<SnapshotLine>> = Vec::new();
    let mut room = 0;
    for snapshot in snapshots {
        let length = serde_json::to_string(&snapshot).map_or(0, |text| text.len() + 1);
        if let Some(line) = lines.last_mut().filter(|_| length <= room) {
            line.push(snapshot);
        } else {
            lines.push(vec![snapshot]);
            room = LONGEST_LINE;
        }
        room = room.saturating_sub(length);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_short_and_have_every_snapshot_once() {
        let of = |number: usize| SnapshotLine {
            id: format!("{number:064}"),
            paths: vec!["/source/data".repeat(number % 40)],
            ..SnapshotLine::default()
        };
        let huge = SnapshotLine { paths: vec!["x".repeat(20_000)], ..of(500) };
        let given: Vec<_> = (0..500).map(of).chain([huge, of(501)]).collect();
        let lines = lines(given.iter().cloned());
        assert_eq!(lines.concat(), given);
        for line in lines.iter().filter(|line| line.len() > 1) {
            let text = serde_json::to_string(&LogLine::Snapshots { snapshots: line.clone() }).unwrap();
            assert!(text.len() < LONGEST_LINE + 100, "{}", text.len());
        }
        assert!(lines.len() < 60, "{}", lines.len());
    }
}
