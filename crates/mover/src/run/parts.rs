//! Collects the outcomes of the parts of a task and makes the outcome of the task from them. Filled by `run`; it is
//! kept when the work is dropped because it did not end in time.

use crate::report::{Failure, Outcome, PartResult, PartResults};
use crate::task::{Part, Task};

pub(super) struct PartOutcomes<'a> {
    /// The UID of the task.
    uid: &'a str,
    parts: &'a [Part],
    /// The outcomes of the parts that have ended, in order.
    outcomes: Vec<Outcome>,
}

impl<'a> PartOutcomes<'a> {
    pub(super) fn new(task: &'a Task) -> Self {
        Self { uid: &task.uid, parts: &task.parts, outcomes: Vec::with_capacity(task.parts.len()) }
    }

    /// Adds the outcome of the next part.
    pub(super) fn add(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }

    /// The outcome of the task: that of its only part, if the part has the task's UID, or else those of all parts.
    /// `ended` is the failure of the parts that have no outcome; if no part has one, it is the outcome of the whole
    /// task.
    pub(super) fn finish(self, ended: Option<&Failure>) -> Outcome {
        let Self { uid, parts, mut outcomes } = self;
        if let Some(ended) = ended {
            if outcomes.is_empty() {
                return Outcome::Failed(ended.clone());
            }
            outcomes.resize_with(parts.len(), || Outcome::Failed(ended.clone()));
        }
        if let [part] = parts
            && part.uid == uid
            && let Some(outcome) = outcomes.pop()
        {
            return outcome;
        }
        let parts = parts.iter().zip(outcomes);
        let parts = parts.map(|(part, outcome)| PartResult { uid: part.uid.clone(), outcome }).collect();
        Outcome::Parts(PartResults { parts, ..PartResults::default() })
    }
}
