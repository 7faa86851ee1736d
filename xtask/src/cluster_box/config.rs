//! The configuration files of the box's programs, from the templates in `box/config` and `box/manifests`, which are
//! compiled into xtask. Needs the state directory and writes files into it.
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine;
use serde_json::json;

use super::layout::{self, ADDRESS, CONTEXT, CSI_DRIVER, DNS, DNS_SERVICE, NODES, Node, PAUSE_IMAGE};
use super::{certificates, preflight, state};

const CONTAINERD: &str = include_str!("../../../box/config/containerd.toml");
const CNI: &str = include_str!("../../../box/config/cni.conflist");
const KUBELET: &str = include_str!("../../../box/config/kubelet.yaml");
const COREFILE: &str = include_str!("../../../box/config/Corefile");
const S3: &str = include_str!("../../../box/config/s3.json");
const MANIFESTS: [(&str, &str); 3] = [
    ("dns.yaml", include_str!("../../../box/manifests/dns.yaml")),
    ("storage.yaml", include_str!("../../../box/manifests/storage.yaml")),
    ("snapshots.yaml", include_str!("../../../box/manifests/snapshots.yaml")),
];

/// Directories of CNI plugins: Debian's, then the usual one.
const CNI_PLUGINS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

pub(super) fn write_all(s3_secret_key: &str) -> Result<()> {
    for node in &NODES {
        write_node(node)?;
    }
    write_dns()?;
    write_kubeconfigs()?;
    let s3 = fill(S3, &[("access", layout::ACCESS_KEY), ("secret", s3_secret_key)]);
    state::replace(&layout::state("s3.json"), s3.as_bytes())?;
    fs::create_dir_all(manifests())?;
    for (name, template) in MANIFESTS {
        let port = DNS.number.to_string();
        let values =
            [("driver", CSI_DRIVER), ("service", DNS_SERVICE), ("address", ADDRESS), ("port", &port)];
        write(&manifests().join(name), &fill(template, &values))?;
    }
    Ok(())
}

pub(super) fn manifests() -> PathBuf {
    layout::state("manifests")
}

pub(super) fn client_kubeconfig(client: &str) -> PathBuf {
    certificates::dir().join(format!("{client}.kubeconfig"))
}

fn write_node(node: &Node) -> Result<()> {
    let dir = node.dir();
    for part in ["cni", "pod-logs", "csi", "kubelet/plugins/csi-hostpath", "kubelet/plugins_registry"] {
        let path = dir.join(part);
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
    }
    let cni =
        CNI_PLUGINS.iter().find(|path| Path::new(path).join("bridge").exists()).unwrap_or(&CNI_PLUGINS[0]);
    let (port, healthz, number) =
        (node.kubelet_port.to_string(), node.healthz_port.to_string(), node.number.to_string());
    let values = [
        ("dir", text(&dir)),
        ("socket", text(&node.containerd_socket())),
        ("pki", text(&certificates::dir())),
        ("cgroup", node.cgroup()),
        ("pause", PAUSE_IMAGE.into()),
        ("cni", (*cni).into()),
        ("node", node.name.into()),
        ("bridge", node.bridge.into()),
        ("subnet", node.subnet.into()),
        ("address", node.address.into()),
        ("dns", DNS_SERVICE.into()),
        ("resolv", resolver_file().into()),
        ("port", port),
        ("healthz", healthz),
        ("number", number),
    ];
    let values: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    write(&dir.join("containerd.toml"), &fill(CONTAINERD, &values))?;
    write(&dir.join("cni/10-box.conflist"), &fill(CNI, &values))?;
    write(&dir.join("kubelet.yaml"), &fill(KUBELET, &values))
}

/// The file with name servers that pods can reach: the stub of systemd-resolved in /etc/resolv.conf listens only on the
/// host's loopback.
fn resolver_file() -> &'static str {
    let real = "/run/systemd/resolve/resolv.conf";
    if Path::new(real).exists() { real } else { "/etc/resolv.conf" }
}

fn write_dns() -> Result<()> {
    let forward = if preflight::has_name_server() { "forward . /etc/resolv.conf" } else { "" };
    let (port, health, ready) =
        (DNS.number.to_string(), layout::DNS_HEALTH.number.to_string(), layout::DNS_READY.number.to_string());
    let kubeconfig = text(&client_kubeconfig("coredns"));
    let values = [
        ("address", ADDRESS),
        ("port", &port),
        ("health", &health),
        ("ready", &ready),
        ("kubeconfig", &kubeconfig),
        ("forward", forward),
    ];
    write(&layout::state("Corefile"), &fill(COREFILE, &values))
}

fn write_kubeconfigs() -> Result<()> {
    let clients =
        ["kube-controller-manager", "kube-scheduler", "kube-proxy", "coredns", "csi", "node-1", "node-2"];
    for client in clients {
        write_kubeconfig(&client_kubeconfig(client), client, layout::API_SERVER.number)?;
    }
    write_kubeconfig(&layout::kubeconfig(), "admin", layout::API_SERVER.number)
}

/// A kubeconfig with embedded certificates, which can be copied anywhere. JSON is valid YAML.
pub(super) fn write_kubeconfig(path: &Path, client: &str, port: u16) -> Result<()> {
    let data = |name: &str| -> Result<String> {
        let path = certificates::dir().join(name);
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(base64::engine::general_purpose::STANDARD.encode(content))
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "contexts": [{ "name": CONTEXT, "context": { "cluster": CONTEXT, "user": client } }],
        "clusters": [{ "name": CONTEXT, "cluster": {
            "server": format!("https://{ADDRESS}:{port}"),
            "certificate-authority-data": data("ca.crt")?,
        }}],
        "users": [{ "name": client, "user": {
            "client-certificate-data": data(&format!("{client}.crt"))?,
            "client-key-data": data(&format!("{client}.key"))?,
        }}],
    });
    state::replace(path, &serde_json::to_vec_pretty(&config)?)
}

/// Replaces each `{{name}}`.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    values
        .iter()
        .fold(template.to_owned(), |text, (name, value)| text.replace(&format!("{{{{{name}}}}}"), value))
}

fn write(path: &Path, content: &str) -> Result<()> {
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_filled_everywhere() {
        assert_eq!(fill("a {{x}} b {{x}} {{y}}", &[("x", "1"), ("y", "2")]), "a 1 b 1 2");
    }
}
