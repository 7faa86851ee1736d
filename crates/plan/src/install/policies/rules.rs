//! Which rights the author of an object needs: the rights that the server uses for it.
//!
//! | what the object has | right, where |
//! | --- | --- |
//! | any of the kinds below | `create pods`, its namespace: movers run there, and a pod there can read every Secret and volume of the namespace |
//! | a hook with a command | `create pods/exec`, the namespace of the target |
//! | a restore into a workload or a claim | `patch` on the scale of the workloads that may have to be stopped |
//! | a target in another namespace (an AppBinding) | `use` on that AppBinding |
//! | the same, with settings for pods | `create pods` there: the settings name Secrets and service accounts there |

use super::cel::{self, HERE, Right};
use super::{Policy, Validation};

/// How many targets of one batch may be in other namespaces.
pub(super) const PLACES: usize = 16;

const CREATE_PODS: Right = Right::new("create", "", "pods");
const EXEC: Right = CREATE_PODS.of("exec");
const USE_BINDING: Right = Right::new("use", "appcatalog.appscode.com", "appbindings");

/// The scales that a restore into any volume may change: a claim does not say which workload uses it.
const SCALES: [Right; 2] = [
    Right::new("patch", "apps", "deployments").of("scale"),
    Right::new("patch", "apps", "statefulsets").of("scale"),
];
/// The scales that a restore into a workload of this kind may change.
const SCALES_OF_KINDS: [(&str, Right); 3] = [
    ("ReplicaSet", Right::new("patch", "apps", "replicasets").of("scale")),
    ("ReplicationController", Right::new("patch", "", "replicationcontrollers").of("scale")),
    ("DeploymentConfig", Right::new("patch", "apps.openshift.io", "deploymentconfigs").of("scale")),
];

/// Every policy of an installation.
pub fn all() -> Vec<Policy> {
    let mut policies = vec![
        Policy {
            name: "repositories",
            resource: "repositories",
            version: "v1alpha1",
            variables: Vec::new(),
            validations: vec![pods(
                "spec.backend",
                "which a Repository needs because it uses a Secret of the namespace, and its volume is mounted there",
            )],
        },
        Policy {
            name: "backupsessions",
            resource: "backupsessions",
            version: "v1beta1",
            variables: Vec::new(),
            validations: vec![pods(
                "spec.invoker",
                "which a BackupSession needs because it starts pods there",
            )],
        },
    ];
    policies.push(BACKUP_CONFIGURATION.single());
    policies.extend(BACKUP_BATCH.batch(["backupbatches", "backupbatches-exec", "backupbatches-pods"]));
    policies.push(RESTORE_SESSION.single());
    policies.extend(RESTORE_BATCH.batch(["restorebatches", "restorebatches-exec", "restorebatches-pods"]));
    policies
}

/// A kind with targets.
struct Kind {
    name: &'static str,
    resource: &'static str,
    is_batch: bool,
    is_restore: bool,
}

const BACKUP_CONFIGURATION: Kind = Kind {
    name: "BackupConfiguration",
    resource: "backupconfigurations",
    is_batch: false,
    is_restore: false,
};
const BACKUP_BATCH: Kind =
    Kind { name: "BackupBatch", resource: "backupbatches", is_batch: true, is_restore: false };
const RESTORE_SESSION: Kind =
    Kind { name: "RestoreSession", resource: "restoresessions", is_batch: false, is_restore: true };
const RESTORE_BATCH: Kind =
    Kind { name: "RestoreBatch", resource: "restorebatches", is_batch: true, is_restore: true };

impl Kind {
    /// The policy of a kind with one target.
    fn single(&self) -> Policy {
        let mut variables = self.targets();
        variables.extend([self.commands_here(), self.commands_elsewhere(), self.pods_elsewhere()]);
        let mut validations = self.in_own_namespace();
        validations.extend([self.use_binding(0), self.exec_elsewhere(0), self.create_pods_elsewhere(0)]);
        self.policy(self.resource, variables, validations)
    }

