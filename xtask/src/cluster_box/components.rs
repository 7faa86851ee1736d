//! The processes of the box and their command lines: a list of `Spec`s for the supervisor, no effects. `up` starts them
//! in three groups, each when the previous one is ready.
use std::path::{Path, PathBuf};

use super::config::client_kubeconfig;
use super::layout::{
    self, ADDRESS, API_SERVER, BARE_API_SERVER, CONTROLLERS, CSI_DRIVER, ETCD, ETCD_PEER, LOOPBACK, Node,
    PODS, PROXY_HEALTH, PROXY_METRICS, S3, S3_FILER, S3_FILER_GRPC, S3_GRPC, S3_MASTER, S3_MASTER_GRPC,
    S3_TLS, S3_VOLUME, S3_VOLUME_GRPC, SCHEDULER, SERVICES,
};
use super::state::State;
use super::supervisor::Spec;
use super::{certificates, layout::NODES};

/// Processes without dependencies: etcd, the API server, the container runtimes, the S3 server.
pub(super) fn first(state: &State) -> Vec<Spec> {
    let mut all = vec![etcd(state), api_server(state)];
    all.extend(NODES.iter().map(containerd));
    all.push(s3(state));
    all
}

/// Processes that need the API server.
pub(super) fn second(state: &State) -> Vec<Spec> {
    let mut all = vec![controllers(state), scheduler(state), proxy(state), dns(state)];
    all.extend(NODES.iter().map(|node| kubelet(state, node)));
    all
}

/// Processes that also need the snapshot CRDs.
pub(super) fn third(state: &State) -> Vec<Spec> {
    let mut all: Vec<Spec> = NODES.iter().flat_map(|node| csi(state, node)).collect();
    all.push(snapshot_controller(state));
    all
}

fn etcd(state: &State) -> Spec {
    let (client, peer) = (url(ETCD.address, ETCD.number), url(ETCD_PEER.address, ETCD_PEER.number));
    spec(
        "etcd",
        &state.program("kube", "etcd"),
        vec![
            flag("name", "box"),
            flag("data-dir", layout::disk().join("etcd").display()),
            flag("listen-client-urls", &client),
            flag("advertise-client-urls", &client),
            flag("listen-peer-urls", &peer),
            flag("initial-advertise-peer-urls", &peer),
            flag("initial-cluster", format!("box={peer}")),
            // Data is deleted with the box, so speed matters more than surviving a power failure.
            "--unsafe-no-fsync".into(),
            flag("quota-backend-bytes", 2_u64 << 30),
            flag("auto-compaction-retention", "10m"),
        ],
    )
}

fn api_server(state: &State) -> Spec {
    api_server_at(state, API_SERVER.component, API_SERVER.number, "/registry")
}

/// A second API server with its own prefix in etcd, for tests of schemas; nothing else runs against it.
pub(super) fn bare_api_server(state: &State) -> Spec {
    api_server_at(state, BARE_API_SERVER.component, BARE_API_SERVER.number, "/bare")
}

fn api_server_at(state: &State, name: &str, port: u16, prefix: &str) -> Spec {
    let pki = |file: &str| certificates::dir().join(file).display().to_string();
    spec(
        name,
        &state.program("kube", "kube-apiserver"),
        vec![
            flag("bind-address", ADDRESS),
            flag("advertise-address", ADDRESS),
            flag("secure-port", port),
            flag("etcd-servers", url(ETCD.address, ETCD.number)),
            flag("etcd-prefix", prefix),
            flag("service-cluster-ip-range", SERVICES),
            flag("allow-privileged", true),
            flag("authorization-mode", "Node,RBAC"),
            flag("enable-admission-plugins", "NodeRestriction"),
            flag("client-ca-file", pki("ca.crt")),
            flag("tls-cert-file", pki("kube-apiserver.crt")),
            flag("tls-private-key-file", pki("kube-apiserver.key")),
            flag("kubelet-certificate-authority", pki("ca.crt")),
            flag("kubelet-client-certificate", pki("admin.crt")),
            flag("kubelet-client-key", pki("admin.key")),
            flag("kubelet-preferred-address-types", "InternalIP"),
            flag("service-account-issuer", "https://kubernetes.default.svc.cluster.local"),
            flag("service-account-signing-key-file", pki("service-accounts.key")),
            flag("service-account-key-file", pki("service-accounts.pub")),
            flag("cert-dir", layout::state(name).display()),
        ],
    )
}

