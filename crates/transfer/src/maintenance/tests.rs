//! A maintenance from the number on record to the record of its end: what is recorded, what the mover is told, what is left.

use std::sync::Mutex;

use jiff::Timestamp;
use lifeboat_api::common::{NamespaceName, RepositoryName, StorageName};
use lifeboat_control::locked;
use lifeboat_mover::report::{Cause, Failure, Listed, Looked};
use lifeboat_plan::transfer::repository_notes::{EMPTIED, MAINTENANCE, note_dead};
use lifeboat_repository::config::Version;
use lifeboat_repository::repository::Options;
use lifeboat_repository::testing::{new_repository, password, save_snapshot};
use lifeboat_store::Store;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::movers::tests::cluster::{Fake, ended, reported as pod_reported, running};
use crate::repositories::{
    AccessSource, Passwords, RepositoryRecords, ServerOpening, TenantRepository, TenantStorage,
};

const RUN: MaintenanceRun = MaintenanceRun { number: 7, prune: true, check: true };

/// A repository in memory, and the object that records it.
struct Shop {
    object: Mutex<Option<Value>>,
    store: Store,
    /// Whether only movers open it.
    movers_only: bool,
    /// Whether the API server fails when the credentials are read.
    broken: bool,
    /// How the runs ended that were recorded: what is wrong.
    ends: Mutex<Vec<Option<String>>>,
}

impl Shop {
    fn new(annotations: &Value) -> Self {
        let object = json!({"metadata": {"uid": "u", "annotations": annotations}});
        Self {
            object: Mutex::new(Some(object)),
            store: Store::memory(),
            movers_only: false,
            broken: false,
            ends: Mutex::default(),
        }
    }

    /// With a maintenance under way.
    fn begun() -> Self {
        Self::new(&json!({MAINTENANCE: "7"}))
    }

    fn change(&self, patch: &Value) {
        if let Some(object) = &mut *locked(&self.object) {
            lifeboat_cluster::testing::merge(object, patch);
        }
    }

    fn annotations(&self) -> String {
        locked(&self.object).as_ref().map(|object| object["metadata"]["annotations"].to_string()).unwrap()
    }

    fn ends(&self) -> Vec<Option<String>> {
        locked(&self.ends).clone()
    }
}

fn refused() -> ApiError {
    use lifeboat_cluster::Attempt;
    let error = kube::Error::Service(std::io::Error::other("connection refused").into());
    Err::<(), _>(error).attempt("read Secret shop/keys").unwrap_err()
}

#[async_trait]
impl MaintenanceRecord for Shop {
    async fn object(&self) -> Result<Option<Value>, ApiError> {
        Ok(locked(&self.object).clone())
    }

    async fn open(&self, access: &Access) -> Result<Repository, RepositoryProblem> {
        Repositories::default().open(access).await
    }

    async fn annotate(&self, patch: Value) -> Result<(), ApiError> {
        self.change(&patch);
        Ok(())
    }

    async fn record_end(
        &self,
        _object: &Value,
        _run: MaintenanceRun,
        end: Option<&MaintenanceEnd>,
    ) -> Result<(), ApiError> {
        locked(&self.ends).extend(end.map(MaintenanceEnd::problem));
        self.change(&json!({"metadata": {"annotations": {MAINTENANCE: null}}}));
        Ok(())
    }
}

#[async_trait]
impl AccessSource for Shop {
    async fn access(&self, key: &RepositoryKey) -> Result<Access, RepositoryProblem> {
        if self.broken {
            return Err(refused().into());
        }
        let opening = if self.movers_only {
            ServerOpening::MoversOnly("it is on a volume".into())
        } else {
            ServerOpening::Store(self.store.clone())
        };
        let storage = TenantStorage::Directory("/mover/repository".into());
        let repository = TenantRepository { identifier: "/mover/repository".into(), storage, opening };
        let passwords = Passwords { to_try: vec![password()], missing: String::new() };
        let options = Options { threads: 1, ..Options::default() };
        Ok(Access::of_tenant(key.clone(), repository, passwords, options))
    }
}

