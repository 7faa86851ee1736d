use rstest::rstest;

use super::*;
use crate::transfer::movers::MoverVolume;

fn base() -> PodSettings {
    PodSettings {
        server: "lifeboat".into(),
        image: "localhost/lifeboat:dev".into(),
        cpu_request: "100m".into(),
        cpu_limit: None,
        memory_request: "128Mi".into(),
        memory_limit: "1Gi".into(),
        priority_class: None,
        nice: None,
        service_account: None,
        task_directory: "/mover/task".into(),
        pod_uid_variable: "LIFEBOAT_POD_UID".into(),
        security: PodSecurity::Privileged,
        target: None,
        repository_volume: None,
        tool_image: None,
        overrides: PodOverrides::default(),
    }
}

fn files() -> MoverPlace {
    let volume = MoverVolume { claim: "data".into(), block: false, writable: false };
    MoverPlace::Volumes { volumes: vec![volume], node: Some("a".into()) }
}

fn namespace() -> Value {
    json!({"metadata": {"name": "shop"}})
}

fn restricted() -> Value {
    json!({"metadata": {"name": "shop", "annotations": {MOVERS: RESTRICTED}}})
}

/// A pod whose containers set no user.
fn plain() -> Value {
    json!({"spec": {"containers": [{"name": "app"}, {"name": "log"}]}})
}

fn with_user() -> Value {
    json!({"spec": {
        "securityContext": {"runAsUser": 1000, "runAsGroup": 1001, "fsGroup": 70, "supplementalGroups": [80, 70, 1001]},
        "containers": [{"name": "app"}, {"name": "log", "securityContext": {"runAsUser": 2000}}],
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    }})
}

fn reported() -> Value {
    let mut pod = plain();
    pod["status"]["containerStatuses"] = json!([
        {"name": "log", "user": {"linux": {"uid": 5, "gid": 5}}},
        {"name": "app", "user": {"linux": {"uid": 999, "gid": 998, "supplementalGroups": [998, 70]}}},
    ]);
    pod
}

fn refused() -> DryRun {
    DryRun::Refused("violates PodSecurity \"restricted:latest\"".into())
}

struct Case {
    target: Option<Value>,
    container: Option<&'static str>,
    runtime: Value,
    namespace: Value,
    place: MoverPlace,
    base: PodSettings,
}

impl Default for Case {
    fn default() -> Self {
        let (runtime, namespace) = (json!({}), namespace());
        Self { target: Some(plain()), container: None, runtime, namespace, place: files(), base: base() }
    }
}

impl Case {
    fn settings(&self, answer: Option<&DryRun>) -> Result<PodSettings, MoverPodError> {
        let runtime = serde_json::from_value(self.runtime.clone()).unwrap();
        let pod = MoverPod {
            base: &self.base,
            place: &self.place,
            target: self.target.as_ref(),
            container: self.container,
            runtime: Some(&runtime),
            namespace: &self.namespace,
        };
        settings(&pod, answer)
    }
}

#[rstest]
#[case::the_pod_for_the_dry_run(namespace(), None)]
#[case::admitted(namespace(), Some(DryRun::Allowed))]
#[case::no_answer_and_no_label(namespace(), Some(DryRun::DryRunsRefused))]
#[case::no_answer_but_a_label(
    json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}), Some(DryRun::DryRunsRefused))]
#[case::a_quota_that_is_used_up(namespace(), Some(DryRun::Refused("exceeded quota: team".into())))]
fn a_mover_runs_as_root_where_the_namespace_admits_it(
    #[case] namespace: Value,
    #[case] answer: Option<DryRun>,
) {
    let settings = Case { namespace, ..Case::default() }.settings(answer.as_ref()).unwrap();
    assert_eq!((settings.security, settings.target), (PodSecurity::Baseline, None));
}

#[rstest]
#[case::refused(namespace(), refused())]
#[case::asked_for(restricted(), DryRun::Allowed)]
#[case::by_label(
    json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}), DryRun::DryRunsRefused)]
