//! An app of many kinds, with a custom resource and its definition; without volumes.

use std::collections::BTreeMap;

use lifeboat_e2e::{Namespace, apply, get, kubectl, objects_of};
use serde_json::Value;

use super::delete_namespace;

const APP: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, annotations: {note: kept}}
data: {a: one, b: two}
---
apiVersion: v1
kind: Secret
metadata: {name: token}
stringData: {password: not-a-real-secret}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: web}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [''], resources: [configmaps], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: web, namespace: NAMESPACE}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
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
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      serviceAccountName: web
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 1
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}]
---
apiVersion: interop.lifeboat.io/v1
kind: Widget
metadata: {name: one}
spec: {size: 3}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: tidy}
spec:
  schedule: '0 0 1 1 *'
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: main, image: TEST_IMAGE, command: ['true']}]
";

const DEFINITION: &str = include_str!("../../fixtures/interop/definition.yaml");
const WIDGETS: &str = "widgets.interop.lifeboat.io";

/// The running app; its namespace goes with it.
pub(super) struct App {
    pub(super) namespace: Namespace,
}

impl App {
    pub(super) fn start(name: &str) -> Self {
        let app = Self { namespace: Namespace::new(name) };
        apply(DEFINITION);
        let definition = format!("crd/{WIDGETS}");
        kubectl().args(["wait", "--for=condition=Established", "--timeout=30s", &definition]).ok();
        app.namespace.apply(&APP.replace("NAMESPACE", &app.namespace.name));
        app.wait();
        app
    }

    /// Until everything runs.
    pub(super) fn wait(&self) {
        for workload in ["deployment/web", "statefulset/db"] {
            self.namespace.kubectl().args(["rollout", "status", workload, "--timeout=90s"]).ok();
        }
    }

    /// Everything that is compared, the custom resource with it.
    pub(super) fn objects(&self) -> BTreeMap<String, Value> {
        let mut all = objects_of(&self.namespace.name);
        let widget = get(&["-n", &self.namespace.name, WIDGETS, "one"]);
        all.insert("Widget/one".to_owned(), widget["spec"].clone());
        all
    }

    /// The disaster: nothing of it is left.
    pub(super) fn delete(&self) {
        delete_namespace(&self.namespace.name);
        kubectl().args(["delete", "crd", WIDGETS, "--timeout=60s"]).ok();
    }
}
