use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::report::{BackedUp, Cause, ComparedFiles, Failure, Maintained, NotListed, PartResult, Restored};

fn list(most: usize) -> impl Strategy<Value = Listed> {
    (any::<u64>(), vec(any::<String>(), 0..most)).prop_map(|(count, first)| Listed { count, first })
}

/// Lists have up to this many entries, messages seven times as many texts.
fn outcome(most: usize) -> impl Strategy<Value = Outcome> {
    let backed_up = ("[0-9a-f]{64}", any::<(u64, u64, u64, u64, u64)>(), list(most), list(most)).prop_map(
        |(snapshot, (files, bytes, bytes_added, bytes_stored, milliseconds), changed, unreadable)| {
            Outcome::BackedUp(BackedUp {
                snapshot,
                files,
                bytes,
                bytes_added,
                bytes_stored,
                milliseconds,
                compared: Some(ComparedFiles { new: files, modified: bytes, unmodified: bytes_added }),
                changed,
                unreadable,
            })
        },
    );
    let restored = (any::<(u64, u64, bool, u64)>(), list(most), list(most)).prop_map(
        |((files, bytes, verified, milliseconds), failed, owners)| {
            Outcome::Restored(Restored { files, bytes, verified, milliseconds, failed, owners })
        },
    );
    let maintained =
        (any::<(u64, u64)>(), list(most)).prop_map(|((bytes_freed, packs_deleted), problems)| {
            Outcome::Maintained(Maintained { bytes_freed, packs_deleted, problems })
        });
    let failed = vec(any::<String>(), 0..7 * most)
        .prop_map(|texts| Outcome::Failed(Failure { cause: Cause::NoSpace, message: texts.concat() }));
    prop_oneof![backed_up, restored, maintained, failed]
}

/// What must be kept, whatever is shortened.
fn essence(outcome: &Outcome) -> Outcome {
    let mut essence = outcome.clone();
    for list in lists(&mut essence) {
        list.first.clear();
    }
    if let Outcome::Failed(failure) = &mut essence {
        failure.message.clear();
    }
    essence
}

proptest! {
    #[test]
    fn any_outcome_fits_and_comes_back(uid in "[a-z0-9-]{1,128}", outcome in outcome(30)) {
        let result = TaskResult::new(uid, outcome);
        let text = fitting(result.clone()).unwrap();
        prop_assert!(text.len() <= RESULT_LIMIT);
        let back: TaskResult = serde_json::from_str(&text).unwrap();
        prop_assert_eq!((&back.uid, back.version), (&result.uid, result.version));
        prop_assert_eq!(essence(&back.outcome), essence(&result.outcome));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn results_of_1_to_64_parts_fit_and_every_part_is_listed_or_counted(
        parts in vec(("[a-z0-9-]{1,128}", outcome(5)), 1..=64)
    ) {
        let parts = parts.into_iter().map(|(uid, outcome)| PartResult { uid, outcome });
        let given: Vec<_> = parts.collect();
        let results = PartResults { parts: given.clone(), ..PartResults::default() };
        let result = TaskResult::new("uid", Outcome::Parts(results));
        let text = fitting(result.clone()).unwrap();
        prop_assert!(text.len() <= RESULT_LIMIT);
        let back: TaskResult = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(back.outcome.is_done(), result.outcome.is_done());
        let Outcome::Parts(PartResults { parts: listed, not_listed }) = back.outcome else { panic!() };
        prop_assert_eq!(listed.len() as u64 + not_listed.done + not_listed.failed, given.len() as u64);
        prop_assert!(!listed.is_empty());
        // In the order of the task, with unchanged counts, causes and snapshot IDs.
        let mut rest = given.iter();
        for part in &listed {
            let same = |other: &&PartResult| other.uid == part.uid && essence(&other.outcome) == essence(&part.outcome);
            prop_assert!(rest.find(same).is_some(), "{:?}", part);
        }
        // A part that failed is left out only when none that is done is listed.
        let lists_done = listed.iter().any(|part| part.outcome.is_done());
        prop_assert!(not_listed.failed == 0 || !lists_done);
    }
}

fn backed_up(number: usize) -> PartResult {
    let outcome = Outcome::BackedUp(BackedUp {
        snapshot: "5".repeat(64),
        files: 12_345,
        bytes: 12_345_678_901,
        bytes_added: 123_456_789,
        bytes_stored: 12_345_678,
        milliseconds: 123_456,
        ..BackedUp::default()
    });
    PartResult { uid: format!("01234567-89ab-cdef-0123-{number:012}"), outcome }
}

fn of_parts(parts: Vec<PartResult>) -> PartResults {
    let result = TaskResult::new("uid", Outcome::Parts(PartResults { parts, ..PartResults::default() }));
    let back: TaskResult = serde_json::from_str(&fitting(result).unwrap()).unwrap();
    let Outcome::Parts(results) = back.outcome else { panic!() };
    results
}

#[test]
fn fourteen_parts_are_listed_whole_and_of_32_the_one_that_failed_keeps_its_message() {
    let results = of_parts((0..14).map(backed_up).collect());
    assert_eq!((results.parts.len(), results.not_listed), (14, NotListed::default()));
    let mut parts: Vec<_> = (0..32).map(backed_up).collect();
    let message = "cannot read '/data/a': permission denied".to_owned();
    parts[30].outcome = Outcome::Failed(Failure { cause: Cause::Source, message });
    let results = of_parts(parts.clone());
    assert!(results.parts.contains(&parts[30]), "{results:?}");
    assert!(results.parts.len() > 12 && results.not_listed.failed == 0, "{results:?}");
}

#[test]
fn the_outcome_of_a_part_is_found_by_its_uid() {
    let parts = vec![backed_up(0), backed_up(1)];
    let of = |outcome| TaskResult::new("uid", outcome);
    let several = of(Outcome::Parts(PartResults { parts: parts.clone(), ..PartResults::default() }));
    assert_eq!((several.version, several.of_part(&parts[1].uid)), (2, Some(&parts[1].outcome)));
    assert_eq!(several.of_part("uid"), None);
    let one = of(parts[0].outcome.clone());
    assert_eq!((one.version, one.of_part("uid"), one.of_part("other")), (1, Some(&parts[0].outcome), None));
    let failed = of(Outcome::Failed(Failure { cause: Cause::Password, message: String::new() }));
    assert_eq!(failed.of_part("any"), Some(&failed.outcome), "what fails before the parts fails for each");
}

#[test]
fn what_fits_is_not_cut() {
    let message = "cannot read '/data/a': permission denied".to_owned();
    let outcome = Outcome::Failed(Failure { cause: Cause::Source, message });
    let result = TaskResult::new("uid", outcome);
    assert_eq!(serde_json::from_str::<TaskResult>(&fitting(result.clone()).unwrap()).unwrap(), result);
}
