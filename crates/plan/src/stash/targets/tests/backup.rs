//! Which hosts and parts the backup of a target has.

use rstest::rstest;

use super::*;

const DATA: &[(&str, &str)] = &[("data", "/data")];

fn plan(facts: &TargetFacts) -> TargetPlan {
    backup_plan(facts, &backup_target(facts.kind, DATA, &[])).unwrap()
}

fn names(plan: &TargetPlan) -> Vec<&str> {
    plan.hosts.iter().map(|host| host.name.as_str()).collect()
}

/// The pod of each host; empty where there is none.
fn pods(plan: &TargetPlan) -> Vec<&str> {
    let sources = plan.hosts.iter().map(|host| host.source.as_ref().ok());
    sources.map(|source| source.and_then(|source| source.pod.as_ref()).map_or("", |pod| &pod.name)).collect()
}

#[rstest]
#[case::deployment(TargetKind::Deployment)]
#[case::replica_set(TargetKind::ReplicaSet)]
#[case::replication_controller(TargetKind::ReplicationController)]
#[case::deployment_config(TargetKind::DeploymentConfig)]
fn one_pod_is_read_of_a_workload_with_equal_pods(#[case] kind: TargetKind) {
    let pods_of_web = vec![pod("web-2", "n2", 1, data()), pod("web-1", "n1", 2, data())];
    let facts = facts(kind, workload(2, data()), pods_of_web, &[claim("data", "ReadWriteMany")]);
    let plan = plan(&facts);
    assert_eq!((names(&plan), pods(&plan)), (vec!["app"], vec!["web-2"]));
    assert_eq!(plan.notes, [], "the replicas share the claim");
    let part = &plan.hosts[0].source.as_ref().unwrap().parts[0];
    assert_eq!((part.path.as_str(), part.volume.as_str(), &part.sub_path), ("/data", "data", &None));
}

#[rstest]
#[case::own_files(json!([{"name": "data", "emptyDir": {}}]), 2, true)]
#[case::generic_ephemeral(json!([{"name": "data", "ephemeral": {}}]), 2, true)]
#[case::each_nodes_directory(json!([{"name": "data", "hostPath": {"path": "/srv"}}]), 2, true)]
#[case::one_replica(json!([{"name": "data", "emptyDir": {}}]), 1, false)]
#[case::shared_claim(data(), 2, false)]
#[case::shared_server(json!([{"name": "data", "nfs": {"server": "s", "path": "/"}}]), 2, false)]
fn replicas_that_share_no_volume_are_noted(
    #[case] volumes: Value,
    #[case] replicas: u32,
    #[case] expected: bool,
) {
    let pods =
        (1..=replicas).map(|number| pod(&format!("web-{number}"), "n1", number, volumes.clone())).collect();
    let claims = [claim("data", "ReadWriteMany"), claim("web-1-data", "ReadWriteOnce")];
    let plan = plan(&facts(TargetKind::Deployment, workload(replicas, volumes), pods, &claims));
    assert!(plan.hosts[0].source.is_ok(), "{plan:?}");
    let expected: Vec<&str> = expected.then_some("OtherReplicasNotBackedUp").into_iter().collect();
    assert_eq!(plan.notes.iter().map(Note::condition).collect::<Vec<_>>(), expected);
    for note in &plan.notes {
        assert!(note.to_string().contains("pod web-1 was read; the replicas web-2"), "{note}");
    }
}

