//! Calls of users' services; no repository is needed for them.

use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::server::{Authority, Server};
use super::world::{MoverEnd, World};
use crate::report::{Called, Cause, Outcome};
use crate::task::{Call, CallWork, FormField, Header, Method, Task};

fn get(url: String) -> Call {
    Call::Http {
        method: Method::Get,
        url,
        headers: Vec::new(),
        body: None,
        form: Vec::new(),
        ca: None,
        skip_verify: false,
    }
}

/// The call with authorities of its own.
fn trusting(mut call: Call, pem: Option<String>) -> Call {
    if let Call::Http { ca, .. } = &mut call {
        *ca = pem;
    }
    call
}

/// The authorities that a call is given.
enum Trusts {
    Nobody,
    TheServers,
    Another,
    Everybody,
}

#[rstest::rstest]
#[case::the_servers("127.0.0.1", Trusts::TheServers, true)]
#[case::the_systems("127.0.0.1", Trusts::Nobody, false)]
#[case::another("127.0.0.1", Trusts::Another, false)]
#[case::of_another_host("shop.example", Trusts::TheServers, false)]
#[case::all_certificates("shop.example", Trusts::Everybody, true)]
#[tokio::test(flavor = "multi_thread")]
async fn a_service_proves_who_it_is_before_it_gets_a_body(
    #[case] name: &str,
    #[case] trusts: Trusts,
    #[case] expected: bool,
) {
    let authority = Authority::new();
    let server = Server::tls(authority.acceptor(name), |_| (200, Vec::new(), Vec::new())).await;
    let pem = match trusts {
        Trusts::TheServers => Some(authority.pem()),
        Trusts::Another => Some(Authority::new().pem()),
        Trusts::Nobody | Trusts::Everybody => None,
    };
    let call = Call::Http {
        method: Method::Post,
        url: server.url("/hook"),
        headers: Vec::new(),
        body: Some("a secret".to_owned()),
        form: Vec::new(),
        ca: pem,
        skip_verify: matches!(trusts, Trusts::Everybody),
    };
    let end = make(call).await;
    if expected {
        assert_eq!(called(end).status, Some(200));
        assert_eq!(server.asked().len(), 1);
        return;
    }
    let failure = end.failed();
    assert_eq!(failure.cause, Cause::Call);
    for text in ["certificate", "lifeboat.io/hook-ca", "lifeboat.io/hook-skip-verify"] {
        assert!(failure.message.contains(text), "{}", failure.message);
    }
    assert_eq!(server.asked().len(), 0, "nothing is sent to a server that is not trusted");
}

async fn make(call: Call) -> MoverEnd {
    World::bare().run(&Task::call("uid-1", CallWork { call, timeout_seconds: 2 })).await
}

fn called(end: MoverEnd) -> Called {
    match end.done() {
        Outcome::Called(called) => called,
        other => panic!("{other:?}"),
    }
}

