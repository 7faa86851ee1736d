use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::stash::hosts::HostName;

use InvokerKind::{BackupBatch, BackupConfiguration};

/// A claim that was made at a second; the second is its UID, too. A host that ends in `-#` is a StatefulSet's.
fn claim(kind: InvokerKind, second: i64, hosts: &[&str]) -> Claim {
    let host = |host: &&str| match host.strip_suffix("-#") {
        Some(prefix) => HostSet::Ordinals { prefix: prefix.to_owned() },
        None => HostSet::One(HostName::from(*host)),
    };
    Claim {
        kind,
        namespace: "demo".into(),
        name: format!("i{second}"),
        uid: second.to_string(),
        created: Timestamp::from_second(second).unwrap(),
        repository: RepositoryName { namespace: "demo".into(), name: "repo".into() },
        hosts: hosts.iter().map(host).collect(),
    }
}

fn record(claims: &[Claim]) -> Record {
    claims.iter().fold(Record::default(), |record, claim| record.with(claim))
}

fn uids(claims: &[Claim]) -> Vec<&str> {
    claims.iter().map(|claim| claim.uid.as_str()).collect()
}

#[rstest]
#[case::alone(&[claim(BackupBatch, 1, &["db", "app"])], &["1"], &[], "nothing else is there")]
#[case::two_batches(
    &[claim(BackupBatch, 2, &["db"]), claim(BackupBatch, 1, &["app"])],
    &["2"], &["1"], "a repository takes one batch; who has reserved stays, though it is younger"
)]
#[case::different_hosts(
    &[claim(BackupConfiguration, 1, &["a"]), claim(BackupConfiguration, 2, &["b"]), claim(BackupBatch, 3, &["c", "d"])],
    &["1", "2", "3"], &[], "BackupConfigurations share it, with the batch too"
)]
#[case::equal_host(
    &[claim(BackupConfiguration, 1, &["a"]), claim(BackupBatch, 2, &["b", "a"])],
    &["1"], &["2"], "both store host a"
)]
#[case::stateful_set(
    &[claim(BackupConfiguration, 1, &["app-#"]), claim(BackupConfiguration, 2, &["app-1"])],
    &["1"], &["2"], "app-1 is a pod of the StatefulSet"
)]
#[case::no_overtaking(
    &[claim(BackupConfiguration, 1, &["a"]), claim(BackupConfiguration, 2, &["a", "b"]), claim(BackupConfiguration, 3, &["b"])],
    &["1"], &["2", "3"], "3 would keep the older 2 waiting longer"
)]
#[case::oldest_first(
    &[claim(BackupBatch, 1, &[]), claim(BackupBatch, 3, &[]), claim(BackupBatch, 2, &[])],
    &["1"], &["2", "3"], "by age, not by arrival"
)]
fn claims_hold_or_wait(
    #[case] claims: &[Claim],
    #[case] holders: &[&str],
    #[case] waiting: &[&str],
    #[case] reason: &str,
) {
    let record = record(claims);
    assert_eq!(
        (uids(record.holders()), uids(record.waiting())),
        (holders.to_vec(), waiting.to_vec()),
        "{reason}"
    );
}

#[test]
fn the_loser_learns_the_name_and_follows_by_itself() {
    let first = claim(BackupBatch, 1, &["a"]);
    let record =
        record(&[first.clone(), claim(BackupBatch, 2, &["b"]), claim(BackupConfiguration, 3, &["a"])]);
    let message = |uid: &str| match record.standing(uid) {
        Standing::Waits(conflict) => conflict.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(message("2").contains("BackupBatch demo/i1"), "{}", message("2"));
    assert!(message("2").contains("one BackupBatch only"), "{}", message("2"));
    assert!(message("3").contains("host \"a\""), "{}", message("3"));
    assert_eq!(record.standing("1"), Standing::Holds);
    assert_eq!(record.standing("9"), Standing::Absent);
    let later = record.without(|claim| claim.uid == "1");
    assert_eq!((later.standing("2"), later.standing("3")), (Standing::Holds, Standing::Holds));
}

#[test]
fn a_holder_with_new_hosts_holds_on_unless_another_has_them() {
    let record = record(&[claim(BackupConfiguration, 1, &["a"]), claim(BackupConfiguration, 2, &["b"])]);
    assert_eq!(record.with(&claim(BackupConfiguration, 1, &["c"])).standing("1"), Standing::Holds);
    let taken = record.with(&claim(BackupConfiguration, 1, &["b"]));
    assert!(matches!(taken.standing("1"), Standing::Waits(_)));
    assert_eq!(taken.standing("2"), Standing::Holds, "who has reserved stays");
    assert_eq!(taken.with(&claim(BackupConfiguration, 1, &["a"])).standing("1"), Standing::Holds);
}

#[test]
fn a_repository_lists_the_holders_that_use_it() {
    let other = RepositoryName { namespace: "demo".into(), name: "same-bucket".into() };
    let elsewhere = Claim { repository: other.clone(), ..claim(BackupConfiguration, 2, &["b"]) };
    let record = record(&[claim(BackupBatch, 1, &["a"]), elsewhere, claim(BackupBatch, 3, &["c"])]);
    let shown = record.references(&claim(BackupBatch, 1, &[]).repository);
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].kind.as_deref(), Some("BackupBatch"));
    assert_eq!(record.references(&other)[0].name, "i2");
}

