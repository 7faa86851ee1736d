//! Which volumes a restore writes, which claims it makes and what it waits for.

use lifeboat_api::stash::{RestoreRule, RestoreTarget};
use rstest::rstest;

use super::claims::template;
use super::*;

fn restore_target(mounts: &[(&str, &str)]) -> RestoreTarget {
    RestoreTarget {
        alias: Some("app".into()),
        volume_mounts: mounts.iter().map(|(name, path)| mount(name, path)).collect(),
        ..RestoreTarget::default()
    }
}

fn at_rest(target: TargetFacts) -> RestoreFacts {
    RestoreFacts { target, replicas: None, into_running: false }
}

fn planned(facts: &RestoreFacts, rules: &[RestoreRule]) -> RestorePlan {
    restore_plan(facts, &restore_target(&[("data", "/data")]), rules).unwrap()
}

fn hosts(plan: &RestorePlan) -> Vec<&str> {
    plan.hosts.iter().map(|host| host.name.as_str()).collect()
}

fn new_claims(plan: &RestorePlan) -> Vec<&str> {
    plan.new_claims.iter().map(|claim| claim.name.as_str()).collect()
}

fn rule(hosts: &[&str]) -> RestoreRule {
    let target_hosts = Some(hosts.iter().map(|host| (*host).to_owned()).collect());
    RestoreRule { target_hosts, ..RestoreRule::default() }
}

#[rstest]
#[case::once("ReadWriteOnce")]
#[case::one_pod("ReadWriteOncePod")]
#[case::many("ReadWriteMany")]
fn a_claim_is_written_wherever_a_mover_runs_once_its_pods_are_stopped(#[case] mode: &str) {
    let pods = vec![pod("web-1", "n1", 0, data())];
    let mut facts = facts(TargetKind::Deployment, workload(1, data()), pods, &[claim("data", mode)]);
    facts.site.node_access = false;
    let plan = planned(&at_rest(facts), &[]);
    assert_eq!(hosts(&plan), ["app"]);
    let destination = plan.hosts[0].destination.as_ref().unwrap();
    assert_eq!(destination.pod, None);
    let expected = VolumeAccess::Claim { claim: "data".into(), node: None, block: false };
    assert_eq!(destination.volumes, [HostVolume { name: "data".into(), access: expected }]);
    assert_eq!(plan.claims().into_iter().collect::<Vec<_>>(), ["data"]);
    assert_eq!(plan.waits_for(), None);
}

#[test]
fn a_claim_that_waits_for_its_first_pod_is_written() {
    let (name, mut of) = claim("data", "ReadWriteOnce");
    of.volume = None;
    of.claim["status"]["phase"] = json!("Pending");
    let facts = facts(TargetKind::Deployment, workload(0, data()), vec![], &[(name, of)]);
    assert!(planned(&at_rest(facts), &[]).hosts[0].destination.is_ok());
}

#[test]
fn what_is_missing_is_waited_for() {
    let mut gone = facts(TargetKind::Deployment, json!({}), vec![], &[]);
    gone.object = None;
    let plan = planned(&at_rest(gone), &[]);
    assert_eq!(plan.waits_for().as_deref(), Some("waits for Deployment demo/web"));
    let without_claim = facts(TargetKind::Deployment, workload(1, data()), vec![], &[]);
    let plan = planned(&at_rest(without_claim), &[]);
    assert_eq!(plan.waits_for().as_deref(), Some("waits for PersistentVolumeClaim data of Deployment web"));
    assert!(plan.new_claims.is_empty(), "only its owner knows what it should look like");
    let no_ordinals = facts(TargetKind::StatefulSet, stateful_set(0), vec![], &[]);
    let plan = planned(&at_rest(no_ordinals), &[]);
    assert!(plan.waits_for().unwrap().contains("replicas of StatefulSet web"), "{plan:?}");
    let no_nodes = facts(TargetKind::DaemonSet, workload(1, data()), vec![], &[]);
    let plan = planned(&at_rest(no_nodes), &[]);
    assert!(plan.waits_for().unwrap().contains("pods of DaemonSet web"), "{plan:?}");
}

