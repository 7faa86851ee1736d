//! The examples of our SDK, loaded by genuine Velero's server and by Lifeboat's: a volume is restored from the snapshot
//! of a directory, and an application is created when its database answers, under both.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::thread;

use lifeboat_e2e::{Namespace, apply, bound, directory_volume, get, kubectl, variable};
use rstest::rstest;

use super::{Product, unique};

#[rstest]
fn both_servers_list_the_examples(#[values(Product::Velero, Product::Lifeboat)] product: Product) {
    let program = lifeboat_e2e::Program::new(&variable("VELERO_BIN"));
    let listed = program.args(["plugin", "get", "--namespace", &product.namespace()]).ok();
    for name in ["example.io/wait-for-database", "example.io/directory-snapshotter"] {
        assert!(listed.contains(name), "{name} is missing in:\n{listed}");
    }
}

#[rstest]
fn a_directory_is_snapshotted_and_comes_back(#[values(Product::Velero, Product::Lifeboat)] product: Product) {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    for name in ["data", "snapshots", "volumes"] {
        fs::create_dir(path(name)).unwrap();
    }
    fs::write(path("data/file"), "all that there is").unwrap();
    let app = Namespace::new("directories");
    let (volume, name) = (unique("directory"), unique("directory"));
    apply(&format!(
        "apiVersion: velero.io/v1
kind: VolumeSnapshotLocation
metadata: {{name: {name}, namespace: {home}}}
spec: {{provider: example.io/directory-snapshotter, config: {{snapshots: {snapshots}, volumes: {volumes}}}}}
",
        home = product.namespace(),
        snapshots = path("snapshots"),
        volumes = path("volumes"),
    ));
    apply(&directory_volume(&volume, &app.name, &path("data")));
    bound(&app.name);
    product.run(&[
        "backup",
        "create",
        &name,
        "--include-namespaces",
        &app.name,
        "--volume-snapshot-locations",
        &name,
    ]);
    product.ended("backups.velero.io", &name);
    kubectl().args(["delete", "namespace", &app.name, "--timeout=120s"]).ok();
    kubectl().args(["delete", "pv", &volume]).ok();
    product.restore(&name);
    let restored = get(&["pv", &bound(&app.name)]);
    let place = restored["spec"]["hostPath"]["path"].as_str().unwrap().to_owned();
    assert!(place.starts_with(&path("volumes")), "{restored}");
    assert_eq!(fs::read_to_string(format!("{place}/file")).unwrap(), "all that there is");
    kubectl().args(["delete", "pv", restored["metadata"]["name"].as_str().unwrap(), "--wait=false"]).ok();
}

#[rstest]
fn an_application_is_made_when_its_database_answers(
    #[values(Product::Velero, Product::Lifeboat)] product: Product,
) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let app = Namespace::new("shop");
    app.apply(
        &"apiVersion: v1
kind: Service
metadata: {name: db}
spec: {ports: [{port: 5432}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, annotations: {example.io/database: 'db:5432', example.io/database-address: 'ADDRESS'}}
spec:
  replicas: 0
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: main, image: TEST_IMAGE, command: [sleep, infinity]}]}
"
        .replace("ADDRESS", &listener.local_addr().unwrap().to_string()),
    );
    let name = unique("shop");
    product.backup(&name, &app.name);
    kubectl().args(["delete", "namespace", &app.name, "--timeout=120s"]).ok();
    product.run(&["restore", "create", &name, "--from-backup", &name]);
    // The database was contacted and did not answer, so the application does not exist yet.
    drop(listener.accept().unwrap());
    drop(listener.accept().unwrap());
    assert!(get(&["-n", &app.name, "deployment", "shop"]).is_null(), "it does not wait");
    assert!(!get(&["-n", &app.name, "service", "db"]).is_null(), "its additional item comes first");
    let database = thread::spawn(move || listener.accept().unwrap().0.write_all(b"N").unwrap());
    product.ended("restores.velero.io", &name);
    database.join().unwrap();
    assert!(!get(&["-n", &app.name, "deployment", "shop"]).is_null());
}