#[test]
fn while_the_data_is_deleted_nothing_else_holds_and_it_is_not_deleted_beside_a_claim() {
    let repository = RepositoryName { namespace: "demo".into(), name: "repo".into() };
    let deletion = Claim::of_deletion(repository.clone(), "r", Timestamp::UNIX_EPOCH);
    let used = record(&[claim(BackupConfiguration, 1, &["a"])]);
    assert_eq!(used.with_deletion(&deletion), None);
    let alone = Record::default().with_deletion(&deletion).unwrap();
    assert_eq!(alone.with_deletion(&deletion).as_ref(), Some(&alone), "it goes on after a crash");
    let later = alone.with(&claim(BackupConfiguration, 1, &["a"]));
    assert!(
        matches!(later.standing("1"), Standing::Waits(conflict) if conflict.to_string().contains("is being deleted"))
    );
    assert_eq!(later.references(&repository), []);
    assert_eq!(Record::decode(&later.encode().unwrap()).unwrap(), later);
    assert_eq!(later.without(|claim| claim.uid == "r").standing("1"), Standing::Holds);
}

#[rstest]
#[case::no_json("", "not valid")]
#[case::newer("{\"version\": 2, \"owners\": []}", "version 2")]
#[case::no_version("{}", "not valid")]
#[case::time(
    "{\"version\":1,\"holders\":[{\"kind\":\"BackupBatch\",\"namespace\":\"a\",\"name\":\"b\",\"uid\":\"c\",\"created\":\"soon\",\"repositoryNamespace\":\"\",\"repositoryName\":\"\",\"hosts\":[]}]}",
    "\"soon\""
)]
fn a_record_that_cannot_be_read_is_an_error(#[case] text: &str, #[case] says: &str) {
    let message = Record::decode(text).unwrap_err().to_string();
    assert!(message.contains(says), "{message}");
}

#[test]
fn the_format_is_kept() {
    let nodes = HostSet::Nodes { alias: None, nodes: ["n1".to_owned()].into() };
    let batch = Claim { hosts: vec![nodes], ..claim(BackupBatch, 60, &[]) };
    let record = record(&[batch, claim(BackupBatch, 120, &["db", "app-#"])]);
    let expected = concat!(
        r#"{"version":1,"#,
        r#""holders":[{"kind":"BackupBatch","namespace":"demo","name":"i60","uid":"60","created":"1970-01-01T00:01:00Z","#,
        r#""repositoryNamespace":"demo","repositoryName":"repo","hosts":[{"nodes":{"nodes":["n1"]}}]}],"#,
        r#""waiting":[{"kind":"BackupBatch","namespace":"demo","name":"i120","uid":"120","created":"1970-01-01T00:02:00Z","#,
        r#""repositoryNamespace":"demo","repositoryName":"repo","hosts":[{"one":"db"},{"ordinals":"app"}]}]}"#,
    );
    assert_eq!(record.encode().unwrap(), expected, "servers of other versions read it");
}

#[test]
fn a_record_fits_into_a_config_map() {
    let hosts: Vec<String> = (0..40_000).map(|number| format!("host-with-a-long-name-{number}")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let record = record(&[claim(BackupConfiguration, 1, &hosts)]);
    assert!(matches!(record.encode(), Err(RecordError::TooLarge { .. })));
    assert!(config_map_name(&"a".repeat(64)).len() <= 253);
}

fn a_claim() -> impl Strategy<Value = Claim> {
    let hosts =
        proptest::collection::vec(prop::sample::select(vec!["a", "b", "app-0", "app-1", "app-#"]), 0..3);
    let kind = prop_oneof![Just(BackupBatch), Just(BackupConfiguration)];
    (kind, 1..8i64, hosts).prop_map(|(kind, second, hosts)| claim(kind, second, &hosts))
}

#[derive(Clone, Debug)]
enum Change {
    Claim(Claim),
    Leave(i64),
}

fn a_change() -> impl Strategy<Value = Change> {
    prop_oneof![3 => a_claim().prop_map(Change::Claim), 1 => (1..8i64).prop_map(Change::Leave)]
}

proptest! {
    /// Whatever claims come, change and go: no two holders conflict, each invoker is there once, and one that waits
    /// has a reason.
    #[test]
    fn no_two_holders_conflict(changes in proptest::collection::vec(a_change(), 0..24)) {
        let mut record = Record::default();
        for change in changes {
            record = match &change {
                Change::Claim(claim) => record.with(claim),
                Change::Leave(uid) => record.without(|claim| claim.uid == uid.to_string()),
            };
            for (place, one) in record.holders().iter().enumerate() {
                prop_assert!(record.holders()[place + 1..].iter().all(|other| one.conflict(other).is_none()));
            }
            let mut all: Vec<_> = record.all().map(|claim| claim.uid.clone()).collect();
            all.sort();
            all.dedup();
            prop_assert_eq!(all.len(), record.all().count());
            for claim in record.waiting() {
                prop_assert!(matches!(record.standing(&claim.uid), Standing::Waits(_)));
            }
            prop_assert!(record.waiting().is_sorted_by_key(|claim| claim.created));
            prop_assert_eq!(&Record::decode(&record.encode().unwrap()).unwrap(), &record);
        }
    }

    /// A holder loses its place only by a change of its own, or by going.
    #[test]
    fn who_holds_stays(claims in proptest::collection::vec(a_claim(), 1..12), next in a_claim()) {
        let before = record(&claims);
        let after = before.with(&next);
        for holder in before.holders().iter().filter(|holder| holder.uid != next.uid) {
            prop_assert_eq!(after.standing(&holder.uid), Standing::Holds);
        }
    }

    /// When the holders go one by one, every claim has held in the end.
    #[test]
    fn no_claim_waits_for_ever(claims in proptest::collection::vec(a_claim(), 0..12)) {
        let mut record = record(&claims);
        while let Some(first) = record.holders().first().cloned() {
            record = record.without(|claim| claim.uid == first.uid);
        }
        prop_assert!(record.waiting().is_empty());
    }
}
