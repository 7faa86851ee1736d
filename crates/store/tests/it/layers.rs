//! What the layers guarantee, tested with injected faults and a paused clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use lifeboat_store::backend::{Backend, RequestKind};
use lifeboat_store::layers::Layered;
use lifeboat_store::layers::observe::Observer;
use lifeboat_store::testing::{Fault, Faults, Rule};
use lifeboat_store::{Error, Memory, Outage, RetryPolicy, Store, Tuning};
use rstest::rstest;

fn over(faults: &Faults, memory: Arc<Memory>, tuning: Tuning) -> Store {
    let backend: Arc<dyn Backend> = Arc::new(Layered::new(faults.clone(), memory));
    Store::new(backend, "", tuning).unwrap()
}

fn faulty(faults: &Faults) -> Store {
    over(faults, Arc::new(Memory::new()), Tuning::default())
}

fn patience(attempts: u32, deadline: Option<Duration>) -> Tuning {
    Tuning { retry: RetryPolicy { attempts, deadline, ..RetryPolicy::default() }, ..Tuning::default() }
}

#[rstest]
#[case::before(Fault::Before)]
#[case::after(Fault::After)]
#[case::throttled(Fault::Throttle)]
#[tokio::test(start_paused = true)]
async fn a_passing_failure_is_repeated(#[case] fault: Fault) {
    let faults = Faults::new([Rule { kind: RequestKind::Put, first: 1, times: 3, fault }]);
    let store = faulty(&faults);
    store.put("a", "x").await.unwrap();
    assert_eq!(store.get("a").await.unwrap(), "x");
    assert_eq!(faults.count(RequestKind::Put), 4);
}

#[tokio::test(start_paused = true)]
async fn every_fault_that_happened_is_in_the_log() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let rule = |first, fault| Rule { kind: RequestKind::Put, first, times: 1, fault };
    let faults = Faults::new([rule(1, Fault::Before), rule(2, Fault::After), rule(9, Fault::Throttle)]);
    let store = faulty(&faults.logged_to(Arc::new(log.reopen().unwrap())));
    store.put("a", "x").await.unwrap();
    assert_eq!(std::fs::read_to_string(log.path()).unwrap(), "error\nlost reply\n");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_not_repeated() {
    let faults = Faults::always(RequestKind::Head, Fault::Deny);
    let error = faulty(&faults).head("a").await.unwrap_err();
    assert_eq!(error.category(), "access_denied");
    assert_eq!(faults.count(RequestKind::Head), 1);
}

