use k8s_openapi::api::core::v1::ExecAction;
use lifeboat_api::stash::FormEntry;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::super::StatusSummary;
use super::*;

fn summary() -> Summary {
    let status =
        StatusSummary { phase: "Failed".into(), error: "a b\r\nX: y".into(), ..StatusSummary::default() };
    Summary { name: "app-1".into(), status, ..Summary::default() }
}

fn pod() -> PodAddress {
    PodAddress::of(&json!({
        "status": {"podIP": "10.0.0.7"},
        "spec": {"containers": [
            {"name": "web", "ports": [{"name": "http", "containerPort": 8080}, {"containerPort": 9}]},
            {"name": "side", "ports": [{"name": "admin", "containerPort": 15000}]},
        ]},
    }))
}

fn get(get: HTTPGetAction) -> HookHandler {
    HookHandler { http_get: Some(get), ..HookHandler::default() }
}

fn post(post: HttpPostAction) -> HookHandler {
    HookHandler { http_post: Some(post), ..HookHandler::default() }
}

fn number(port: i32) -> IntOrString {
    IntOrString::Int(port)
}

fn name(port: &str) -> IntOrString {
    IntOrString::String(port.into())
}

fn tcp_to(host: Option<&str>, port: IntOrString) -> HookHandler {
    let socket = TCPSocketAction { host: host.map(str::to_owned), port };
    HookHandler { tcp_socket: Some(socket), ..HookHandler::default() }
}

fn url(handler: &HookHandler) -> String {
    let hook = ValidHook::parse(handler, HookPod::Present).unwrap();
    match hook.action(&summary(), Some(&pod())).unwrap() {
        HookAction::Call(Call::Http(call)) => call.url,
        HookAction::Call(Call::Tcp { host, port }) => format!("tcp://{host}:{port}"),
        HookAction::Exec { .. } => panic!("a call"),
    }
}

#[rstest]
#[case::the_pods_address(get(HTTPGetAction { port: number(80), ..HTTPGetAction::default() }), "http://10.0.0.7:80/")]
#[case::a_named_port(get(HTTPGetAction { port: name("http"), path: Some("/ready".into()), ..HTTPGetAction::default() }), "http://10.0.0.7:8080/ready")]
#[case::a_number_as_text(get(HTTPGetAction { port: name("81"), ..HTTPGetAction::default() }), "http://10.0.0.7:81/")]
#[case::another_container(
    HookHandler { container_name: Some("side".into()), ..tcp_to(None, name("admin")) },
    "tcp://10.0.0.7:15000"
)]
#[case::another_host(
    get(HTTPGetAction { host: Some("hooks.example.com".into()), scheme: Some("HTTPS".into()), port: number(443), ..HTTPGetAction::default() }),
    "https://hooks.example.com:443/"
)]
#[case::ipv6(get(HTTPGetAction { host: Some("fd00::1".into()), port: number(80), ..HTTPGetAction::default() }), "http://[fd00::1]:80/")]
#[case::relative_path(get(HTTPGetAction { path: Some("a b".into()), port: number(80), ..HTTPGetAction::default() }), "http://10.0.0.7:80/a%20b")]
#[case::template_in_the_path(
    get(HTTPGetAction { path: Some("/x?e={{ .Status.Error }}".into()), port: number(80), ..HTTPGetAction::default() }),
    "http://10.0.0.7:80/x?e=a%20b%0D%0AX%3A%20y"
)]
fn a_call_goes_to_the_pod_unless_it_names_a_host(#[case] handler: HookHandler, #[case] expected: &str) {
    assert_eq!(url(&handler), expected);
}