fn controllers(state: &State) -> Spec {
    let pki = |file: &str| certificates::dir().join(file).display().to_string();
    let kubeconfig = client_kubeconfig("kube-controller-manager").display().to_string();
    spec(
        CONTROLLERS.component,
        &state.program("kube", "kube-controller-manager"),
        vec![
            flag("kubeconfig", &kubeconfig),
            flag("authentication-kubeconfig", &kubeconfig),
            flag("authorization-kubeconfig", &kubeconfig),
            flag("bind-address", CONTROLLERS.address),
            flag("secure-port", CONTROLLERS.number),
            flag("cert-dir", layout::state(CONTROLLERS.component).display()),
            flag("leader-elect", false),
            flag("use-service-account-credentials", true),
            flag("service-account-private-key-file", pki("service-accounts.key")),
            flag("root-ca-file", pki("ca.crt")),
            flag("cluster-signing-cert-file", pki("ca.crt")),
            flag("cluster-signing-key-file", pki("ca.key")),
            flag("flex-volume-plugin-dir", layout::state("volume-plugins").display()),
            // A lost node is detected within this time instead of most of a minute.
            flag("node-monitor-grace-period", "16s"),
            flag("node-monitor-period", "2s"),
        ],
    )
}

fn scheduler(state: &State) -> Spec {
    let kubeconfig = client_kubeconfig("kube-scheduler").display().to_string();
    spec(
        SCHEDULER.component,
        &state.program("kube", "kube-scheduler"),
        vec![
            flag("kubeconfig", &kubeconfig),
            flag("authentication-kubeconfig", &kubeconfig),
            flag("authorization-kubeconfig", &kubeconfig),
            flag("bind-address", SCHEDULER.address),
            flag("secure-port", SCHEDULER.number),
            flag("cert-dir", layout::state(SCHEDULER.component).display()),
            flag("leader-elect", false),
        ],
    )
}

/// One kube-proxy for both nodes, which share the host's network. It must not change the host's own settings.
fn proxy(state: &State) -> Spec {
    spec(
        PROXY_HEALTH.component,
        &state.program("kube", "kube-proxy"),
        vec![
            flag("kubeconfig", client_kubeconfig("kube-proxy").display()),
            flag("hostname-override", NODES[0].name),
            flag("proxy-mode", "iptables"),
            flag("bind-address", ADDRESS),
            flag("cluster-cidr", PODS),
            flag("healthz-bind-address", format!("{}:{}", PROXY_HEALTH.address, PROXY_HEALTH.number)),
            flag("metrics-bind-address", format!("{}:{}", PROXY_METRICS.address, PROXY_METRICS.number)),
            flag("iptables-localhost-nodeports", false),
            flag("conntrack-max-per-core", 0),
            flag("conntrack-min", 0),
            flag("conntrack-tcp-timeout-established", "0s"),
            flag("conntrack-tcp-timeout-close-wait", "0s"),
        ],
    )
}

fn dns(state: &State) -> Spec {
    let corefile = layout::state("Corefile").display().to_string();
    spec("coredns", &state.program("coredns", "coredns"), vec!["-conf".into(), corefile])
}

fn containerd(node: &Node) -> Spec {
    let config = node.path("containerd.toml").display().to_string();
    spec(&format!("containerd-{}", node.number), Path::new("containerd"), vec!["--config".into(), config])
}

fn kubelet(state: &State, node: &Node) -> Spec {
    spec(
        &format!("kubelet-{}", node.number),
        &state.program("kube", "kubelet"),
        vec![
            flag("config", node.path("kubelet.yaml").display()),
            flag("kubeconfig", client_kubeconfig(&format!("node-{}", node.number)).display()),
            flag("hostname-override", node.name),
            flag("node-ip", node.address),
            flag("root-dir", node.kubelet_dir().display()),
            flag("cert-dir", node.path("kubelet-pki").display()),
        ],
    )
}

