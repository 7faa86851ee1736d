use super::*;

fn live(names: &[&str]) -> Vec<String> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut live = of_epochs(&names).names;
    live.sort();
    live
}

#[test]
fn a_new_repository_has_only_written_indexes() {
    assert_eq!(
        live(&["xn0_a-s1-c1", "xn0_b-s2-c1", "xn1_c-s3-c1"]),
        ["xn0_a-s1-c1", "xn0_b-s2-c1", "xn1_c-s3-c1"]
    );
    assert_eq!(live(&[]), [""; 0]);
}

#[test]
fn a_compaction_counts_once_two_epochs_have_begun() {
    let names = ["xe1", "xe2", "xn0_a-s1-c1", "xs0_b-s2-c1", "xn1_c-s3-c1", "xs1_d-s4-c1", "xn2_e-s5-c1"];
    assert_eq!(live(&names), ["xn1_c-s3-c1", "xn2_e-s5-c1", "xs0_b-s2-c1"]);
}

#[test]
fn an_incomplete_set_is_not_used() {
    let half = ["xe2", "xn0_a-s1-c1", "xs0_b-s2-c2"];
    assert_eq!(live(&half), ["xn0_a-s1-c1"]);
    let whole = ["xe2", "xn0_a-s1-c1", "xs0_b-s2-c2", "xs0_c-s2-c2"];
    assert_eq!(live(&whole), ["xs0_b-s2-c2", "xs0_c-s2-c2"]);
}

#[test]
fn ranges_join_from_the_first_epoch_and_the_fewest_are_used() {
    let names = [
        "xe9",
        "xr0_2_a-s1-c1",
        "xr3_4_b-s2-c1",
        "xr0_4_c-s3-c1",
        "xr6_7_d-s4-c1",
        "xs3_e-s5-c1",
        "xn5_f-s6-c1",
        "xn10_g-s7-c1",
        "xn11_h-s8-c1",
    ];
    assert_eq!(live(&names), ["xn10_g-s7-c1", "xn5_f-s6-c1", "xr0_4_c-s3-c1"]);
    assert_eq!(live(&["xe5", "xr0_0_a-s1-c1", "xs0_b-s2-c1"]), ["xs0_b-s2-c1"]);
}

#[test]
fn the_latest_watermark_counts() {
    let names = ["xw100", "xw300", "xw200", "xwnone"].map(str::to_owned);
    assert_eq!(of_epochs(&names).watermark, 300);
}

#[test]
fn epochs_of_any_number_need_no_time() {
    let names = [format!("xe{}", u64::MAX), format!("xn{}_a-s1-c1", u64::MAX)];
    assert_eq!(of_epochs(&names).names, [names[1].clone()]);
}

#[test]
fn a_log_counts_if_its_outputs_exist() {
    let names = ["n1", "n2", "n3", "n000000-repository_unreadable_by_this_kopia_version_upgrade_required"];
    let names = names.map(str::to_owned);
    let log = |output: &str| -> Log {
        serde_json::from_str(&format!(
            r#"{{"inputMetadata":[{{"id":"n1","length":5}},{{"id":"n2"}}],"outputMetadata":[{{"id":"{output}"}}]}}"#
        ))
        .unwrap()
    };
    assert_eq!(without_epochs(&names, &[log("n3")]), ["n3"]);
    assert_eq!(without_epochs(&names, &[log("n4")]), ["n1", "n2", "n3"]);
    assert_eq!(without_epochs(&names, &[]), ["n1", "n2", "n3"]);
}

proptest::proptest! {
    #[test]
    fn any_names_are_chosen_from(names in proptest::collection::vec("x[nserw][0-9]{0,21}_?[0-9]{0,3}_?[a-z-]{0,3}-s1-c[0-9]", 0..30)) {
        let live = of_epochs(&names);
        proptest::prop_assert!(live.names.iter().all(|name| names.contains(name)));
    }
}
