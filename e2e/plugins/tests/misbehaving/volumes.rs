//! Volume snapshotters: invalid IDs, refused configuration, invalid progress.

use std::collections::BTreeMap;
use std::sync::Arc;

use lifeboat_plugin::host::Session;
use lifeboat_plugin::volume::{ProgressOf, SnapshotRequest, VolumeSnapshotter};
use lifeboat_test_plugins::Plugins;
use rstest::rstest;

use super::{NAME, PROGRAM};

async fn snapshotter(plugins: &Plugins, key: &str, value: &str) -> (Arc<dyn VolumeSnapshotter>, Session) {
    let session = plugins.session().await;
    let config = BTreeMap::from([(key.to_owned(), value.to_owned())]);
    (session.volume_snapshotter(NAME, config).unwrap(), session)
}

fn of(volume: &str) -> SnapshotRequest {
    SnapshotRequest { volume_id: volume.into(), ..SnapshotRequest::default() }
}

#[rstest]
#[case::nameless("nameless", "the name \"\"")]
#[case::wild("wild", "the name \"a\\nb\"")]
#[case::crash("crash", "ended during CreateSnapshot (exit status: 7)")]
#[tokio::test]
async fn a_snapshot_that_cannot_be_used_is_an_error_and_the_next_one_works(
    #[case] volume: &str,
    #[case] reason: &str,
) {
    let plugins = Plugins::new().with("p", PROGRAM);
    let (snapshotter, session) = snapshotter(&plugins, "name", "kept").await;
    let error = snapshotter.create_snapshot(&of(volume)).await.unwrap_err().to_string();
    assert!(error.contains(reason), "{error}");
    assert_eq!(snapshotter.create_snapshot(&of("v")).await.unwrap(), "kept-of-v", "configured again");
    session.close().await;
    plugins.nothing_left().await;
}

#[tokio::test]
async fn configuration_that_is_refused_is_the_error_of_every_call() {
    let plugins = Plugins::new().with("p", PROGRAM);
    let (snapshotter, session) = snapshotter(&plugins, "refuse", "yes").await;
    for _ in 0..2 {
        let error = snapshotter.create_snapshot(&of("v")).await.unwrap_err().to_string();
        assert!(error.contains("config has the unknown key \"refuse\""), "{error}");
    }
    session.close().await;
}

#[tokio::test]
async fn progress_that_makes_no_sense_is_put_right_with_a_word() {
    let mut plugins = Plugins::new().with("p", PROGRAM);
    plugins.environment("MISBEHAVING_CALLS", "4");
    let (snapshotter, session) = snapshotter(&plugins, "name", "x").await;
    assert!(snapshotter.reports_progress().await.unwrap());
    let ask = |volume: &str| {
        let (snapshotter, of) = (Arc::clone(&snapshotter), ProgressOf::Snapshotting(of(volume)));
        async move { snapshotter.progress(&of).await }
    };
    let (first, complaint) = ask("backwards").await.unwrap().unwrap().after(None);
    assert_eq!((first.bytes_done, complaint), (10, None));
    let (second, complaint) = ask("backwards").await.unwrap().unwrap().after(Some(&first));
    assert_eq!(second.bytes_done, 10);
    assert!(complaint.unwrap().contains("9 of 10 bytes after 10"));
    let (beyond, complaint) = ask("beyond").await.unwrap().unwrap().after(None);
    assert_eq!((beyond.bytes_done, beyond.total_bytes), (10, 10));
    assert!(complaint.is_some());
    assert_eq!(ask("unknown").await, Ok(None));
    assert!(ask("error").await.unwrap_err().to_string().contains("the test requested a failure"));
    session.close().await;
}
