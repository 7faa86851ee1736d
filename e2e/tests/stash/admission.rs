//! Policies of a cluster's administrator about pods: movers run as they admit, or their session fails with what the policy says.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use lifeboat_e2e::{RESTORE_SESSIONS, StashTest, apply, contents, kubectl, unique, wait_for};
use rstest::rstest;

use super::pod_security::start;
use super::workloads::{deployment, into, put_deployment};

const CONFIGURATION: &str = "BackupConfiguration";
/// What policies about movers say.
const SAYS: &str = "not in this namespace";

/// A ValidatingAdmissionPolicy about the pods of one namespace. Deleted when dropped.
struct Policy {
    name: String,
}

impl Policy {
    /// Admits the pods for which the CEL expression holds, and waits until it refuses `refused`.
    fn put(test: &StashTest, expression: &str, refused: &str) -> Self {
        Self::saying(test, SAYS, expression, refused)
    }

    fn saying(test: &StashTest, says: &str, expression: &str, refused: &str) -> Self {
        let (name, namespace) = (unique("policy"), &test.tenant.name);
        apply(&format!(
            "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: {name}}}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}}]
  validations: [{{expression: \"{expression}\", message: {says}}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {name}}}
spec:
  policyName: {name}
  validationActions: [Deny]
  matchResources: {{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {namespace}}}}}}}
"
        ));
        let policy = Self { name };
        let create = test.kubectl().args(["create", "--dry-run=server", "-f", "-"]).input(refused);
        wait_for("the policy", 60, || {
            let output = create.run();
            if output.stderr.contains(says) { Ok(()) } else { Err(output.stderr) }
        });
        policy
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
            kubectl().args(["delete", kind, &self.name]).run();
        }
    }
}

/// A pod with this label and user, which level `restricted` admits unless the user is root.
fn pod(label: &str, user: u32) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: tried, labels: {{{label}}}}}, spec: {{securityContext: {{runAsUser: {user}, \
         runAsNonRoot: true, seccompProfile: {{type: RuntimeDefault}}}}, containers: [{{name: main, image: none, securityContext: \
         {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}}}]}}}}"
    )
}

#[test]
fn where_a_policy_admits_no_root_movers_run_as_the_user_of_the_app() {
    let (test, before) = start("privileged");
    let no_root = "has(object.spec.securityContext) && has(object.spec.securityContext.runAsUser) && \
                   object.spec.securityContext.runAsUser != 0";
    let _policy = Policy::put(&test, no_root, &pod("app: tried", 0));
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_stored("repo", "app", "/source/data", &before);
    let directory = test.directory("web", 0, "data");
    fs::remove_dir_all(directory.join("own")).unwrap();
    fs::write(directory.join("bytes"), "damaged").unwrap();
    test.restore("back", &format!("  target: {}", into("app", "Deployment", "web")), "");
    test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    test.wait_for_ready("web", 1);
    before.assert_same(&contents(&test.directory("web", 0, "data")), "restored");
    test.assert_nothing_is_left("repo");
}

#[test]
fn where_a_policy_admits_no_mover_at_all_sessions_fail_with_what_it_says_and_the_workload_runs_as_before() {
    let test = StashTest::start();
    test.put_repository("repo");
    put_deployment(&test, "web");
    test.put_configuration("nightly", &deployment("app", "web"), "");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    let no_mover = "!has(object.metadata.labels) || !('app.kubernetes.io/name' in object.metadata.labels) || \
                    object.metadata.labels['app.kubernetes.io/name'] != 'lifeboat-mover'";
    let policy = Policy::put(&test, no_mover, &pod("app.kubernetes.io/name: lifeboat-mover", 1000));
    let session = test.run(CONFIGURATION, "nightly", "Failed");
    let error = session["status"]["targets"][0]["stats"][0]["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains(SAYS), "{:#}", session["status"]);
    let spec = format!("  target: {}", into("app", "Deployment", "web"));
    test.restore("refused", &spec, "");
    let refused = test.restored_as(RESTORE_SESSIONS, "refused", "Failed");
    let said = refused["status"].to_string();
    assert!(said.contains(SAYS), "{said}");
    assert_eq!(test.replicas("deployments", "web"), 1, "{said}");
    test.wait_for_ready("web", 1);
    assert_eq!(test.backups("repo").len(), 1);
    drop(policy);
    wait_for("the end of the policy", 60, || {
        let tried = pod("app.kubernetes.io/name: lifeboat-mover", 1000);
        let output = test.kubectl().args(["create", "--dry-run=server", "-f", "-"]).input(&tried).run();
        if output.code == 0 { Ok(()) } else { Err(output.stderr) }
    });
    test.restore("back", &spec, "");
    test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    test.wait_for_ready("web", 1);
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_no_mover_or_lock_is_left("repo");
}

/// The pods themselves are admitted. A mover as root reads a file of root's; in a namespace at level `restricted` no such mover would start.
#[rstest]
#[case::as_root("privileged", true)]
#[case::as_the_user_of_the_app("restricted", false)]
fn where_dry_runs_are_refused_the_level_of_the_namespace_decides(#[case] level: &str, #[case] is_root: bool) {
    let (test, _) = start(level);
    if is_root {
        let path = test.directory("web", 0, "data").join("of-root");
        fs::write(&path, "of root").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let before = contents(&test.directory("web", 0, "data"));
    let no_dry_run = "!has(request.dryRun) || !request.dryRun";
    let _policy = Policy::saying(&test, "no dry run in this namespace", no_dry_run, &pod("app: tried", 1000));
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_stored("repo", "app", "/source/data", &before);
    let directory = test.directory("web", 0, "data");
    fs::remove_dir_all(directory.join("own")).unwrap();
    fs::write(directory.join("bytes"), "damaged").unwrap();
    test.restore("back", &format!("  target: {}", into("app", "Deployment", "web")), "");
    test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    test.wait_for_ready("web", 1);
    before.assert_same(&contents(&test.directory("web", 0, "data")), "restored");
    test.assert_nothing_is_left("repo");
}
