use std::collections::BTreeMap;

use lifeboat_api::common::NamespaceName;
use rstest::rstest;
use serde_json::Map;

use super::super::{MoverVolume, PodOverrides, PodSecurity, TargetPod, job};
use super::testing::wanted;
use super::*;

/// A mover in a tenant's namespace, with one claim of files for each letter, `w` for a writable one, `b` for a block
/// device.
fn tenant(claims: &str, security: PodSecurity) -> MoverJob {
    let volumes = claims.chars().enumerate().map(|(number, kind)| MoverVolume {
        claim: format!("claim-{number}"),
        block: kind == 'b',
        writable: kind == 'w',
    });
    let place = MoverPlace::Volumes { volumes: volumes.collect(), node: Some("a".into()) };
    let mut wanted = MoverJob { namespace: NamespaceName::new("shop"), ..wanted(place) };
    wanted.owner.namespace = NamespaceName::new("shop");
    wanted.pod.service_account = Some("default".into());
    wanted.pod.security = security;
    wanted.pod.target = Some(TargetPod { user: Some(999), group: Some(998), groups: vec![70] });
    wanted
}

fn template_of(wanted: &MoverJob) -> Value {
    job::job(wanted).unwrap()["spec"]["template"].clone()
}

fn spec_of(wanted: &MoverJob) -> Value {
    template_of(wanted)["spec"].clone()
}

#[allow(clippy::needless_pass_by_value, reason = "callers pass json! literals")]
fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[test]
fn claims_are_mounted_by_their_numbers_and_devices_attached() {
    let pod = spec_of(&tenant("rwb", PodSecurity::Baseline));
    assert_eq!(
        pod["containers"][0]["volumeMounts"].as_array().unwrap()[2..],
        [
            json!({"name": "data-0", "mountPath": "/mover/data/0", "readOnly": true}),
            json!({"name": "data-1", "mountPath": "/mover/data/1", "readOnly": false}),
        ]
    );
    let devices = &pod["containers"][0]["volumeDevices"];
    assert_eq!(devices, &json!([{"name": "data-2", "devicePath": "/mover/device/2"}]));
    let claims = pod["volumes"].as_array().unwrap()[2..].iter();
    let claims: Vec<_> = claims.map(|volume| volume["persistentVolumeClaim"]["claimName"].clone()).collect();
    assert_eq!(claims, ["claim-0", "claim-1", "claim-2"]);
}

/// The kubelet changes the owners of files to the group in `fsGroup`.
#[rstest]
#[case::root_reads("r", PodSecurity::Baseline)]
#[case::root_writes("w", PodSecurity::Baseline)]
#[case::user("rw", PodSecurity::Restricted)]
#[case::no_data("", PodSecurity::Restricted)]
fn in_a_namespace_of_others_there_is_no_fs_group(#[case] claims: &str, #[case] security: PodSecurity) {
    let pod = spec_of(&tenant(claims, security));
    assert_eq!(pod["securityContext"]["fsGroup"], Value::Null);
    assert_eq!(
        (&pod["serviceAccountName"], &pod["automountServiceAccountToken"]),
        (&json!("default"), &json!(false))
    );
    // Without a group of its own the Secret's files are readable by their owner, root, or by every user of the pod.
    let is_root = pod["securityContext"]["runAsUser"] == 0;
    assert_eq!(pod["volumes"][0]["secret"]["defaultMode"], if is_root { 0o400 } else { 0o444 });
}

#[test]
fn a_repository_in_a_volume_is_mounted_beside_the_data() {
    let mut wanted = tenant("r", PodSecurity::Baseline);
    wanted.pod.repository_volume = Some(json!({"nfs": {"server": "nas", "path": "/backups"}}));
    let pod = spec_of(&wanted);
    let volume = json!({"name": "repository", "nfs": {"server": "nas", "path": "/backups"}});
    assert_eq!(pod["volumes"].as_array().unwrap().last(), Some(&volume));
    let mount = json!({"name": "repository", "mountPath": "/mover/repository"});
    assert_eq!(pod["containers"][0]["volumeMounts"].as_array().unwrap().last(), Some(&mount));
}

#[test]
fn an_image_with_tools_gets_the_program_from_an_init_container() {
    let mut wanted = tenant("", PodSecurity::Restricted);
    wanted.pod.tool_image = Some("docker.io/library/postgres:16".into());
    wanted.pod.overrides.init_containers = vec![json!({"name": "second"})];
    let pod = spec_of(&wanted);
    let (init, mover) = (&pod["initContainers"], &pod["containers"][0]);
    assert_eq!((&init[0]["image"], &init[1]["name"]), (&json!("localhost/lifeboat:dev"), &json!("second")));
    assert_eq!(init[0]["args"], json!(["mover", "--copy-to", "/mover/program"]));
    assert_eq!(init[0]["securityContext"], mover["securityContext"]);
    assert_eq!(init[0]["resources"], mover["resources"]);
    assert_eq!(mover["image"], "docker.io/library/postgres:16");
    assert_eq!((&mover["command"], &mover["args"]), (&json!(["/mover/program/lifeboat"]), &json!(["mover"])));
    let program = json!({"name": "program", "mountPath": "/mover/program", "readOnly": true});
    assert!(mover["volumeMounts"].as_array().unwrap().contains(&program));
}

