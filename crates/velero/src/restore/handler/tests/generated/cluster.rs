//! Items that grant permissions, intercept requests or define types, and items of types with rules of their own.

use serde_json::json;

use super::{Backup, add, add_named};
use crate::restore::handler::tests::world::object;

pub(super) fn definition(made: &mut Backup, variation: usize, number: usize) {
    let name = format!("widget{number}s.widgets.example.com");
    let spec = json!({"group": "widgets.example.com", "preserveUnknownFields": variation.is_multiple_of(2)});
    add_named(made, "apiextensions.k8s.io/v1", "CustomResourceDefinition", &name, json!({"spec": spec}));
    let kind = format!("Widget{number}");
    add_named(made, "widgets.example.com/v1", &kind, &format!("shop/w{number}"), json!({}));
}

pub(super) fn namespace(made: &mut Backup, _: usize, number: usize) {
    made.objects.push(object("v1", "Namespace", &format!("more{number}")));
}

pub(super) fn api_service(made: &mut Backup, variation: usize, number: usize) {
    let fields = if variation.is_multiple_of(2) {
        json!({"metadata": {"labels": {"kube-aggregator.kubernetes.io/automanaged": "true"}}})
    } else {
        json!({"spec": {"service": {"namespace": "shop", "name": "behind"}}})
    };
    add_named(made, "apiregistration.k8s.io/v1", "APIService", &format!("v1.api{number}"), fields);
}

pub(super) fn node(made: &mut Backup, _: usize, number: usize) {
    made.objects.push(object("v1", "Node", &format!("node{number}")));
}

pub(super) fn event(made: &mut Backup, _: usize, number: usize) {
    add(made, "v1", "Event", number, json!({}));
}

/// Objects of Lifeboat itself; most of them are never restored.
pub(super) fn own(made: &mut Backup, variation: usize, number: usize) {
    let kinds = ["Backup", "Schedule", "DataUpload", "PodVolumeRestore"];
    made.objects.push(object("velero.io/v1", kinds[variation % 4], &format!("lifeboat/own{number}")));
}

/// Types of the groups that are restored only from a location that is trusted.
pub(super) fn privileged(made: &mut Backup, variation: usize, number: usize) {
    let (version, kind) = [
        ("certificates.k8s.io/v1", "CertificateSigningRequest"),
        ("appcatalog.appscode.com/v1alpha1", "AppBinding"),
        ("stash.appscode.com/v1beta1", "BackupConfiguration"),
        ("stash.appscode.com/v1beta1", "RestoreSession"),
        ("repositories.stash.appscode.com/v1alpha1", "Snapshot"),
    ][variation % 5];
    if kind == "CertificateSigningRequest" {
        made.objects.push(object(version, kind, &format!("request{number}")));
    } else {
        add(made, version, kind, number, json!({}));
    }
}

pub(super) fn class(made: &mut Backup, _: usize, number: usize) {
    made.objects.push(object("storage.k8s.io/v1", "StorageClass", &format!("fast{number}")));
}

/// An item that is stored in two versions, or in one. Which of them the cluster serves is a setting of the test.
pub(super) fn parcel(made: &mut Backup, variation: usize, number: usize) {
    let versions = [&["v1", "v2"][..], &["v1"], &["v2", "v1"]][variation % 3];
    for version in versions {
        add(
            made,
            &format!("shipping.example.com/{version}"),
            "Parcel",
            number,
            json!({"spec": {"of": version}}),
        );
    }
}

/// A type that the cluster does not serve.
pub(super) fn unserved(made: &mut Backup, _: usize, number: usize) {
    add(made, "example.org/v1", "Gadget", number, json!({}));
}

pub(super) fn rights(made: &mut Backup, variation: usize, number: usize) {
    let group = "rbac.authorization.k8s.io/v1";
    let subjects = json!([{"kind": "ServiceAccount", "namespace": "shop", "name": "a"}]);
    made.objects.push(match variation % 4 {
        0 => object(group, "ClusterRole", &format!("role{number}")),
        1 => object(group, "Role", &format!("shop/role{number}")),
        2 => {
            let mut binding = object(group, "RoleBinding", &format!("shop/binding{number}"));
            binding["subjects"] = subjects;
            binding
        }
        _ => {
            let mut binding = object(group, "ClusterRoleBinding", &format!("binding{number}"));
            binding["subjects"] = subjects;
            binding
        }
    });
}

pub(super) fn webhook(made: &mut Backup, variation: usize, number: usize) {
    let kinds = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];
    let mut hook = object("admissionregistration.k8s.io/v1", kinds[variation % 2], &format!("hook{number}"));
    hook["webhooks"] = json!([{"name": "w", "sideEffects": "Unknown",
        "clientConfig": {"service": {"namespace": "shop", "name": "behind"}}}]);
    if variation.is_multiple_of(3) {
        hook["webhooks"][0]["clientConfig"] = json!({"url": "https://example.com"});
    }
    made.objects.push(hook);
}