fn elsewhere_it_runs_as_the_user_of_the_target_pod(#[case] namespace: Value, #[case] answer: DryRun) {
    let case = Case { target: Some(with_user()), namespace, ..Case::default() };
    let settings = case.settings(Some(&answer)).unwrap();
    let expected = TargetPod { user: Some(1000), group: Some(1001), groups: vec![70, 80] };
    assert_eq!((settings.security, settings.target), (PodSecurity::Restricted, Some(expected)));
}

#[rstest]
#[case::of_the_container(with_user(), Some("log"), (2000, Some(1001), vec![70, 80]))]
#[case::reported_by_the_kubelet(reported(), None, (999, Some(998), vec![70]))]
#[case::reported_of_the_container(reported(), Some("log"), (5, Some(5), vec![]))]
fn the_user_is_that_of_the_container_that_uses_the_data(
    #[case] target: Value,
    #[case] container: Option<&'static str>,
    #[case] expected: (i64, Option<i64>, Vec<i64>),
) {
    let (user, group, groups) = expected;
    let case = Case { target: Some(target), container, ..Case::default() };
    let settings = case.settings(Some(&refused())).unwrap();
    assert_eq!(settings.target, Some(TargetPod { user: Some(user), group, groups }));
}

#[rstest]
#[case::of_the_image(Some(plain()), "is not known")]
#[case::no_pod(None, "is not known")]
#[case::root(Some(json!({"spec": {"containers": [{"name": "app", "securityContext": {"runAsUser": 0}}]}})), "runs as root")]
fn a_user_that_cannot_be_taken_is_a_matter_of_runtime_settings(
    #[case] target: Option<Value>,
    #[case] expected: &str,
) {
    let error = Case { target, ..Case::default() }.settings(Some(&refused())).unwrap_err().to_string();
    assert!(
        error.contains(expected) && error.contains("runtimeSettings.pod.securityContext.runAsUser"),
        "{error}"
    );
    assert!(error.contains("namespace shop") && error.contains("violates PodSecurity"), "{error}");
}

#[test]
fn without_files_the_user_does_not_matter() {
    let case = Case { target: None, place: MoverPlace::Anywhere, ..Case::default() };
    let settings = case.settings(Some(&refused())).unwrap();
    assert_eq!((settings.security, settings.target), (PodSecurity::Restricted, None));
    let repository = PodSettings { repository_volume: Some(json!({"hostPath": {"path": "/b"}})), ..base() };
    let case = Case { base: repository, ..case };
    assert!(matches!(case.settings(Some(&refused())), Err(MoverPodError::UnknownUser { .. })));
}

#[rstest]
#[case::of_the_pod(json!({"pod": {"securityContext": {"runAsUser": 7, "runAsGroup": 8, "supplementalGroups": [9]}}}),
    PodSecurity::Restricted, Some((7, Some(8), vec![9])))]
#[case::of_the_container(json!({"container": {"securityContext": {"runAsUser": 7}}}),
    PodSecurity::Restricted, Some((7, Some(1001), vec![70, 80])))]
#[case::root(json!({"pod": {"securityContext": {"runAsUser": 0}}}), PodSecurity::Baseline, None)]
fn runtime_settings_decide_about_the_user(
    #[case] runtime: Value,
    #[case] security: PodSecurity,
    #[case] user: Option<(i64, Option<i64>, Vec<i64>)>,
) {
    let expected = user.map(|(user, group, groups)| TargetPod { user: Some(user), group, groups });
    for namespace in [namespace(), restricted()] {
        let case = Case { target: Some(with_user()), runtime: runtime.clone(), namespace, ..Case::default() };
        for answer in [None, Some(DryRun::Allowed), Some(refused())] {
            let settings = case.settings(answer.as_ref()).unwrap();
            assert_eq!((settings.security, settings.target), (security, expected.clone()));
        }
    }
}

