//! Time in the queue: deadlines that count from a mover's turn, and places that are reserved for pods.

use lifeboat_control::Clock;
use lifeboat_plan::transfer::limits::Counted;

use super::*;

const HOUR: Duration = Duration::from_hours(1);

fn created_at() -> Timestamp {
    "2026-11-16T08:00:00Z".parse().unwrap()
}

/// A mover of a pod's volume that may wait a day, and run for four hours.
fn of_pod(uid: &str, pod: &str) -> MoverRequest {
    let counted = Counted::FromStart { queue: 24 * HOUR };
    let limits = TimeLimits { created: created_at(), limit: 4 * HOUR, counted };
    MoverRequest { turn: Some(TurnTerms { limits, attempt: 1, pod: Some(pod.to_owned()) }), ..request(uid) }
}

/// One mover at a time, and a clock that a test sets.
async fn timed() -> (Fake, Arc<Mutex<Timestamp>>) {
    let mut fake = Fake::with(|settings| settings.at_once = 1).await;
    let now = Arc::new(Mutex::new(created_at()));
    let read = now.clone();
    let clock = Clock::new(move || *read.lock().unwrap());
    fake.movers.core = Arc::new(Core { clock, ..(*fake.movers.core).clone() });
    (fake, now)
}

fn place() -> PlaceRequest {
    PlaceRequest {
        name: "backup/p".into(),
        group: "nightly".into(),
        node: Some("a".into()),
        repository: "default/shop".into(),
        pods: ["p".to_owned()].into(),
    }
}

async fn until_queued(watcher: &Notes) {
    while watcher.all().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_limit_of_a_mover_counts_from_its_turn() {
    let (fake, now) = timed().await;
    fake.put_job(&job("old-1"), &[running()]);
    fake.script(&[reported("THIS", done())]);
    let (watcher, cancel) = (Notes::default(), CancellationToken::new());
    let turn_comes = async {
        until_queued(&watcher).await;
        *now.lock().unwrap() = created_at() + 10 * HOUR;
        fake.remove("jobs/mover-old-1");
        fake.movers.recount().await.unwrap();
    };
    let carried = fake.movers.carry_out(of_pod("a-1", "p"), &watcher, &cancel);
    let (ended, ()) = tokio::join!(carried, turn_comes);
    assert!(matches!(ended.unwrap(), MoverEnd::Reported { .. }));
    let pod = fake.object("jobs/mover-a-1").unwrap()["spec"]["template"]["spec"].clone();
    assert_eq!(pod["activeDeadlineSeconds"], 4 * 3600, "{pod}");
}

#[tokio::test]
async fn a_mover_that_waits_too_long_for_its_turn_is_not_started() {
    let (fake, now) = timed().await;
    fake.put_job(&job("old-1"), &[running()]);
    *now.lock().unwrap() = created_at() + 24 * HOUR;
    let (watcher, cancel) = (Notes::default(), CancellationToken::new());
    let ended = fake.movers.carry_out(of_pod("a-1", "p"), &watcher, &cancel).await.unwrap();
    let death = died(ended);
    assert_eq!((death.cause, death.may_retry), (DeathCause::Refused, false));
    assert!(death.message.contains("did not start within 24h0m0s (--mover-queue-timeout)"), "{death:?}");
    assert!(fake.changes().is_empty());
}

#[tokio::test]
async fn a_mover_of_a_pod_takes_the_place_that_was_reserved_for_it() {
    let (fake, _) = timed().await;
    fake.script(&[reported("THIS", done())]);
    let (watcher, cancel) = (Notes::default(), CancellationToken::new());
    let reserved = fake.movers.reserve(place(), &watcher, &cancel).await.unwrap();
    let of_pods = async {
        until_queued(&watcher).await;
        for uid in ["p-1", "p-2"] {
            let unobserved = Notes::default();
            let ended = fake.movers.carry_out(of_pod(uid, "p"), &unobserved, &cancel).await.unwrap();
            assert!(matches!(ended, MoverEnd::Reported { .. }), "{ended:?}");
            assert!(!fake.has("jobs/mover-other-1"), "the place is kept for the pod");
        }
        drop(reserved);
    };
    let other = fake.movers.carry_out(of_pod("other-1", "q"), &watcher, &cancel);
    let (ended, ()) = tokio::join!(other, of_pods);
    assert!(matches!(ended.unwrap(), MoverEnd::Reported { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_place_is_waited_for_until_it_is_free_cancelled_or_too_late() {
    let (fake, _) = timed().await;
    let (watcher, cancel) = (Notes::default(), CancellationToken::new());
    let held = fake.movers.reserve(place(), &watcher, &cancel).await.unwrap();
    let other = || PlaceRequest { name: "backup/q".into(), pods: ["q".to_owned()].into(), ..place() };
    assert!(fake.movers.reserve(other(), &watcher, &cancel).await.is_none(), "a day is over");
    cancel.cancel();
    assert!(fake.movers.reserve(other(), &watcher, &cancel).await.is_none());
    drop(held);
    assert!(fake.movers.reserve(other(), &watcher, &CancellationToken::new()).await.is_some());
}
