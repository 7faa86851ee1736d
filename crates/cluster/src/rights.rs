//! The RBAC objects of an installation, found by their labels and subjects. Called by uninstall, which removes them
//! all, and by install, which removes those of an earlier profile.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding, Subject};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use lifeboat_plan::install::{mover_namespace, rights_name};

use crate::apply::ObjectName;
use crate::{ApiError, Attempt};

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const LABELS: &str = "app.kubernetes.io/name=lifeboat,component=velero";

/// Every binding and role of the server in `namespace`; bindings first.
pub async fn held(client: &Client, namespace: &str) -> Result<Vec<ObjectName>, ApiError> {
    let labelled = ListParams::default().labels(LABELS);
    let mut names = Vec::new();
    let bindings = Api::<ClusterRoleBinding>::all(client.clone()).list(&labelled).await;
    for binding in bindings.attempt("list ClusterRoleBindings")? {
        if gives_to(binding.subjects.as_ref(), namespace) {
            names.push(name("ClusterRoleBinding", &binding));
        }
    }
    let bindings = Api::<RoleBinding>::all(client.clone()).list(&labelled).await;
    for binding in bindings.attempt("list RoleBindings")? {
        if gives_to(binding.subjects.as_ref(), namespace) {
            names.push(name("RoleBinding", &binding));
        }
    }
    let prefix = rights_name(namespace);
    let roles = Api::<ClusterRole>::all(client.clone()).list(&labelled).await.attempt("list ClusterRoles")?;
    let ours = roles.iter().filter(|role| role.name_any().split_once(&prefix).is_some_and(is_ours));
    names.extend(ours.map(|role| name("ClusterRole", role)));
    for namespace in [namespace, &mover_namespace(namespace)] {
        let roles = Api::<Role>::namespaced(client.clone(), namespace).list(&labelled).await;
        names.extend(roles.attempt("list Roles")?.iter().map(|role| name("Role", role)));
    }
    Ok(names)
}

/// Whether the name starts with the prefix and continues with nothing or a new part: `shop` does not match `shop-2`.
fn is_ours((before, after): (&str, &str)) -> bool {
    before.is_empty() && (after.is_empty() || after.starts_with(':'))
}

fn gives_to(subjects: Option<&Vec<Subject>>, namespace: &str) -> bool {
    subjects.into_iter().flatten().any(|subject| subject.namespace.as_deref() == Some(namespace))
}

fn name(kind: &str, object: &impl ResourceExt) -> ObjectName {
    ObjectName {
        api_version: RBAC.to_owned(),
        kind: kind.to_owned(),
        namespace: object.namespace(),
        name: object.name_any(),
    }
}
