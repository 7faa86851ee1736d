//! The mover of one host of a restore: mounts the host's volumes, writes each path from its snapshot, and verifies
//! it. Files that are not in the snapshot are not removed.

use std::path::PathBuf;

use async_trait::async_trait;
use lifeboat_api::stash::RestoredPath;
use lifeboat_cluster::ApiError;
use lifeboat_mover::report::{Cause, Listed, NotListed, Outcome, Restored};
use lifeboat_mover::task::{Part, Proof, RestoreWork, Target, TaskWork as MoverWork};
use lifeboat_plan::stash::session::RestoreArgs;
use lifeboat_plan::stash::state::conditions::ConditionType;
use lifeboat_plan::stash::state::{HostState, MemberState};
use lifeboat_plan::stash::targets::{MoverParts, MoverSource};
use lifeboat_plan::transfer::movers::{PodSettings, data, device};
use lifeboat_transfer::attempts::{NotPrepared, Prepared, Steps, Transfer, failed};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::choice::WritePart;
use crate::sessions::host_record::HostRecord;
use crate::sessions::places::{Writable, in_node_directory, place, rates};
use crate::sessions::reported::{NotDone, grouped, of_part};
use crate::tasks::TaskWork;

/// One mover of one host.
pub(super) struct Writing {
    pub(super) transfer: Transfer,
    pub(super) record: HostRecord,
    pub(super) parts: MoverParts<WritePart>,
    pub(super) pod: PodSettings,
    pub(super) args: RestoreArgs,
    /// The task that gets the data instead of the volumes of the host.
    pub(super) task: Option<TaskWork>,
}

#[async_trait]
impl Steps for Writing {
    fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    async fn prepare(&self, _cancel: &CancellationToken) -> Result<Prepared, NotPrepared> {
        let parts = self.parts.parts.iter().enumerate().map(|(number, part)| Part {
            uid: self.transfer.part(number),
            work: MoverWork::Restore(self.work(part)),
        });
        Ok(Prepared {
            parts: parts.collect(),
            place: place(&self.parts.source, Writable::Yes),
            pod: self.pod.clone(),
            rates: rates(self.args.limits),
            threads: None,
            shown: Value::Null,
        })
    }

    async fn done(&self, outcome: Outcome) -> Result<(), ApiError> {
        let (mut restored, mut problems, mut owners) = (Vec::new(), Vec::new(), Listed::default());
        let (mut empty, mut bytes) = (Vec::new(), 0);
        for (number, part) in self.parts.parts.iter().enumerate() {
            match reported(&outcome, &self.transfer.part(number), number) {
                Ok(done) => {
                    restored.push(part);
                    bytes += done.bytes;
                    if done.files == 0 && self.has_patterns(part) {
                        empty.push(part.path.as_str());
                    }
                    // What a task reads from the mover's own directory needs no owner.
                    if self.task.is_none() {
                        owners.count += done.owners.count;
                        owners.first.extend(done.owners.first.iter().cloned());
                    }
                }
                Err(why) => problems.push((part.path.to_string(), why.to_string())),
            }
        }
        let problems = Problems { messages: problems, nothing_written: is_untouched(&outcome) };
        self.finish(&restored, problems, &owners, &empty, bytes).await
    }

    async fn not_stored(&self, message: &str) -> Result<(), ApiError> {
        self.record.change(forget_attempt).await?;
        failed(self, message).await
    }

    /// It is unknown whether everything was written.
    async fn unreported(&self, message: &str) -> Result<(), ApiError> {
        failed(self, message).await
    }

    fn sole_writer_reason(&self) -> Option<&'static str> {
        Some("the mover may still be writing into the volume")
    }

    fn volume_owner(&self) -> Option<String> {
        Some(format!("host {}", self.record.host))
    }

    async fn clean(&self) -> Result<String, ApiError> {
        self.transfer.clear().await?;
        Ok(String::new())
    }
}

/// Why paths were not restored.
struct Problems {
    /// Paths with their problems.
    messages: Vec<(String, String)>,
    /// Whether the mover wrote nothing at all.
    nothing_written: bool,
}

/// Takes the attempt off the record of a host whose mover wrote nothing: as long as it is there, data may have been written. Of a mover that
/// died before it that is not known.
fn forget_attempt(host: &mut HostState) {
    if host.run.dead_owners.is_empty() {
        host.run.attempt = None;
    }
}

