//! The ValidatingAdmissionPolicies of an installation. They ask the API server's authorizer whether the user who creates
//! or changes an object for Stash's API has the rights that the server uses for that object: an object gives its author
//! no right that the author lacks. [`rules`] says which rights, [`cel`] writes the expressions. Used by
//! `lifeboat install`, by the chart, and by `stash::policies`, which compares these policies with those in the cluster.
//!
//! The server's own service account needs no exception: wherever it serves objects, it has the rights that the policies
//! ask for (`cluster-admin`, or every right in the namespaces of a limited installation).
//!
//! The API server stops an expression at 1,000,000 units of cost and a policy at 10,000,000. A question to the authorizer
//! costs 350,000, so that an expression can ask twice and a policy 28 times, in lists one validation for each place.

mod cel;
mod rules;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{InstallOptions, labels};

pub use rules::all;

/// The API group and version of policies and their bindings.
pub const API_VERSION: &str = "admissionregistration.k8s.io/v1";
/// The version of the rules. A change of any policy raises it: a server accepts policies of its own version and of newer
/// ones.
pub const VERSION: u32 = 1;
/// Annotation of a policy: its [`Policy::name`].
pub const NAME_ANNOTATION: &str = "lifeboat.io/policy";
/// Annotation of a policy: its [`VERSION`].
pub const VERSION_ANNOTATION: &str = "lifeboat.io/policy-version";

/// The API group whose kinds are checked. A policy that fails can refuse objects of this group only.
const GROUP: &str = "stash.appscode.com";

/// One policy about one kind. A kind whose questions exceed the cost limit has several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The name inside an installation: the resource, and what is checked where the resource has several policies.
    pub name: &'static str,
    /// The plural name of the kind that is checked.
    pub resource: &'static str,
    /// The version of the kind.
    version: &'static str,
    /// Names and expressions, each usable in those after it.
    variables: Vec<(&'static str, String)>,
    validations: Vec<Validation>,
}

/// One condition that an object must meet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Validation {
    expression: String,
    /// An expression that gives the message for an object that does not meet the condition.
    message: String,
}

impl Policy {
    /// The name of the objects. It contains Lifeboat's namespace, so that two installations never share, change or
    /// delete each other's policies.
    pub fn object_name(&self, namespace: &str) -> String {
        format!("{}{}", self.name, suffix(namespace))
    }

    /// The spec of the ValidatingAdmissionPolicy.
    pub fn spec(&self) -> Value {
        let variables: Vec<Value> = self
            .variables
            .iter()
            .map(|(name, expression)| json!({"name": name, "expression": expression}))
            .collect();
        let validations: Vec<Value> = self
            .validations
            .iter()
            .map(|validation| {
                json!({
                    "expression": validation.expression,
                    "messageExpression": validation.message,
                    "reason": "Forbidden",
                })
            })
            .collect();
        let mut spec = json!({
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [{
                    "apiGroups": [GROUP],
                    "apiVersions": [self.version],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": [self.resource],
                }],
            },
            // Labels, finalizers and owners may be changed without these rights.
            "matchConditions": [{"name": "spec-changes", "expression": cel::SPEC_CHANGES}],
            "validations": validations,
        });
        if !variables.is_empty() {
            spec["variables"] = json!(variables);
        }
        spec
    }

    fn object(&self, namespace: &str) -> Value {
        json!({
            "apiVersion": API_VERSION,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {
                "name": self.object_name(namespace),
                "labels": labels(),
                "annotations": {NAME_ANNOTATION: self.name, VERSION_ANNOTATION: VERSION.to_string()},
            },
            "spec": self.spec(),
        })
    }

    fn binding(&self, namespace: &str) -> Value {
        let name = self.object_name(namespace);
        json!({
            "apiVersion": API_VERSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name, "labels": labels()},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        })
    }
}

/// Every policy, each followed by its binding.
pub(super) fn objects(options: &InstallOptions) -> Vec<Value> {
    let namespace = &options.namespace;
    all().iter().flat_map(|policy| [policy.object(namespace), policy.binding(namespace)]).collect()
}

