//! The expressions of the policies, in CEL. Objects are seen as `dyn`: the fields of the kinds are checked by their
//! schemas, and `namespace`, a reserved word of CEL, can only be read that way. An expression that fails refuses the
//! object.

use std::fmt;

/// Whether the request creates an object or changes a spec.
pub(super) const SPEC_CHANGES: &str = "request.operation == 'CREATE' || object.spec != oldObject.spec";

/// The namespace of the object.
pub(super) const HERE: &str = "request.namespace";

/// A right of a user.
#[derive(Clone, Copy, Debug)]
pub(super) struct Right {
    pub(super) verb: &'static str,
    pub(super) group: &'static str,
    pub(super) resource: &'static str,
    pub(super) subresource: Option<&'static str>,
}

impl Right {
    pub(super) const fn new(verb: &'static str, group: &'static str, resource: &'static str) -> Self {
        Self { verb, group, resource, subresource: None }
    }

    pub(super) const fn of(self, subresource: &'static str) -> Self {
        Self { subresource: Some(subresource), ..self }
    }

    /// Whether the user has the right in the namespace that an expression gives.
    pub(super) fn is_held_in(&self, namespace: &str) -> String {
        self.asked(&format!(".namespace({namespace})"))
    }

    /// Whether the user has the right to the object with the namespace and name that two expressions give.
    pub(super) fn is_held_for(&self, namespace: &str, name: &str) -> String {
        self.asked(&format!(".namespace({namespace}).name({name})"))
    }

    fn asked(&self, whose: &str) -> String {
        let Self { verb, group, resource, .. } = self;
        let subresource = self.subresource.map(|name| format!(".subresource('{name}')")).unwrap_or_default();
        format!(
            "authorizer.group('{group}').resource('{resource}'){subresource}{whose}.check('{verb}').allowed()"
        )
    }
}

/// As kubectl writes it: `patch deployments.apps/scale`.
impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        self.subresource.map_or(Ok(()), |name| write!(f, "/{name}"))
    }
}

/// A message about a missing right: the field that needs it, the user, the right, the namespace that an expression
/// gives, and why the field needs it.
pub(super) fn lacks(field: &str, right: &Right, namespace: &str, why: &str) -> String {
    format!(
        "'{field}: user ' + request.userInfo.username + ' lacks the right to {right} in namespace ' + {namespace} + ', {why}'"
    )
}

/// The member `m` has its target in another namespace. Only an AppBinding may have one; the server refuses every other
/// kind, so that its name is not compared here.
pub(super) const IS_ELSEWHERE: &str = "has(m.target) && has(m.target.ref) && has(m.target.ref.namespace) && \
    !(m.target.ref.namespace in ['', request.namespace])";

/// The member `m` is restored into a volume, whose workload may have to be stopped; a database is not.
pub(super) const FILLS_VOLUMES: &str =
    "has(m.target) && has(m.target.ref) && m.target.ref.kind != 'AppBinding'";

/// The member `m` is restored into a workload of this kind.
pub(super) fn fills_kind(kind: &str) -> String {
    format!("has(m.target) && has(m.target.ref) && m.target.ref.kind == '{kind}'")
}

/// The member, or batch, `m` has a hook that runs a command in a pod.
pub(super) fn runs_commands([before, after]: [&str; 2]) -> String {
    let has = |hook: &str| format!("(has(m.hooks.{hook}) && has(m.hooks.{hook}.exec))");
    format!("has(m.hooks) && ({} || {})", has(before), has(after))
}

/// The member `m` says what its pods look like.
pub(super) const SHAPES_PODS: &str = "has(m.runtimeSettings) || has(m.interimVolumeTemplate)";
