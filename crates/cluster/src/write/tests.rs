use std::sync::atomic::{AtomicUsize, Ordering};

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::testing::{client, failure};

fn target() -> Target {
    Target {
        api_version: "apps/v1".into(),
        plural: "deployments".into(),
        kind: "Deployment".into(),
        namespace: Some("shop".into()),
        name: "web".into(),
    }
}

async fn writer(answer: impl Fn(crate::testing::Asked) -> (u16, Value) + Send + Sync + 'static) -> Writer {
    Writer::new(client(answer).await, Arc::new(Throttle::default()))
}

#[test]
fn raw_parts_of_objects_are_written_to_the_byte_as_go_does() {
    let json = json!({"a": "ls > x < y && z", "b": "\u{2028}é€\u{2029}"});
    let written = String::from_utf8(as_go_writes(json.to_string().into_bytes())).unwrap();
    assert_eq!(written, r#"{"a":"ls \u003e x \u003c y \u0026\u0026 z","b":"\u2028é€\u2029"}"#);
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), json);
}

#[tokio::test]
async fn objects_are_created_where_they_belong() {
    let writer = writer(|asked| {
        assert_eq!(
            (asked.method.as_str(), asked.path.as_str()),
            ("POST", "/apis/apps/v1/namespaces/shop/deployments")
        );
        (201, asked.body)
    })
    .await;
    let object = json!({"metadata": {"name": "web"}});
    let made = writer.create(&target(), object.to_string().into_bytes(), Answer::Object).await.unwrap();
    assert_eq!(made, object);
    let made = writer.create(&target(), object.to_string().into_bytes(), Answer::Nothing).await.unwrap();
    assert_eq!(made, Value::Null);
}

#[rstest]
#[case::too_many(429, "TooManyRequests")]
#[case::overloaded(503, "ServiceUnavailable")]
#[case::server_timeout(500, "ServerTimeout")]
#[tokio::test]
async fn a_busy_api_server_is_asked_again(#[case] code: u16, #[case] reason: &'static str) {
    let asked = AtomicUsize::new(0);
    let writer = writer(move |request| match asked.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => failure(code, reason),
        _ => (200, request.body),
    })
    .await;
    writer.merge(&target(), None, &json!({"a": 1})).await.unwrap();
}

#[tokio::test]
async fn a_refusal_is_final_and_keeps_the_message() {
    let writer = writer(|_| failure(403, "quota exceeded")).await;
    let error = writer.create(&target(), b"{}".to_vec(), Answer::Nothing).await.unwrap_err();
    assert_eq!(error.chain(), "cannot create Deployment shop/web: quota exceeded");
}

#[tokio::test]
async fn a_missing_object_is_none() {
    let writer = writer(|_| failure(404, "NotFound")).await;
    assert_eq!(writer.get(&target()).await.unwrap(), None);
}

#[test]
fn definitions_are_ready_when_established_under_their_names() {
    let with = |names: &str| {
        json!({"status": {"conditions": [{"type": "Established", "status": "True"},
            {"type": "NamesAccepted", "status": names}]}})
    };
    assert!(is_established(&with("True")));
    assert!(!is_established(&with("False")));
    assert!(!is_established(&json!({})));
}
