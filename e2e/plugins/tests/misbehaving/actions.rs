//! Actions that fail, crash, hang, flood the log and return invalid answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lifeboat_api::catalogue::{GroupResource, ItemId};
use lifeboat_plugin::actions::{BackupItemAction, BackupOutcome, RestoreItemAction};
use lifeboat_plugin::{ActionError, Registry};
use lifeboat_test_plugins::{NoCluster, Plugins, backup, config_map, restore, restore_input};
use rstest::rstest;
use serde_json::json;

use super::PROGRAM;

/// Longer than any answer in these tests.
const LIMIT: Duration = Duration::from_mins(2);

async fn action(plugins: &Plugins) -> (Arc<dyn BackupItemAction>, lifeboat_plugin::host::Session) {
    let session = plugins.session().await;
    let registry = Registry::default().with_plugins(&session);
    (Arc::clone(&registry.backup[0]), session)
}

async fn execute(action: &dyn BackupItemAction, fail: &str) -> Result<BackupOutcome, ActionError> {
    action.execute(config_map(&json!({"fail": fail})), &backup(), &NoCluster).await
}

#[rstest]
#[case::error("error", "plugin 'example.io/misbehaving': the test requested a failure")]
#[case::panic("panic", "it panicked in Execute")]
#[case::crash("crash", "its program ended during Execute (exit status: 7)")]
#[case::huge("huge", "the answer to Execute cannot be used: it is too large")]
#[case::other_kind("other kind", "the item was a ConfigMap and came back as a Secret")]
#[case::no_object("no object", "the answer to Execute cannot be used")]
#[case::escape("escape", "an item has the name \"../../etc/passwd\"")]
#[case::too_many("too many", "it names 20000 items")]
#[tokio::test]
async fn one_call_fails_and_the_next_one_works(#[case] fail: &str, #[case] reason: &str) {
    let plugins = Plugins::new().with("p", PROGRAM);
    let (action, session) = action(&plugins).await;
    let error = execute(&*action, fail).await.unwrap_err().to_string();
    assert!(error.contains(reason), "{error}");
    assert!(execute(&*action, "").await.is_ok(), "after {fail}");
    session.close().await;
    plugins.nothing_left().await;
}

#[tokio::test]
async fn what_is_odd_but_no_mistake_is_handed_on() {
    let plugins = Plugins::new().with("p", PROGRAM);
    let (action, session) = action(&plugins).await;
    assert_eq!(execute(&*action, "thousands").await.unwrap().additional_items.len(), 5_000);
    let itself = ItemId::namespaced(GroupResource::new("", "configmaps"), "recorder-1", "settings");
    assert_eq!(execute(&*action, "itself").await.unwrap().additional_items, [itself]);
    let unknown = execute(&*action, "unknown type").await.unwrap().additional_items;
    assert_eq!(unknown[0].resource.to_string(), "unicorns.example.io");
    session.close().await;
}

