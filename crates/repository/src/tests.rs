//! Tests of several operations together.

mod crashes;
mod hostile;
mod large;
