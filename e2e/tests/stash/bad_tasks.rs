//! Tasks whose Functions each do something wrong; cluster-scoped, so with names of their own. Deleted when they are dropped.

use std::fmt::Write as _;

use lifeboat_e2e::{kubectl, unique, variable};

pub(crate) struct BadTasks {
    prefix: String,
}

/// Name, image and script of each Function. One Task has none.
const FUNCTIONS: [(&str, &str, &str); 5] = [
    ("variable", "IMAGE", "echo ${nothing}"),
    ("addon", "stashed/stash-mysql:8.0.14", "true"),
    ("image", "localhost/no-such-image:1", "true"),
    ("full", "IMAGE", "head -c 4000000 /dev/zero > ${INTERIM_DATA_DIR}/zeros"),
    ("no-function", "", ""),
];

impl BadTasks {
    pub(crate) fn apply() -> Self {
        let prefix = unique("bad");
        let image = variable("LIFEBOAT_TEST_IMAGE");
        let mut all = String::new();
        for (name, of, script) in FUNCTIONS {
            let _ = write!(
                all,
                "apiVersion: stash.appscode.com/v1beta1
kind: Task
metadata: {{name: {prefix}-{name}}}
spec: {{steps: [{{name: {prefix}-{name}}}]}}
---
"
            );
            if !of.is_empty() {
                let image = of.replace("IMAGE", &image);
                let _ = write!(
                    all,
                    "apiVersion: stash.appscode.com/v1beta1
kind: Function
metadata: {{name: {prefix}-{name}}}
spec: {{image: '{image}', command: [sh, -c], args: ['{script}']}}
---
"
                );
            }
        }
        kubectl().args(["apply", "-f", "-"]).input(&all).ok();
        Self { prefix }
    }

    /// The name of a Task in the cluster.
    pub(crate) fn name(&self, task: &str) -> String {
        format!("{}-{task}", self.prefix)
    }
}

impl Drop for BadTasks {
    fn drop(&mut self) {
        for (task, ..) in FUNCTIONS {
            let names =
                ["task", "function"].map(|kind| format!("{kind}.stash.appscode.com/{}", self.name(task)));
            kubectl().args(["delete", "--ignore-not-found", "--wait=false"]).args(&names).run();
        }
    }
}