#[test]
fn without_runtime_settings_the_pod_has_what_a_namespace_of_others_needs() {
    let mut target = with_user();
    target["spec"]["securityContext"]["seLinuxOptions"] = json!({"level": "s0:c1,c2"});
    let settings = Case { target: Some(target), ..Case::default() }.settings(None).unwrap();
    assert_eq!((settings.service_account.as_deref(), &settings.cpu_limit), (Some("default"), &None));
    let overrides = settings.overrides;
    assert_eq!(overrides.annotations["sidecar.istio.io/inject"], "false");
    assert_eq!(overrides.annotations["linkerd.io/inject"], "disabled");
    assert_eq!(overrides.annotations["kuma.io/sidecar-injection"], "disabled");
    assert_eq!(overrides.annotations["consul.hashicorp.com/connect-inject"], "false");
    assert_eq!(overrides.labels["sidecar.istio.io/inject"], "false");
    let tolerations = json!([{"key": "dedicated", "operator": "Exists"}, cordoned()]);
    assert_eq!(overrides.spec["tolerations"], tolerations);
    assert_eq!(Value::Object(overrides.security), json!({"seLinuxOptions": {"level": "s0:c1,c2"}}));
    assert!(overrides.container.is_empty() && overrides.container_security.is_empty());
}

fn cordoned() -> Value {
    json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"})
}

/// A cordoned node keeps its pods and the volumes that are attached there.
#[rstest]
#[case::on_the_node_of_a_pod(files(), json!([]), json!([cordoned()]))]
#[case::of_a_daemon_set(files(), json!([cordoned()]), json!([cordoned()]))]
#[case::anywhere(MoverPlace::Volumes { volumes: Vec::new(), node: None }, json!([]), json!([]))]
fn a_mover_of_a_running_pod_is_let_into_its_node_although_that_is_cordoned(
    #[case] place: MoverPlace,
    #[case] of_target: Value,
    #[case] expected: Value,
) {
    let mut target = with_user();
    target["spec"]["tolerations"] = of_target;
    let settings = Case { target: Some(target), place, ..Case::default() }.settings(None).unwrap();
    assert_eq!(settings.overrides.spec["tolerations"], expected);
}

#[test]
fn a_container_has_its_own_selinux_options() {
    let mut target = with_user();
    target["spec"]["securityContext"]["seLinuxOptions"] = json!({"level": "s0"});
    target["spec"]["containers"][1]["securityContext"]["seLinuxOptions"] = json!({"level": "s1"});
    let case = Case { target: Some(target), container: Some("log"), ..Case::default() };
    assert_eq!(case.settings(None).unwrap().overrides.security["seLinuxOptions"]["level"], "s1");
}

/// A proxy that a mesh put before the application, whose files are those of claim `data`.
fn with_proxy(uses: &str) -> Value {
    json!({"metadata": {"name": "web-1"}, "spec": {
        "volumes": [{"name": "files", "persistentVolumeClaim": {"claimName": "data"}}],
        "containers": [
            {"name": "istio-proxy", "securityContext": {"runAsUser": 1337, "seLinuxOptions": {"level": "s1"}}},
            {"name": "app", "securityContext": {"runAsUser": 999, "seLinuxOptions": {"level": "s2"}}, uses: [{"name": "files"}]},
        ],
    }})
}

#[rstest]
#[case::files("volumeMounts", 999, "s2")]
#[case::a_device("volumeDevices", 999, "s2")]
#[case::nobody_mounts_it("ports", 1337, "s1")]
fn the_container_that_mounts_the_claims_counts(#[case] uses: &str, #[case] user: i64, #[case] level: &str) {
    let settings =
        Case { target: Some(with_proxy(uses)), ..Case::default() }.settings(Some(&refused())).unwrap();
    assert_eq!(settings.target.unwrap().user, Some(user));
    assert_eq!(settings.overrides.security["seLinuxOptions"]["level"], level);
}

#[rstest]
#[case::admitted(DryRun::Allowed, Ok(None))]
#[case::a_quota_behind_pod_security(
    DryRun::Refused("failed quota: team: must specify limits.cpu for: mover".into()), Ok(Some("2")))]
#[case::a_quota_that_is_used_up(DryRun::Refused("exceeded quota: team".into()), Ok(None))]
#[case::a_limit_range(
    DryRun::Refused("maximum memory usage per Container is 512Mi, but limit is 1Gi".into()),
    Err("set runtimeSettings.container.resources"))]