#[async_trait]
impl RepositoryRecords for Shop {
    async fn expect_data(&self, _: &Access) -> Result<(), ApiError> {
        Ok(())
    }

    async fn set_state(&self, _: &Access, _: Option<String>) -> Result<(), ApiError> {
        Ok(())
    }

    async fn set_emptied(&self, _: &RepositoryKey, emptied: bool) -> Result<(), ApiError> {
        self.change(&json!({"metadata": {"annotations": {EMPTIED: emptied.then_some("now")}}}));
        Ok(())
    }

    async fn note_given_up(&self, _: &RepositoryKey, _: &TaskId, _: Timestamp) -> Result<(), ApiError> {
        Ok(())
    }

    async fn note_dead_owner(&self, _: &RepositoryKey, owner: &str) -> Result<(), ApiError> {
        self.change(&note_dead(owner));
        Ok(())
    }
}

/// A server with movers on a fake API server.
struct Server {
    fake: Fake,
    core: Core,
    repositories: Repositories,
}

impl Server {
    /// The pod of the mover goes through these states.
    async fn new(states: &[Value]) -> Self {
        let fake = Fake::new().await;
        fake.server.put("/api/v1/namespaces/kube-system", json!({"metadata": {"uid": "cluster"}}));
        fake.script(states);
        let core = fake.server.core().await;
        Self { fake, core, repositories: Repositories::default() }
    }

    fn of<'a>(&'a self, shop: &'a Arc<Shop>) -> Maintenance<'a> {
        Maintenance {
            core: &self.core,
            movers: &self.fake.movers,
            repositories: &self.repositories,
            host: shop.clone(),
            record: &**shop,
            key: RepositoryKey::new(StorageName::new("default"), RepositoryName::new("shop")),
            owner: Owner {
                kind: "Shop".into(),
                namespace: NamespaceName::new("lifeboat"),
                name: "shop".into(),
                uid: "u".into(),
            },
            reference: ObjectReference { name: Some("shop".into()), ..ObjectReference::default() },
            namespace: NamespaceName::new("lifeboat-movers"),
        }
    }
}

fn maintained(problems: &[&str]) -> Outcome {
    let first: Vec<String> = problems.iter().map(|&problem| problem.to_owned()).collect();
    let problems = Listed { count: first.len() as u64, first };
    Outcome::Maintained(Maintained { problems, ..Maintained::default() })
}

#[rstest]
#[case::well(pod_reported("THIS", maintained(&[])), None)]
#[case::with_damage(
    pod_reported("THIS", maintained(&["pack a is missing", "pack b is short"])),
    Some("the check found 2 problems: pack a is missing; pack b is short; see docs/repository.md for repairs"))]
#[case::with_an_error(
    pod_reported("THIS", Outcome::Failed(Failure { cause: Cause::Locked, message: "it is locked".into() })),
    Some("it is locked"))]
#[case::of_another_task(
    pod_reported("THIS", Outcome::Looked(Looked::default())),
    Some("the mover reported the result of another kind of task; use the server's image for movers")
)]
#[tokio::test]
async fn the_end_is_recorded_once_and_the_mover_goes(#[case] pod: Value, #[case] problem: Option<&str>) {
    let server = Server::new(&[running(), pod]).await;
    let shop = Arc::new(Shop::begun());
    let end = server.of(&shop).carry_out(RUN).await.unwrap().unwrap();
    let problem = problem.map(str::to_owned);
    assert_eq!((end.problem(), shop.ends()), (problem.clone(), vec![problem.clone()]));
    assert_eq!((shop.annotations().as_str(), server.fake.left()), ("{}", Vec::new()));
    let events: &[&str] = if problem.is_some() { &["MaintenanceFailed"] } else { &[] };
    assert_eq!(server.fake.server.events(), events);
    // A watch that lags behind shows the number once more.
    assert!(server.of(&shop).carry_out(RUN).await.unwrap().is_none());
    assert_eq!(shop.ends().len(), 1);
}