/// Whether the mover found nothing of what it should restore. It looks for all of it before it writes.
fn is_untouched(outcome: &Outcome) -> bool {
    let not_stored =
        |outcome: &Outcome| matches!(outcome, Outcome::Failed(failure) if failure.cause == Cause::NotStored);
    match outcome {
        Outcome::Parts(results) => {
            results.not_listed == NotListed::default()
                && results.parts.iter().all(|part| not_stored(&part.outcome))
        }
        outcome => not_stored(outcome),
    }
}

/// What the mover reported about a part: that all of it is restored and verified, or why not.
fn reported<'a>(outcome: &'a Outcome, uid: &str, number: usize) -> Result<&'a Restored, NotDone> {
    match of_part(outcome, uid, number)? {
        Outcome::Restored(restored) if restored.failed.count > 0 => {
            let (count, first) = (restored.failed.count, restored.failed.first.join(", "));
            Err(NotDone::Incomplete { count, first })
        }
        Outcome::Restored(restored) => Ok(restored),
        other => Err(NotDone::of(other)),
    }
}

impl Writing {
    fn work(&self, part: &WritePart) -> RestoreWork {
        if let Some(task) = &self.task {
            return task.restore(&part.snapshot, &part.path, &part.include, &part.exclude);
        }
        let (target, is_block) = self.target(part);
        let work =
            RestoreWork { sparse: self.args.sparse, ..RestoreWork::new(part.snapshot.clone(), target) };
        if is_block {
            // A device gets the only file of its snapshot, which has its path. The mover refuses another file, and a part of a device.
            return RestoreWork {
                paths: vec![part.path.to_string()],
                sub_path: part.sub_path.clone(),
                ..work
            };
        }
        RestoreWork {
            include: part.include.iter().chain(&self.args.include).cloned().collect(),
            exclude: part.exclude.iter().chain(&self.args.exclude).cloned().collect(),
            folder: Some(part.path.to_string()),
            sub_path: part.sub_path.clone(),
            exact: part.exact,
            ..work
        }
    }

    /// Where a part is written, and whether that is a device.
    fn target(&self, part: &WritePart) -> (Target, bool) {
        match &self.parts.source {
            MoverSource::NodeDirectory { directory, .. } => {
                let (path, proof) = in_node_directory(directory);
                (Target::Path { path, proof: Some(proof) }, false)
            }
            MoverSource::Volumes { volumes, .. } => {
                let found = volumes.iter().enumerate().find(|(_, volume)| volume.name == part.volume);
                let (number, is_block) =
                    found.map_or((0, false), |(number, volume)| (number, volume.access.is_block()));
                if is_block {
                    return (Target::BlockDevice { path: PathBuf::from(device(number)) }, true);
                }
                let path = PathBuf::from(data(number));
                (Target::Path { path, proof: Some(Proof::MountPoint) }, false)
            }
        }
    }

    /// Whether only some of a part's files are wanted.
    fn has_patterns(&self, part: &WritePart) -> bool {
        [&part.include, &self.args.include, &part.exclude, &self.args.exclude]
            .iter()
            .any(|list| !list.is_empty())
    }

    /// Records which paths are restored, which owners could not be set, and in which paths no file matched the patterns.
    async fn finish(
        &self,
        restored: &[&WritePart],
        problems: Problems,
        owners: &Listed,
        empty: &[&str],
        bytes: u64,
    ) -> Result<(), ApiError> {
        let is_done = |chosen: &RestoredPath| {
            restored.iter().any(|part| part.snapshot == chosen.snapshot && part.path.as_str() == chosen.path)
        };
        let now = self.record.session.now();
        let (at, host) = (self.record.member, &self.record.host);
        let written = self.record.session.change(|state| {
            let Some(member) = state.members.get_mut(at) else { return };
            if owners.count > 0 {
                let message = unset_owners(member, host.as_str(), owners);
                member.observe(&ConditionType::OwnersNotRestored.yes(message), now);
            }
            if !empty.is_empty() {
                let message = nothing_matched(member, host.as_str(), empty);
                member.observe(&ConditionType::RestoreRemarks.yes(message), now);
            }
            let Some(host) = member.hosts.iter_mut().find(|known| known.name == *host) else { return };
            for chosen in host.paths.iter_mut().filter(|chosen| is_done(chosen)) {
                chosen.restored = true;
            }
            if problems.messages.is_empty() {
                // If the host needs another mover, that mover starts with its own first attempt.
                host.run.attempt = None;
                // Files that were there already are part of the total, and were not written.
                let total = host.run.bytes_total.and_then(|total| u64::try_from(total).ok());
                HostRecord::show_bytes(host, Some(bytes.max(total.unwrap_or_default())));
            } else if problems.nothing_written {
                forget_attempt(host);
            }
        });
        if written.await? && !problems.messages.is_empty() {
            self.record.failed(grouped(&problems.messages)).await?;
        }
        self.transfer.clear().await
    }
}