#[test]
fn missing_claims_of_a_stateful_set_are_made_for_hosts_that_have_a_rule() {
    let facts =
        facts(TargetKind::StatefulSet, stateful_set(3), vec![], &[claim("data-web-0", "ReadWriteOnce")]);
    let plan = planned(&at_rest(facts.clone()), &[]);
    assert_eq!(hosts(&plan), ["app-0", "app-1", "app-2"]);
    assert_eq!(new_claims(&plan), ["data-web-1", "data-web-2"]);
    let plan = planned(&at_rest(facts), &[rule(&["app-2"])]);
    assert_eq!(hosts(&plan), ["app-0", "app-1", "app-2"], "hosts that are left alone are known");
    assert_eq!(new_claims(&plan), ["data-web-2"]);
}

#[rstest]
#[case::by_its_claims(None, None, &[], &["app-1"])]
#[case::by_the_scale_before_the_standstill(Some(2), None, &[], &["app-0", "app-1"])]
#[case::by_the_rules(None, None, &["app-3", "db-4", "app-x"], &["app-1", "app-3"])]
#[case::by_the_targets_replicas(None, Some(3), &[], &["app-0", "app-1", "app-2"])]
fn a_stopped_stateful_set_still_has_hosts(
    #[case] before: Option<u32>,
    #[case] asked: Option<i32>,
    #[case] listed: &[&str],
    #[case] expected: &[&str],
) {
    let facts =
        facts(TargetKind::StatefulSet, stateful_set(0), vec![], &[claim("data-web-1", "ReadWriteOnce")]);
    let facts = RestoreFacts { replicas: before, ..at_rest(facts) };
    let target = RestoreTarget { replicas: asked, ..restore_target(&[("data", "/data")]) };
    let rules = [rule(&[]), rule(listed)];
    assert_eq!(hosts(&restore_plan(&facts, &target, &rules).unwrap()), expected);
}

#[rstest]
#[case::empty_dir(json!([{"name": "data", "emptyDir": {}}]), &["emptyDir volume data"])]
#[case::ephemeral_claim(json!([{"name": "data", "ephemeral": {}}]), &["ephemeral volume data"])]
#[case::claim(data(), &[])]
#[case::not_mounted(json!([data()[0], {"name": "cache", "emptyDir": {}}]), &[])]
fn volumes_that_exist_only_with_a_pod_are_listed(#[case] volumes: Value, #[case] expected: &[&str]) {
    let facts =
        facts(TargetKind::Deployment, workload(1, volumes), vec![], &[claim("data", "ReadWriteOnce")]);
    assert_eq!(planned(&at_rest(facts), &[]).with_pods_only, expected);
}

#[test]
fn a_running_pods_volumes_are_written_where_it_runs() {
    let volumes = json!([{"name": "data", "emptyDir": {}}]);
    let mut unready = pod("web-b", "node-b", 0, volumes.clone());
    unready["status"]["conditions"][0]["status"] = json!("False");
    let pods = vec![pod("web-a", "node-a", 0, volumes.clone()), unready];
    let target = facts(TargetKind::DaemonSet, workload(1, volumes), pods, &[]);
    let running = RestoreFacts { into_running: true, ..at_rest(target) };
    let plan = planned(&running, &[]);
    assert_eq!(hosts(&plan), ["app-node-a", "app-node-b"]);
    let destination = plan.hosts[0].destination.as_ref().unwrap();
    assert_eq!(destination.pod.as_ref().map(|pod| pod.name.as_str()), Some("web-a"));
    assert_eq!(destination.volumes[0].access.node(), Some("node-a"));
    assert!(plan.waits_for().unwrap().contains("a Ready pod for host app-node-b"), "{plan:?}");
    let plan = planned(&running, &[rule(&["app-node-a"])]);
    assert_eq!(plan.waits_for(), None, "a host that is left alone is not waited for");
}