/// One node's CSI driver with its sidecars, each for its own node only.
fn csi(state: &State, node: &Node) -> Vec<Spec> {
    let name = |part: &str| format!("csi-{part}-{}", node.number);
    let socket = node.csi_socket();
    let registration = node.kubelet_dir().join(format!("plugins_registry/{CSI_DRIVER}-reg.sock"));
    let others: Vec<String> = NODES
        .iter()
        .filter(|other| *other != node)
        .map(|other| other.path("csi").display().to_string())
        .collect();
    let mut driver = spec(
        &name("driver"),
        &state.program("hostpath", "hostpathplugin"),
        vec![
            flag("drivername", CSI_DRIVER),
            flag("endpoint", format!("unix://{}", socket.display())),
            flag("nodeid", node.name),
            flag("statedir", node.path("csi").display()),
            flag("other-statedirs", others.join(",")),
        ],
    );
    driver.remove.push(socket.clone());
    driver.dependents = vec![name("provisioner"), name("snapshotter")];
    let mut registrar = spec(
        &name("registrar"),
        &state.program("kube", "box-agent"),
        vec![
            "register".into(),
            flag("driver", CSI_DRIVER),
            flag("csi-socket", socket.display()),
            flag("socket", registration.display()),
        ],
    );
    registrar.remove.push(registration);
    let common =
        [flag("kubeconfig", client_kubeconfig("csi").display()), flag("csi-address", socket.display())];
    let sidecar = |part: &str, program: PathBuf, extra: &[&str]| {
        let arguments = common.iter().cloned().chain(extra.iter().map(|each| (*each).to_owned())).collect();
        let mut made = spec(&name(part), &program, arguments);
        made.env = [("NODE_NAME", node.name), ("NAMESPACE", "kube-system"), ("POD_NAME", &name(part))]
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        made
    };
    let provisioner = sidecar(
        "provisioner",
        state.program("provisioner", "csi-provisioner"),
        &[
            "--node-deployment",
            "--strict-topology",
            "--feature-gates=Topology=true",
            "--extra-create-metadata",
            "--immediate-topology=false",
            "--node-deployment-base-delay=1s",
        ],
    );
    let snapshotter = sidecar(
        "snapshotter",
        state.program("kube", "csi-snapshotter"),
        &["--node-deployment", "--extra-create-metadata"],
    );
    vec![driver, registrar, provisioner, snapshotter]
}

fn snapshot_controller(state: &State) -> Spec {
    spec(
        "snapshot-controller",
        &state.program("kube", "snapshot-controller"),
        vec![
            flag("kubeconfig", client_kubeconfig("csi").display()),
            "--enable-distributed-snapshotting".into(),
        ],
    )
}

fn s3(state: &State) -> Spec {
    let pki = |file: &str| certificates::dir().join(file).display().to_string();
    let one = |name: &str, value: String| format!("-{name}={value}");
    let port = |name: &str, port: layout::Port| format!("-{name}={}", port.number);
    spec(
        S3.component,
        &state.program("s3", "weed"),
        vec![
            one("logtostderr", "true".into()),
            "server".into(),
            one("dir", layout::disk().join("s3").display().to_string()),
            one("ip", LOOPBACK.into()),
            one("ip.bind", LOOPBACK.into()),
            one("s3.ip.bind", ADDRESS.into()),
            port("master.port", S3_MASTER),
            port("master.port.grpc", S3_MASTER_GRPC),
            one("master.telemetry", "false".into()),
            // Many small volumes without reserved space: each bucket uses several.
            one("master.volumeSizeLimitMB", "256".into()),
            one("master.volumePreallocate", "false".into()),
            one("master.electionTimeout", "1s".into()),
            port("volume.port", S3_VOLUME),
            port("volume.port.grpc", S3_VOLUME_GRPC),
            one("volume.max", "0".into()),
            one("filer", "true".into()),
            port("filer.port", S3_FILER),
            port("filer.port.grpc", S3_FILER_GRPC),
            one("filer.localSocket", layout::state("filer.sock").display().to_string()),
            "-s3".into(),
            port("s3.port", S3),
            port("s3.port.https", S3_TLS),
            port("s3.port.grpc", S3_GRPC),
            one("s3.port.iceberg", "0".into()),
            one("s3.port.lance", "0".into()),
            one("s3.localSocket", layout::state("s3.sock").display().to_string()),
            one("s3.config", layout::state("s3.json").display().to_string()),
            one("s3.cert.file", pki("s3.crt")),
            one("s3.key.file", pki("s3.key")),
        ],
    )
}

fn spec(name: &str, program: &Path, arguments: Vec<String>) -> Spec {
    let argv = std::iter::once(program.display().to_string()).chain(arguments).collect();
    Spec {
        name: name.into(),
        argv,
        env: Vec::new(),
        log: layout::log(name),
        remove: Vec::new(),
        dependents: Vec::new(),
    }
}

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}

fn url(address: &str, port: u16) -> String {
    format!("http://{address}:{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn component_names_are_unique_and_dependents_exist() {
        let state = State::new("id".into(), "key".into());
        let all: Vec<Spec> = [first(&state), second(&state), third(&state)].concat();
        let mut names: Vec<&str> = all.iter().map(|spec| spec.name.as_str()).collect();
        for dependent in all.iter().flat_map(|spec| &spec.dependents) {
            assert!(names.contains(&dependent.as_str()), "{dependent}");
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
