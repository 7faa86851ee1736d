//! Moving the data of CSI snapshots into repositories and back: what the controllers of DataUpload and DataDownload do for
//! one object, from its first phase to its last. What is made for a mover in its namespace is named by the object's UID,
//! and everything that cannot be repeated is on record in the object before it is done, so that another server goes on.

use std::time::Duration;

use jiff::Timestamp;
use lifeboat_cluster::ApiError;

mod claims;
pub(crate) mod downloading;
mod exposing;
pub(crate) mod sweep;
pub(crate) mod uploading;

#[cfg(test)]
mod tests;

/// How long after its time is over an object is still tried to be cleared up after.
const GRACE: Duration = Duration::from_mins(10);

/// Whether an error keeps an object from its end for ever: another try would bring the same.
fn is_hopeless(error: &ApiError, deadline: Timestamp, now: Timestamp) -> bool {
    error.is_invalid()
        || error.code() == Some(403)
        || deadline.checked_add(GRACE).is_ok_and(|over| now >= over)
}
