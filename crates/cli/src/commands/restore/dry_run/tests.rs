use lifeboat_operator::Fight;

use super::*;
use crate::objects::tests::settings;

fn item(resource: &str, item: &str, namespace: Option<&str>, would: Would) -> PlannedItem {
    PlannedItem { resource: resource.into(), item: item.into(), namespace: namespace.map(Into::into), would }
}

fn planned() -> Planned {
    let same = || Would::Skip("it is there and the same".into());
    let fight = |pod: &str| Fight { pod: pod.into(), controller: "ReplicaSet copy/web".into() };
    Planned {
        backup: "nightly-1".into(),
        items: vec![
            item("namespaces", "shop", None, Would::Create),
            item("pods", "shop/web-1", Some("copy"), Would::Create),
            item("configmaps", "shop/a", Some("copy"), same()),
            item("configmaps", "shop/b", Some("copy"), same()),
            item("secrets", "shop/s", Some("copy"), Would::Update),
            item(
                "gadgets.example.org",
                "shop/g",
                Some("copy"),
                Would::Fail("the cluster does not serve it".into()),
            ),
            item("events", "shop/e", Some("copy"), Would::NotSelected("its type is not included".into())),
        ],
        fights: ["copy/web-1", "copy/web-2", "copy/web-3", "copy/web-4"].map(fight).into(),
        notes: vec!["the data of volume pv (claim shop/data) was not restored".into()],
    }
}

#[test]
fn a_plan_at_a_glance() {
    insta::assert_snapshot!(page("r", &planned(), false).to_text());
}

#[test]
fn a_plan_in_detail() {
    insta::assert_snapshot!(page("r", &planned(), true).to_text());
}

#[test]
fn machines_get_every_item_and_that_nothing_was_changed() {
    let value = document("r", &planned());
    assert_eq!((&value["changed"], &value["pluginsCalled"]), (&json!(false), &json!(false)));
    assert_eq!(value["summary"], json!({"create": 2, "update": 1, "skip": 2, "fail": 1, "notSelected": 1}));
    assert_eq!(
        value["items"][2],
        json!({"resource": "configmaps", "item": "shop/a", "namespace": "copy", "action": "skip",
            "why": "it is there and the same"})
    );
    assert_eq!(
        value["items"][0],
        json!({"resource": "namespaces", "item": "shop", "namespace": null, "action": "create"})
    );
    assert_eq!(value["fights"].as_array().map(Vec::len), Some(4));
}

#[test]
fn ten_thousand_items_fit_on_a_page() {
    let mut planned = planned();
    planned.items = (0..10_000)
        .map(|number| {
            let namespace = format!("ns-{}", number % 20);
            let why = if number % 10 == 0 { Would::Skip(format!("reason {number}")) } else { Would::Create };
            item("configmaps", &format!("{namespace}/c{number}"), Some(&namespace), why)
        })
        .collect();
    let text = page("r", &planned, false).to_text();
    assert!(text.lines().count() < 70, "{text}");
    assert!(text.contains("and 980 more (--details)"), "{text}");
}

#[tokio::test]
async fn a_restore_that_cannot_run_is_refused_with_the_servers_message() {
    use crate::objects::tests::{backup, holding};
    let run = |spec: Value| async move {
        let client = holding(vec![backup("b", "InProgress")]).await;
        let restore =
            serde_json::from_value(json!({"metadata": {"name": "r", "namespace": "lifeboat"}, "spec": spec}))
                .unwrap();
        let form = Form { output: Output::Table, details: false };
        super::run(&settings(), client, restore, form).await.unwrap_err()
    };
    let error = run(json!({"backupName": "b", "includedResources": ["nodes"]})).await;
    assert_eq!(error.code(), 4);
    let message = error.to_string();
    assert!(message.contains("nodes are non-restorable resources"), "{message}");
    assert!(message.contains("backup b is in phase InProgress"), "{message}");
    assert!(miette::Diagnostic::help(&error).is_none());
}

#[test]
fn only_what_cannot_be_read_is_answered_with_the_rights_that_it_needs() {
    let help = |refused| {
        let not_planned = NotPlanned { problems: vec!["x".to_owned()], refused };
        let error = refusal(&crate::objects::tests::settings(), &not_planned);
        miette::Diagnostic::help(&error).map(|help| help.to_string())
    };
    assert!(help(false).unwrap().contains("kubectl exec -n lifeboat deploy/lifeboat"));
    assert_eq!(help(true), None);
}
