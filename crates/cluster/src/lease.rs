//! The leader election on a Lease: carries out the steps of `plan::lease`. Each write carries the resource version
//! that was read, so of two candidates one gets a conflict. The work runs inside [`Election::lead`] and is dropped at
//! its next await when the lease is lost.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use lifeboat_plan::lease::{LeaseRecord, LeaseTimes, Step, released, step};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{ApiError, Attempt};

/// One candidate of one election.
pub struct Election {
    api: Api<Lease>,
    name: String,
    me: String,
    times: LeaseTimes,
    seen: Option<Seen>,
}

/// The record as last read, and since when it has been so.
struct Seen {
    record: LeaseRecord,
    since: Instant,
}

/// How leading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The lease was lost: somebody else may lead now.
    Lost,
    /// The work ended by itself.
    WorkDone,
}

impl Election {
    pub fn new(client: &Client, namespace: &str, name: &str, me: &str, times: LeaseTimes) -> Self {
        Self {
            api: Api::namespaced(client.clone(), namespace),
            name: name.to_owned(),
            me: me.to_owned(),
            times,
            seen: None,
        }
    }

    /// Tries until this process leads, or until `stop`; false where it stopped.
    pub async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        loop {
            match self.try_once().await {
                Ok(true) => return true,
                Ok(false) => {}
                Err(error) => tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot take part in the election"
                ),
            }
            tokio::select! {
                () = stop.cancelled() => return false,
                () = sleep(self.times.retry) => {}
            }
        }
    }

    /// Runs `work` while this process holds the lease. When the lease is lost, `work` is dropped on the spot.
    pub async fn lead(&mut self, work: impl Future<Output = ()>) -> Ended {
        tokio::select! {
            () = work => Ended::WorkDone,
            () = self.renew_until_lost() => Ended::Lost,
        }
    }

    /// Lets others take over at once.
    pub async fn release(&mut self) {
        if let Err(error) = self.try_release().await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot release the lease; it expires by itself"
            );
        }
    }

    async fn renew_until_lost(&mut self) {
        let mut renewed = Instant::now();
        loop {
            sleep(self.times.retry).await;
            let rest = self.times.renew_deadline.saturating_sub(renewed.elapsed());
            match timeout(rest, self.try_once()).await {
                Ok(Ok(true)) => renewed = Instant::now(),
                Ok(Ok(false)) => return tracing::error!("another replica has taken the lease"),
                Ok(Err(error)) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "cannot renew the lease");
                }
                Err(_elapsed) => {}
            }
            if renewed.elapsed() >= self.times.renew_deadline {
                return tracing::error!("gave the lease up: it could not be renewed in time");
            }
        }
    }

    /// One look and, where allowed, one write; true where this process leads afterwards.
    async fn try_once(&mut self) -> Result<bool, ApiError> {
        let current = self.api.get_opt(&self.name).await.attempt(format!("read Lease {}", self.name))?;
        let record = current.as_ref().map(to_record);
        let unchanged_for = self.observe(record.as_ref());
        let Step::Take(next) = step(&self.me, record.as_ref(), unchanged_for, Timestamp::now(), self.times)
        else {
            return Ok(false);
        };
        match self.write(current, &next).await {
            Ok(()) => {
                self.seen = Some(Seen { record: next, since: Instant::now() });
                Ok(true)
            }
            Err(error) if error.is_conflict() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn try_release(&mut self) -> Result<(), ApiError> {
        let Some(current) =
            self.api.get_opt(&self.name).await.attempt(format!("read Lease {}", self.name))?
        else {
            return Ok(());
        };
        let record = to_record(&current);
        if record.holder != self.me {
            return Ok(());
        }
        self.write(Some(current), &released(&record)).await
    }

    /// Remembers the record and tells how long it has been as it is.
    fn observe(&mut self, record: Option<&LeaseRecord>) -> Duration {
        match (record, &self.seen) {
            (Some(record), Some(seen)) if seen.record == *record => seen.since.elapsed(),
            (Some(record), _) => {
                self.seen = Some(Seen { record: record.clone(), since: Instant::now() });
                Duration::ZERO
            }
            (None, _) => {
                self.seen = None;
                Duration::ZERO
            }
        }
    }

    async fn write(&self, current: Option<Lease>, record: &LeaseRecord) -> Result<(), ApiError> {
        let lease = Lease {
            metadata: current.as_ref().map_or_else(|| self.metadata(), |lease| lease.metadata.clone()),
            spec: Some(to_spec(record, self.times)),
        };
        let params = PostParams::default();
        let written = match current {
            Some(_) => self.api.replace(&self.name, &params, &lease).await,
            None => self.api.create(&params, &lease).await,
        };
        written.attempt(format!("write Lease {}", self.name)).map(drop)
    }

    fn metadata(&self) -> ObjectMeta {
        ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() }
    }
}

fn to_record(lease: &Lease) -> LeaseRecord {
    let spec = lease.spec.clone().unwrap_or_default();
    LeaseRecord {
        holder: spec.holder_identity.unwrap_or_default(),
        acquired: spec.acquire_time.map(|time| time.0),
        renewed: spec.renew_time.map(|time| time.0),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}

fn to_spec(record: &LeaseRecord, times: LeaseTimes) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(record.holder.clone()).filter(|holder| !holder.is_empty()),
        acquire_time: record.acquired.map(MicroTime),
        renew_time: record.renewed.map(MicroTime),
        lease_transitions: Some(record.transitions),
        lease_duration_seconds: i32::try_from(times.duration.as_secs()).ok(),
        ..LeaseSpec::default()
    }
}
