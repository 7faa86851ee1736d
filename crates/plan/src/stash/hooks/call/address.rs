//! Hosts and ports of calls: as the spec has them, and resolved against a pod.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use super::CallError;
use crate::json::text;

/// Annotation of a pod: the container in which `kubectl exec` runs commands by default.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// The address of a pod, its default container, and the named ports of its containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodAddress {
    /// Empty while the pod has none.
    pub ip: String,
    /// The containers in their order.
    pub containers: Vec<ContainerPorts>,
    /// The container in the annotation, if the pod has it; otherwise the first container.
    pub default_container: String,
}

/// A container and its named ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerPorts {
    pub name: String,
    pub ports: Vec<(String, u16)>,
}

impl PodAddress {
    /// The address of a Pod object.
    pub fn of(pod: &Value) -> Self {
        let list = |value: &Value, pointer: &str| {
            value.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default()
        };
        let port = |port: &Value| {
            let number = u16::try_from(port.get("containerPort")?.as_u64()?).ok()?;
            Some((text(port, "/name").to_owned(), number)).filter(|(name, _)| !name.is_empty())
        };
        let container = |container: &Value| ContainerPorts {
            name: text(container, "/name").to_owned(),
            ports: list(container, "/ports").iter().filter_map(port).collect(),
        };
        Self {
            ip: text(pod, "/status/podIP").to_owned(),
            containers: list(pod, "/spec/containers").iter().map(container).collect(),
            default_container: default_container(pod).to_owned(),
        }
    }
}

/// The container of a pod that is used if the hook names none. The first container may be the proxy of a service mesh.
fn default_container(pod: &Value) -> &str {
    let names = |list: &str| {
        let containers = pod["spec"][list].as_array().map(Vec::as_slice).unwrap_or_default();
        containers.iter().map(|container| text(container, "/name"))
    };
    let annotated = pod["metadata"]["annotations"][DEFAULT_CONTAINER].as_str();
    let known = annotated
        .and_then(|named| names("containers").chain(names("initContainers")).find(|known| *known == named));
    known.or_else(|| names("containers").next()).unwrap_or_default()
}

/// The name or address of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostText(String);

impl HostText {
    /// Reads a DNS name, an IPv4 address or an IPv6 address with or without brackets.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let is_address = bare.parse::<std::net::IpAddr>().is_ok();
        let is_name =
            bare.len() <= 253 && bare.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
        (!bare.is_empty() && (is_address || is_name)).then(|| Self(bare.to_owned()))
    }
}

/// The port of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Port {
    Number(u16),
    Named(String),
}

impl Port {
    pub(super) fn parse(port: &IntOrString) -> Option<Self> {
        let number = match port {
            IntOrString::Int(number) => Some(i64::from(*number)),
            IntOrString::String(text) => text.parse().ok(),
        };
        match (number, port) {
            (Some(number), _) => u16::try_from(number).ok().filter(|number| *number > 0).map(Self::Number),
            (None, IntOrString::String(name)) if !name.is_empty() => Some(Self::Named(name.clone())),
            (None, _) => None,
        }
    }
}

/// Host and port of a call: those of the hook, or those of the pod.
pub(super) fn resolve(
    host: Option<&HostText>,
    port: &Port,
    pod: Option<&PodAddress>,
    container: Option<&str>,
) -> Result<(String, u16), CallError> {
    let own = || pod.map(|pod| pod.ip.clone()).filter(|ip| !ip.is_empty());
    let host = host.map(|host| host.0.clone()).or_else(own).ok_or(CallError::NoAddress)?;
    let port = match port {
        Port::Number(number) => *number,
        Port::Named(name) => named(name, pod, container)?,
    };
    Ok((host, port))
}

fn named(name: &str, pod: Option<&PodAddress>, container: Option<&str>) -> Result<u16, CallError> {
    let containers = pod.map(|pod| pod.containers.as_slice()).unwrap_or_default();
    let with_name = |wanted: &str| containers.iter().find(|container| container.name == wanted);
    let found = match container {
        None => pod.and_then(|pod| with_name(&pod.default_container)).or(containers.first()),
        Some(wanted) => with_name(wanted),
    };
    let missing = || CallError::NoContainer { container: container.unwrap_or("0").to_owned() };
    let found = found.ok_or_else(missing)?;
    let port = found.ports.iter().find(|(known, _)| known == name).map(|(_, number)| *number);
    port.ok_or_else(|| CallError::NoPort { container: found.name.clone(), port: name.to_owned() })
}

/// A path and query as a URL has them: a slash in front, and nothing that would end the request line.
pub(super) fn url_path(path: &str) -> String {
    let mut shown = String::new();
    if !path.starts_with('/') {
        shown.push('/');
    }
    for byte in path.bytes() {
        if byte.is_ascii_graphic() && byte != b'#' {
            shown.push(char::from(byte));
        } else {
            shown = format!("{shown}%{byte:02X}");
        }
    }
    shown
}
