//! Who may create and change the objects that make the server act for a user: ValidatingAdmissionPolicies with which the API
//! server asks its authorizer, each with a binding. Takes the server's namespace, gives the objects. Applied by `lifeboat
//! install` and the chart; compared with the cluster's by the server ([`Enforcement::of`]), which refuses objects that nothing
//! checks.
//!
//! Costs: an authorization check costs 350,000. An expression may cost 1,000,000 (two checks) and a policy 10,000,000 (28
//! checks), so each place of a list has an expression of its own, a list has at most [`MOST_ELSEWHERE`] places, and what would
//! be too much for one policy is in a second one.

mod cel;
mod enforcement;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use self::cel::Right;
use super::labels;

pub use enforcement::{Enforcement, Unenforced, is_as_installed};

/// How many targets of other namespaces one object may have: all of them are checked.
pub const MOST_ELSEWHERE: usize = 16;

/// The API of the policies and of their bindings.
pub const API: (&str, &str) = ("admissionregistration.k8s.io", "v1");
/// Their kinds, with the names in URLs.
pub const KINDS: [(&str, &str); 2] = [
    ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
];

/// What a kind lets its author have the server do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Checked {
    kind: &'static str,
    plural: &'static str,
    /// The version of its API. Requests in others are converted to it.
    version: &'static str,
    /// The fields of its hooks; none of what runs pods without hooks of its own.
    hooks: Option<[&'static str; 2]>,
    /// Whether it has members, each with its own target.
    is_batch: bool,
    /// Whether it stops and starts workloads.
    is_restore: bool,
    /// Whether it selects workloads of its own namespace instead of naming targets, and may use a Repository of another namespace.
    selects: bool,
}

/// The kind of Repositories. Pods mount their volumes, and what is in the Secret that one names is sent to its address.
pub const REPOSITORY: &str = "Repository";

const BACKUP: Option<[&str; 2]> = Some(["preBackup", "postBackup"]);
const RESTORE: Option<[&str; 2]> = Some(["preRestore", "postRestore"]);

const CHECKED: [Checked; 6] = [
    Checked::of("BackupConfiguration", "backupconfigurations", BACKUP, false),
    Checked::of("BackupBatch", "backupbatches", BACKUP, true),
    Checked::of("BackupSession", "backupsessions", None, false),
    Checked::of("RestoreSession", "restoresessions", RESTORE, false).restore(),
    Checked::of("RestoreBatch", "restorebatches", RESTORE, true).restore(),
    Checked::of(REPOSITORY, "repositories", None, false).version("v1alpha1"),
];

/// Restics, whose kind is installed on request only.
const RESTIC: Checked = Checked::of("Restic", "restics", BACKUP, false).version("v1alpha1").selecting();

