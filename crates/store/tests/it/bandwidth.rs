//! Limits on bytes per second, with a clock that only advances when all tasks wait.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use lifeboat_store::layers::Layered;
use lifeboat_store::layers::bandwidth::Pace;
use lifeboat_store::testing::{Abilities, conformance};
use lifeboat_store::{Bandwidth, Memory, Store, Tuning};
use rstest::rstest;
use tokio::time::Instant;

const MIB: usize = 1024 * 1024;

fn store(upload: Option<u64>, download: Option<u64>) -> Store {
    let limit = |rate: Option<u64>| rate.and_then(NonZeroU64::new);
    let bandwidth = Bandwidth::new(limit(upload), limit(download));
    Store::new(Arc::new(Memory::new()), "", Tuning { bandwidth, ..Tuning::default() }).unwrap()
}

/// With the paused clock, the time depends only on what was waited for; the first piece is sent at once.
fn took(start: Instant, seconds: f64) -> bool {
    let elapsed = start.elapsed().as_secs_f64();
    (seconds - 0.2..=seconds + 0.2).contains(&elapsed)
}

#[tokio::test(start_paused = true)]
async fn an_upload_takes_its_time_however_many_share_it() {
    for concurrent in [1, 4, 16] {
        let store = store(Some(MIB as u64), None);
        let start = Instant::now();
        stream::iter(0..16)
            .map(|number| {
                let store = store.clone();
                async move { store.put(&format!("k/{number}"), vec![0; MIB]).await }
            })
            .buffer_unordered(concurrent)
            .try_collect::<Vec<()>>()
            .await
            .unwrap();
        assert!(took(start, 16.0), "{concurrent}: {:?}", start.elapsed());
        let start = Instant::now();
        store.get("k/1").await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO, "reading is not limited");
    }
}

#[tokio::test(start_paused = true)]
async fn a_download_takes_its_time() {
    let store = store(None, Some(MIB as u64 / 2));
    let start = Instant::now();
    store.put("a", vec![0; 4 * MIB]).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO, "writing is not limited");
    store.get("a").await.unwrap();
    assert!(took(start, 8.0), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_take_turns() {
    let store = store(Some(MIB as u64), None);
    let start = Instant::now();
    let large = async {
        store.put("large", vec![0; 8 * MIB]).await.unwrap();
        start.elapsed()
    };
    let small = async {
        store.put("small", vec![0; MIB]).await.unwrap();
        start.elapsed()
    };
    let (large, small) = tokio::join!(large, small);
    assert!((Duration::from_millis(1700)..Duration::from_millis(2300)).contains(&small), "{small:?}");
    assert!((Duration::from_millis(8700)..Duration::from_millis(9300)).contains(&large), "{large:?}");
}

#[tokio::test(start_paused = true)]
async fn an_idle_line_saves_nothing_up() {
    let store = store(Some(MIB as u64), None);
    store.put("a", vec![0; MIB]).await.unwrap();
    tokio::time::advance(Duration::from_hours(1)).await;
    let start = Instant::now();
    store.put("b", vec![0; 8 * MIB]).await.unwrap();
    assert!(took(start, 8.0), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn clones_share_one_limit() {
    let bandwidth = Bandwidth::new(NonZeroU64::new(MIB as u64), None);
    let open = || {
        let tuning = Tuning { bandwidth: bandwidth.clone(), ..Tuning::default() };
        Store::new(Arc::new(Memory::new()), "", tuning).unwrap()
    };
    let (first, second) = (open(), open());
    let start = Instant::now();
    tokio::try_join!(first.put("a", vec![0; 4 * MIB]), second.put("a", vec![0; 4 * MIB])).unwrap();
    assert!(took(start, 8.0), "{:?}", start.elapsed());
}

#[rstest]
#[case::slow(1024)]
#[case::huge(u64::MAX)]
#[tokio::test(start_paused = true)]
async fn a_limited_store_conforms(#[case] rate: u64) {
    let bandwidth = Bandwidth::new(NonZeroU64::new(rate), NonZeroU64::new(rate));
    let backend = Arc::new(Layered::new(Pace(bandwidth), Arc::new(Memory::new())));
    let tuning = Tuning { part_size: 64 * 1024, ..Tuning::default() };
    conformance(&Store::new(backend, "", tuning).unwrap(), Abilities::local()).await;
}