#[test]
fn a_claim_as_target_is_written_itself() {
    let (name, of) = claim("web", "ReadWriteOnce");
    let facts = facts(TargetKind::Claim, of.claim.clone(), vec![], &[(name, of)]);
    let plan = restore_plan(&at_rest(facts), &restore_target(&[]), &[]).unwrap();
    assert_eq!(hosts(&plan), ["app"]);
    assert_eq!(plan.mounts[0].mount_path.as_str(), "/stash-data");
    assert_eq!(plan.claims().into_iter().collect::<Vec<_>>(), ["web"]);
}

#[rstest]
#[case::one_for_each_replica(Some(2), &["app-0", "app-1"], &["data-web-1"])]
#[case::one_for_all(None, &["app"], &[])]
fn claim_templates_make_a_host_for_each_replica(
    #[case] replicas: Option<i32>,
    #[case] expected: &[&str],
    #[case] made: &[&str],
) {
    let (name, of) = claim("data-web-0", "ReadWriteOnce");
    let mut facts = facts(TargetKind::Claim, json!({}), vec![], &[(name, of)]);
    facts.object = None;
    let target = RestoreTarget {
        replicas,
        volume_claim_templates: vec![template("data-web-${POD_ORDINAL}", json!({}))],
        ..restore_target(&[("data-web", "/data")])
    };
    let plan = restore_plan(&at_rest(facts), &target, &[]).unwrap();
    assert_eq!(
        (hosts(&plan), new_claims(&plan)),
        (expected.to_vec(), made.to_vec()),
        "existing claims are used"
    );
    assert_eq!(plan.waits_for(), None);
}

#[rstest]
#[case::read_only(&[("data", "/data")], data(), "ReadOnlyMany", "can only be read")]
#[case::no_such_volume(&[("other", "/data")], data(), "ReadWriteOnce", "volume \"other\", which Deployment web does not have; expected one of data")]
#[case::made_from_objects(&[("conf", "/conf")], json!([{"name": "conf", "configMap": {}}]), "ReadWriteOnce", "configMap volume")]
fn volumes_that_cannot_be_written_are_named(
    #[case] mounts: &[(&str, &str)],
    #[case] volumes: Value,
    #[case] mode: &str,
    #[case] expected: &str,
) {
    let facts = facts(TargetKind::Deployment, workload(1, volumes), vec![], &[claim("data", mode)]);
    let plan = restore_plan(&at_rest(facts), &restore_target(mounts), &[]).unwrap();
    let error = plan.hosts[0].destination.as_ref().unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_mount_without_template_is_named() {
    let mut facts = facts(TargetKind::Claim, json!({}), vec![], &[]);
    facts.object = None;
    let target = RestoreTarget {
        volume_claim_templates: vec![template("restored", json!({}))],
        ..restore_target(&[("data", "/data")])
    };
    let error = restore_plan(&at_rest(facts), &target, &[]).unwrap_err().to_string();
    assert!(
        error.contains("volume \"data\", which no claim template has; expected one of restored"),
        "{error}"
    );
}

/// Two billion hosts are no more than a number in a spec.
#[test]
fn more_hosts_than_a_status_holds_are_refused_before_they_are_listed() {
    let most = i32::try_from(MOST_HOSTS).unwrap();
    let facts = |replicas| facts(TargetKind::StatefulSet, stateful_set(replicas), vec![], &[]);
    let target = restore_target(&[("data", "/data")]);
    let error = restore_plan(&at_rest(facts(2_147_483_647)), &target, &[]).unwrap_err().to_string();
    assert!(error.contains("2147483647 pods"), "{error}");
    let stopped = RestoreFacts { replicas: Some(2_147_483_647), ..at_rest(facts(0)) };
    assert!(restore_plan(&stopped, &target, &[]).is_err());
    let many = RestoreTarget { replicas: Some(most + 1), ..target };
    let error = restore_plan(&at_rest(facts(0)), &many, &[]).unwrap_err().to_string();
    assert!(error.contains("target.replicas is 1001"), "{error}");
    assert!(template_claims(&many, "demo").is_err());
}
