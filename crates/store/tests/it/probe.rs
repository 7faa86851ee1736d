//! The validation of a location.

use std::sync::Arc;
use std::time::Duration;

use lifeboat_store::backend::{Backend, RequestKind};
use lifeboat_store::layers::Layered;
use lifeboat_store::testing::{Fault, Faults};
use lifeboat_store::{LOCATION_DIRECTORIES, Memory, Store, Tuning, probe};

const DEADLINE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn an_empty_bucket_and_one_of_velero_are_fine() {
    let store = Store::memory();
    probe(&store, &LOCATION_DIRECTORIES, DEADLINE).await.unwrap();
    for directory in LOCATION_DIRECTORIES {
        store.put(&format!("{directory}/x"), "x").await.unwrap();
    }
    store.put("a-file-at-the-root", "x").await.unwrap();
    probe(&store, &LOCATION_DIRECTORIES, DEADLINE).await.unwrap();
}

#[tokio::test]
async fn foreign_directories_are_named() {
    let store = Store::memory();
    for key in ["backups/x", "photos/1", "src/main.rs"] {
        store.put(key, "x").await.unwrap();
    }
    let error = probe(&store, &LOCATION_DIRECTORIES, DEADLINE).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the bucket contains directories that do not belong to a backup location: 'photos', 'src'"
    );
    assert_eq!(error.category(), "foreign_directories");
    probe(&store.below("photos").unwrap(), &LOCATION_DIRECTORIES, DEADLINE).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_given_up_at_the_deadline() {
    let faults = Faults::always(RequestKind::List, Fault::Hang);
    let backend: Arc<dyn Backend> = Arc::new(Layered::new(faults, Arc::new(Memory::new())));
    let store = Store::new(backend, "", Tuning::default()).unwrap();
    let error = probe(&store, &LOCATION_DIRECTORIES, DEADLINE).await.unwrap_err();
    assert_eq!(error.category(), "deadline");
}

#[tokio::test(start_paused = true)]
async fn a_probe_repeats_once_and_reports_the_cause() {
    let faults = Faults::always(RequestKind::List, Fault::Before);
    let backend: Arc<dyn Backend> = Arc::new(Layered::new(faults.clone(), Arc::new(Memory::new())));
    let store = Store::new(backend, "", Tuning::default()).unwrap();
    let error = probe(&store, &LOCATION_DIRECTORIES, DEADLINE).await.unwrap_err();
    assert_eq!(error.category(), "server_error");
    assert_eq!(faults.count(RequestKind::List), 2);
}
