//! The server is killed at every write of an in-place restore, before the write arrives and after it was carried out, and everything that
//! it would have sent after that fails. Whatever the movers do, the server that follows comes to one of three ends: as before; held down
//! with the record and the safety copy; restored.

use std::sync::atomic::Ordering;

use kube::api::{Api, DeleteParams, DynamicObject};
use lifeboat_cluster::objects;
use lifeboat_plan::stash::in_place::STANDSTILL;
use rstest::rstest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::{Advance, Stopped};
use super::cluster::{Cluster, SESSIONS, member};
use crate::sessions::finalizer;
use crate::sessions::kind::SessionKind;
use crate::sessions::record::SessionRecord;
use crate::testing::{Killer, Moment};

/// What becomes of the restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Succeeds,
    /// Its movers fail while they write.
    Fails,
    /// It is deleted while no server runs.
    Deleted,
}

/// How a restore left its workload.
#[derive(Debug, PartialEq, Eq)]
enum End {
    AsBefore,
    HeldDown,
    Restored,
}

struct Run<'a> {
    cluster: &'a Cluster,
    name: String,
    path: String,
}

impl Run<'_> {
    fn object(&self) -> Option<Value> {
        self.cluster.world.server.get(&self.path)
    }

    /// The servers that follow bring the restore to its end.
    async fn to_its_end(&self, cancel: &CancellationToken) {
        for _ in 0..5 {
            match self.cluster.advance(&self.path, cancel).await {
                Ok(Advance::Ended) => return self.release().await,
                Err(Stopped::Gone) => return,
                Ok(Advance::Waits) | Err(Stopped::Api(_)) => {}
                other => panic!("{}: {other:?}", self.name),
            }
        }
        panic!("{} has no end: {:?}", self.name, self.object());
    }

    /// What the controller does with a restore that has ended.
    async fn release(&self) {
        let Some(object) = self.object() else { return };
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let (core, kind) = (&self.cluster.world.context.core, SessionKind::Restore);
        let record = SessionRecord::new(core, kind, &kind.resource(), object).unwrap();
        finalizer::release(core, kind, &record).await.unwrap();
    }

    async fn delete(&self) {
        let core = &self.cluster.world.context.core;
        let api: Api<DynamicObject> =
            objects::namespaced(&core.client, "shop", &SessionKind::Restore.resource());
        api.delete(&self.name, &DeleteParams::default()).await.unwrap();
    }

    /// The end, after checks of all that must hold together.
    fn end(&self, at: usize) -> End {
        let web = self.cluster.object(&self.name);
        let text = web["metadata"]["annotations"][STANDSTILL].as_str();
        let carried: Value = text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap());
        let record = self.cluster.record_on(&format!("{}-data", self.name));
        let restore = self.object();
        let context = format!("killed at write {at}: {web} {restore:?}");
        if let Some(restore) = &restore {
            assert!(restore["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty), "{context}");
        }
        if web["spec"]["replicas"] == 0 {
            assert_eq!(carried["step"], "HeldDown", "{context}");
            assert_eq!(
                (&carried["replicas"], &carried["safetyOf"]["name"]),
                (&json!(2), &json!(self.name)),
                "{context}"
            );
            assert_eq!(record["name"], self.name, "it is not backed up: {context}");
            return End::HeldDown;
        }
        assert_eq!(web["spec"]["replicas"], 2, "{context}");
        assert_eq!((carried, record), (Value::Null, Value::Null), "{context}");
        let is_restored = restore.is_some_and(|restore| restore["status"]["phase"] == "Succeeded");
        if is_restored { End::Restored } else { End::AsBefore }
    }
}

async fn killed_at(
    cluster: &Cluster,
    killer: &Killer,
    fate: Fate,
    moment: Moment,
    nth: usize,
) -> (bool, End) {
    let name = format!("run{nth}");
    cluster.deployment(&name, 2);
    cluster.restore_session(&name, &json!({"target": member("Deployment", &name, "app")}), &json!({}));
    let run = Run { cluster, path: format!("{SESSIONS}/{name}"), name };
    let cancel = CancellationToken::new();
    let died = killer.kill_at(nth, moment, cluster.advance(&run.path, &cancel)).await.is_none();
    if fate == Fate::Deleted {
        run.delete().await;
        // The controller of the next server finds that the restore is being deleted.
        cancel.cancel();
    }
    if run.object().is_some() {
        run.to_its_end(&cancel).await;
    }
    (died, run.end(nth))
}

#[rstest]
#[case::it_succeeds(Fate::Succeeds)]
#[case::it_fails_while_it_writes(Fate::Fails)]
#[case::it_is_deleted(Fate::Deleted)]
#[tokio::test]
async fn a_restore_whose_server_is_killed_at_any_write_ends_whole(
    #[case] fate: Fate,
    #[values(Moment::Before, Moment::After)] moment: Moment,
) {
    let cluster = Cluster::new().await;
    cluster.snapshot("app", "/data").await;
    cluster.effects.restores_fail.store(fate == Fate::Fails, Ordering::Relaxed);
    let killer = Killer::on(&cluster.world.server);
    let mut ends = Vec::new();
    for nth in 1.. {
        let (died, end) = killed_at(&cluster, &killer, fate, moment, nth).await;
        match fate {
            Fate::Succeeds => assert_eq!(end, End::Restored, "killed at write {nth}"),
            Fate::Fails => assert_eq!(end, End::HeldDown, "killed at write {nth}"),
            Fate::Deleted => {}
        }
        ends.push(end);
        if !died {
            break;
        }
    }
    assert!(ends.len() > 15, "only {} writes", ends.len());
    if fate == Fate::Deleted {
        assert_eq!(ends.first(), Some(&End::AsBefore));
        assert!(ends.contains(&End::HeldDown), "one was killed while it wrote: {ends:?}");
    }
}
