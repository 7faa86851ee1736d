//! The order in which snapshotters are called.

use super::*;

#[rstest]
#[case::volumes(json!({"persistentvolumes": "pv-c,pv-a"}), &["pv-c", "pv-a"])]
#[case::claims(json!({"persistentvolumeclaims": "shop/c,shop/b"}), &["pv-c", "pv-b"])]
#[case::pods(json!({"pods": "shop/pod-b,shop/pod-a"}), &["pv-b", "pv-a"])]
#[tokio::test]
async fn snapshots_of_plugins_are_taken_in_the_order_of_the_list(
    #[case] order: Value,
    #[case] expected: &[&str],
) {
    let (server, snapshotter) = server(FakeSnapshotter::default()).await;
    for name in ["a", "b", "c"] {
        server.world.pod("shop", &format!("pod-{name}"), &[name], true);
    }
    server.add("b", json!({"includedNamespaces": ["shop"], "orderedResources": order}), &json!({}));
    assert_eq!(server.settle("b").await, "Completed");
    let called = calls(&snapshotter);
    let expected: Vec<String> = expected.iter().map(|volume| format!("create {volume}")).collect();
    assert_eq!((&called[..2], called.len()), (&expected[..], 4), "{called:?}");
}

#[tokio::test]
async fn volumes_of_one_pod_are_taken_in_the_order_of_the_list() {
    let (server, snapshotter) = server(FakeSnapshotter::default()).await;
    server.world.pod("shop", "db-2", &["a", "b", "c"], true);
    let order = json!({"persistentvolumes": "pv-c,pv-a,pv-b"});
    server.add("b", json!({"includedNamespaces": ["shop"], "orderedResources": order}), &json!({}));
    assert_eq!(server.settle("b").await, "Completed");
    assert_eq!(calls(&snapshotter)[..3], ["create pv-c", "create pv-a", "create pv-b"]);
}
