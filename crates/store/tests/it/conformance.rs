//! The conformance suite over every backend that needs no server, and over every layer.

use std::sync::Arc;
use std::time::Duration;

use lifeboat_store::backend::RequestKind;
use lifeboat_store::layers::limit::Limit;
use lifeboat_store::layers::observe::{Observe, Observer};
use lifeboat_store::layers::retry::Retry;
use lifeboat_store::layers::{Layer, Layered};
use lifeboat_store::testing::{Abilities, Faults, conformance};
use lifeboat_store::{Memory, RetryPolicy, Store, Tuning};

/// Small parts, so that the suite is quick.
fn tuning() -> Tuning {
    Tuning { part_size: 64 * 1024, ..Tuning::default() }
}

#[tokio::test]
async fn memory_conforms() {
    conformance(&Store::new(Arc::new(Memory::new()), "", tuning()).unwrap(), Abilities::local()).await;
}

#[tokio::test]
async fn a_directory_conforms() {
    let directory = tempfile::tempdir().unwrap();
    conformance(&Store::local(directory.path()).unwrap(), Abilities::local()).await;
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert!(left.is_empty(), "no unfinished files and no empty directories stay: {left:?}");
}

#[tokio::test]
async fn a_directory_conforms_below_a_prefix() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::local(directory.path()).unwrap();
    store.put("outside", "x").await.unwrap();
    conformance(&store.below("in/side").unwrap(), Abilities::local()).await;
    assert!(store.exists("outside").await.unwrap());
}

#[derive(Debug)]
struct IgnoreRequests;

impl Observer for IgnoreRequests {
    fn request(&self, _kind: RequestKind, _outcome: &'static str, _bytes: u64, _elapsed: Duration) {}
}

async fn layer_conforms(layer: impl Layer) {
    let backend = Arc::new(Layered::new(layer, Arc::new(Memory::new())));
    let store = Store::new(backend, "loc/ation", tuning()).unwrap();
    conformance(&store, Abilities::local()).await;
}

#[tokio::test]
async fn the_retry_layer_conforms() {
    layer_conforms(Retry::new(RetryPolicy::default(), 1)).await;
}

#[tokio::test]
async fn the_limit_layer_conforms_even_with_one_permit() {
    layer_conforms(Limit::new(1)).await;
}

#[tokio::test]
async fn the_observer_layer_conforms() {
    layer_conforms(Observe(Arc::new(IgnoreRequests))).await;
}

#[tokio::test]
async fn the_fault_layer_without_faults_conforms() {
    layer_conforms(Faults::default()).await;
}

/// A tenth of all requests fails, before or after their effect, and bodies are cut off: callers of the store see none
/// of it.
#[tokio::test(start_paused = true)]
async fn a_store_over_a_failing_backend_conforms() {
    for seed in [1, 2, 3] {
        let backend = Arc::new(Layered::new(Faults::random(seed, 100), Arc::new(Memory::new())));
        let tuning = Tuning { retry: RetryPolicy { attempts: 12, ..RetryPolicy::default() }, ..tuning() };
        let store = Store::new(backend, "", tuning).unwrap();
        conformance(&store, Abilities::local()).await;
    }
}