/// The message about owners, appended to those of other hosts.
fn unset_owners(member: &MemberState, host: &str, owners: &Listed) -> String {
    let own = format!(
        "host {host}: {} files belong to the mover's user, because only root may give files away ({})",
        owners.count,
        owners.first.join(", ")
    );
    after_others(member, ConditionType::OwnersNotRestored, own)
}

/// The message about paths of which nothing was restored, after other remarks.
fn nothing_matched(member: &MemberState, host: &str, paths: &[&str]) -> String {
    let own = format!(
        "host {host}: no file of {} matches the patterns (include, exclude), so nothing was restored there",
        paths.join(", ")
    );
    after_others(member, ConditionType::RestoreRemarks, own)
}

fn after_others(member: &MemberState, kind: ConditionType, own: String) -> String {
    let known = member.conditions.iter().find(|condition| condition.type_ == kind.name());
    match known.map(|condition| condition.message.as_str()).filter(|message| !message.is_empty()) {
        Some(message) => format!("{message}; {own}"),
        None => own,
    }
}

#[cfg(test)]
mod tests {
    use lifeboat_mover::report::{Failure, PartResult, PartResults};
    use rstest::rstest;

    use super::*;

    fn parts(outcomes: Vec<(&str, Outcome)>) -> Outcome {
        let part = |(uid, outcome): (&str, Outcome)| PartResult { uid: uid.to_owned(), outcome };
        Outcome::Parts(PartResults {
            parts: outcomes.into_iter().map(part).collect(),
            ..PartResults::default()
        })
    }

    #[test]
    fn a_path_counts_only_if_all_its_files_are_restored() {
        let failed = Listed { count: 2, first: vec!["/a: no space".into()] };
        let some = Outcome::Restored(Restored { failed, ..Restored::default() });
        let none = Outcome::Failed(Failure { cause: Cause::Target, message: "read-only".into() });
        let all = Outcome::Restored(Restored::default());
        let outcome = parts(vec![("t.0", some), ("t.1", none), ("t.2", all)]);
        assert!(
            reported(&outcome, "t.0", 0).unwrap_err().to_string().contains("2 files could not be restored")
        );
        assert_eq!(reported(&outcome, "t.1", 1).unwrap_err().to_string(), "read-only");
        assert!(reported(&outcome, "t.2", 2).is_ok());
        assert!(reported(&outcome, "t.3", 3).unwrap_err().to_string().contains("no room"));
    }

    fn failure(cause: Cause) -> Outcome {
        Outcome::Failed(Failure { cause, message: "why".into() })
    }

    #[rstest]
    #[case::a_mover_with_one_path(failure(Cause::NotStored), true)]
    #[case::none_of_several(parts(vec![("t.0", failure(Cause::NotStored)), ("t.1", failure(Cause::NotStored))]), true)]
    #[case::one_was_written(parts(vec![("t.0", failure(Cause::NotStored)), ("t.1", Outcome::Restored(Restored::default()))]), false)]
    #[case::the_disk_filled_up(parts(vec![("t.0", failure(Cause::NotStored)), ("t.1", failure(Cause::NoSpace))]), false)]
    #[case::another_cause(failure(Cause::Target), false)]
    fn only_a_mover_that_found_nothing_wrote_nothing(#[case] outcome: Outcome, #[case] expected: bool) {
        assert_eq!(is_untouched(&outcome), expected);
    }

    #[test]
    fn what_a_mover_wrote_that_died_before_is_not_known() {
        let mut host = HostState::default();
        host.run.attempt = Some(2);
        host.run.dead_owners = vec!["cluster/mover".into()];
        forget_attempt(&mut host);
        assert_eq!(host.run.attempt, Some(2));
        host.run.dead_owners.clear();
        forget_attempt(&mut host);
        assert_eq!(host.run.attempt, None);
    }

    #[test]
    fn owners_of_several_hosts_are_in_one_message() {
        let owners = Listed { count: 3, first: vec!["/a".into()] };
        let mut member = MemberState::default();
        let first = unset_owners(&member, "app-0", &owners);
        member.observe(&ConditionType::OwnersNotRestored.yes(first), jiff::Timestamp::UNIX_EPOCH);
        let both = unset_owners(&member, "app-1", &owners);
        assert!(both.contains("host app-0: 3 files") && both.contains("; host app-1: 3 files"), "{both}");
    }
}
