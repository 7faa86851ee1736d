//! An app of many kinds, with a custom resource and its definition; without volumes.

use std::collections::BTreeMap;

use lifeboat_e2e::{
    Namespace, apply, delete_namespace, get, kubectl, objects_of, sample_app, wait_until_running,
};
use serde_json::Value;

/// The objects beside the sample app.
const MORE: &str = "
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web}
spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: interop.lifeboat.io/v1
kind: Widget
metadata: {name: one}
spec: {size: 3}
";

const DEFINITION: &str = include_str!("../../fixtures/interop/definition.yaml");
const WIDGETS: &str = "widgets.interop.lifeboat.io";

/// The running app; its namespace is deleted with the value.
pub(super) struct App {
    pub(super) namespace: Namespace,
}

impl App {
    pub(super) fn start(name: &str) -> Self {
        let app = Self { namespace: Namespace::new(name) };
        apply(DEFINITION);
        let definition = format!("crd/{WIDGETS}");
        kubectl().args(["wait", "--for=condition=Established", "--timeout=30s", &definition]).ok();
        app.namespace.apply(&format!("{}{MORE}", sample_app(&app.namespace.name)));
        app.wait();
        app
    }

    /// Waits until everything runs.
    pub(super) fn wait(&self) {
        wait_until_running(&self.namespace.name);
    }

    /// All compared objects, including the custom resource.
    pub(super) fn objects(&self) -> BTreeMap<String, Value> {
        let mut all = objects_of(&self.namespace.name);
        let widget = get(&["-n", &self.namespace.name, WIDGETS, "one"]);
        all.insert("Widget/one".to_owned(), widget["spec"].clone());
        all
    }

    /// Deletes everything of it.
    pub(super) fn delete(&self) {
        delete_namespace(&self.namespace.name);
        kubectl().args(["delete", "crd", WIDGETS, "--timeout=60s"]).ok();
    }
}