#[tokio::test]
async fn a_call_that_hangs_ends_at_its_timeout_and_a_new_process_serves_the_next_one() {
    let mut plugins = Plugins::new().with("p", PROGRAM);
    plugins.settings.timeouts.call = Duration::from_secs(3);
    let (action, session) = action(&plugins).await;
    let begin = Instant::now();
    let error = execute(&*action, "hang").await.unwrap_err().to_string();
    assert!(error.contains("Execute took longer than 3s and was ended"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(30));
    assert!(execute(&*action, "").await.is_ok());
    session.close().await;
    plugins.nothing_left().await;
}

/// Ten minutes for each of ten thousand items would be ten weeks.
#[rstest]
#[case::hangs("hang", 3, "took longer than 1s")]
#[case::crashes("crash", 10, "exit status: 7")]
#[tokio::test]
async fn an_action_that_never_answers_is_not_called_for_every_item(
    #[case] fail: &str,
    #[case] most: usize,
    #[case] last: &str,
) {
    let mut plugins = Plugins::new().with("p", PROGRAM);
    plugins.settings.timeouts.call = Duration::from_secs(1);
    let (action, session) = action(&plugins).await;
    let errors = futures::future::join_all((0..100).map(|_| execute(&*action, fail))).await;
    let errors: Vec<String> = errors.into_iter().map(|made| made.unwrap_err().to_string()).collect();
    let given_up = errors.iter().filter(|error| error.contains("is not called again")).count();
    assert_eq!(given_up, 100 - most, "{errors:#?}");
    let error = execute(&*action, "").await.unwrap_err().to_string();
    assert!(error.contains(&format!("{most} times in a row")) && error.contains(last), "{error}");
    session.close().await;
    plugins.nothing_left().await;
}

#[tokio::test]
async fn a_call_that_is_dropped_keeps_its_place_until_the_plugin_has_ended_it() {
    let plugins = Plugins::new().with("p", PROGRAM);
    let (action, session) = action(&plugins).await;
    action.applies_to().await.unwrap();
    let dropped = tokio::time::timeout(Duration::from_millis(100), execute(&*action, "slow")).await;
    assert!(dropped.is_err());
    let outcome = execute(&*action, "").await.unwrap();
    assert_eq!(outcome.item["metadata"]["annotations"]["most"], "1", "two calls ran at once");
    session.close().await;
}

#[rstest]
#[case::stock_plugins_one("1", "1")]
#[case::declared_several("4", "4")]
#[tokio::test]
async fn so_many_calls_run_at_once(#[case] declared: &str, #[case] expected: &str) {
    let mut plugins = Plugins::new().with("p", PROGRAM);
    plugins.environment("MISBEHAVING_CALLS", declared);
    let (action, session) = action(&plugins).await;
    let calls = (0..8).map(|_| execute(&*action, "slow"));
    let outcomes = futures::future::try_join_all(calls).await.unwrap();
    let most =
        outcomes.iter().filter_map(|outcome| outcome.item["metadata"]["annotations"]["most"].as_str()).max();
    assert_eq!(most, Some(expected));
    session.close().await;
}

#[tokio::test]
async fn a_flood_of_output_does_not_stop_a_call_and_is_counted() {
    let plugins = Plugins::new().with("p", PROGRAM);
    let (action, session) = action(&plugins).await;
    execute(&*action, "flood").await.unwrap();
    session.close().await;
    plugins.log.until("lines were dropped").await;
    assert!(plugins.log.lines().len() < 10_000);
    plugins.nothing_left().await;
}

#[tokio::test]
async fn a_session_that_is_dropped_in_the_middle_of_a_call_leaves_no_process() {
    let mut plugins = Plugins::new().with("p", PROGRAM);
    plugins.environment("MISBEHAVING_CALLS", "2");
    let (action, session) = action(&plugins).await;
    let dropped = tokio::time::timeout(Duration::from_secs(1), execute(&*action, "hang")).await;
    assert!(dropped.is_err());
    assert_eq!(plugins.processes().len(), 1);
    drop((action, session));
    plugins.nothing_left().await;
}

#[tokio::test]
async fn a_closed_session_starts_nothing() {
    let plugins = Plugins::new().with("p", PROGRAM);
    let (action, session) = action(&plugins).await;
    execute(&*action, "").await.unwrap();
    session.close().await;
    let error = execute(&*action, "").await.unwrap_err().to_string();
    assert!(error.contains("have been ended"), "{error}");
    let late = Registry::default().with_plugins(&session);
    assert!(execute(&*late.backup[0], "").await.unwrap_err().to_string().contains("have been ended"));
    plugins.nothing_left().await;
}

#[tokio::test]
async fn a_program_that_cannot_be_started_any_more_is_given_up() {
    let mut plugins = Plugins::new();
    plugins = plugins.with_script("p", &format!("test -e \"$TMPDIR/broken\" && exit 9\nexec {PROGRAM}"));
    let (action, session) = action(&plugins).await;
    std::fs::write(plugins.path().join("broken"), "").unwrap();
    for _ in 0..3 {
        let error = execute(&*action, "").await.unwrap_err().to_string();
        assert!(error.contains("exit status: 9"), "{error}");
    }
    let error = execute(&*action, "").await.unwrap_err().to_string();
    assert!(error.contains("3 times in a row"), "{error}");
    session.close().await;
}

#[tokio::test]
async fn readiness_is_asked_and_an_error_is_one() {
    let plugins = Plugins::new().with("p", PROGRAM);
    let session = plugins.session().await;
    let action = Arc::clone(&Registry::default().with_plugins(&session).restore[0]);
    let item = config_map(&json!({}));
    let of = restore();
    let input = restore_input(&item, &of);
    let outcome = action.execute(input, &NoCluster).await.unwrap();
    assert!(outcome.wait_for_additional_items);
    assert_eq!(outcome.ready_timeout, Some(Duration::from_secs(3)));
    let named = |name: &str| [ItemId::namespaced(GroupResource::new("", "secrets"), "ns", name)];
    assert_eq!(action.are_ready(&named("never"), &restore(), &NoCluster, LIMIT).await, Ok(false));
    assert_eq!(action.are_ready(&[], &restore(), &NoCluster, LIMIT).await, Ok(true));
    let error = action.are_ready(&named("error"), &restore(), &NoCluster, LIMIT).await.unwrap_err();
    assert!(error.to_string().contains("the test requested a failure"));
    let error = action.progress("x", &restore()).await.unwrap_err();
    assert!(error.to_string().contains("has no operations"), "{error}");
    session.close().await;
}

/// An action with questions that are answered when a file exists, and the directory of those files.
async fn asked(plugins: &Plugins) -> (Arc<dyn RestoreItemAction>, lifeboat_plugin::host::Session) {
    let session = plugins.session().await;
    let registry = Registry::default().with_plugins(&session);
    (Arc::clone(&registry.restore[0]), session)
}

async fn executed(action: &dyn RestoreItemAction) -> Result<(), ActionError> {
    let (item, of) = (config_map(&json!({})), restore());
    action.execute(restore_input(&item, &of), &NoCluster).await.map(drop)
}

fn until(file: &str) -> [ItemId; 1] {
    [ItemId::namespaced(GroupResource::new("", "secrets"), "ns", format!("until-{file}"))]
}

#[tokio::test]
async fn an_answer_that_takes_long_is_no_error_and_no_wall_for_other_calls() {
    let mut plugins = Plugins::new().with("p", PROGRAM);
    // Shorter than the questions take: their limit is the item's.
    plugins.settings.timeouts.poll = Duration::from_secs(1);
    let (action, session) = asked(&plugins).await;
    let ask = |file: &'static str| {
        let action = Arc::clone(&action);
        tokio::spawn(async move {
            let _turn = action.turn().await;
            action.are_ready(&until(file), &restore(), &NoCluster, LIMIT).await
        })
    };
    let questions = [ask("a"), ask("b")];
    for file in ["a", "b"] {
        plugins.file(&format!("asked-{file}")).await;
    }
    executed(&*action).await.unwrap();
    assert!(plugins.processes().len() >= 3, "each question has a process, and other calls have one");
    for file in ["a", "b"] {
        std::fs::write(plugins.path().join(file), "").unwrap();
    }
    for question in questions {
        assert_eq!(question.await.unwrap(), Ok(true));
    }
    session.close().await;
    plugins.nothing_left().await;
}

#[tokio::test]
async fn a_question_that_outlasts_its_limit_ends_with_its_process() {
    let plugins = Plugins::new().with("p", PROGRAM);
    let (action, session) = asked(&plugins).await;
    for _ in 0..4 {
        let limit = Duration::from_secs(2);
        let error = action.are_ready(&until("never"), &restore(), &NoCluster, limit).await.unwrap_err();
        assert!(error.to_string().contains("took longer than 2s and was ended"), "{error}");
    }
    executed(&*action).await.unwrap();
    session.close().await;
    plugins.nothing_left().await;
}
