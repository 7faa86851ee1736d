use lifeboat_mover::task::{Source, Target};
use lifeboat_plan::stash::databases::Direction;
use lifeboat_plan::stash::hosts::TargetKind;
use lifeboat_plan::stash::session::TargetKey;
use lifeboat_plan::stash::targets::CleanPath;
use lifeboat_plan::stash::tasks::Interim;
use lifeboat_plan::stash::variables::SystemVariables;
use lifeboat_transfer::MoverSettings;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::repository::key_of;
use crate::testing::{SHOP, World};

/// A tenant with AppBinding `db` and its Secret.
async fn world() -> World {
    let world = World::new().await;
    world.put_repository("r");
    put_app(&world, &json!({}));
    let data = json!({"username": "cm9vdA==", "password": "czNjcmV0"});
    world.server.put(
        "/api/v1/namespaces/shop/secrets/auth",
        json!({"apiVersion": "v1", "kind": "Secret", "data": data}),
    );
    world
}

fn put_app(world: &World, parameters: &Value) {
    let spec = json!({
        "type": "kubedb.com/mysql",
        "version": "8.0.35",
        "clientConfig": {"service": {"name": "db", "port": 3306}},
        "secret": {"name": "auth"},
        "parameters": parameters,
    });
    world.server.put(
        "/apis/appcatalog.appscode.com/v1alpha1/namespaces/shop/appbindings/db",
        json!({"apiVersion": "appcatalog.appscode.com/v1alpha1", "kind": "AppBinding", "spec": spec}),
    );
}

fn put(world: &World, kind: &str, name: &str, spec: &Value) {
    let path = format!("/apis/stash.appscode.com/v1beta1/{}s/{name}", kind.to_lowercase());
    world.server.put(&path, json!({"apiVersion": "stash.appscode.com/v1beta1", "kind": kind, "spec": spec}));
}

struct Case {
    direction: Direction,
    task: &'static str,
    kind: TargetKind,
    namespace: &'static str,
    repository: &'static str,
}

impl Default for Case {
    fn default() -> Self {
        let (direction, task) = (Direction::Backup, "mysql-backup-8.0.35");
        Self { direction, task, kind: TargetKind::AppBinding, namespace: SHOP, repository: SHOP }
    }
}

impl Case {
    async fn work(&self, world: &World) -> Result<Option<TaskWork>, TaskProblem> {
        let task = lifeboat_api::stash::TaskRef { name: self.task.into(), params: Vec::new() };
        let (kind, name) = (self.kind.as_str().to_owned(), "db".to_owned());
        let target = TargetKey { kind, namespace: self.namespace.into(), name };
        let request = TaskRequest {
            direction: self.direction,
            namespace: SHOP,
            task: Some(&task),
            target: Some((self.kind, &target)),
            key: &key_of(self.repository, "r"),
            interim: Interim::default(),
            runtime: None,
            variables: SystemVariables { host: "db".into(), ..SystemVariables::default() },
        };
        task_work(&world.context, request).await
    }

    async fn problem(&self, world: &World) -> String {
        match self.work(world).await {
            Err(problem) => problem.to_string(),
            Ok(_) => panic!("there is no problem"),
        }
    }
}

#[tokio::test]
async fn a_database_is_dumped_where_its_app_binding_is() {
    let world = world().await;
    let work = Case::default().work(&world).await.unwrap().unwrap();
    assert_eq!((work.namespace.as_str(), work.path().as_str()), (SHOP, "/dumpfile.sql"));
    assert!(matches!(work.source(), Source::Command { name, .. } if name == "dumpfile.sql"));
    let pod = work.base(MoverSettings::default().pod("lifeboat"));
    assert_eq!(pod.tool_image.as_deref(), Some("docker.io/library/mysql:8.0.35"));
    assert!(!format!("{pod:?}").contains("s3cret"), "the kubelet reads the password");
}

#[tokio::test]
async fn the_task_of_the_backup_restores_as_well() {
    let world = world().await;
    let case = Case { direction: Direction::Restore, ..Case::default() };
    let work = case.work(&world).await.unwrap().unwrap();
    let path = CleanPath::stored("/dumpfile.sql").unwrap();
    let restore = work.restore("abc", &path, &[], &[]);
    let Target::Command { argv } = &restore.target else { panic!("{restore:?}") };
    assert!(argv[2].contains("command -v mysql"), "{argv:?}");
    assert_eq!((restore.snapshot.as_str(), restore.folder, work.has_files()), ("abc", None, false));
}

#[tokio::test]
async fn the_app_binding_names_the_task_of_a_member_without_one() {
    let world = world().await;
    put_app(&world, &json!({"stash": {"addon": {"backupTask": {"name": "mariadb-backup-10.6"}}}}));
    let work = Case { task: "", ..Case::default() }.work(&world).await.unwrap().unwrap();
    let pod = work.base(MoverSettings::default().pod("lifeboat"));
    assert_eq!(pod.tool_image.as_deref(), Some("docker.io/library/mariadb:10.6"));
}