#[tokio::test]
async fn a_mover_gets_the_owners_of_dead_locks_and_leaves_its_own_name_if_it_dies() {
    let server = Server::new(&[running(), ended("Error", 137, "")]).await;
    let shop = Arc::new(Shop { movers_only: true, ..Shop::begun() });
    shop.change(&note_dead("cluster/earlier"));
    let object = shop.object().await.unwrap().unwrap();
    let request = server.of(&shop).request(&object, &TaskId::new("u-m7"), RUN).await.unwrap();
    assert_eq!(request.task.lock.dead_owners, ["cluster/earlier"]);
    let end = server.of(&shop).carry_out(RUN).await.unwrap();
    assert!(matches!(end, Some(MaintenanceEnd::Failed(MaintenanceError::Mover(_)))), "{end:?}");
    let annotations = shop.annotations();
    assert_eq!(annotations.matches("dead-owner.lifeboat.io/").count(), 2, "{annotations}");
}

#[tokio::test]
async fn the_notes_of_dead_owners_go_with_a_maintenance_that_ran() {
    let server = Server::new(&[running(), pod_reported("THIS", maintained(&[]))]).await;
    let shop = Arc::new(Shop::begun());
    shop.change(&note_dead("cluster/earlier"));
    server.of(&shop).carry_out(RUN).await.unwrap();
    assert_eq!(shop.annotations(), "{}");
}

#[tokio::test]
async fn an_error_of_the_api_server_is_not_the_end_of_a_maintenance() {
    let server = Server::new(&[]).await;
    let shop = Arc::new(Shop { broken: true, ..Shop::begun() });
    let error = server.of(&shop).carry_out(RUN).await.unwrap_err();
    assert!(error.chain().contains("connection refused"), "{}", error.chain());
    assert_eq!((shop.ends(), server.fake.server.events()), (Vec::new(), Vec::new()));
    assert!(shop.annotations().contains(MAINTENANCE));
}

#[tokio::test]
async fn an_end_that_is_recorded_is_only_taken_off() {
    let server = Server::new(&[]).await;
    let shop = Arc::new(Shop::begun());
    let run = MaintenanceRun { prune: false, check: false, ..RUN };
    assert!(server.of(&shop).carry_out(run).await.unwrap().is_none());
    assert_eq!((shop.ends(), shop.annotations().as_str()), (Vec::new(), "{}"));
    assert!(!server.fake.changes().contains(&"POST jobs".to_owned()));
}

#[rstest]
#[case::nobody_emptied_it(false, false, false, false, false)]
#[case::it_was_emptied(true, false, false, true, true)]
#[case::a_copy_stored_one_since(true, true, false, false, false)]
#[case::only_movers_open_it(true, false, true, false, true)]
#[tokio::test]
async fn a_repository_counts_as_empty_only_if_it_was_emptied_and_is(
    #[case] is_marked: bool,
    #[case] has_snapshot: bool,
    #[case] movers_only: bool,
    #[case] expected: bool,
    #[case] stays_marked: bool,
) {
    let server = Server::new(&[]).await;
    let annotations = if is_marked { json!({EMPTIED: "2026-11-16T12:00:00Z"}) } else { json!({}) };
    let shop = Arc::new(Shop { movers_only, ..Shop::new(&annotations) });
    let repository = new_repository(shop.store.clone(), Version::V2).await;
    if has_snapshot {
        save_snapshot(&repository, 1, &[("a", b"b")]).await;
    }
    let object = shop.object().await.unwrap().unwrap();
    let request = server.of(&shop).request(&object, &TaskId::new("u-m7"), RUN).await.unwrap();
    let TaskWork::Maintain(work) = &request.task.parts[0].work else { panic!("{:?}", request.task) };
    assert_eq!((work.prune, work.check, work.empty_is_meant), (true, true, expected));
    assert_eq!(shop.annotations().contains(EMPTIED), stays_marked);
}
