//! The action of a hook: a command in the pod, or a call to an address by a mover. Takes the handler of a spec,
//! validates it once, and gives for each run the command or call as plain data.

mod address;

pub use address::PodAddress;

use k8s_openapi::api::core::v1::{HTTPGetAction, HTTPHeader, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use lifeboat_api::stash::{HookHandler, HttpPostAction, HttpScheme};

use super::template::{Escape, Summary, Template, TemplateError};
use address::{HostText, Port};

/// Whether a hook has a pod. Hooks of a whole batch and of members without target have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPod {
    Present,
    Absent,
}

/// A hook that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidHook {
    handler: Handler,
    container: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Handler {
    Exec(Vec<String>),
    Http(Box<Request>),
    Tcp { host: Option<HostText>, port: Port },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Request {
    method: Method,
    is_tls: bool,
    host: Option<HostText>,
    port: Port,
    path: Template,
    headers: Vec<(String, Template)>,
    body: Option<Template>,
    form: Vec<(String, Template)>,
}

/// Why a handler is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    #[error("exactly one of exec, httpGet, httpPost, tcpSocket must be set, not {found}")]
    Actions { found: usize },
    #[error(
        "exec: a hook of a whole batch, or of a member without target, has no pod to run a command in; use httpPost"
    )]
    ExecWithoutPod,
    #[error("exec.command is empty")]
    NoCommand,
    #[error("{field}: without a pod a host is needed")]
    NoHost { field: &'static str },
    #[error(
        "{field} {value:?} is not a port: a number from 1 to 65535, or the name of a port of the container"
    )]
    Port { field: &'static str, value: String },
    #[error("{field} {value:?} is the name of a port, and there is no pod; write its number")]
    PortName { field: &'static str, value: String },
    #[error("{field} {value:?} is not the name or address of a host")]
    Host { field: &'static str, value: String },
    #[error("{field} {value:?} is not HTTP or HTTPS")]
    Scheme { field: &'static str, value: String },
    #[error("{field} {value:?} is not the name of a header")]
    Header { field: &'static str, value: String },
    #[error("httpPost: body and form exclude each other")]
    BodyAndForm,
    #[error("httpPost.form: an entry has no key")]
    FormKey,
    #[error("{field}: {source}")]
    Template { field: &'static str, source: TemplateError },
}

/// What a hook does now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookAction {
    /// Run the command in the container; None: the first of the pod.
    Exec {
        container: Option<String>,
        command: Vec<String>,
    },
    Call(Call),
}

/// A call that a mover makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// The response must have a status from 200 to 399.
    Http(HttpCall),
    /// The connection must be accepted.
    Tcp { host: String, port: u16 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpCall {
    pub method: Method,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: CallBody,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallBody {
    Empty,
    Text(String),
    /// Fields of a form; a name may be repeated.
    Form(Vec<(String, String)>),
}

/// Why a checked hook cannot be called now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("the pod has no address yet, and the hook names no host")]
    NoAddress,
    #[error("container {container:?} of the pod has no port named {port:?}")]
    NoPort { container: String, port: String },
    #[error("the pod has no container {container:?}")]
    NoContainer { container: String },
}

impl ValidHook {
    /// Checks a handler.
    pub fn parse(handler: &HookHandler, pod: HookPod) -> Result<Self, HookError> {
        let found = [
            handler.exec.is_some(),
            handler.http_get.is_some(),
            handler.http_post.is_some(),
            handler.tcp_socket.is_some(),
        ];
        let found = found.into_iter().filter(|set| *set).count();
        let parsed = match handler {
            _ if found != 1 => return Err(HookError::Actions { found }),
            HookHandler { exec: Some(exec), .. } => {
                let command = exec.command.clone().filter(|command| !command.is_empty());
                let command = command.ok_or(HookError::NoCommand)?;
                if pod == HookPod::Absent {
                    return Err(HookError::ExecWithoutPod);
                }
                Handler::Exec(command)
            }
            HookHandler { http_get: Some(get), .. } => Handler::Http(Box::new(http_get(get, pod)?)),
            HookHandler { http_post: Some(post), .. } => Handler::Http(Box::new(http_post(post, pod)?)),
            HookHandler { tcp_socket: Some(socket), .. } => tcp(socket, pod)?,
            _ => return Err(HookError::Actions { found }),
        };
        let container = handler.container_name.clone().filter(|name| !name.is_empty());
        Ok(Self { handler: parsed, container })
    }

    /// Whether it runs a command in the pod, for which the creator of the object needs `create pods/exec`.
    pub fn is_exec(&self) -> bool {
        matches!(self.handler, Handler::Exec(_))
    }

    /// Whether it can only run while there is a pod: a command, or a call of the pod's own address or of one of its named ports.
    pub fn needs_pod(&self) -> bool {
        let (host, port) = match &self.handler {
            Handler::Exec(_) => return true,
            Handler::Tcp { host, port } => (host, port),
            Handler::Http(request) => (&request.host, &request.port),
        };
        host.is_none() || matches!(port, Port::Named(_))
    }

    /// What the hook does for a session. `pod`: the one that is read or written; the default of host and named ports.
    pub fn action(&self, summary: &Summary, pod: Option<&PodAddress>) -> Result<HookAction, CallError> {
        let container = self.container.as_deref();
        match &self.handler {
            Handler::Exec(command) => {
                Ok(HookAction::Exec { container: self.container.clone(), command: command.clone() })
            }
            Handler::Tcp { host, port } => {
                let (host, port) = address::resolve(host.as_ref(), port, pod, container)?;
                Ok(HookAction::Call(Call::Tcp { host, port }))
            }
            Handler::Http(request) => {
                Ok(HookAction::Call(Call::Http(request.call(summary, pod, container)?)))
            }
        }
    }
}

impl Request {
    fn call(
        &self,
        summary: &Summary,
        pod: Option<&PodAddress>,
        container: Option<&str>,
    ) -> Result<HttpCall, CallError> {
        let (host, port) = address::resolve(self.host.as_ref(), &self.port, pod, container)?;
        let scheme = if self.is_tls { "https" } else { "http" };
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let path = address::url_path(&self.path.render_as(summary, Escape::Url));
        let rendered = |list: &[(String, Template)], escape| -> Vec<(String, String)> {
            list.iter().map(|(name, text)| (name.clone(), text.render_as(summary, escape))).collect()
        };
        let body = match &self.body {
            Some(body) => CallBody::Text(body.render(summary)),
            None if self.form.is_empty() => CallBody::Empty,
            None => CallBody::Form(rendered(&self.form, Escape::None)),
        };
        Ok(HttpCall {
            method: self.method,
            url: format!("{scheme}://{host}:{port}{path}"),
            headers: rendered(&self.headers, Escape::Header),
            body,
        })
    }
}

fn http_get(get: &HTTPGetAction, pod: HookPod) -> Result<Request, HookError> {
    Ok(Request {
        method: Method::Get,
        is_tls: is_tls("httpGet.scheme", get.scheme.as_deref())?,
        host: host("httpGet.host", get.host.as_deref(), pod)?,
        port: port("httpGet.port", &get.port, pod)?,
        path: template("httpGet.path", get.path.as_deref().unwrap_or_default())?,
        headers: headers("httpGet.httpHeaders", get.http_headers.as_deref().unwrap_or_default())?,
        body: None,
        form: Vec::new(),
    })
}

fn http_post(post: &HttpPostAction, pod: HookPod) -> Result<Request, HookError> {
    let body = post.body.as_deref().filter(|body| !body.is_empty());
    if body.is_some() && !post.form.is_empty() {
        return Err(HookError::BodyAndForm);
    }
    let mut form = Vec::new();
    for entry in &post.form {
        let key = entry.key.clone().filter(|key| !key.is_empty()).ok_or(HookError::FormKey)?;
        for value in &entry.values {
            form.push((key.clone(), template("httpPost.form", value)?));
        }
    }
    Ok(Request {
        method: Method::Post,
        is_tls: is_tls("httpPost.scheme", post.scheme.as_ref().map(HttpScheme::as_str))?,
        host: host("httpPost.host", post.host.as_deref(), pod)?,
        port: port("httpPost.port", &post.port, pod)?,
        path: template("httpPost.path", post.path.as_deref().unwrap_or_default())?,
        headers: headers("httpPost.httpHeaders", &post.http_headers)?,
        body: body.map(|body| template("httpPost.body", body)).transpose()?,
        form,
    })
}

fn tcp(socket: &TCPSocketAction, pod: HookPod) -> Result<Handler, HookError> {
    Ok(Handler::Tcp {
        host: host("tcpSocket.host", socket.host.as_deref(), pod)?,
        port: port("tcpSocket.port", &socket.port, pod)?,
    })
}

fn is_tls(field: &'static str, scheme: Option<&str>) -> Result<bool, HookError> {
    match scheme.unwrap_or_default() {
        "" | "HTTP" => Ok(false),
        "HTTPS" => Ok(true),
        other => Err(HookError::Scheme { field, value: other.to_owned() }),
    }
}

fn host(field: &'static str, host: Option<&str>, pod: HookPod) -> Result<Option<HostText>, HookError> {
    match host.filter(|host| !host.is_empty()) {
        None if pod == HookPod::Absent => Err(HookError::NoHost { field }),
        None => Ok(None),
        Some(host) => {
            let parsed = HostText::parse(host);
            parsed.map(Some).ok_or_else(|| HookError::Host { field, value: host.to_owned() })
        }
    }
}

fn port(field: &'static str, port: &IntOrString, pod: HookPod) -> Result<Port, HookError> {
    let shown = match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => name.clone(),
    };
    match Port::parse(port) {
        None => Err(HookError::Port { field, value: shown }),
        Some(Port::Named(_)) if pod == HookPod::Absent => Err(HookError::PortName { field, value: shown }),
        Some(port) => Ok(port),
    }
}

fn headers(field: &'static str, list: &[HTTPHeader]) -> Result<Vec<(String, Template)>, HookError> {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    let header = |header: &HTTPHeader| {
        if !is_name(&header.name) {
            return Err(HookError::Header { field, value: header.name.clone() });
        }
        Ok((header.name.clone(), template(field, &header.value)?))
    };
    list.iter().map(header).collect()
}

fn template(field: &'static str, text: &str) -> Result<Template, HookError> {
    Template::parse(text).map_err(|source| HookError::Template { field, source })
}

#[cfg(test)]
mod tests;
