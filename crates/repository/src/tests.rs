//! Tests of several operations together.

mod deaths;
mod hostile;
