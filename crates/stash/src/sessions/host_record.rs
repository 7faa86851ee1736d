//! The record of one host's mover, inside the record of its session: attempt, node, progress and what it waits for.

use std::sync::Arc;

use async_trait::async_trait;
use lifeboat_api::common::Time;
use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::stash::state::{HostState, MemberState, WorkPhase};
use lifeboat_plan::transfer::movers::Owner;
use lifeboat_transfer::attempts::{Accepted, AttemptRecord, End};
use tokio_util::sync::CancellationToken;

use super::record::SessionRecord;
use crate::patience::patiently;

/// One host of one member.
#[derive(Clone)]
pub(crate) struct HostRecord {
    pub(crate) session: Arc<SessionRecord>,
    pub(crate) member: usize,
    pub(crate) host: HostName,
}

impl HostRecord {
    /// Changes the state of the host. False if the session no longer exists.
    pub(crate) async fn change(&self, change: impl FnOnce(&mut HostState)) -> Result<bool, ApiError> {
        let changed = self.change_member(|member| {
            if let Some(host) = host_of(member, &self.host) {
                change(host);
            }
        });
        changed.await
    }

    /// Changes the state of the host's member. False if the session no longer exists.
    pub(crate) async fn change_member(
        &self,
        change: impl FnOnce(&mut MemberState),
    ) -> Result<bool, ApiError> {
        let changed = self.session.change(|state| {
            if let Some(member) = state.members.get_mut(self.member) {
                change(member);
            }
        });
        changed.await
    }

    pub(crate) async fn state(&self) -> HostState {
        let read = self.session.read(|state| {
            let hosts =
                state.members.get(self.member).map(|member| member.hosts.as_slice()).unwrap_or_default();
            hosts.iter().find(|host| host.name == self.host).cloned()
        });
        read.await.unwrap_or_default()
    }

    async fn message(&self, message: &str) -> Result<bool, ApiError> {
        self.change(|host| host.run.message = Some(message.to_owned())).await
    }

    /// The host succeeded.
    pub(crate) async fn succeeded(&self) -> Result<bool, ApiError> {
        self.end_with(None).await
    }

    /// The host failed; the message is for people.
    pub(crate) async fn failed(&self, message: impl Into<String>) -> Result<bool, ApiError> {
        self.end_with(Some(message.into())).await
    }

    /// It is unknown how the host will end; the message says on what that depends.
    pub(crate) async fn unknown(&self, message: String) -> Result<bool, ApiError> {
        let now = self.session.now();
        let changed = self.change(|host| {
            end_host(host, None, now);
            host.phase = WorkPhase::Unknown;
            host.run.message = Some(message);
        });
        changed.await
    }

    /// Runs movers of the host. The host fails if none can be sent, because the API server refuses that, or a webhook of the cluster does not
    /// answer for too long.
    pub(crate) async fn patiently<F: Future<Output = Result<(), ApiError>>>(
        &self,
        cancel: &CancellationToken,
        run: impl FnMut() -> F,
    ) -> Result<(), ApiError> {
        match patiently(cancel, run).await? {
            Ok(()) => Ok(()),
            Err(given_up) => self.failed(given_up.to_string()).await.map(drop),
        }
    }

    /// Shows how much a mover that has ended processed, whatever its last progress was; None of a safety copy, after which the
    /// host has not begun.
    pub(crate) fn show_bytes(host: &mut HostState, bytes: Option<u64>) {
        let bytes = bytes.and_then(|bytes| i64::try_from(bytes).ok());
        host.run.bytes_done = bytes;
        host.run.bytes_total = bytes;
    }

    async fn end_with(&self, error: Option<String>) -> Result<bool, ApiError> {
        let now = self.session.now();
        self.change(|host| end_host(host, error, now)).await
    }
}

/// The state of a host of a member.
pub(crate) fn host_of<'a>(member: &'a mut MemberState, name: &HostName) -> Option<&'a mut HostState> {
    member.hosts.iter_mut().find(|host| host.name == *name)
}

/// The host has ended: successfully, or with an error message for users.
pub(crate) fn end_host(host: &mut HostState, error: Option<String>, now: jiff::Timestamp) {
    host.phase = if error.is_none() { WorkPhase::Succeeded } else { WorkPhase::Failed };
    host.error = error;
    host.run.message = None;
    host.duration = host.run.start_time.as_ref().map(|start| since(start, now));
}

fn since(start: &Time, now: jiff::Timestamp) -> lifeboat_api::common::GoDuration {
    let passed = std::time::Duration::try_from(now.duration_since(start.0)).unwrap_or_default();
    // As in upstream: whole milliseconds are precise enough.
    std::time::Duration::from_millis(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)).into()
}

#[async_trait]
impl AttemptRecord for HostRecord {
    fn owner(&self) -> Owner {
        self.session.owner()
    }

    fn limit_setting(&self) -> String {
        "spec.timeOut".to_owned()
    }

    async fn accept(&self, accepted: Accepted<'_>) -> Result<bool, ApiError> {
        let now = Time(self.session.now());
        self.change(|host| {
            host.run.attempt = i64::try_from(accepted.attempt).ok();
            host.run.start_time.get_or_insert(now);
            if accepted.begins {
                host.phase = WorkPhase::Running;
            }
        })
        .await
    }

    async fn again(&self, attempt: u64, dead_owners: &[String], message: &str) -> Result<bool, ApiError> {
        self.change(|host| {
            host.run.attempt = i64::try_from(attempt).ok();
            host.run.dead_owners = dead_owners.to_vec();
            host.run.message = Some(format!("another mover follows one that ended: {message}"));
            host.run.node = None;
        })
        .await
    }

    async fn waiting(&self, message: &str) -> Result<bool, ApiError> {
        self.message(message).await
    }

    async fn preparing(&self, message: &str) -> Result<bool, ApiError> {
        self.message(message).await
    }

    async fn running(&self, node: &str) -> Result<bool, ApiError> {
        self.change(|host| {
            host.phase = WorkPhase::Running;
            host.run.node = Some(node.to_owned());
            host.run.message = None;
        })
        .await
    }

    async fn progress(&self, done: u64, total: u64) -> Result<bool, ApiError> {
        self.change(|host| {
            host.run.bytes_done = i64::try_from(done).ok();
            host.run.bytes_total = i64::try_from(total).ok();
        })
        .await
    }

    async fn end(&self, end: End<'_>) -> Result<bool, ApiError> {
        match end {
            End::Failed(message) | End::Cancelled(message) => self.failed(message).await,
            // The end of a host is recorded only in its state.
            End::Recorded(_) => Ok(true),
        }
    }

    async fn warn(&self, reason: &str, message: &str) {
        // The record of the session reports a failed host in an event with the same message.
        if reason == "Failed" {
            return;
        }
        self.session.warn(reason, &format!("host {}: {message}", self.host)).await;
    }
}