impl Checked {
    const fn of(
        kind: &'static str,
        plural: &'static str,
        hooks: Option<[&'static str; 2]>,
        is_batch: bool,
    ) -> Self {
        Self { kind, plural, version: "v1beta1", hooks, is_batch, is_restore: false, selects: false }
    }

    const fn selecting(mut self) -> Self {
        self.selects = true;
        self
    }

    const fn version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    const fn restore(mut self) -> Self {
        self.is_restore = true;
        self
    }

    /// How many targets of other namespaces it may have.
    fn most_elsewhere(&self) -> usize {
        match (self.is_batch, self.selects) {
            (true, _) => MOST_ELSEWHERE,
            (_, true) => 0,
            _ => 1,
        }
    }
}

/// Whether an object is a policy or a binding.
pub fn is_policy(object: &Value) -> bool {
    KINDS.iter().any(|(kind, _)| object["kind"] == *kind)
}

/// Whether a policy or binding of this name belongs to the server of a namespace.
pub fn is_of(name: &str, namespace: &str) -> bool {
    name.split_once('.').is_some_and(|(_, rest)| rest == suffix(namespace))
}

fn suffix(namespace: &str) -> String {
    format!("{namespace}.lifeboat.io")
}

/// Every policy except those of Restics, followed by its binding, which has the same name.
pub fn objects(namespace: &str) -> Vec<Value> {
    CHECKED.iter().flat_map(|checked| objects_of(checked, namespace)).collect()
}

/// Those of Restics.
pub fn restic_objects(namespace: &str) -> Vec<Value> {
    objects_of(&RESTIC, namespace)
}

fn objects_of(checked: &Checked, namespace: &str) -> Vec<Value> {
    policies(checked, namespace).iter().flat_map(|policy| [policy.object(), policy.binding()]).collect()
}

/// One policy.
struct Policy {
    name: String,
    plural: &'static str,
    version: &'static str,
    /// Names and expressions, which the validations refer to.
    variables: Vec<(&'static str, String)>,
    validations: Vec<Validation>,
}

/// One rule of a policy.
struct Validation {
    /// True if the object is admitted.
    expression: String,
    /// The message as an expression, with the values of the object.
    says: Option<String>,
    /// The message, also where `says` cannot be evaluated.
    message: String,
}

/// The policies of a kind. Batches have a second one: their commands in pods of other namespaces.
fn policies(checked: &Checked, namespace: &str) -> Vec<Policy> {
    let policy = |name: &str, validations: Vec<Validation>| Policy {
        name: format!("{name}.{}", suffix(namespace)),
        plural: checked.plural,
        version: checked.version,
        variables: cel::variables(checked),
        validations,
    };
    let mut first = vec![own_namespace(checked, &Right::CREATE_PODS, what_runs(checked))];
    if checked.is_restore {
        let stops = "restores stop a workload and start it again";
        first.push(own_namespace(checked, &Right::SCALE_DEPLOYMENTS, stops));
        first.push(own_namespace(checked, &Right::SCALE_STATEFUL_SETS, stops));
    }
    if checked.hooks.is_none() {
        return vec![policy(checked.plural, first)];
    }
    first.push(own_commands(checked));
    if checked.is_batch {
        first.push(not_too_many(checked));
    }
    if checked.selects {
        first.push(repository_elsewhere());
    }
    first.extend((0..checked.most_elsewhere()).map(|place| used_elsewhere(checked, place)));
    let commands = (0..checked.most_elsewhere()).map(|place| commands_elsewhere(checked, place));
    if checked.is_batch {
        let second = policy(&format!("{}-exec", checked.plural), commands.collect());
        vec![policy(checked.plural, first), second]
    } else {
        first.extend(commands);
        vec![policy(checked.plural, first)]
    }
}

fn what_runs(checked: &Checked) -> &'static str {
    match (checked.kind, checked.is_restore) {
        (REPOSITORY, _) => "pods use its volume and its Secret",
        ("BackupSession", _) => "a BackupSession runs pods",
        (_, true) => "restores run pods",
        (_, false) => "backups run pods",
    }
}

/// The field that has the server run pods.
fn what_for(checked: &Checked) -> &'static str {
    match checked.kind {
        REPOSITORY => "spec.backend",
        "BackupSession" => "spec.invoker",
        _ => "spec",
    }
}

/// A right in the namespace of the object, whatever it says.
fn own_namespace(checked: &Checked, right: &Right, why: &str) -> Validation {
    let field = what_for(checked);
    Validation {
        expression: right.is_held("request.namespace", None),
        says: Some(cel::refusal(right, "request.namespace", None, field, why)),
        message: format!("{field}: {why}, which needs the right to {right} in this namespace"),
    }
}

/// Commands in pods of the object's own namespace.
fn own_commands(checked: &Checked) -> Validation {
    let right = Right::CREATE_EXEC;
    let field =
        if checked.is_batch { "exec in spec.hooks or spec.members[].hooks" } else { "exec in spec.hooks" };
    let why = "hooks run commands in pods";
    Validation {
        expression: format!("!variables.runsCommands || {}", right.is_held("request.namespace", None)),
        says: Some(cel::refusal(&right, "request.namespace", None, field, why)),
        message: format!("{field}: {why}, which needs the right to {right} in this namespace"),
    }
}

