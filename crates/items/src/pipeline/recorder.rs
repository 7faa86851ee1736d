//! Where the pipeline reports what happened. A restore collects results, list and log (`Report` in crate `velero`); a
//! dry run keeps each item's outcome ([`crate::preview`]).

use lifeboat_plan::catalogue::ItemId;

use super::item::WorkItem;
use crate::outcome::{ItemOutcome, Notes};

pub trait Recorder: Send + Sync {
    /// An item has ended.
    fn item(&self, item: &WorkItem, outcome: ItemOutcome, notes: Notes);
    /// A namespace was created, by its name in the cluster.
    fn namespace_created(&self, name: &str);
    /// A problem that belongs to no item.
    fn general_error(&self, message: String);
    fn general_warning(&self, message: String);
    /// A line for the log.
    fn info(&self, message: &str, item: Option<&ItemId>);
}
