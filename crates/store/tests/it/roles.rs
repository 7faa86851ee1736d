//! Roles: keys are exchanged at STS, once, and no other credentials are used when that fails.

use std::collections::BTreeMap;

use lifeboat_store::{Environment, StoreConfig, Tuning, open};

use super::server::{Reply, Seen, Server, hollow};

const FILE: &str = "[default]\nrole_arn = arn:aws:iam::1:role/backup\nsource_profile = base\nexternal_id = x y\n\
    [base]\naws_access_key_id = AKIDBASE\naws_secret_access_key = CANARYSECRET\n";

fn sts(request: &Seen) -> Reply {
    assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/"));
    Reply::new(
        200,
        "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIAROLE</AccessKeyId>\
         <SecretAccessKey>CANARYROLE</SecretAccessKey><SessionToken>session-token</SessionToken>\
         <Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>",
    )
}

fn environment(sts_url: &str) -> Environment {
    Environment::from_vars([("AWS_ENDPOINT_URL_STS".to_owned(), sts_url.to_owned())])
}

fn location(server: &Server) -> StoreConfig {
    StoreConfig { credentials: Some(FILE.as_bytes().to_vec().into()), ..server.location(&[]) }
}

#[tokio::test]
async fn a_role_is_assumed_with_the_keys_of_its_source_profile() {
    let (sts, s3) = (Server::plain(sts).await, Server::plain(hollow).await);
    let store = open(&location(&s3), &environment(&sts.url), Tuning::default()).await.unwrap();
    store.put("a", "x").await.unwrap();
    store.get("a").await.unwrap();

    let asked = sts.seen();
    assert_eq!(asked.len(), 1, "temporary keys are kept while they are good");
    let form: BTreeMap<_, _> = url::form_urlencoded::parse(asked[0].body.as_bytes()).into_owned().collect();
    assert_eq!(form["Action"], "AssumeRole");
    assert_eq!(form["RoleArn"], "arn:aws:iam::1:role/backup");
    assert_eq!(form["ExternalId"], "x y");
    let signed = asked[0].header("authorization").unwrap();
    assert!(signed.contains("Credential=AKIDBASE/") && signed.contains("/sts/aws4_request"), "{signed}");

    for request in s3.seen() {
        let signed = request.header("authorization").unwrap();
        assert!(signed.contains("Credential=ASIAROLE/"), "{signed}");
        assert_eq!(request.header("x-amz-security-token"), Some("session-token"));
    }
}

#[tokio::test]
async fn a_refused_role_is_an_error_and_the_base_keys_are_not_used_instead() {
    let denied = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>not allowed to assume</Message></Error></ErrorResponse>";
    let (sts, s3) = (Server::plain(move |_| Reply::new(403, denied)).await, Server::plain(hollow).await);
    let store = open(&location(&s3), &environment(&sts.url), Tuning::default()).await.unwrap();
    let error = store.get("a").await.unwrap_err();
    assert_eq!(error.category(), "credentials_source", "{error:?}");
    assert!(error.to_string().contains("not allowed to assume"), "{error}");
    assert!(!format!("{error} {error:?} {store:?}").contains("CANARY"));
    assert_eq!(s3.seen().len(), 0);
}

#[tokio::test]
async fn an_unreachable_token_service_is_distinguished_from_an_unreachable_bucket() {
    let s3 = Server::plain(hollow).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let store = open(&location(&s3), &environment(&gone), Tuning::default()).await.unwrap();
    let error = store.get("a").await.unwrap_err();
    assert_eq!(error.category(), "credentials_source", "{error:?}");
    assert!(error.to_string().contains(&gone), "{error}");
}
