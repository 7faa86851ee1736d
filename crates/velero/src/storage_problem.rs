//! Why the bucket of a location cannot be used. Given by `locations` and by stores of plugins; shown in conditions and
//! messages.

/// A word for machines (`plan::conditions::reason`) and a message for people.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) category: &'static str,
    pub(crate) message: String,
}
