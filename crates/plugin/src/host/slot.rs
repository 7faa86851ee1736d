//! One program within a session: its process, which is started when it is needed and again after a crash, the calls
//! to it, and its spare processes. Adapters make calls; sessions create and close slots.

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, OwnedSemaphorePermit};
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

use super::breaker::{CircuitBreaker, Watched};
use super::error::PluginError;
use super::init;
use super::kind::Kind;
use super::log::LogSink;
use super::process::Process;
use super::settings::{HostSettings, Timeouts};
use super::spares::{self, Seat, Spares};
use super::usage::Usage;

/// After this many consecutive failed starts a program is not started again.
const MOST_FAILURES: u32 = 3;
/// How often a call may find that its process ended while it waited for its turn. More than the number of crashes after
/// which a plugin is given up, because the waiting calls did not cause them.
const MOST_RESTARTS: u32 = 16;

/// The configuration of an object store or a volume snapshotter; sent again after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Init {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) config: BTreeMap<String, String>,
}

/// A call: the plugin, the method and the timeout.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) plugin: String,
    pub(crate) what: &'static str,
    pub(crate) limit: Duration,
    pub(crate) init: Option<Arc<Init>>,
}

pub(crate) struct Slot {
    program: PathBuf,
    settings: HostSettings,
    sink: Arc<dyn LogSink>,
    usage: Arc<Usage>,
    breaker: Arc<CircuitBreaker>,
    state: Mutex<State>,
    pub(super) spares: Spares,
}

#[derive(Default)]
struct State {
    process: Option<Arc<Process>>,
    /// The plugins for which the current process is configured.
    ready: HashSet<(Kind, String)>,
    failures: u32,
    last_failure: String,
    closed: bool,
}

impl Slot {
    /// A closed slot starts no process.
    pub(super) fn new(
        program: PathBuf,
        settings: HostSettings,
        sink: Arc<dyn LogSink>,
        usage: Arc<Usage>,
        closed: bool,
    ) -> Arc<Self> {
        let state = Mutex::new(State { closed, ..State::default() });
        let (breaker, spares) = (Arc::default(), Spares::default());
        Arc::new(Self { program, settings, sink, usage, breaker, state, spares })
    }

    /// Another process of the program; a plugin that is given up is given up in both.
    pub(super) fn spare(&self) -> Arc<Self> {
        Arc::new(Self {
            program: self.program.clone(),
            settings: self.settings.clone(),
            sink: Arc::clone(&self.sink),
            usage: Arc::clone(&self.usage),
            breaker: Arc::clone(&self.breaker),
            state: Mutex::default(),
            spares: Spares::default(),
        })
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        self.settings.timeouts
    }

    /// Makes a call that counts towards the program's limit of concurrent calls. If the limit is one, the call
    /// continues when its caller drops it, because the program cannot cancel it.
    pub(crate) async fn call<T, F, R>(self: &Arc<Self>, call: Call, make: F) -> Result<T, PluginError>
    where
        T: Send + 'static,
        F: FnOnce(Channel) -> R + Send + 'static,
        R: Future<Output = Result<Response<T>, Status>> + Send,
    {
        let Seat { slot, process, permit } = spares::seat(self, &call).await?;
        let serial = process.serial;
        let work = async move {
            let _permit = permit;
            let began = Instant::now();
            let lost = Watched::begin(&slot.breaker, &call);
            let answer = watched(&process, &call, make(process.channel.clone()));
            let answer = slot.spares.run(&call, answer).await;
            slot.usage.add(&call.plugin, call.what, began.elapsed());
            lost.end(&answer);
            if process.serial && matches!(answer, Err(PluginError::TimedOut { .. })) {
                // Its permit is released when the process is gone, so that no call is made to a process that is being
                // ended.
                process.kill();
                process.exited().await;
            }
            answer
        };
        if !serial {
            return work.await;
        }
        tokio::spawn(work).await.unwrap_or(Err(PluginError::Closed))
    }

