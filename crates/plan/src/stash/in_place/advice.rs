//! What a restore says about a workload that it leaves stopped, and the commands that go on from there. Called by the state
//! machine of the standstill.

use super::standstill::{RestoreName, Standstill};

impl Standstill {
    /// Why a workload stays down that an earlier restore left so, and what a person can do now.
    pub(super) fn left_message(&self, reason: &str, earlier: &RestoreName) -> String {
        let Self { kind, name, restore, .. } = self;
        let (workload, namespace) = (format!("{}/{name}", kind.to_lowercase()), &restore.namespace);
        let rollback = match &self.safety_of {
            Some(_) => format!(
                " put the earlier data back: lifeboat stash rollback {} -n {namespace};",
                restore.argument()
            ),
            None => String::new(),
        };
        format!(
            "{reason}. Nothing was written, and {kind} {name} stays as {earlier} left it, with data that may be half restored. \
             Restore again;{rollback} start it with the data as it is: lifeboat stash resume-workload {workload} -n {namespace}",
            reason = reason.trim_end_matches('.'),
        )
    }

    fn state_message(&self, running: u32) -> String {
        let Self { kind, name, replicas, .. } = self;
        match running {
            0 => format!("{kind} {name} stays stopped (it had {replicas} replicas)"),
            now => format!(
                "{kind} {name} runs with {now} replicas, although its data may be half restored: stop it"
            ),
        }
    }

    /// What a user can do after a restore was deleted that left the workload stopped.
    pub(super) fn deleted_message(&self, reason: &str, running: u32) -> String {
        let Self { kind, name, restore, .. } = self;
        let copy = if self.safety_of.is_some() {
            " (a copy of the earlier data is in the repository, as snapshots with the tag lifeboat-safety)"
        } else {
            ""
        };
        format!(
            "{reason}. {state}. Restore again with a new object{copy}; start it with the data as it is: \
             lifeboat stash resume-workload {kind}/{name} -n {namespace}",
            reason = reason.trim_end_matches('.'),
            state = self.state_message(running),
            kind = kind.to_lowercase(),
            namespace = restore.namespace,
        )
    }

    /// Why the workload is stopped and what a user can do now. `running`: its scale, if it was started in the
    /// meantime.
    pub(super) fn held_message(&self, reason: &str, running: u32) -> String {
        let Self { restore, .. } = self;
        let (namespace, state) = (&restore.namespace, self.state_message(running));
        let rollback = match &self.safety_of {
            // Its own mounts have all that it, and an earlier restore before it, may have written.
            Some(_) => format!(
                "put the earlier data back: lifeboat stash rollback {} -n {namespace}",
                restore.argument()
            ),
            None => "there is no safety copy to go back to (lifeboat.io/safety-copy)".to_owned(),
        };
        let argument = restore.argument();
        format!(
            "{reason}. {state}. Try again: {again}; \
             {rollback}; start it with the data as it is: lifeboat stash resume-workload {argument} -n {namespace}",
            reason = reason.trim_end_matches('.'),
            again = self.again(),
        )
    }
}
