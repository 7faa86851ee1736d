//! The app that tests back up and restore: many kinds, no volumes.

use crate::kubectl;

/// Volumes have their own tests.
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
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}]
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

/// The manifests, for this namespace.
pub fn sample_app(namespace: &str) -> String {
    APP.replace("NAMESPACE", namespace)
}

/// Waits until its Deployment `web` and its StatefulSet `db` run.
pub fn wait_until_running(namespace: &str) {
    for workload in ["deployment/web", "statefulset/db"] {
        kubectl().args(["-n", namespace, "rollout", "status", workload, "--timeout=90s"]).ok();
    }
}
