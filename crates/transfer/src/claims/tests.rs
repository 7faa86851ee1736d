//! A claim opens no volume that belongs to another.

use lifeboat_control::testing::ApiServer;
use rstest::rstest;

use super::*;

#[rstest]
#[case::its_own("shop", "mine", "Delete")]
#[case::of_another_claim("shop", "other", "Retain")]
#[case::of_another_namespace("bank", "mine", "Retain")]
#[tokio::test]
async fn only_the_volume_of_the_claim_itself_is_deleted_with_it(
    #[case] namespace: &str,
    #[case] name: &str,
    #[case] policy: &str,
) {
    let server = ApiServer::default();
    let path = "/api/v1/namespaces/shop/persistentvolumeclaims/mine";
    server.put(
        path,
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"volumeName": "pv"}}),
    );
    let volume = "/api/v1/persistentvolumes/pv";
    server.put(
        volume,
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "spec": {
            "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": namespace, "name": name}}}),
    );
    Claims::new(&server.client().await).delete_with_volume("shop", "mine").await.unwrap();
    assert!(server.get(path).is_none());
    assert_eq!(server.get(volume).unwrap()["spec"]["persistentVolumeReclaimPolicy"], policy);
}
