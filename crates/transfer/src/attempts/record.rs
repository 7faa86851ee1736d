//! Where the attempts of a transfer are recorded: in an object, by the rules of its API (phases, annotations, a
//! status subresource or none). Implemented by each API; called by [`super::run_transfer`].

use async_trait::async_trait;
use lifeboat_cluster::ApiError;
use lifeboat_plan::transfer::movers::Owner;
use serde_json::Value;

/// An attempt that starts or is continued.
#[derive(Clone, Copy, Debug)]
pub struct Accepted<'a> {
    /// The number of the attempt, from 1.
    pub attempt: u64,
    /// False if another server started the attempt: then the object keeps its phase.
    pub begins: bool,
    /// The repository in the syntax of stock restic.
    pub repository: &'a str,
    /// Fields of the object's status that identify the data that is copied.
    pub shown: &'a Value,
}

/// How a transfer without a result ends; the texts are for people.
#[derive(Clone, Copy, Debug)]
pub enum End<'a> {
    Failed(&'a str),
    Cancelled(&'a str),
    /// An end that was recorded earlier, in the record's own form.
    Recorded(&'a Value),
}

/// The record of one transfer. Writes return false if the object is gone.
#[async_trait]
pub trait AttemptRecord: Send + Sync {
    /// The object that owns the transfer; the labels of its Job name it.
    fn owner(&self) -> Owner;

    /// The flag or field that sets the transfer's time limit, for people, as in `--fs-backup-timeout`.
    fn limit_setting(&self) -> String;

    /// Written before the Job or Secret of the attempt exists.
    async fn accept(&self, accepted: Accepted<'_>) -> Result<bool, ApiError>;

    /// Records that another attempt follows one whose mover died. `dead_owners`: lock owners whose locks may be
    /// removed.
    async fn again(&self, attempt: u64, dead_owners: &[String], message: &str) -> Result<bool, ApiError>;

    /// Records what the transfer waits for; the phase stays.
    async fn waiting(&self, message: &str) -> Result<bool, ApiError>;

    /// Records what the mover's pod, which exists, waits for.
    async fn preparing(&self, message: &str) -> Result<bool, ApiError>;

    async fn running(&self, node: &str) -> Result<bool, ApiError>;

    async fn progress(&self, done: u64, total: u64) -> Result<bool, ApiError>;

    async fn end(&self, end: End<'_>) -> Result<bool, ApiError>;

    /// Writes an event about the object. A failure is only logged.
    async fn warn(&self, reason: &str, message: &str);
}
