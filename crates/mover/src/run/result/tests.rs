use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::report::{BackedUp, Cause, Failure, Maintained, Restored};
use crate::task::VERSION;

fn list() -> impl Strategy<Value = Listed> {
    (any::<u64>(), vec(any::<String>(), 0..30)).prop_map(|(count, first)| Listed { count, first })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let backed_up = ("[0-9a-f]{64}", any::<(u64, u64, u64, u64, u64)>(), list(), list()).prop_map(
        |(snapshot, (files, bytes, bytes_added, bytes_stored, milliseconds), changed, unreadable)| {
            Outcome::BackedUp(BackedUp {
                snapshot,
                files,
                bytes,
                bytes_added,
                bytes_stored,
                milliseconds,
                changed,
                unreadable,
            })
        },
    );
    let restored = (any::<(u64, u64, bool, u64)>(), list()).prop_map(
        |((files, bytes, verified, milliseconds), failed)| {
            Outcome::Restored(Restored { files, bytes, verified, milliseconds, failed })
        },
    );
    let maintained = (any::<(u64, u64)>(), list()).prop_map(|((bytes_freed, packs_deleted), problems)| {
        Outcome::Maintained(Maintained { bytes_freed, packs_deleted, problems })
    });
    let failed = vec(any::<String>(), 0..200)
        .prop_map(|words| Outcome::Failed(Failure { cause: Cause::NoSpace, message: words.concat() }));
    prop_oneof![backed_up, restored, maintained, failed]
}

/// What may not be lost, whatever is cut.
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
    fn any_outcome_fits_and_comes_back(uid in "[a-z0-9-]{1,128}", outcome in outcome()) {
        let result = TaskResult { version: VERSION, uid, outcome };
        let text = fitting(result.clone()).unwrap();
        prop_assert!(text.len() <= RESULT_LIMIT);
        let back: TaskResult = serde_json::from_str(&text).unwrap();
        prop_assert_eq!((&back.uid, back.version), (&result.uid, result.version));
        prop_assert_eq!(essence(&back.outcome), essence(&result.outcome));
    }
}

#[test]
fn what_fits_is_not_cut() {
    let message = "cannot read '/data/a': permission denied".to_owned();
    let outcome = Outcome::Failed(Failure { cause: Cause::Source, message });
    let result = TaskResult { version: VERSION, uid: "uid".to_owned(), outcome };
    assert_eq!(serde_json::from_str::<TaskResult>(&fitting(result.clone()).unwrap()).unwrap(), result);
}