#[test]
fn without_a_ready_pod_the_host_fails_with_the_reason() {
    let mut waiting = pod("web-1", "n1", 0, data());
    waiting["status"] = json!({"phase": "Pending",
        "containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]});
    let facts =
        facts(TargetKind::Deployment, workload(1, data()), vec![waiting], &[claim("data", "ReadWriteOnce")]);
    let error = plan(&facts).hosts[0].source.as_ref().unwrap_err().to_string();
    assert!(
        error.contains("Deployment web has no Ready pod") && error.contains("CrashLoopBackOff"),
        "{error}"
    );
}

#[test]
fn at_zero_replicas_the_claims_are_read_without_a_pod() {
    let facts =
        facts(TargetKind::Deployment, workload(0, data()), vec![], &[claim("data", "ReadWriteOncePod")]);
    let plan = plan(&facts);
    assert_eq!((names(&plan), pods(&plan)), (vec!["app"], vec![""]));
    assert_eq!(
        access(&plan.hosts[0]),
        VolumeAccess::Claim { claim: "data".into(), node: None, block: false }
    );
}

#[test]
fn a_claim_that_an_ending_pod_still_has_is_read_on_its_node() {
    let mut ending = pod("web-1", "n1", 0, data());
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let facts =
        facts(TargetKind::Deployment, workload(0, data()), vec![ending], &[claim("data", "ReadWriteOnce")]);
    assert_eq!(access(&plan(&facts).hosts[0]).node(), Some("n1"));
}

/// Its user and tolerations decide about the mover's pod.
#[test]
fn at_zero_replicas_the_template_says_what_the_pods_are_like() {
    let mut object = stateful_set(0);
    object["spec"]["template"]["spec"]["securityContext"] = json!({"runAsUser": 999});
    let (name, of) = claim("data-web-1", "ReadWriteOnce");
    let facts = facts(TargetKind::StatefulSet, object, vec![], &[(name, of)]);
    let plan = backup_plan(&facts, &backup_target(TargetKind::StatefulSet, DATA, &[])).unwrap();
    let like = plan.hosts[0].source.as_ref().unwrap().pod_of_data().unwrap();
    assert_eq!(like["spec"]["securityContext"]["runAsUser"], 999);
    assert_eq!(like["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "data-web-1");
}

#[test]
fn a_pod_that_is_not_ready_says_what_the_users_of_a_claim_are_like() {
    let volumes = json!([{"name": "d", "persistentVolumeClaim": {"claimName": "web"}}]);
    let mut user = pod("other", "n2", 0, volumes);
    user["status"]["conditions"][0]["status"] = json!("False");
    let (name, of) = claim("web", "ReadWriteMany");
    let facts = facts(TargetKind::Claim, of.claim.clone(), vec![user], &[(name, of)]);
    let plan = backup_plan(&facts, &backup_target(TargetKind::Claim, &[], &[])).unwrap();
    let source = plan.hosts[0].source.as_ref().unwrap();
    assert_eq!(source.pod, None, "no hook runs in it");
    assert_eq!(source.pod_of_data().unwrap()["metadata"]["name"], "other");
}

#[test]
fn at_zero_replicas_volumes_of_pods_do_not_exist() {
    let volumes = json!([{"name": "data", "emptyDir": {}}]);
    let facts = facts(TargetKind::Deployment, workload(0, volumes), vec![], &[]);
    let error = plan(&facts).hosts[0].source.as_ref().unwrap_err().to_string();
    assert!(error.contains("emptyDir volume, which exists only while a pod of the target runs"), "{error}");
}

/// A StatefulSet may claim two billion replicas, none of which exists.
#[test]
fn more_hosts_than_a_status_holds_are_refused_before_they_are_listed() {
    let most = u32::try_from(MOST_HOSTS).unwrap();
    let mut last = stateful_set(2_147_483_647);
    last["spec"]["ordinals"] = json!({"start": 7});
    let of = |object: Value| {
        let facts = facts(TargetKind::StatefulSet, object, vec![], &[]);
        backup_plan(&facts, &backup_target(TargetKind::StatefulSet, DATA, &[]))
    };
    let error = of(last).unwrap_err().to_string();
    assert!(error.contains("2147483647 pods") && error.contains("at most 1000 hosts"), "{error}");
    assert!(of(stateful_set(most + 1)).is_err());
    assert_eq!(of(stateful_set(most)).unwrap().hosts.len(), MOST_HOSTS);
}

#[test]
fn a_stateful_set_is_read_ordinal_by_ordinal() {
    let mut object = stateful_set(3);
    object["spec"]["ordinals"] = json!({"start": 5});
    let mut unready = stateful_pod(6, "n2");
    unready["status"]["conditions"][0]["status"] = json!("False");
    let claims = [claim("data-web-5", "ReadWriteOnce"), claim("data-web-6", "ReadWriteOnce")];
    let plan = plan(&facts(TargetKind::StatefulSet, object, vec![unready, stateful_pod(5, "n1")], &claims));
    assert_eq!(names(&plan), ["app-5", "app-6", "app-7"]);
    assert_eq!(pods(&plan), ["web-5", "", ""]);
    let claim = VolumeAccess::Claim { claim: "data-web-5".into(), node: Some("n1".into()), block: false };
    assert_eq!(access(&plan.hosts[0]), claim);
    let error = |place: usize| plan.hosts[place].source.as_ref().unwrap_err().to_string();
    assert!(error(1).contains("pod web-6 is not Ready"), "{}", error(1));
    assert!(error(2).contains("StatefulSet web has no pod web-7"), "{}", error(2));
}

#[rstest]
#[case::those_that_have_claims(&["data-web-0", "data-web-3", "data-web-03", "data-website-1"], &["app-0", "app-3"])]
#[case::large_ordinals(&["data-web-12"], &["app-12"])]
fn at_zero_replicas_a_stateful_set_has_the_hosts_of_its_claims(
    #[case] claims: &[&str],
    #[case] expected: &[&str],
) {
    let claims: Vec<_> = claims.iter().map(|name| claim(name, "ReadWriteOnce")).collect();
    let plan = plan(&facts(TargetKind::StatefulSet, stateful_set(0), vec![], &claims));
    assert_eq!(names(&plan), expected);
    assert!(plan.hosts.iter().all(|host| host.source.is_ok()), "{plan:?}");
}

#[test]
fn at_zero_replicas_the_first_ordinal_stands_for_a_shared_claim() {
    let mut object = workload(0, data());
    object["spec"]["ordinals"] = json!({"start": 2});
    let plan = plan(&facts(TargetKind::StatefulSet, object, vec![], &[claim("data", "ReadWriteMany")]));
    assert_eq!(names(&plan), ["app-2"]);
}

#[test]
fn a_daemon_set_is_read_node_by_node() {
    let volumes = json!([{"name": "data", "emptyDir": {}}]);
    let mut object = workload(1, volumes.clone());
    object["status"] = json!({"desiredNumberScheduled": 3});
    let mut unready = pod("web-b", "node-b", 0, volumes.clone());
    unready["status"]["conditions"][0]["status"] = json!("False");
    let plan =
        plan(&facts(TargetKind::DaemonSet, object, vec![unready, pod("web-a", "node-a", 0, volumes)], &[]));
    assert_eq!(names(&plan), ["app-node-a", "app-node-b"]);
    assert_eq!(pods(&plan), ["web-a", ""]);
    assert_eq!(access(&plan.hosts[0]).node(), Some("node-a"));
    let missing = Note::PodsMissing { target: "DaemonSet web".into(), wanted: 3, found: 2 };
    assert_eq!(plan.notes, [missing]);
}

/// The volumes of a host whose mover was started earlier.
fn continued(facts: &TargetFacts, host: &str, sent: SentFor) -> Result<HostSource, TargetError> {
    let sent = SentHosts::from([(HostName(host.into()), sent)]);
    let plan = continued_plan(facts, &backup_target(facts.kind, DATA, &[]), &sent).unwrap();
    plan.hosts.into_iter().find(|known| known.name.as_str() == host).unwrap().source
}

fn sent_for(pod: &str) -> SentFor {
    SentFor::Pod(format!("uid-{pod}"))
}

fn unready(name: &str, node: &str, volumes: Value) -> Value {
    let mut pod = pod(name, node, 0, volumes);
    pod["status"]["conditions"][0]["status"] = json!("False");
    pod
}

/// The recorded pod comes first, then a Ready pod, then any pod, then the template.
#[rstest]
#[case::it_is_not_ready(vec![unready("web-1", "n1", data())], "web-1", Some("n1"))]
#[case::another_one_is_ready(vec![unready("web-1", "n1", data()), pod("web-2", "n2", 0, data())], "web-1", Some("n1"))]
#[case::it_ends({
    let mut ending = pod("web-1", "n1", 0, data());
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    vec![ending]
}, "web-1", Some("n1"))]
#[case::it_is_gone_and_another_one_is_ready(vec![unready("web-2", "n1", data()), pod("web-3", "n2", 0, data())], "web-3", Some("n2"))]
#[case::it_is_gone_and_another_one_starts(vec![unready("web-2", "", data()), unready("web-3", "n2", data())], "web-3", Some("n2"))]
#[case::there_is_no_pod(vec![], "", None)]
fn a_host_whose_mover_was_sent_has_its_volumes_whatever_became_of_its_pod(
    #[case] pods: Vec<Value>,
    #[case] expected: &str,
    #[case] node: Option<&str>,
) {
    let facts = facts(TargetKind::Deployment, workload(1, data()), pods, &[claim("data", "ReadWriteOnce")]);
    let source = continued(&facts, "app", sent_for("web-1")).unwrap();
    assert_eq!(source.pod.as_ref().map_or("", |pod| &pod.name), expected);
    assert_eq!(source.volumes[0].access.node(), node);
    let part = &source.parts[0];
    assert_eq!((part.path.as_str(), part.volume.as_str()), ("/data", "data"));
}

#[test]
fn an_ordinal_whose_mover_was_sent_has_its_claim_without_a_pod() {
    let claims = [claim("data-web-0", "ReadWriteOnce"), claim("data-web-1", "ReadWriteOnce")];
    let facts = facts(TargetKind::StatefulSet, stateful_set(2), vec![stateful_pod(0, "n1")], &claims);
    let source = continued(&facts, "app-1", sent_for("web-1")).unwrap();
    let expected = VolumeAccess::Claim { claim: "data-web-1".into(), node: None, block: false };
    assert_eq!(source.volumes[0].access, expected);
}

/// The mover reads the claim through the directory of the recorded pod.
#[rstest]
#[case::it_is_not_ready(vec![unready("web-1", "n1", data())], true)]
#[case::it_is_gone(vec![], false)]
fn a_claim_of_one_pod_is_read_on_while_that_pod_is_there(#[case] pods: Vec<Value>, #[case] is_read: bool) {
    let facts =
        facts(TargetKind::Deployment, workload(1, data()), pods, &[claim("data", "ReadWriteOncePod")]);
    let source = continued(&facts, "app", sent_for("web-1"));
    match source {
        Ok(source) if is_read => {
            let access = &source.volumes[0].access;
            assert!(matches!(access, VolumeAccess::NodeDirectory { .. }), "{access:?}");
        }
        Err(error) if !is_read => assert!(error.to_string().contains("no Ready pod"), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_host_whose_mover_was_sent_at_zero_replicas_needs_no_pod() {
    let pods = vec![unready("web-1", "n1", data())];
    let facts = facts(TargetKind::Deployment, workload(1, data()), pods, &[claim("data", "ReadWriteMany")]);
    let source = continued(&facts, "app", SentFor::NoPod).unwrap();
    assert_eq!(source.pod, None);
}

#[rstest]
#[case::unused(vec![], "", None)]
#[case::used_on_a_node(vec![pod("other", "n2", 0, json!([{"name": "x", "persistentVolumeClaim": {"claimName": "web"}}]))], "other", Some("n2"))]
#[case::used_by_a_pod_that_ended(vec![{
    let mut pod = pod("job", "n2", 0, json!([{"name": "x", "persistentVolumeClaim": {"claimName": "web"}}]));
    pod["status"]["phase"] = json!("Succeeded");
    pod
}], "", None)]
fn a_claim_is_read_where_a_pod_has_it(
    #[case] users: Vec<Value>,
    #[case] pod: &str,
    #[case] node: Option<&str>,
) {
    let (name, of) = claim("web", "ReadWriteOnce");
    let facts = facts(TargetKind::Claim, of.claim.clone(), users, &[(name, of)]);
    let plan = backup_plan(&facts, &backup_target(TargetKind::Claim, &[], &[])).unwrap();
    assert_eq!((names(&plan), pods(&plan)), (vec!["app"], vec![pod]));
    assert_eq!(access(&plan.hosts[0]).node(), node);
    assert_eq!(plan.hosts[0].source.as_ref().unwrap().parts[0].path.as_str(), "/stash-data");
}

