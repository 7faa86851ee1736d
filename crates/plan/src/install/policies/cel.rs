//! The expressions of the policies, in CEL as Kubernetes 1.30 and newer know it: variables, checks of rights, and messages that
//! name the user, the missing right and the field.

use std::fmt;

use super::Checked;

/// A metadata change of a user without rights passes: only the spec has the server do something.
pub(super) const SPEC_IS_WRITTEN: &str = "request.operation == 'CREATE' || object.spec != oldObject.spec";

/// Whether the Repository of a Restic is in its own namespace.
pub(super) const REPOSITORY_IS_OWN: &str = "!has(object.spec.repository) || !has(object.spec.repository.namespace) \
     || object.spec.repository.namespace in ['', request.namespace]";

/// A verb on a resource, as the authorizer is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Right {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
}

impl Right {
    pub(super) const CREATE_PODS: Self = Self::of("create", "", "pods", "");
    pub(super) const CREATE_EXEC: Self = Self::of("create", "", "pods", "exec");
    pub(super) const SCALE_DEPLOYMENTS: Self = Self::of("patch", "apps", "deployments", "scale");
    pub(super) const SCALE_STATEFUL_SETS: Self = Self::of("patch", "apps", "statefulsets", "scale");
    pub(super) const USE_APP_BINDINGS: Self = Self::of("use", "appcatalog.appscode.com", "appbindings", "");

    pub(super) const USE_REPOSITORIES: Self = Self::of("use", "stash.appscode.com", "repositories", "");

    const fn of(
        verb: &'static str,
        group: &'static str,
        resource: &'static str,
        subresource: &'static str,
    ) -> Self {
        Self { verb, group, resource, subresource }
    }

    /// The question whether the user holds it. `namespace` and `name` are expressions.
    pub(super) fn is_held(&self, namespace: &str, name: Option<&str>) -> String {
        let Self { verb, group, resource, subresource } = self;
        let subresource =
            if subresource.is_empty() { String::new() } else { format!(".subresource('{subresource}')") };
        let name = name.map(|name| format!(".name({name})")).unwrap_or_default();
        format!(
            "authorizer.group('{group}').resource('{resource}'){subresource}.namespace({namespace}){name}.check('{verb}').allowed()"
        )
    }
}

/// As people write it: `patch deployments/scale (apps)`.
impl fmt::Display for Right {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.verb, self.resource)?;
        if !self.subresource.is_empty() {
            write!(formatter, "/{}", self.subresource)?;
        }
        if self.group.is_empty() { Ok(()) } else { write!(formatter, " ({})", self.group) }
    }
}

/// The variables that the rules of a kind may use; later ones may use earlier ones.
pub(super) fn variables(checked: &Checked) -> Vec<(&'static str, String)> {
    let Some(hooks) = checked.hooks else { return Vec::new() };
    let members = if checked.is_batch { "object.spec.members" } else { "[object.spec]" };
    let elsewhere = "variables.members.filter(m, has(m.target) && has(m.target.ref) && has(m.target.ref.namespace) \
                     && m.target.ref.namespace != '' && m.target.ref.namespace != request.namespace)";
    let mut runs_commands = format!("variables.members.exists(m, {})", commands("m", hooks));
    if checked.is_batch {
        runs_commands = format!("{} || {runs_commands}", commands("object.spec", hooks));
    }
    vec![
        ("members", members.to_owned()),
        ("elsewhere", elsewhere.to_owned()),
        ("runsCommands", runs_commands),
        ("commandsElsewhere", format!("variables.elsewhere.filter(m, {})", commands("m", hooks))),
    ]
}

/// The variables that are used, directly or by others that are.
pub(super) fn needed<'a>(
    all: &'a [(&'static str, String)],
    is_used: impl Fn(&str) -> bool,
) -> Vec<&'a (&'static str, String)> {
    let mut needed: Vec<&(&'static str, String)> = Vec::new();
    for variable in all.iter().rev() {
        let by_others = needed.iter().any(|(_, text)| text.contains(&format!("variables.{}", variable.0)));
        if by_others || is_used(variable.0) {
            needed.push(variable);
        }
    }
    needed.reverse();
    needed
}

/// Whether what has `hooks` runs a command in one of them.
fn commands(owner: &str, hooks: [&str; 2]) -> String {
    let of = |hook: &str| format!("has({owner}.hooks.{hook}) && has({owner}.hooks.{hook}.exec)");
    format!("(has({owner}.hooks) && ({} || {}))", of(hooks[0]), of(hooks[1]))
}

/// The target of a place in a list of members.
pub(super) struct Target(String);

pub(super) fn target(list: &str, place: usize) -> Target {
    Target(format!("variables.{list}[{place}].target.ref"))
}

impl Target {
    pub(super) fn namespace(&self) -> String {
        format!("{}.namespace", self.0)
    }

    pub(super) fn name(&self) -> String {
        format!("{}.name", self.0)
    }
}

/// An expression of the field of a member that is the n-th of a list: `spec.members[7].target.ref`.
pub(super) fn field_of(checked: &Checked, list: &str, place: usize, field: &str) -> String {
    if checked.is_batch {
        let index = format!("string(variables.members.indexOf(variables.{list}[{place}]))");
        format!("'spec.members[' + {index} + '].{field}'")
    } else {
        format!("'spec.{field}'")
    }
}

/// The message of a right that is missing, as an expression.
pub(super) fn refusal(right: &Right, namespace: &str, name: Option<&str>, field: &str, why: &str) -> String {
    refusal_at(right, namespace, name, &format!("'{field}'"), why)
}

/// The message of a refusal whose field is given as an expression.
pub(super) fn refusal_at(
    right: &Right,
    namespace: &str,
    name: Option<&str>,
    field: &str,
    why: &str,
) -> String {
    let object = name.map(|name| format!(" + ' ' + {name}")).unwrap_or_default();
    format!(
        "{field} + ': {why}, and user ' + request.userInfo.username + ' lacks the right to {right}'{object} + ' in namespace ' + {namespace} + '; ask an administrator of that namespace for it'"
    )
}