#[test]
fn headers_body_and_form_are_rendered() {
    let header = HTTPHeader { name: "X-Error".into(), value: "{{ .Status.Error }}".into() };
    let action = HttpPostAction {
        port: number(80),
        host: Some("h".into()),
        http_headers: vec![header],
        body: Some("{{ .Name }}".into()),
        ..HttpPostAction::default()
    };
    let hook = ValidHook::parse(&post(action.clone()), HookPod::Absent).unwrap();
    let Ok(HookAction::Call(Call::Http(call))) = hook.action(&summary(), None) else { panic!("a call") };
    assert_eq!(call.method, Method::Post);
    assert_eq!(call.headers, [("X-Error".to_owned(), "a b  X: y".to_owned())], "no line break in a header");
    assert_eq!(call.body, CallBody::Text("app-1".into()));

    let entry =
        FormEntry { key: Some("text".into()), values: vec!["1".into(), "{{ .Status.Phase }}".into()] };
    let action = HttpPostAction { body: None, form: vec![entry], ..action };
    let hook = ValidHook::parse(&post(action), HookPod::Absent).unwrap();
    let Ok(HookAction::Call(Call::Http(call))) = hook.action(&summary(), None) else { panic!("a call") };
    let pair = |value: &str| ("text".to_owned(), value.to_owned());
    assert_eq!(call.body, CallBody::Form(vec![pair("1"), pair("Failed")]));
}

#[test]
fn a_command_runs_in_the_named_container() {
    let exec = ExecAction { command: Some(vec!["sync".into(), "{{ not a template }}".into()]) };
    let handler =
        HookHandler { exec: Some(exec), container_name: Some("side".into()), ..HookHandler::default() };
    let hook = ValidHook::parse(&handler, HookPod::Present).unwrap();
    assert!(hook.is_exec());
    let expected = HookAction::Exec {
        container: "side".into(),
        command: vec!["sync".into(), "{{ not a template }}".into()],
    };
    assert_eq!(hook.action(&summary(), None), Ok(expected), "a command is taken as it is");
    assert_eq!(ValidHook::parse(&handler, HookPod::Absent), Err(HookError::ExecWithoutPod));
}

/// As with `kubectl exec`: the first container may be the proxy of a service mesh.
#[rstest]
#[case::named(Some("web"), Some("side"), "web")]
#[case::annotated(None, Some("side"), "side")]
#[case::an_init_container_that_runs_on(None, Some("agent"), "agent")]
#[case::the_annotation_names_none(None, Some("gone"), "web")]
#[case::no_annotation(None, None, "web")]
fn without_a_name_a_command_runs_in_the_default_container(
    #[case] name: Option<&str>,
    #[case] annotation: Option<&str>,
    #[case] expected: &str,
) {
    let address = PodAddress::of(&json!({
        "metadata": {"annotations": {"kubectl.kubernetes.io/default-container": annotation}},
        "spec": {
            "containers": [{"name": "web"}, {"name": "side"}],
            "initContainers": [{"name": "agent", "restartPolicy": "Always"}],
        },
    }));
    let exec = ExecAction { command: Some(vec!["sync".into()]) };
    let container_name = name.map(str::to_owned);
    let handler = HookHandler { exec: Some(exec), container_name, ..HookHandler::default() };
    let hook = ValidHook::parse(&handler, HookPod::Present).unwrap();
    let expected = HookAction::Exec { container: expected.into(), command: vec!["sync".into()] };
    assert_eq!(hook.action(&summary(), Some(&address)), Ok(expected));
}

#[test]
fn without_a_name_a_port_is_that_of_the_default_container() {
    let mut address = pod();
    address.default_container = "side".into();
    let hook = ValidHook::parse(&tcp_to(None, name("admin")), HookPod::Present).unwrap();
    let expected = Call::Tcp { host: "10.0.0.7".into(), port: 15000 };
    assert_eq!(hook.action(&summary(), Some(&address)), Ok(HookAction::Call(expected)));
}