#[test]
fn containers_that_follow_the_mover_wait_for_it_in_turn() {
    let mut wanted = tenant("", PodSecurity::Restricted);
    let user = json!({"name": "step-1-b", "securityContext": {"runAsUser": 7}, "resources": {}});
    wanted.pod.overrides.after = vec![json!({"name": "step-0-a"}), user];
    let pod = spec_of(&wanted);
    let (init, last) = (&pod["initContainers"], &pod["containers"][0]);
    let names: Vec<_> = init.as_array().unwrap().iter().map(|container| &container["name"]).collect();
    assert_eq!(names, ["step-mover", "step-0-a", "step-1-b"]);
    assert_eq!((&init[0]["args"], &last["args"]), (&json!(["mover"]), &json!(["mover", "--done"])));
    assert_eq!((&last["name"], &init[1]["resources"]), (&json!("mover"), &last["resources"]));
    // The namespace admits no container that does not say so.
    let security =
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsUser": 7});
    assert_eq!((&init[2]["securityContext"], &init[2]["resources"]), (&security, &json!({})));
}

#[test]
fn fields_are_replaced_and_what_movers_are_found_by_is_not() {
    let mut wanted = tenant("r", PodSecurity::Baseline);
    wanted.pod.overrides = PodOverrides {
        labels: BTreeMap::from([("team".into(), "a".into()), (job::TASK.into(), "forged".into())]),
        annotations: BTreeMap::from([("sidecar.istio.io/inject".into(), "false".into())]),
        spec: object(json!({"tolerations": [], "schedulerName": "own", "serviceAccountName": "cloud"})),
        security: object(json!({"seLinuxOptions": {"level": "s0:c1,c2"}})),
        container: object(json!({"resources": {"limits": {"cpu": "1"}}})),
        container_security: object(json!({"readOnlyRootFilesystem": false})),
        env: vec![json!({"name": "LIFEBOAT_POD_UID", "value": "forged"})],
        volumes: vec![json!({"name": "more", "emptyDir": {}})],
        mounts: vec![json!({"name": "more", "mountPath": "/more"})],
        init_containers: Vec::new(),
        after: Vec::new(),
    };
    let template = template_of(&wanted);
    let (labels, pod) = (&template["metadata"]["labels"], &template["spec"]);
    assert_eq!((&labels["team"], &labels[job::TASK]), (&json!("a"), &json!("6f1c-1")));
    assert_eq!(template["metadata"]["annotations"]["sidecar.istio.io/inject"], "false");
    assert_eq!((&pod["tolerations"], &pod["schedulerName"]), (&json!([]), &json!("own")));
    assert_eq!((&pod["serviceAccountName"], &pod["initContainers"]), (&json!("cloud"), &Value::Null));
    let security = &pod["securityContext"];
    assert_eq!(
        (&security["runAsUser"], &security["seLinuxOptions"]["level"]),
        (&json!(0), &json!("s0:c1,c2"))
    );
    let container = &pod["containers"][0];
    assert_eq!(container["resources"], json!({"limits": {"cpu": "1"}}));
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], false);
    assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
    // Of two variables with one name Kubernetes takes the last.
    assert_eq!(container["env"][1]["valueFrom"]["fieldRef"]["fieldPath"], "metadata.uid");
    assert_eq!(
        (&pod["volumes"][3]["name"], &container["volumeMounts"][3]["name"]),
        (&json!("more"), &json!("more"))
    );
}

#[test]
fn an_affinity_of_the_user_holds_on_the_node_of_the_data_only() {
    let mut wanted = tenant("r", PodSecurity::Baseline);
    let zone = json!({"key": "zone", "operator": "In", "values": ["one"]});
    let affinity = json!({
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []},
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [zone]}, {"matchExpressions": []}]}},
    });
    wanted.pod.overrides.spec = object(json!({"affinity": affinity}));
    let affinity = &spec_of(&wanted)["affinity"];
    assert!(affinity["podAntiAffinity"].is_object());
    let terms =
        &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let node = json!([{"key": "metadata.name", "operator": "In", "values": ["a"]}]);
    assert_eq!(
        terms,
        &json!([{"matchExpressions": [zone], "matchFields": node}, {"matchExpressions": [], "matchFields": node}])
    );
}

#[test]
fn a_quota_may_require_a_limit_for_cpu() {
    let mut wanted = tenant("r", PodSecurity::Baseline);
    wanted.pod.cpu_limit = Some("2".into());
    let limits = &spec_of(&wanted)["containers"][0]["resources"]["limits"];
    assert_eq!(limits, &json!({"cpu": "2", "memory": "1Gi"}));
}
