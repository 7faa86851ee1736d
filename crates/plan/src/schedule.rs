//! Schedules of any API: the cron expression, and when a run is due.

mod cron;
mod due;

pub use cron::{Cron, CronError};
pub use due::{Past, Run, SKEW, run};