    /// Waits until the program may be asked another question that may take long; None if the slot was closed.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.spares.turn().await
    }

    /// Makes a call that does not count towards the limit, for object stores: dropping it cancels it.
    pub(crate) async fn call_unlimited<T, R>(
        &self,
        call: &Call,
        make: impl FnOnce(Channel) -> R,
    ) -> Result<T, PluginError>
    where
        R: Future<Output = Result<Response<T>, Status>>,
    {
        let process = self.process(call).await?;
        watched(&process, call, make(process.channel.clone())).await
    }

    /// The connection, for streams, which have their own timeouts.
    pub(crate) async fn channel(&self, call: &Call) -> Result<Channel, PluginError> {
        Ok(self.process(call).await?.channel.clone())
    }

    /// Whether a snapshotter implements the service Progress.
    pub(crate) async fn reports_progress(&self, call: &Call) -> Result<bool, PluginError> {
        Ok(self.process(call).await?.reports_progress(&call.plugin))
    }

    /// The error for a status, considering that the process may have ended.
    pub(crate) async fn failure(&self, call: &Call, status: &Status) -> PluginError {
        let process = self.state.lock().await.process.clone();
        match process {
            Some(process) => failure(&process, call, status).await,
            None => PluginError::of_status(&call.plugin, call.what, status),
        }
    }

    pub(super) async fn close(&self) {
        let process = {
            let mut state = self.state.lock().await;
            state.closed = true;
            state.process.take()
        };
        if let Some(process) = process {
            process.stop().await;
        }
        for spare in self.spares.close() {
            // A spare has no spares.
            Box::pin(spare.close()).await;
        }
    }

    pub(super) async fn permit(
        &self,
        call: &Call,
    ) -> Result<(Arc<Process>, OwnedSemaphorePermit), PluginError> {
        let mut how = String::new();
        for _ in 0..MOST_RESTARTS {
            self.breaker.check(call)?;
            let process = self.process(call).await?;
            let Ok(permit) = Arc::clone(&process.permits).acquire_owned().await else {
                return Err(PluginError::Closed);
            };
            // Earlier calls may have exhausted the limit while this one waited.
            self.breaker.check(call)?;
            if !process.is_gone() {
                return Ok((process, permit));
            }
            how = process.exited().await;
        }
        Err(PluginError::Gone { plugin: call.plugin.clone(), call: call.what, how })
    }

    /// The running process, configured for this call; starts one if there is none.
    async fn process(&self, call: &Call) -> Result<Arc<Process>, PluginError> {
        let mut state = self.state.lock().await;
        if state.closed {
            return Err(PluginError::Closed);
        }
        let process = match &state.process {
            Some(process) if !process.is_gone() => Arc::clone(process),
            _ => self.start(&mut state).await?,
        };
        if let Some(init) = &call.init {
            let key = (init.kind, init.name.clone());
            if !state.ready.contains(&key) {
                let call = Call { what: "Init", limit: self.settings.timeouts.call, ..call.clone() };
                self.breaker.check(&call)?;
                let answer = watched(&process, &call, init::send(process.channel.clone(), init)).await;
                self.breaker.note(&call, &answer);
                if matches!(answer, Err(PluginError::TimedOut { .. })) {
                    process.kill();
                }
                answer?;
                state.ready.insert(key);
            }
        }
        Ok(process)
    }

    async fn start(&self, state: &mut State) -> Result<Arc<Process>, PluginError> {
        if state.failures >= MOST_FAILURES {
            let last = state.last_failure.clone();
            return Err(PluginError::GivenUp { program: self.program.clone(), times: state.failures, last });
        }
        if state.process.take().is_some() {
            tracing::warn!(program = %self.program.display(), "a plugin program ended; it is started again");
        }
        state.ready.clear();
        match Process::start(&self.program, &self.settings, Arc::clone(&self.sink)).await {
            Ok(process) => {
                state.failures = 0;
                let process = Arc::new(process);
                self.spares.started(process.permits.available_permits());
                state.process = Some(Arc::clone(&process));
                Ok(process)
            }
            Err(error) => {
                state.failures += 1;
                state.last_failure = error.to_string();
                Err(error)
            }
        }
    }
}

/// Waits for the answer, the end of the process or the timeout.
async fn watched<T>(
    process: &Process,
    call: &Call,
    answer: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, PluginError> {
    tokio::select! {
        biased;
        answer = answer => match answer {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => Err(failure(process, call, &status).await),
        },
        how = process.exited() => {
            Err(PluginError::Gone { plugin: call.plugin.clone(), call: call.what, how })
        }
        () = sleep(call.limit) => {
            Err(PluginError::TimedOut { plugin: call.plugin.clone(), call: call.what, after: call.limit })
        }
    }
}

/// A broken connection usually means that the process ended; the error then says so.
async fn failure(process: &Process, call: &Call, status: &Status) -> PluginError {
    let broken =
        matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal)
            && std::error::Error::source(status).is_some();
    if broken && let Some(how) = process.end_of_connection().await {
        return PluginError::Gone { plugin: call.plugin.clone(), call: call.what, how };
    }
    PluginError::of_status(&call.plugin, call.what, status)
}

/// Waits for the next piece of a stream, at most for `limit`.
pub(crate) async fn moving<T>(
    call: &Call,
    limit: Duration,
    next: impl Future<Output = T>,
) -> Result<T, PluginError> {
    let late = |_| PluginError::TimedOut { plugin: call.plugin.clone(), call: call.what, after: limit };
    timeout(limit, next).await.map_err(late)
}