#[rstest::rstest]
#[case::ok(200, true)]
#[case::no_content(204, true)]
#[case::redirect_that_is_not_followed(302, true)]
#[case::client_error(404, false)]
#[case::server_error(503, false)]
#[tokio::test(flavor = "multi_thread")]
async fn a_status_from_200_to_399_is_a_success(#[case] status: u16, #[case] expected: bool) {
    let elsewhere = "http://127.0.0.1:1/elsewhere".to_owned();
    let server = Server::new(move |_| (status, vec![("location", elsewhere.clone())], Vec::new())).await;
    let end = make(get(server.url("/quiesce?token=t"))).await;
    if expected {
        assert_eq!(called(end).status, Some(status));
    } else {
        let failure = end.failed();
        assert_eq!(failure.cause, Cause::Call);
        assert!(
            failure.message.contains(&format!("/quiesce: the response has status {status}")),
            "{failure:?}"
        );
        assert!(!failure.message.contains("token"), "a query may have secrets: {}", failure.message);
    }
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_failed_response_200_characters_are_shown_on_one_line() {
    let body = format!("locked\n\tby 'x'\u{7}{}", "é".repeat(100_000));
    let server = Server::new(move |_| (500, Vec::new(), body.clone().into_bytes())).await;
    let message = make(get(server.url("/"))).await.failed().message;
    let shown = message.split("status 500: ").nth(1).unwrap();
    assert!(shown.starts_with("locked by 'x'é") && shown.chars().count() == 200, "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_body_and_form_are_sent_as_given() {
    let server = Server::new(|_| (200, Vec::new(), Vec::new())).await;
    let header = |value: &str| Header { name: "X-Kind".to_owned(), value: value.to_owned() };
    let post = |body: Option<&str>, form: Vec<FormField>| Call::Http {
        method: Method::Post,
        url: server.url("/hook"),
        headers: vec![header("one"), header("two")],
        body: body.map(str::to_owned),
        form,
        ca: None,
        skip_verify: false,
    };
    called(make(post(Some("{\"phase\": \"Succeeded\"}"), Vec::new())).await);
    let field = FormField { name: "a b".to_owned(), values: vec!["1".to_owned(), "&".to_owned()] };
    called(make(post(None, vec![field])).await);
    let asked = server.asked();
    assert_eq!((asked[0].method.as_str(), asked[0].target.as_str()), ("POST", "/hook"));
    assert_eq!(asked[0].body, b"{\"phase\": \"Succeeded\"}");
    assert_eq!(asked[0].headers.iter().filter(|(name, _)| name == "x-kind").count(), 2);
    assert_eq!(asked[1].body, b"a+b=1&a+b=%26");
    assert_eq!(asked[1].header("content-type"), Some("application/x-www-form-urlencoded"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tcp_connection_must_be_accepted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let tcp = |host: &str| Call::Tcp { host: host.to_owned(), port };
    assert_eq!(called(make(tcp("127.0.0.1")).await).status, None);
    drop(listener);
    let failure = make(tcp("127.0.0.1")).await.failed();
    assert_eq!(failure.cause, Cause::Call);
    assert!(failure.message.contains(&format!("connect to 127.0.0.1:{port}")), "{}", failure.message);
}

#[rstest::rstest]
#[case::another_scheme(get("file:///etc/passwd".to_owned()), "url: 'file:///etc/passwd'")]
#[case::no_certificate(
    trusting(get("https://shop".to_owned()), Some("-----BEGIN CERTIFICATE-----".to_owned())),
    "ca: it has no certificate in PEM"
)]
#[case::no_url(get("shop".to_owned()), "url: 'shop'")]
#[case::no_header(
    Call::Http {
        method: Method::Get,
        url: "http://shop".to_owned(),
        headers: vec![Header { name: "a b".to_owned(), value: String::new() }],
        body: None,
        form: Vec::new(),
        ca: None,
        skip_verify: false,
    },
    "headers: 'a b'"
)]
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_sent_is_named(#[case] call: Call, #[case] problem: &str) {
    let failure = make(call).await.failed();
    assert_eq!(failure.cause, Cause::Task);
    assert!(failure.message.contains(problem), "{}", failure.message);
}

/// The connection is accepted by the kernel, and nothing answers.
#[rstest::rstest]
#[case::late(false, Cause::Call, "no response within 2 s")]
#[case::stopped(true, Cause::Stopped, "TERM")]
#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_does_not_answer_is_not_waited_for_longer_than_the_limit(
    #[case] is_stopped: bool,
    #[case] cause: Cause,
    #[case] problem: &str,
) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (world, stop, started) = (World::bare(), CancellationToken::new(), Instant::now());
    if is_stopped {
        stop.cancel();
    }
    let task = Task::call("uid-1", CallWork { call: get(url), timeout_seconds: 2 });
    let failure = world.run_with(&task, stop, |_| {}).await.failed();
    assert_eq!(failure.cause, cause);
    assert!(failure.message.contains(problem), "{}", failure.message);
    assert!(started.elapsed() < Duration::from_secs(30));
}