fn not_too_many(checked: &Checked) -> Validation {
    let most = checked.most_elsewhere();
    Validation {
        expression: format!("variables.elsewhere.size() <= {most}"),
        says: None,
        message: format!(
            "spec.members: more than {most} targets are in other namespaces, and not all could be checked; write a second \
             {} for the others",
            checked.kind
        ),
    }
}

/// The Repository of another namespace.
fn repository_elsewhere() -> Validation {
    let right = Right::USE_REPOSITORIES;
    let (namespace, name) = ("object.spec.repository.namespace", "object.spec.repository.name");
    let field = "spec.repository";
    let why = "it is in another namespace";
    Validation {
        expression: format!("{} || {}", cel::REPOSITORY_IS_OWN, right.is_held(namespace, Some(name))),
        says: Some(cel::refusal(&right, namespace, Some(name), field, why)),
        message: format!("{field}: {why}, which needs the right to {right} there"),
    }
}

/// The n-th AppBinding of another namespace.
fn used_elsewhere(checked: &Checked, place: usize) -> Validation {
    let right = Right::USE_APP_BINDINGS;
    let target = cel::target("elsewhere", place);
    let (namespace, name) = (target.namespace(), target.name());
    let field = cel::field_of(checked, "elsewhere", place, "target.ref");
    let why = "it is in another namespace";
    Validation {
        expression: format!(
            "variables.elsewhere.size() <= {place} || {}",
            right.is_held(&namespace, Some(&name))
        ),
        says: Some(cel::refusal_at(&right, &namespace, Some(&name), &field, why)),
        message: format!(
            "target.ref: an AppBinding of another namespace needs the right to {right} in its namespace"
        ),
    }
}

/// The commands of the n-th member that runs some in another namespace, next to its AppBinding.
fn commands_elsewhere(checked: &Checked, place: usize) -> Validation {
    let right = Right::CREATE_EXEC;
    let namespace = cel::target("commandsElsewhere", place).namespace();
    let field = cel::field_of(checked, "commandsElsewhere", place, "hooks");
    let why = "its commands run in the namespace of the AppBinding";
    Validation {
        expression: format!(
            "variables.commandsElsewhere.size() <= {place} || {}",
            right.is_held(&namespace, None)
        ),
        says: Some(cel::refusal_at(&right, &namespace, None, &field, why)),
        message: format!("hooks: {why}, which needs the right to {right} there"),
    }
}

impl Policy {
    /// All fields that the API server would fill in are written out, so that a policy can be compared with the cluster's.
    fn object(&self) -> Value {
        let used = |name: &str| {
            self.validations.iter().any(|rule| rule.expression.contains(&format!("variables.{name}")))
        };
        let variables = cel::needed(&self.variables, used);
        let variables: Vec<Value> = variables
            .iter()
            .map(|(name, expression)| json!({"name": name, "expression": expression}))
            .collect();
        let mut spec = json!({
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
                "resourceRules": [{
                    "apiGroups": ["stash.appscode.com"],
                    "apiVersions": [self.version],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": [self.plural],
                    "scope": "*",
                }],
            },
            "matchConditions": [{"name": "spec-is-written", "expression": cel::SPEC_IS_WRITTEN}],
            "validations": self.validations.iter().map(Validation::object).collect::<Vec<_>>(),
        });
        if !variables.is_empty() {
            spec["variables"] = Value::from(variables);
        }
        self.of_kind(KINDS[0].0, &spec)
    }

    fn binding(&self) -> Value {
        self.of_kind(KINDS[1].0, &json!({"policyName": self.name, "validationActions": ["Deny"]}))
    }

    fn of_kind(&self, kind: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": format!("{}/{}", API.0, API.1),
            "kind": kind,
            "metadata": {"name": self.name, "labels": labels()},
            "spec": spec,
        })
    }
}

impl Validation {
    fn object(&self) -> Value {
        let mut rule = json!({"expression": self.expression, "message": self.message, "reason": "Forbidden"});
        if let Some(says) = &self.says {
            rule["messageExpression"] = Value::from(says.as_str());
        }
        rule
    }
}