#[case::another_policy(DryRun::Refused("denied the request: no such registry".into()), Err("does not admit the pod"))]
fn a_pod_that_was_changed_is_tried_again(
    #[case] answer: DryRun,
    #[case] expected: Result<Option<&str>, &str>,
) {
    let place = files();
    let (base, target, namespace) = (base(), with_user(), namespace());
    let pod = MoverPod {
        base: &base,
        place: &place,
        target: Some(&target),
        container: None,
        runtime: None,
        namespace: &namespace,
    };
    let changed = settings(&pod, Some(&refused())).unwrap();
    match (settled(&pod, changed, &answer), expected) {
        (Ok(settled), Ok(limit)) => assert_eq!(settled.cpu_limit.as_deref(), limit),
        (Err(error), Err(says)) => {
            let message = error.to_string();
            assert!(message.contains(says) && message.contains("namespace shop"), "{message}");
        }
        (settled, expected) => panic!("{settled:?} is not {expected:?}"),
    }
}

#[test]
fn a_quota_that_wants_a_limit_gets_one() {
    let answer = DryRun::Refused("failed quota: team: must specify limits.cpu for: mover".into());
    let settings = Case::default().settings(Some(&answer)).unwrap();
    assert_eq!((settings.cpu_limit.as_deref(), settings.security), (Some("2"), PodSecurity::Baseline));
}

#[test]
fn runtime_settings_replace_what_is_decided_here() {
    let runtime = json!({
        "pod": {
            "podLabels": {"sidecar.istio.io/inject": "true", "team": "a"},
            "podAnnotations": {"linkerd.io/inject": "enabled"},
            "serviceAccountName": "cloud",
            "automountServiceAccountToken": true,
            "tolerations": [{"operator": "Exists"}],
            "nodeSelector": {"disk": "fast"},
            "securityContext": {"fsGroup": 5, "seLinuxOptions": {"level": "s9"}},
            "imagePullSecrets": [{"name": "registry"}],
            "affinity": {},
            "schedulerName": "own",
            "priorityClassName": "low",
            "priority": 3,
            "runtimeClassName": "kata",
            "enableServiceLinks": true,
            "nodeName": "b",
        },
        "container": {
            "resources": {"limits": {"memory": "2Gi"}},
            "securityContext": {"capabilities": {"drop": ["ALL"]}},
            "nice": {"adjustment": 10},
            "env": [{"name": "HTTPS_PROXY", "value": "http://proxy"}],
            "envFrom": [{"secretRef": {"name": "cloud"}}],
        },
    });
    let settings = Case { target: Some(with_user()), runtime, ..Case::default() }.settings(None).unwrap();
    assert_eq!((settings.service_account.as_deref(), settings.nice), (Some("cloud"), Some(10)));
    let overrides = settings.overrides;
    assert_eq!((&*overrides.labels["sidecar.istio.io/inject"], &*overrides.labels["team"]), ("true", "a"));
    assert_eq!(overrides.annotations["linkerd.io/inject"], "enabled");
    assert_eq!(
        Value::Object(overrides.spec),
        json!({
            "automountServiceAccountToken": true,
            "tolerations": [{"operator": "Exists"}],
            "nodeSelector": {"disk": "fast"},
            "imagePullSecrets": [{"name": "registry"}],
            "affinity": {},
            "schedulerName": "own",
            "priorityClassName": "low",
            "priority": 3,
            "runtimeClassName": "kata",
            "enableServiceLinks": true,
            "nodeName": "b",
        })
    );
    assert_eq!(Value::Object(overrides.security), json!({"fsGroup": 5, "seLinuxOptions": {"level": "s9"}}));
    assert_eq!(Value::Object(overrides.container_security), json!({"capabilities": {"drop": ["ALL"]}}));
    assert_eq!(
        Value::Object(overrides.container),
        json!({"resources": {"limits": {"memory": "2Gi"}}, "envFrom": [{"secretRef": {"name": "cloud"}}]})
    );
    assert_eq!(overrides.env, [json!({"name": "HTTPS_PROXY", "value": "http://proxy"})]);
}

#[test]
fn annotations_of_a_service_account_that_is_not_made_are_refused() {
    let runtime = json!({"pod": {"serviceAccountAnnotations": {"eks.amazonaws.com/role-arn": "arn"}}});
    let error = Case { runtime, ..Case::default() }.settings(None).unwrap_err();
    assert!(error.to_string().contains("serviceAccountName"), "{error}");
}
