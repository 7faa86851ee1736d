//! Paths, names, ports and addresses of the box: constants, no effects. Every module of the box uses them;
//! `docs/box.md` documents them.
use std::path::{Path, PathBuf};

/// Incremented when this code cannot use an older box any more: `up` then replaces it.
pub(super) const VERSION: u32 = 1;

/// All data of the running box; removed by `down`.
pub(super) const STATE: &str = "/var/lib/lifeboat-box";
/// Built programs and the lock; kept by `down`.
pub(super) const CACHE: &str = "/var/cache/lifeboat-box";

/// The cgroup above all pods of the box, below the root of each hierarchy.
pub(super) const CGROUP: &str = "lifeboat-box";
/// The environment variable of each process of the box with the id of its box.
pub(super) const ID_VARIABLE: &str = "LIFEBOAT_BOX_ID";

/// The network of pods and services. Unlike 10.88 (podman), 172.17 (Docker) or 10.96 (kubeadm) it is not a default of
/// another product.
pub(super) const NETWORK: &str = "10.217.0.0/16";
pub(super) const PODS: &str = "10.217.0.0/20";
pub(super) const SERVICES: &str = "10.217.128.0/20";
pub(super) const KUBERNETES_SERVICE: &str = "10.217.128.1";
pub(super) const DNS_SERVICE: &str = "10.217.128.10";
/// The first node's bridge address: it exists from the beginning and is reachable from the host and from every pod.
pub(super) const ADDRESS: &str = "10.217.1.1";
pub(super) const LOOPBACK: &str = "127.0.0.1";

pub(super) const CSI_DRIVER: &str = "hostpath.csi.k8s.io";
pub(super) const PAUSE_IMAGE: &str = "lifeboat-box/pause:1";
pub(super) const CONTEXT: &str = "lifeboat-box";
pub(super) const BUCKET: &str = "lifeboat";
pub(super) const REGION: &str = "us-east-1";
/// Tests search whole objects for it, so it is no part of any other name, encoded or not.
pub(super) const ACCESS_KEY: &str = "box-access-key-7f3a";

/// One of the two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    pub number: u8,
    pub name: &'static str,
    pub bridge: &'static str,
    /// The hardware address of the bridge.
    pub bridge_hardware: &'static str,
    pub address: &'static str,
    pub subnet: &'static str,
    pub kubelet_port: u16,
    pub healthz_port: u16,
}

pub(super) const NODES: [Node; 2] = [
    Node {
        number: 1,
        name: "box-1",
        bridge: "lifeboat-box1",
        bridge_hardware: "0a:58:0a:d9:01:01",
        address: ADDRESS,
        subnet: "10.217.1.0/24",
        kubelet_port: 17250,
        healthz_port: 17248,
    },
    Node {
        number: 2,
        name: "box-2",
        bridge: "lifeboat-box2",
        bridge_hardware: "0a:58:0a:d9:02:01",
        address: "10.217.2.1",
        subnet: "10.217.2.0/24",
        kubelet_port: 17260,
        healthz_port: 17258,
    },
];

impl Node {
    pub(super) fn dir(&self) -> PathBuf {
        disk().join(format!("node-{}", self.number))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    pub(super) fn kubelet_dir(&self) -> PathBuf {
        self.path("kubelet")
    }

    pub(super) fn containerd_socket(&self) -> PathBuf {
        self.path("containerd.sock")
    }

    pub(super) fn csi_socket(&self) -> PathBuf {
        self.kubelet_dir().join("plugins/csi-hostpath/csi.sock")
    }

    /// The cgroup of this node's pods, as the kubelet names it.
    pub(super) fn cgroup(&self) -> String {
        format!("/{CGROUP}/{}", self.name)
    }
}

/// A port that the box listens on: the component, the address and the number. The preflight check fails if one is
/// taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Port {
    pub component: &'static str,
    pub address: &'static str,
    pub number: u16,
}