#[tokio::test]
async fn a_task_object_of_a_built_in_name_goes_first() {
    let world = world().await;
    put(
        &world,
        "Task",
        "mysql-backup-8.0.35",
        &json!({"steps": [{"name": "dump"}, {"name": "update-status"}]}),
    );
    let args = json!([
        "${HOSTNAME} ${REPOSITORY_BUCKET} ${TARGET_APP_TYPE} ${TARGET_APP_VERSION} ${TARGET_NAME} ${NAMESPACE}"
    ]);
    put(&world, "Function", "dump", &json!({"image": "registry.local/dump:1", "args": args}));
    let work = Case::default().work(&world).await.unwrap().unwrap();
    assert_eq!(work.path(), "/stash-tmp/data");
    let pod = work.base(MoverSettings::default().pod("lifeboat"));
    let step = &pod.overrides.init_containers[0];
    assert_eq!(step["args"][0], "db bkt kubedb.com/mysql 8.0.35 db shop");
    // One of upstream's catalogue is refused, with the way out.
    put(&world, "Function", "dump", &json!({"image": "stashed/stash-mysql:8.0.35"}));
    let message = Case::default().problem(&world).await;
    assert!(message.contains("delete Task \"mysql-backup-8.0.35\""), "{message}");
}

/// The gateway is the way to the Repository; what opens it, and where it is, stays in its namespace.
#[tokio::test]
async fn a_task_with_a_repository_of_another_namespace_learns_its_name_only() {
    let world = world().await;
    let backend = json!({"s3": {"endpoint": "minio:9000", "bucket": "vault", "prefix": "p"}});
    world.put_repository_in("bank", "r", backend);
    put(&world, "Task", "mysql-backup-8.0.35", &json!({"steps": [{"name": "dump"}]}));
    let args =
        json!(["${REPOSITORY_NAMESPACE}/${REPOSITORY_NAME} [${REPOSITORY_BUCKET}${REPOSITORY_ENDPOINT}]"]);
    put(&world, "Function", "dump", &json!({"image": "registry.local/dump:1", "args": args}));
    let case = Case { repository: "bank", ..Case::default() };
    let work = case.work(&world).await.unwrap().unwrap();
    let pod = work.base(MoverSettings::default().pod("lifeboat"));
    assert_eq!(pod.overrides.init_containers[0]["args"][0], "bank/r []");
}

#[rstest]
#[case::no_task(Case { task: "mongodb-backup-6", ..Case::default() }, "there is no Task \"mongodb-backup-6\"")]
#[case::none_named(Case { task: "", ..Case::default() }, "AppBinding shop/db is backed up and restored by a task")]
#[case::other_kind(Case { kind: TargetKind::Deployment, ..Case::default() }, "set target.ref to an AppBinding")]
#[case::elsewhere(Case { namespace: "bank", ..Case::default() }, "AppBinding bank/db does not exist")]
#[case::not_served(Case { namespace: "gone", ..Case::default() }, "this server does not serve namespace gone")]
#[tokio::test]
async fn what_keeps_a_task_from_running_is_named(#[case] case: Case, #[case] says: &str) {
    let message = case.problem(&world().await).await;
    assert!(message.contains(says), "{message}");
}

/// With the Secret of its own namespace, and there the mover runs.
#[tokio::test]
async fn a_database_of_another_namespace_is_dumped_there() {
    let world = world().await;
    world.put_app_in("bank", "other");
    let work = Case { namespace: "bank", ..Case::default() }.work(&world).await.unwrap().unwrap();
    assert_eq!(work.namespace, "bank");
    let pod = work.base(MoverSettings::default().pod("lifeboat"));
    let password = &pod.overrides.env[0]["valueFrom"]["secretKeyRef"];
    assert_eq!(*password, json!({"name": "other", "key": "password"}));
    // A Task's containers would see what the namespace has.
    put(&world, "Task", "mysql-backup-8.0.35", &json!({"steps": [{"name": "dump"}]}));
    let message = Case { namespace: "bank", ..Case::default() }.problem(&world).await;
    assert!(message.contains("in another namespace only built-in tasks run"), "{message}");
}

#[tokio::test]
async fn a_missing_app_binding_or_secret_is_named() {
    let world = world().await;
    world.server.remove("/api/v1/namespaces/shop/secrets/auth");
    let message = Case::default().problem(&world).await;
    assert!(message.contains("spec.secret names Secret \"auth\", which does not exist"), "{message}");
    world.server.remove("/apis/appcatalog.appscode.com/v1alpha1/namespaces/shop/appbindings/db");
    let message = Case::default().problem(&world).await;
    assert!(message.contains("AppBinding shop/db does not exist"), "{message}");
}

#[tokio::test]
async fn upstreams_task_for_claims_is_what_is_done_without_one() {
    let case = Case { kind: TargetKind::Claim, task: "pvc-backup", ..Case::default() };
    assert!(case.work(&world().await).await.unwrap().is_none());
    assert!(has_task(Some(TargetKind::AppBinding), None) && has_task(None, None));
    assert!(!has_task(Some(TargetKind::Deployment), None));
}

#[tokio::test]
async fn hooks_run_in_a_ready_pod_of_the_service() {
    let world = world().await;
    let work = Case::default().work(&world).await.unwrap().unwrap();
    assert!(endpoint_pod(&world.context.core, &work).await.unwrap().is_none());
    let endpoint = |name: &str, ready: bool| json!({"conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "name": name}});
    world.server.put(
        "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/db-x",
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"labels": {"kubernetes.io/service-name": "db"}},
            "endpoints": [endpoint("db-0", false), endpoint("db-1", true)],
        }),
    );
    for name in ["db-0", "db-1"] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": "n1"}});
        world.server.put(&format!("/api/v1/namespaces/shop/pods/{name}"), pod);
    }
    let pod = endpoint_pod(&world.context.core, &work).await.unwrap().unwrap();
    assert_eq!((pod.name.as_str(), pod.node.as_str()), ("db-1", "n1"));
}
