//! The leader election with a Lease: carries out the steps of `plan::lease`. Each write contains the resource version
//! that was read, so that one of two candidates gets a conflict. The leader's work runs inside [`Election::lead`] and
//! is dropped at its next await when the lease is lost.

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

/// How often the Lease is read again within one attempt after a write conflict.
const CONFLICTS: usize = 3;

/// One candidate of an election.
pub struct Election {
    api: Api<Lease>,
    name: String,
    me: String,
    times: LeaseTimes,
    seen: Option<SeenLease>,
    /// The start of the attempt that last acquired or renewed the lease. Other candidates count from the moment they
    /// see the record, which is later: a leader therefore gives up before another one may take over, however late the
    /// answer arrived.
    renewed: Instant,
    /// Called in every round of the election, whether or not the API server answered.
    pulse: Box<dyn Fn() + Send + Sync>,
}

/// The record as last read, and since when it has not changed.
struct SeenLease {
    record: LeaseRecord,
    since: Instant,
}

/// Why leading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermEnd {
    /// The lease was lost: another replica may be the leader now.
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
            renewed: Instant::now(),
            pulse: Box::new(|| {}),
        }
    }

    /// Calls `pulse` in every round, so that a watchdog sees that the election is alive.
    #[must_use]
    pub fn with_pulse(mut self, pulse: impl Fn() + Send + Sync + 'static) -> Self {
        self.pulse = Box::new(pulse);
        self
    }

    /// Tries to become the leader until `stop` is cancelled; false if it was.
    pub async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        tokio::select! {
            () = stop.cancelled() => false,
            () = self.try_until_taken() => true,
        }
    }

    async fn try_until_taken(&mut self) {
        loop {
            (self.pulse)();
            match timeout(self.patience(), self.try_once()).await {
                Ok(Ok(true)) => return,
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot take part in the election"
                ),
                Err(_elapsed) => tracing::warn!("cannot take part in the election: no answer in time"),
            }
            sleep(self.times.retry).await;
        }
    }

    /// The timeout of one attempt: after a lost connection there is time for a second attempt on a new one.
    fn patience(&self) -> Duration {
        self.times.renew_deadline / 2
    }

    /// Runs `work` while this process holds the lease. When the lease is lost, `work` is dropped.
    pub async fn lead(&mut self, work: impl Future<Output = ()>) -> TermEnd {
        tokio::select! {
            () = work => TermEnd::WorkDone,
            () = self.renew_until_lost() => TermEnd::Lost,
        }
    }

    /// Releases the lease, so that another replica can take over at once.
    pub async fn release(&mut self) {
        match timeout(self.patience(), self.try_release()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot release the lease; it expires by itself"
            ),
            Err(_elapsed) => tracing::warn!("cannot release the lease in time; it expires by itself"),
        }
    }

    async fn renew_until_lost(&mut self) {
        loop {
            sleep(self.times.retry).await;
            (self.pulse)();
            let rest = self.times.renew_deadline.saturating_sub(self.renewed.elapsed());
            match timeout(rest.min(self.patience()), self.try_once()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return tracing::error!("another replica has taken the lease"),
                Ok(Err(error)) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "cannot renew the lease");
                }
                Err(_elapsed) => tracing::warn!("cannot renew the lease: no answer in time"),
            }
            if self.renewed.elapsed() >= self.times.renew_deadline {
                return tracing::error!("gave the lease up: it could not be renewed in time");
            }
        }
    }

    /// Reads the Lease and, if allowed, writes it; true if this process is the leader afterwards. A conflict means only
    /// that the Lease was written, not who is the leader, so it is read again.
    async fn try_once(&mut self) -> Result<bool, ApiError> {
        let begun = Instant::now();
        let mut conflicts = 0;
        loop {
            match self.look_and_write().await {
                Ok(leads) => {
                    if leads {
                        self.renewed = begun;
                    }
                    return Ok(leads);
                }
                Err(error) if error.is_conflict() && conflicts < CONFLICTS => conflicts += 1,
                Err(error) => return Err(error),
            }
        }
    }

    async fn look_and_write(&mut self) -> Result<bool, ApiError> {
        let current = self.api.get_opt(&self.name).await.attempt(format!("read Lease {}", self.name))?;
        let record = current.as_ref().map(to_record);
        let unchanged_for = self.observe(record.as_ref());
        let Step::Take(next) = step(&self.me, record.as_ref(), unchanged_for, Timestamp::now(), self.times)
        else {
            return Ok(false);
        };
        self.write(current, &next).await?;
        self.seen = Some(SeenLease { record: next, since: Instant::now() });
        Ok(true)
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

    /// Stores the record and returns how long it has not changed.
    fn observe(&mut self, record: Option<&LeaseRecord>) -> Duration {
        match (record, &self.seen) {
            (Some(record), Some(seen)) if seen.record == *record => seen.since.elapsed(),
            (Some(record), _) => {
                self.seen = Some(SeenLease { record: record.clone(), since: Instant::now() });
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{Asked, client, failure};

    /// A Lease on an API server that checks resource versions.
    #[derive(Clone)]
    struct Stored(Arc<Mutex<Value>>);

    impl Stored {
        fn held_by(holder: &str) -> Self {
            let lease = json!({"metadata": {"name": "l", "resourceVersion": "1"},
                "spec": {"holderIdentity": holder}});
            Self(Arc::new(Mutex::new(lease)))
        }

        fn change(&self, change: impl FnOnce(&mut Value)) {
            let mut lease = self.0.lock().unwrap();
            change(&mut lease);
            let version: u64 =
                lease["metadata"]["resourceVersion"].as_str().unwrap_or("0").parse().unwrap_or(0);
            lease["metadata"]["resourceVersion"] = json!((version + 1).to_string());
        }

        fn answer(&self, asked: &Asked) -> (u16, Value) {
            let current = self.0.lock().unwrap().clone();
            let version = &current["metadata"]["resourceVersion"];
            if asked.method == "PUT" {
                if asked.body["metadata"]["resourceVersion"] != *version {
                    return failure(409, "Conflict");
                }
                self.change(|lease| lease["spec"] = asked.body["spec"].clone());
            }
            (200, self.0.lock().unwrap().clone())
        }

        fn holder(&self) -> String {
            self.0.lock().unwrap()["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
        }
    }

    /// An election of `me` in which `meddle` changes the Lease between the first read and the first write.
    async fn meddled(lease: &Stored, meddle: impl Fn(&mut Value) + Send + Sync + 'static) -> Election {
        let (stored, meddled) = (lease.clone(), Mutex::new(false));
        let client = client(move |asked| {
            if asked.method == "PUT" && !std::mem::replace(&mut *meddled.lock().unwrap(), true) {
                stored.change(&meddle);
            }
            stored.answer(&asked)
        });
        Election::new(&client.await, "n", "l", "me", LeaseTimes::default())
    }

    #[tokio::test]
    async fn a_conflict_with_one_who_leaves_the_holder_alone_does_not_end_leadership() {
        let lease = Stored::held_by("me");
        let mut election = meddled(&lease, |lease| lease["metadata"]["labels"] = json!({"a": "b"})).await;
        assert!(election.try_once().await.unwrap());
    }

    #[tokio::test]
    async fn a_conflict_with_another_holder_ends_leadership() {
        let lease = Stored::held_by("me");
        let taken = json!({"holderIdentity": "other"});
        let mut election = meddled(&lease, move |lease| lease["spec"] = taken.clone()).await;
        assert!(!election.try_once().await.unwrap());
        assert_eq!(lease.holder(), "other");
    }

    #[tokio::test]
    async fn a_conflict_on_every_write_is_an_error_and_not_a_lost_lease() {
        let lease = Stored::held_by("me");
        let client = client(move |asked| match asked.method.as_str() {
            "PUT" => failure(409, "Conflict"),
            _ => lease.answer(&asked),
        });
        let mut election = Election::new(&client.await, "n", "l", "me", LeaseTimes::default());
        assert!(election.try_once().await.unwrap_err().is_conflict());
    }

    /// An API server that accepts connections and never answers.
    async fn silent() -> (Client, tokio::net::TcpListener) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        (Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap(), listener)
    }

    #[tokio::test]
    async fn a_silent_api_server_neither_stops_the_election_nor_holds_up_the_end() {
        let (client, _listener) = silent().await;
        let short = Duration::from_millis(50);
        let times = LeaseTimes { duration: short * 3, renew_deadline: short * 2, retry: short };
        let turns = Arc::new(Mutex::new(0));
        let (counted, stop) = (turns.clone(), CancellationToken::new());
        let stops = stop.clone();
        let mut election = Election::new(&client, "n", "l", "me", times).with_pulse(move || {
            let mut turns = counted.lock().unwrap();
            *turns += 1;
            if *turns == 3 {
                stops.cancel();
            }
        });
        let acquired = timeout(Duration::from_secs(20), election.acquire(&stop)).await;
        assert!(!acquired.expect("the election hangs"));
        assert!(*turns.lock().unwrap() >= 3);
        timeout(Duration::from_secs(20), election.release()).await.expect("stepping down hangs");
        let led = timeout(Duration::from_secs(20), election.lead(std::future::pending())).await;
        assert_eq!(led.expect("leading hangs"), TermEnd::Lost);
    }
}
