//! Collects how the parts of a task ended, and makes the outcome of the task from them. Filled by `run`, and kept when the
//! work is dropped because it did not end in time.

use crate::report::{Failure, Outcome, PartResult, PartResults};
use crate::task::{Part, Task};

pub(super) struct PartOutcomes<'a> {
    /// The task's.
    uid: &'a str,
    parts: &'a [Part],
    /// Of the first parts, in their order.
    outcomes: Vec<Outcome>,
}

impl<'a> PartOutcomes<'a> {
    pub(super) fn new(task: &'a Task) -> Self {
        Self { uid: &task.uid, parts: &task.parts, outcomes: Vec::with_capacity(task.parts.len()) }
    }

    /// The next part has ended.
    pub(super) fn add(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }

    /// The outcome of the task: that of its one part, if that has the task's UID, or those of all parts. `ended` is why parts that have no outcome have none; if no
    /// part has one, it is the outcome of the whole task.
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