#[tokio::test(start_paused = true)]
async fn repetition_is_bounded() {
    let faults = Faults::always(RequestKind::Put, Fault::Before);
    let store = over(&faults, Arc::new(Memory::new()), patience(4, None));
    assert_eq!(store.put("a", "x").await.unwrap_err().category(), "server_error");
    assert_eq!(faults.count(RequestKind::Put), 4);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_request_that_hangs() {
    let faults = Faults::always(RequestKind::Get, Fault::Hang);
    let store = over(&faults, Arc::new(Memory::new()), patience(5, Some(Duration::from_secs(3))));
    let error = store.get("a").await.unwrap_err();
    assert_eq!(error.to_string(), "get 'a' did not finish within 3 s");
}

#[tokio::test(start_paused = true)]
async fn at_the_deadline_the_earlier_cause_is_reported() {
    let hang = Rule { kind: RequestKind::Get, first: 2, times: 9, fault: Fault::Hang };
    let fail = Rule { kind: RequestKind::Get, first: 1, times: 1, fault: Fault::Before };
    let faults = Faults::new([fail, hang]);
    let store = over(&faults, Arc::new(Memory::new()), patience(5, Some(Duration::from_secs(3))));
    assert_eq!(store.get("a").await.unwrap_err().category(), "server_error");
}

#[rstest]
#[case::first_page(1)]
#[case::second_page(2)]
#[case::last_page(3)]
#[tokio::test(start_paused = true)]
async fn a_listing_fails_when_a_page_fails_and_says_nothing_more(#[case] page: u64) {
    let memory = Arc::new(Memory::new());
    let filled = Store::new(memory.clone(), "", Tuning::default()).unwrap();
    for number in 0..2500 {
        filled.put(&format!("k/{number:05}"), "x").await.unwrap();
    }
    let faults =
        Faults::new([Rule { kind: RequestKind::List, first: page, times: u64::MAX, fault: Fault::Before }]);
    let store = over(&faults, memory, patience(3, None));
    let mut listing = store.list("k/");
    let mut seen = 0;
    let error = loop {
        match listing.next().await {
            Some(Ok(_)) => seen += 1,
            Some(Err(error)) => break error,
            None => panic!("the listing ended after {seen} of 2500 keys without an error"),
        }
    };
    assert_eq!(error.category(), "server_error");
    assert_eq!(seen, (page - 1) * 1000);
    assert!(listing.next().await.is_none(), "nothing comes after the error");
    assert!(store.list_directory("k/").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_page_that_fails_once_costs_only_that_page() {
    let memory = Arc::new(Memory::new());
    let filled = Store::new(memory.clone(), "", Tuning::default()).unwrap();
    for number in 0..2500 {
        filled.put(&format!("k/{number:05}"), "x").await.unwrap();
    }
    let faults = Faults::nth(RequestKind::List, 2, Fault::After);
    let keys: Vec<_> = over(&faults, memory, Tuning::default()).list("").try_collect().await.unwrap();
    assert_eq!(keys.len(), 2500);
    assert_eq!(faults.count(RequestKind::List), 4);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_is_read_on_from_there() {
    let faults =
        Faults::new([Rule { kind: RequestKind::Get, first: 1, times: 3, fault: Fault::CutBody(100) }]);
    let store = faulty(&faults);
    let content = Bytes::from((0..=255).cycle().take(1000).collect::<Vec<u8>>());
    store.put("a", content.clone()).await.unwrap();
    assert_eq!(store.get("a").await.unwrap(), content);
    assert_eq!(faults.count(RequestKind::Get), 4, "100 bytes each, then the rest");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_ends_early_is_an_error_and_never_short_data() {
    let faults = Faults::always(RequestKind::Get, Fault::ShortBody(0));
    let store = over(&faults, Arc::new(Memory::new()), patience(3, None));
    store.put("a", "0123456789").await.unwrap();
    assert_eq!(store.get("a").await.unwrap_err().category(), "interrupted");
    let body = store.get_stream("a").await.unwrap().body;
    assert!(body.try_collect::<Vec<_>>().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_object_replaced_while_it_is_read_is_an_error() {
    let memory = Arc::new(Memory::new());
    let store = over(&Faults::nth(RequestKind::Get, 1, Fault::CutBody(5)), memory.clone(), Tuning::default());
    store.put("a", "0123456789").await.unwrap();
    let mut body = store.get_stream("a").await.unwrap().body;
    assert_eq!(body.try_next().await.unwrap().unwrap(), "01234");
    store.put("a", "abcdefghij").await.unwrap();
    assert_eq!(body.try_next().await.unwrap_err().category(), "changed", "never a mix of two versions");
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_was_lost_is_recognised_as_ours() {
    let faults = Faults::nth(RequestKind::Create, 1, Fault::After);
    let store = faulty(&faults);
    store.create("lock", "mine").await.unwrap();
    assert_eq!(faults.count(RequestKind::Create), 1);
    assert!(store.create("lock", "yours").await.unwrap_err().is_already_exists());
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_was_lost_does_not_take_anothers_object() {
    let memory = Arc::new(Memory::new());
    let plain = Store::new(memory.clone(), "", Tuning::default()).unwrap();
    plain.put("lock", "theirs").await.unwrap();
    let store = over(&Faults::nth(RequestKind::Create, 1, Fault::Before), memory, Tuning::default());
    assert!(store.create("lock", "mine").await.unwrap_err().is_already_exists());
    assert_eq!(plain.get("lock").await.unwrap(), "theirs");
}

fn large() -> impl futures::Stream<Item = Result<Bytes, Error>> + Send {
    stream::iter((0..40).map(|_| Ok(Bytes::from(vec![1; 1024 * 1024]))))
}

#[rstest]
#[case::part(RequestKind::UploadPart)]
#[case::completion(RequestKind::CompleteUpload)]
#[tokio::test(start_paused = true)]
async fn an_upload_that_fails_is_aborted(#[case] kind: RequestKind) {
    let memory = Arc::new(Memory::new());
    let store = over(&Faults::always(kind, Fault::Before), memory.clone(), patience(2, None));
    assert!(store.put_stream("a", large()).await.is_err());
    assert_eq!(memory.open_uploads(), 0);
    assert!(!store.exists("a").await.unwrap());
}

/// The response to the completion is lost, and the second attempt is answered with "no such upload".
#[rstest]
#[case::new(false)]
#[case::replacing(true)]
#[tokio::test(start_paused = true)]
async fn an_upload_whose_completion_was_lost_is_found_complete(#[case] replacing: bool) {
    let faults = Faults::nth(RequestKind::CompleteUpload, 1, Fault::After);
    let store = faulty(&faults);
    if replacing {
        store.put("a", Bytes::from(vec![9; 40 * 1024 * 1024])).await.unwrap();
    }
    assert_eq!(store.put_stream("a", large()).await.unwrap(), 40 * 1024 * 1024);
    assert_eq!(store.get_range("a", 0..2).await.unwrap(), vec![1, 1]);
}

#[tokio::test(start_paused = true)]
async fn an_older_object_of_the_same_size_is_not_taken_for_the_upload() {
    let faults = Faults::always(RequestKind::CompleteUpload, Fault::Before);
    let store = over(&faults, Arc::new(Memory::new()), patience(2, None));
    store.put("a", Bytes::from(vec![9; 40 * 1024 * 1024])).await.unwrap();
    assert!(store.put_stream("a", large()).await.is_err());
    assert_eq!(store.get_range("a", 0..2).await.unwrap(), vec![9, 9]);
}

#[tokio::test(start_paused = true)]
async fn a_copy_within_one_store_does_not_wait_for_itself() {
    let tuning = Tuning { concurrency: 1, ..Tuning::default() };
    let store = over(&Faults::default(), Arc::new(Memory::new()), tuning);
    store.put("a", "x").await.unwrap();
    let body = store.get_stream("a").await.unwrap().body;
    store.put_stream("b", body).await.unwrap();
    assert_eq!(store.get("b").await.unwrap(), "x");
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_is_dropped_is_aborted() {
    let memory = Arc::new(Memory::new());
    let faults = Faults::always(RequestKind::UploadPart, Fault::Hang);
    let store = over(&faults, memory.clone(), Tuning::default());
    let cut = tokio::time::timeout(Duration::from_secs(5), store.put_stream("a", large())).await;
    assert!(cut.is_err());
    while memory.open_uploads() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_upload_holds_no_more_parts_than_allowed() {
    #[derive(Debug)]
    struct Peak(Mutex<u64>);
    impl Observer for Peak {
        fn request(&self, kind: RequestKind, _: &'static str, bytes: u64, _: Duration) {
            if kind == RequestKind::UploadPart {
                *self.0.lock().unwrap() += bytes;
            }
        }
    }
    // Parts hang, so the parts in flight are all that was read from the source.
    let read = Arc::new(Mutex::new(0_usize));
    let counter = Arc::clone(&read);
    let source = stream::iter(0..400).map(move |_| {
        *counter.lock().unwrap() += 1;
        Ok::<_, Error>(Bytes::from(vec![1; 1024 * 1024]))
    });
    let peak = Arc::new(Peak(Mutex::new(0)));
    let tuning = Tuning { upload_concurrency: 3, observer: Some(peak.clone()), ..Tuning::default() };
    let store = over(&Faults::always(RequestKind::UploadPart, Fault::Hang), Arc::new(Memory::new()), tuning);
    let cut = tokio::time::timeout(Duration::from_secs(5), store.put_stream("a", source)).await;
    assert!(cut.is_err());
    assert_eq!(*read.lock().unwrap(), 3 * 16, "three parts of 16 MiB and nothing more");
    assert_eq!(*peak.0.lock().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn no_more_requests_run_at_once_than_allowed() {
    #[derive(Debug, Default)]
    struct Seen(Mutex<Vec<Duration>>);
    impl Observer for Seen {
        fn request(&self, _: RequestKind, outcome: &'static str, _: u64, elapsed: Duration) {
            assert_eq!(outcome, "ok");
            self.0.lock().unwrap().push(elapsed);
        }
    }
    let seen = Arc::new(Seen::default());
    let tuning = Tuning { concurrency: 4, observer: Some(seen.clone()), ..Tuning::default() };
    let latency = Fault::Latency(Duration::from_secs(1));
    let store = over(&Faults::always(RequestKind::Put, latency), Arc::new(Memory::new()), tuning);
    let start = tokio::time::Instant::now();
    let puts = (0..12).map(|number| {
        let store = store.clone();
        async move { store.put(&number.to_string(), "x").await }
    });
    futures::future::try_join_all(puts).await.unwrap();
    assert_eq!(
        start.elapsed(),
        Duration::from_secs(3),
        "twelve of one second each, four at a time, on a paused clock"
    );
    assert_eq!(seen.0.lock().unwrap().len(), 12);
}

/// A store that waits while storage is away.
fn patient(faults: &Faults, memory: Arc<Memory>) -> Store {
    let retry = RetryPolicy::default().with_outage(Duration::from_mins(15));
    over(faults, memory, Tuning { retry, part_size: 64, ..Tuning::default() })
}

/// All requests fail from now on for ten minutes, then none.
async fn ten_minutes_away(faults: &Faults) {
    faults.set_away(true);
    tokio::time::sleep(Duration::from_mins(10)).await;
    faults.set_away(false);
}

#[tokio::test(start_paused = true)]
async fn storage_that_is_away_for_ten_minutes_delays_what_is_written() {
    let (faults, memory) = (Faults::new([]), Arc::new(Memory::new()));
    let store = patient(&faults, memory.clone());
    let content = Bytes::from(vec![7_u8; 1000]);
    let chunks = content.chunks(50).map(Bytes::copy_from_slice).map(Ok::<_, Error>).collect::<Vec<_>>();
    let begun = tokio::time::Instant::now();
    let writing = async { tokio::join!(store.put("a", "x"), store.put_stream("b", stream::iter(chunks))) };
    let ((), (small, large)) = tokio::join!(ten_minutes_away(&faults), writing);
    small.unwrap();
    assert_eq!(large.unwrap(), 1000);
    assert_eq!((store.get("a").await.unwrap(), store.get("b").await.unwrap()), ("x".into(), content));
    let taken = begun.elapsed();
    assert!((10..11).contains(&(taken.as_secs() / 60)), "{taken:?}");
    assert_eq!(memory.open_uploads(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_when_storage_goes_away_is_read_on_ten_minutes_later() {
    let rule = |first, times, fault| Rule { kind: RequestKind::Get, first, times, fault };
    let faults = Faults::new([rule(1, 1, Fault::CutBody(100)), rule(2, 50, Fault::Before)]);
    let store = patient(&faults, Arc::new(Memory::new()));
    let content = Bytes::from((0..=255).cycle().take(1000).collect::<Vec<u8>>());
    store.put("a", content.clone()).await.unwrap();
    assert_eq!(store.get("a").await.unwrap(), content);
}

#[tokio::test(start_paused = true)]
async fn storage_that_stays_away_fails_requests_in_bounded_time_and_later_ones_sooner() {
    let faults = Faults::always(RequestKind::Put, Fault::Before);
    let store = patient(&faults, Arc::new(Memory::new()));
    let begun = tokio::time::Instant::now();
    assert_eq!(store.put("a", "x").await.unwrap_err().category(), "server_error");
    let first = begun.elapsed();
    assert!((Duration::from_mins(14)..Duration::from_mins(16)).contains(&first), "{first:?}");
    assert_eq!(store.put("b", "x").await.unwrap_err().category(), "server_error");
    let second = begun.elapsed().saturating_sub(first);
    assert!(second < Duration::from_mins(1), "{second:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_no_outage() {
    let faults = Faults::always(RequestKind::Put, Fault::Deny);
    let store = patient(&faults, Arc::new(Memory::new()));
    let begun = tokio::time::Instant::now();
    assert_eq!(store.put("a", "x").await.unwrap_err().category(), "access_denied");
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn it_is_shown_since_when_storage_is_away() {
    let outage = Outage::default();
    let faults = Faults::new([Rule { kind: RequestKind::Put, first: 1, times: 20, fault: Fault::Before }]);
    let retry = RetryPolicy::default().with_outage(Duration::from_mins(15));
    let store =
        over(&faults, Arc::new(Memory::new()), Tuning { retry, outage: outage.clone(), ..Tuning::default() });
    assert_eq!(outage.now(), None);
    let begun = tokio::time::Instant::now();
    let look = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        outage.now().unwrap()
    };
    let (written, away) = tokio::join!(store.put("a", "x"), look);
    written.unwrap();
    assert_eq!(away.since, begun);
    assert!(away.problem.contains("500"), "{}", away.problem);
    assert_eq!(outage.now(), None);
}