#[test]
fn a_claim_of_one_pod_is_read_through_that_pod_whatever_its_volume_is_called() {
    let (name, of) = claim("web", "ReadWriteOncePod");
    let user = pod("other", "n2", 0, json!([{"name": "x", "persistentVolumeClaim": {"claimName": "web"}}]));
    let facts = facts(TargetKind::Claim, of.claim.clone(), vec![user], &[(name, of)]);
    let plan = backup_plan(&facts, &backup_target(TargetKind::Claim, &[], &[])).unwrap();
    let VolumeAccess::NodeDirectory { node, directory } = access(&plan.hosts[0]) else { panic!() };
    assert_eq!(node, "n2");
    assert!(
        directory.on_node().ends_with("/pods/uid-other/volumes/kubernetes.io~csi/pv-web/mount"),
        "{directory:?}"
    );
}

#[test]
fn a_device_has_no_directories() {
    let (name, mut of) = claim("data", "ReadWriteOnce");
    of.claim["spec"]["volumeMode"] = json!("Block");
    let pods = vec![pod("web-1", "n1", 0, data())];
    let facts = facts(TargetKind::Deployment, workload(1, data()), pods, &[(name, of)]);
    let target = backup_target(TargetKind::Deployment, DATA, &["/data/db"]);
    let error = backup_plan(&facts, &target).unwrap().hosts[0].source.as_ref().unwrap_err().to_string();
    assert!(error.contains("path /data/db is inside of volume \"data\""), "{error}");
}

