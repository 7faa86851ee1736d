//! Velero's bucket layout and backup archive. Written as a stream, compressed on several cores; read through one
//! validating pass into a spool, because an archive may come from anywhere.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]