const fn port(component: &'static str, address: &'static str, number: u16) -> Port {
    Port { component, address, number }
}

pub(super) const API_SERVER: Port = port("kube-apiserver", ADDRESS, 16443);
pub(super) const BARE_API_SERVER: Port = port("bare-apiserver", ADDRESS, 16444);
pub(super) const ETCD: Port = port("etcd", LOOPBACK, 12379);
pub(super) const ETCD_PEER: Port = port("etcd", LOOPBACK, 12380);
pub(super) const CONTROLLERS: Port = port("kube-controller-manager", LOOPBACK, 17257);
pub(super) const SCHEDULER: Port = port("kube-scheduler", LOOPBACK, 17259);
pub(super) const PROXY_HEALTH: Port = port("kube-proxy", LOOPBACK, 17256);
pub(super) const PROXY_METRICS: Port = port("kube-proxy", LOOPBACK, 17249);
pub(super) const DNS: Port = port("coredns", ADDRESS, 18053);
pub(super) const DNS_HEALTH: Port = port("coredns", LOOPBACK, 18054);
pub(super) const DNS_READY: Port = port("coredns", LOOPBACK, 18055);
pub(super) const S3: Port = port("s3", ADDRESS, 18333);
pub(super) const S3_TLS: Port = port("s3", ADDRESS, 18334);
pub(super) const S3_GRPC: Port = port("s3", ADDRESS, 18335);
// The parts behind the S3 gateway need no password, so they listen on loopback only.
pub(super) const S3_MASTER: Port = port("s3", LOOPBACK, 18336);
pub(super) const S3_MASTER_GRPC: Port = port("s3", LOOPBACK, 18337);
pub(super) const S3_VOLUME: Port = port("s3", LOOPBACK, 18338);
pub(super) const S3_VOLUME_GRPC: Port = port("s3", LOOPBACK, 18339);
pub(super) const S3_FILER: Port = port("s3", LOOPBACK, 18340);
pub(super) const S3_FILER_GRPC: Port = port("s3", LOOPBACK, 18341);

/// Every port of the box.
pub(super) fn ports() -> Vec<Port> {
    let mut all = vec![
        API_SERVER,
        BARE_API_SERVER,
        ETCD,
        ETCD_PEER,
        CONTROLLERS,
        SCHEDULER,
        PROXY_HEALTH,
        PROXY_METRICS,
        DNS,
        DNS_HEALTH,
        DNS_READY,
        S3,
        S3_TLS,
        S3_GRPC,
        S3_MASTER,
        S3_MASTER_GRPC,
        S3_VOLUME,
        S3_VOLUME_GRPC,
        S3_FILER,
        S3_FILER_GRPC,
    ];
    for (node, component) in NODES.iter().zip(["kubelet-1", "kubelet-2"]) {
        all.push(port(component, node.address, node.kubelet_port));
        all.push(port(component, LOOPBACK, node.healthz_port));
    }
    all
}

/// A path in the state directory.
pub(super) fn state(name: &str) -> PathBuf {
    Path::new(STATE).join(name)
}

/// A separate file system for large data or many files: writes skip the disk's flushes, and removing it is removing one
/// file.
pub(super) fn disk() -> PathBuf {
    state("disk")
}

pub(super) fn kubeconfig() -> PathBuf {
    state("kubeconfig")
}

pub(super) fn bare_kubeconfig() -> PathBuf {
    state("bare-kubeconfig")
}

pub(super) fn log(component: &str) -> PathBuf {
    state("logs").join(format!("{component}.log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_components_share_a_port() {
        let mut numbers: Vec<u16> = ports().iter().map(|each| each.number).collect();
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
    }

    #[test]
    fn the_longest_socket_path_fits_a_socket_address() {
        let longest = NODES[1].kubelet_dir().join(format!("plugins_registry/{CSI_DRIVER}-reg.sock"));
        assert!(longest.as_os_str().len() < 100, "{}", longest.display());
    }
}
