//! A running pod with every volume type, and all ways to request copies of its files.

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::policy::Policies;

fn pod(annotations: &Value, phase: &str) -> Value {
    let mounts = ["data", "tmp", "scratch", "host", "secret", "settings", "all", "downward", "gone"];
    let mounts: Vec<_> = mounts.iter().map(|name| json!({"name": name})).collect();
    json!({
        "metadata": {"namespace": "shop", "name": "db-0", "annotations": annotations},
        "spec": {
            "containers": [{"volumeMounts": mounts, "volumeDevices": [{"name": "raw"}]}],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}},
                {"name": "tmp", "emptyDir": {}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
                {"name": "raw", "persistentVolumeClaim": {"claimName": "raw"}},
                {"name": "unused", "emptyDir": {}},
                {"name": "gone", "persistentVolumeClaim": {"claimName": "gone"}},
                {"name": "host", "hostPath": {"path": "/"}},
                {"name": "secret", "secret": {}},
                {"name": "settings", "configMap": {}},
                {"name": "all", "projected": {}},
                {"name": "downward", "downwardAPI": {}},
            ],
        },
        "status": {"phase": phase},
    })
}

fn claims() -> BTreeMap<String, ClaimOf> {
    let bound = |class: &str, mode: &str| ClaimOf {
        claim: json!({"metadata": {"labels": {"app": "db"}}, "spec": {"volumeMode": mode}}),
        volume: Some(json!({"spec": {"storageClassName": class, "csi": {"driver": "d"}}})),
    };
    [("data-db-0", "fast", "Filesystem"), ("db-0-scratch", "slow", "Filesystem"), ("raw", "fast", "Block")]
        .into_iter()
        .map(|(name, class, mode)| (name.to_owned(), bound(class, mode)))
        .collect()
}

fn summary(choices: &Choices) -> Vec<String> {
    let word = |choice: &Choice| match &choice.verdict {
        Verdict::Copy(_) => "copy",
        Verdict::Elsewhere => "elsewhere",
        Verdict::Left(_) => "left",
        Verdict::Missed(_) => "missed",
    };
    choices.volumes.iter().map(|choice| format!("{} {}", choice.volume, word(choice))).collect()
}

fn settings(copy_files: bool, policies: Option<&Policies>) -> VolumeSettings<'_> {
    VolumeSettings { copy_files, policies, ..VolumeSettings::default() }
}

#[rstest]
#[case::nobody_asks(json!({}), false, None, "")]
#[case::annotation(json!({"backup.velero.io/backup-volumes": "data, tmp"}), false, None, "data copy|tmp copy")]
#[case::everything(json!({}), true, None,
    "data copy|tmp copy|scratch copy|raw missed|unused left|gone missed")]
#[case::everything_but(json!({"backup.velero.io/backup-volumes-excludes": "tmp,raw,gone,unused"}), true, None,
    "data copy|scratch copy")]
#[case::opt_out_means_nothing_without_the_default(json!({"backup.velero.io/backup-volumes-excludes": "tmp"}), false,
    None, "")]
#[case::policy_asks(json!({}), false, Some("{csi: {}}: fs-backup"), "data copy|scratch copy|raw missed")]
#[case::policy_asks_by_class(json!({}), false, Some("{storageClass: [slow]}: fs-backup"), "scratch copy")]
#[case::policy_of_the_pods_volume(json!({}), false, Some("{volumeTypes: [emptyDir]}: fs-backup"),
    "tmp copy|unused left")]
#[case::policy_skips_what_is_annotated(json!({"backup.velero.io/backup-volumes": "data,tmp"}), false,
    Some("{csi: {}}: skip"), "tmp copy")]
#[case::policy_snapshots_what_is_annotated(json!({"backup.velero.io/backup-volumes": "data"}), true,
    Some("{csi: {}}: snapshot"), "tmp copy|unused left|gone missed")]
#[case::policy_goes_before_an_opt_out(json!({"backup.velero.io/backup-volumes-excludes": "data"}), true,
    Some("{pvcLabels: {app: db}}: fs-backup"), "data copy|tmp copy|scratch copy|raw missed|unused left|gone missed")]
fn policies_decide_then_annotations_and_the_spec(
    #[case] annotations: Value,
    #[case] copy_files: bool,
    #[case] policy: Option<&str>,
    #[case] expected: &str,
) {
    let policies = policy.map(|policy| {
        let (conditions, action) = policy.rsplit_once(": ").unwrap();
        let text =
            format!("version: v1\nvolumePolicies:\n- conditions: {conditions}\n  action: {{type: {action}}}");
        Policies::parse(&text).unwrap()
    });
    let pod = pod(&annotations, "Running");
    let choices = choose(&pod, &claims(), &settings(copy_files, policies.as_ref()), |_| false);
    assert_eq!(summary(&choices).join("|"), expected);
}

#[rstest]
#[case("Pending")]
#[case("Succeeded")]
#[case("")]
fn nothing_is_copied_of_a_pod_that_does_not_run(#[case] phase: &str) {
    let pod = pod(&json!({"backup.velero.io/backup-volumes": "data,tmp"}), phase);
    let choices = choose(&pod, &claims(), &settings(false, None), |_| false);
    assert_eq!(summary(&choices), ["data left", "tmp left"]);
    let Verdict::Left(message) = &choices.volumes[0].verdict else { unreachable!() };
    assert!(message.contains("not running"), "{message}");
}

#[test]
fn a_claim_is_copied_with_one_pod() {
    let pod = pod(&json!({"backup.velero.io/backup-volumes": "data,tmp"}), "Running");
    let choices = choose(&pod, &claims(), &settings(false, None), |claim| claim == "data-db-0");
    assert_eq!(summary(&choices), ["data elsewhere", "tmp copy"]);
}

#[test]
fn names_in_the_annotation_without_effect_are_reported() {
    let pod = pod(&json!({"backup.velero.io/backup-volumes": "dta,host"}), "Running");
    let choices = choose(&pod, &claims(), &settings(false, None), |_| false);
    assert_eq!(choices.volumes, []);
    assert_eq!(choices.warnings.len(), 2, "{:?}", choices.warnings);
    assert!(choices.warnings[0].contains("host, which is a hostPath volume"));
    assert!(choices.warnings[1].contains("dta, which the pod does not have"));
}

#[test]
fn a_claim_without_a_volume_is_named() {
    let mut known = claims();
    known.get_mut("data-db-0").unwrap().volume = None;
    let pod = pod(&json!({"backup.velero.io/backup-volumes": "data"}), "Running");
    let choices = choose(&pod, &known, &settings(false, None), |_| false);
    let Verdict::Missed(message) = &choices.volumes[0].verdict else { unreachable!() };
    assert!(message.contains("data-db-0 is not bound"), "{message}");
}