    /// The policies of a kind with many targets. Together their questions exceed the cost limit of one policy.
    fn batch(&self, [own, exec, pods]: [&'static str; 3]) -> [Policy; 3] {
        let each = |validation: fn(&Self, usize) -> Validation| {
            let mut validations = vec![self.not_too_many()];
            validations.extend((0..PLACES).map(|place| validation(self, place)));
            validations
        };
        let with = |variable| [self.targets(), vec![variable]].concat();
        let mut validations = self.in_own_namespace();
        validations.extend(each(Self::use_binding));
        [
            self.policy(own, with(self.commands_here()), validations),
            self.policy(exec, with(self.commands_elsewhere()), each(Self::exec_elsewhere)),
            self.policy(pods, with(self.pods_elsewhere()), each(Self::create_pods_elsewhere)),
        ]
    }

    fn policy(
        &self,
        name: &'static str,
        variables: Vec<(&'static str, String)>,
        validations: Vec<Validation>,
    ) -> Policy {
        Policy { name, resource: self.resource, version: "v1beta1", variables, validations }
    }

    fn hooks(&self) -> [&'static str; 2] {
        if self.is_restore { ["preRestore", "postRestore"] } else { ["preBackup", "postBackup"] }
    }

    /// The path of a field of a member.
    fn field(&self, name: &str) -> String {
        if self.is_batch { format!("spec.members[].{name}") } else { format!("spec.{name}") }
    }

    /// Variables: the members, and those with a target in another namespace.
    fn targets(&self) -> Vec<(&'static str, String)> {
        let members = if self.is_batch { "dyn(object.spec.members)" } else { "[dyn(object.spec)]" };
        vec![
            ("members", members.to_owned()),
            ("elsewhere", format!("variables.members.filter(m, {})", cel::IS_ELSEWHERE)),
        ]
    }

    /// Variable: whether a hook runs a command in the namespace of the object. Hooks of a batch as a whole count, too.
    fn commands_here(&self) -> (&'static str, String) {
        let (elsewhere, commands) = (cel::IS_ELSEWHERE, cel::runs_commands(self.hooks()));
        let here = format!("variables.members.exists(m, !({elsewhere}) && {commands})");
        let of_batch = format!("[dyn(object.spec)].exists(m, {commands})");
        ("commandsHere", if self.is_batch { format!("{here} || {of_batch}") } else { here })
    }

    /// Variable: the other namespaces in which hooks run commands.
    fn commands_elsewhere(&self) -> (&'static str, String) {
        let commands = cel::runs_commands(self.hooks());
        ("commandsIn", format!("variables.elsewhere.filter(m, {commands}).map(m, m.target.ref.namespace)"))
    }

    /// Variable: the other namespaces in which pods run with settings of this object.
    fn pods_elsewhere(&self) -> (&'static str, String) {
        let mut shapes = cel::SHAPES_PODS.to_owned();
        if self.is_batch {
            shapes = format!("{shapes} || has(dyn(object.spec).runtimeSettings)");
        }
        ("podsIn", format!("variables.elsewhere.filter(m, {shapes}).map(m, m.target.ref.namespace)"))
    }

    fn in_own_namespace(&self) -> Vec<Validation> {
        let why = format!("which a {} needs because it starts pods there", self.name);
        let mut validations = vec![
            pods("spec", &why),
            Validation {
                expression: format!("!variables.commandsHere || {}", EXEC.is_held_in(HERE)),
                message: cel::lacks(
                    &self.field("hooks"),
                    &EXEC,
                    HERE,
                    "which a hook with a command (exec) needs",
                ),
            },
        ];
        if self.is_restore {
            validations.extend(SCALES.iter().map(|right| self.scale(cel::FILLS_VOLUMES, right)));
            let of_kinds = SCALES_OF_KINDS.iter();
            validations.extend(of_kinds.map(|(kind, right)| self.scale(&cel::fills_kind(kind), right)));
        }
        validations
    }

    /// The right to change a scale, if one of the members meets a condition.
    fn scale(&self, needed: &str, right: &Right) -> Validation {
        Validation {
            expression: format!("!variables.members.exists(m, {needed}) || {}", right.is_held_in(HERE)),
            message: cel::lacks(
                &self.field("target.ref"),
                right,
                HERE,
                "which a restore needs because it may have to stop the workload that uses a volume",
            ),
        }
    }

    fn not_too_many(&self) -> Validation {
        Validation {
            expression: format!("variables.elsewhere.size() <= {PLACES}"),
            message: format!(
                "'spec.members: ' + string(variables.elsewhere.size()) + ' targets are in other namespaces, a {} can have {PLACES}'",
                self.name
            ),
        }
    }

    fn use_binding(&self, place: usize) -> Validation {
        let target = format!("variables.elsewhere[{place}].target.ref");
        let (namespace, name) = (format!("{target}.namespace"), format!("{target}.name"));
        let asked = USE_BINDING.is_held_for(&namespace, &name);
        let field = self.field("target.ref");
        let why = format!("which the target ' + {name} + ' needs because it is in another namespace");
        at(place, "elsewhere", &asked, &cel::lacks(&field, &USE_BINDING, &namespace, &why))
    }

    fn exec_elsewhere(&self, place: usize) -> Validation {
        let namespace = format!("variables.commandsIn[{place}]");
        let why = "which a hook with a command (exec) needs because its target is in that namespace";
        let message = cel::lacks(&self.field("hooks"), &EXEC, &namespace, why);
        at(place, "commandsIn", &EXEC.is_held_in(&namespace), &message)
    }

    fn create_pods_elsewhere(&self, place: usize) -> Validation {
        let namespace = format!("variables.podsIn[{place}]");
        let why =
            "which runtimeSettings and interimVolumeTemplate need because the pods of the target run there";
        let message = cel::lacks(&self.field("runtimeSettings"), &CREATE_PODS, &namespace, why);
        at(place, "podsIn", &CREATE_PODS.is_held_in(&namespace), &message)
    }
}

/// The user may create pods in the namespace of the object.
fn pods(field: &str, why: &str) -> Validation {
    Validation {
        expression: CREATE_PODS.is_held_in(HERE),
        message: cel::lacks(field, &CREATE_PODS, HERE, why),
    }
}

/// A condition for one place of a list, if the list is that long.
fn at(place: usize, list: &str, asked: &str, message: &str) -> Validation {
    Validation {
        expression: format!("variables.{list}.size() <= {place} || {asked}"),
        message: format!("variables.{list}.size() <= {place} ? '' : {message}"),
    }
}
