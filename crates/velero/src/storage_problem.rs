//! Why the bucket of a location cannot be used. Returned by `locations` and by plugin stores; shown in conditions and
//! messages.

/// A reason for machines (`plan::conditions::reason`) and a message for people.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) category: &'static str,
    pub(crate) message: String,
}