/// Whether a policy or binding of this name belongs to the installation in `namespace`.
pub fn is_of(name: &str, namespace: &str) -> bool {
    name.strip_suffix(&suffix(namespace)).is_some_and(|rest| !rest.is_empty() && !rest.contains('.'))
}

fn suffix(namespace: &str) -> String {
    format!(".{namespace}.lifeboat.io")
}

/// The policies and bindings of all installations, as the cluster has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundPolicies {
    pub policies: Vec<FoundPolicy>,
    /// The specs of the bindings.
    pub bindings: Vec<Value>,
}

/// A policy as the cluster has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundPolicy {
    pub name: String,
    pub annotations: BTreeMap<String, String>,
    pub spec: Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits of the API server.
    const CHECKS_PER_EXPRESSION: usize = 2;
    const CHECKS_PER_POLICY: usize = 28;

    fn checks(text: &str) -> usize {
        text.matches(".check(").count()
    }

    #[test]
    fn the_policies_of_an_installation() {
        // Of the places of a list the first one stands for all.
        let first = |validation: &Value| {
            let text = validation["expression"].as_str().unwrap();
            (1..rules::PLACES).all(|place| !text.contains(&format!("[{place}]")))
        };
        let objects: Vec<Value> = all()
            .iter()
            .map(|policy| {
                let mut object = policy.object("lifeboat");
                let validations = object["spec"]["validations"].as_array_mut().unwrap();
                validations.retain(first);
                object
            })
            .collect();
        insta::assert_yaml_snapshot!(objects);
    }

    #[test]
    fn a_binding_denies_and_is_not_narrowed() {
        let options = InstallOptions::new("lifeboat", "i:1");
        let objects = objects(&options);
        assert_eq!(objects.len(), 2 * all().len());
        for pair in objects.chunks(2) {
            let name = &pair[0]["metadata"]["name"];
            assert_eq!(pair[1]["kind"], "ValidatingAdmissionPolicyBinding");
            assert_eq!(pair[1]["spec"], json!({"policyName": name, "validationActions": ["Deny"]}));
        }
    }

    #[test]
    fn no_policy_asks_more_often_than_the_api_server_allows() {
        for policy in all() {
            let expressions = policy.validations.iter().map(|validation| validation.expression.as_str());
            let expressions = expressions.chain(policy.variables.iter().map(|(_, text)| text.as_str()));
            let asked: Vec<usize> = expressions.map(checks).collect();
            assert!(asked.iter().all(|count| *count <= CHECKS_PER_EXPRESSION), "{}: {asked:?}", policy.name);
            let sum: usize = asked.iter().sum();
            assert!((1..=CHECKS_PER_POLICY).contains(&sum), "{}: {sum}", policy.name);
        }
    }

    /// The API server evaluates messages without an authorizer.
    #[test]
    fn no_message_and_no_variable_asks_the_authorizer() {
        for policy in all() {
            for validation in &policy.validations {
                assert!(!validation.message.contains("authorizer"), "{}", validation.message);
                assert!(validation.message.len() < 5000);
            }
            assert!(policy.variables.iter().all(|(_, text)| !text.contains("authorizer")), "{}", policy.name);
        }
    }

    #[test]
    fn a_policy_can_refuse_objects_of_our_group_only() {
        for policy in all() {
            let spec = policy.spec();
            let rules = spec["matchConstraints"]["resourceRules"].as_array().unwrap();
            assert_eq!(rules.len(), 1);
            assert_eq!(rules[0]["apiGroups"], json!(["stash.appscode.com"]));
            assert_eq!(rules[0]["resources"], json!([policy.resource]), "no subresource, so no status");
        }
    }

    #[test]
    fn names_are_those_of_one_installation() {
        let policy = &all()[0];
        let name = policy.object_name("lifeboat");
        assert_eq!(name, "repositories.lifeboat.lifeboat.io");
        assert!(is_of(&name, "lifeboat"));
        assert!(!is_of(&name, "boat"));
        assert!(!is_of(&policy.object_name("other"), "lifeboat"));
        assert!(!is_of("a.b.lifeboat.lifeboat.io", "lifeboat"));
    }
}