#[rstest]
#[case::gone(TargetKind::Deployment, None, "Deployment demo/web does not exist")]
#[case::database(TargetKind::AppBinding, Some(json!({})), "AppBinding web has no volumes to read")]
#[case::no_node(TargetKind::DaemonSet, Some(workload(1, data())), "DaemonSet web runs on no node")]
#[case::no_claims(
    TargetKind::StatefulSet,
    Some(stateful_set(0)),
    "StatefulSet web has no replicas and no claims"
)]
fn a_target_without_hosts_fails_as_a_whole(
    #[case] kind: TargetKind,
    #[case] object: Option<Value>,
    #[case] expected: &str,
) {
    let mut facts = facts(kind, json!({}), vec![], &[]);
    facts.object = object;
    let error = backup_plan(&facts, &backup_target(kind, DATA, &[])).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn volumes_without_snapshots_are_noted_where_a_snapshot_class_is_set() {
    let volumes = json!([data()[0], {"name": "cache", "emptyDir": {}}]);
    let pods = vec![pod("web-1", "n1", 0, volumes.clone())];
    let mut facts =
        facts(TargetKind::Deployment, workload(1, volumes), pods, &[claim("data", "ReadWriteOnce")]);
    facts.site.snapshot_class =
        Some(SnapshotClass { name: "fast".into(), driver: Some("csi.example".into()) });
    let target = backup_target(TargetKind::Deployment, &[("data", "/data"), ("cache", "/cache")], &[]);
    let plan = backup_plan(&facts, &target).unwrap();
    assert_eq!(plan.notes, [Note::ReadLive { volume: "cache".into(), kind: "emptyDir".into() }]);
    let source = plan.hosts[0].source.as_ref().unwrap();
    assert_eq!(source.consistency(false), "Live", "not all of it is from snapshots");
}

#[test]
fn claims_share_a_mover_and_directories_have_their_own() {
    let volumes = json!([
        data()[0],
        {"name": "more", "persistentVolumeClaim": {"claimName": "more"}},
        {"name": "cache", "emptyDir": {}},
    ]);
    let pods = vec![pod("web-1", "n1", 0, volumes.clone())];
    let claims = [claim("data", "ReadWriteMany"), claim("more", "ReadWriteOnce")];
    let facts = facts(TargetKind::Deployment, workload(1, volumes), pods, &claims);
    let mounts = [("data", "/data"), ("cache", "/cache"), ("more", "/more")];
    let target = backup_target(TargetKind::Deployment, &mounts, &["/data/a", "/cache", "/data/b", "/more"]);
    let plan = backup_plan(&facts, &target).unwrap();
    let movers = plan.hosts[0].source.as_ref().unwrap().movers();
    let paths = |mover: &MoverParts<HostPart>| {
        let paths: Vec<&str> = mover.parts.iter().map(|part| part.path.as_str()).collect();
        paths.join(" ")
    };
    assert_eq!(movers.iter().map(paths).collect::<Vec<_>>(), ["/data/a /data/b /more", "/cache"]);
    let MoverSource::Volumes { volumes, node } = &movers[0].source else { panic!("{movers:?}") };
    assert_eq!((volumes.len(), node.as_deref()), (2, Some("n1")), "the claim that is on one node decides");
    assert!(matches!(&movers[1].source, MoverSource::NodeDirectory { volume, .. } if volume == "cache"));
}