#[rstest]
#[case::nothing(HookHandler::default(), "not 0")]
#[case::two(HookHandler { exec: Some(ExecAction::default()), ..tcp_to(None, number(1)) }, "not 2")]
#[case::no_command(HookHandler { exec: Some(ExecAction::default()), ..HookHandler::default() }, "exec.command is empty")]
#[case::no_port(tcp_to(None, number(0)), "tcpSocket.port \"0\"")]
#[case::large_port(tcp_to(None, number(70_000)), "\"70000\"")]
#[case::empty_port(tcp_to(None, name("")), "is not a port")]
#[case::url_as_host(tcp_to(Some("http://x/"), number(1)), "tcpSocket.host \"http://x/\"")]
#[case::user_in_host(tcp_to(Some("a@b"), number(1)), "is not the name or address")]
#[case::scheme(get(HTTPGetAction { scheme: Some("FTP".into()), port: number(1), ..HTTPGetAction::default() }), "\"FTP\"")]
#[case::header(
    post(HttpPostAction { port: number(1), http_headers: vec![HTTPHeader { name: "a b".into(), value: String::new() }], ..HttpPostAction::default() }),
    "\"a b\" is not the name of a header"
)]
#[case::both(
    post(HttpPostAction { port: number(1), body: Some("x".into()), form: vec![FormEntry::default()], ..HttpPostAction::default() }),
    "exclude each other"
)]
#[case::no_key(post(HttpPostAction { port: number(1), form: vec![FormEntry::default()], ..HttpPostAction::default() }), "no key")]
#[case::template(
    post(HttpPostAction { port: number(1), body: Some("{{ now }}".into()), ..HttpPostAction::default() }),
    "httpPost.body: \"now\" is not supported"
)]
fn an_invalid_handler_is_named(#[case] handler: HookHandler, #[case] says: &str) {
    let message = ValidHook::parse(&handler, HookPod::Present).unwrap_err().to_string();
    assert!(message.contains(says), "{message}");
}

#[rstest]
#[case::host(tcp_to(None, number(1)), "a host is needed")]
#[case::port_name(tcp_to(Some("h"), name("http")), "write its number")]
fn without_a_pod_a_call_names_its_address(#[case] handler: HookHandler, #[case] says: &str) {
    let message = ValidHook::parse(&handler, HookPod::Absent).unwrap_err().to_string();
    assert!(message.contains(says), "{message}");
}

#[rstest]
#[case::no_address(None, tcp_to(None, number(1)), "no address")]
#[case::no_port(Some(pod()), tcp_to(None, name("metrics")), "no port named \"metrics\"")]
#[case::no_container(
    Some(pod()),
    HookHandler { container_name: Some("db".into()), ..tcp_to(None, name("http")) },
    "no container \"db\""
)]
fn what_the_pod_lacks_is_named(
    #[case] pod: Option<PodAddress>,
    #[case] handler: HookHandler,
    #[case] says: &str,
) {
    let hook = ValidHook::parse(&handler, HookPod::Present).unwrap();
    let message = hook.action(&summary(), pod.as_ref()).unwrap_err().to_string();
    assert!(message.contains(says), "{message}");
}

proptest! {
    /// Whatever a session's error says, it stays within the request line and the host.
    #[test]
    fn a_value_never_leaves_its_place_in_a_url(error in any::<String>(), path in "/?[ -~]{0,20}") {
        let path = path.replace(['{', '}'], "");
        let text = format!("{path}{{{{ .Status.Error }}}}");
        let handler = get(HTTPGetAction { path: Some(text), host: Some("h".into()), port: number(80), ..HTTPGetAction::default() });
        let hook = ValidHook::parse(&handler, HookPod::Present).unwrap();
        let status = StatusSummary { error, ..StatusSummary::default() };
        let summary = Summary { status, ..summary() };
        let Ok(HookAction::Call(Call::Http(call))) = hook.action(&summary, None) else { panic!("a call") };
        prop_assert!(call.url.starts_with("http://h:80/"));
        prop_assert!(call.url.bytes().all(|byte| byte.is_ascii_graphic()), "{}", call.url);
    }
}
