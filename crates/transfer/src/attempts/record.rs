//! Where the attempts of a transfer are written down: in an object, by its API's own rules (phases, annotations, a status
//! subresource or none). Implemented by each API; called by [`super::carry`].

use async_trait::async_trait;
use lifeboat_cluster::ApiError;
use lifeboat_plan::transfer::movers::Owner;
use serde_json::Value;

/// An attempt that begins or is continued.
#[derive(Clone, Copy, Debug)]
pub struct Accepted<'a> {
    /// From 1.
    pub attempt: u64,
    /// False where another server began it: then the object keeps its phase.
    pub begins: bool,
    /// The repository in the syntax of stock restic.
    pub repository: &'a str,
    /// Fields of the object's status that name what is copied.
    pub shown: &'a Value,
}

/// How a transfer without a result ends; the texts are for people.
#[derive(Clone, Copy, Debug)]
pub enum End<'a> {
    Failed(&'a str),
    Cancelled(&'a str),
    /// An end that was put on record earlier, in the record's own form.
    Recorded(&'a Value),
}

/// The record of one transfer. Writes give false where the object is gone.
#[async_trait]
pub trait AttemptRecord: Send + Sync {
    /// The object, by which a Job is found again.
    fn owner(&self) -> Owner;

    /// What sets the time limit of the transfer, for people, as in `--fs-backup-timeout`.
    fn limit_setting(&self) -> String;

    /// Written before anything of the attempt exists.
    async fn accept(&self, accepted: Accepted<'_>) -> Result<bool, ApiError>;

    /// Another attempt follows one whose mover died. `dead_owners`: owners of locks that may be removed.
    async fn again(&self, attempt: u64, dead_owners: &[String], message: &str) -> Result<bool, ApiError>;

    /// The transfer waits, and for what; the phase stays.
    async fn waiting(&self, message: &str) -> Result<bool, ApiError>;

    /// The mover's pod exists, and waits for something.
    async fn preparing(&self, message: &str) -> Result<bool, ApiError>;

    async fn running(&self, node: &str) -> Result<bool, ApiError>;

    async fn progress(&self, done: u64, total: u64) -> Result<bool, ApiError>;

    async fn end(&self, end: End<'_>) -> Result<bool, ApiError>;

    /// An event about the object. That it cannot be written is only logged.
    async fn warn(&self, reason: &str, message: &str);
}
