//! The processes of a server on this machine: starts, kills and signals them. One is the leader; each further one is a standby.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};

use super::HostServer;
use super::installed::flags_beside_others;
use crate::rest_server::{free_address, host_for_pods};
use crate::{Program, get, signal, wait_for};

/// One server process.
pub(super) struct Replica {
    identity: String,
    pub(super) child: Child,
    /// Where it serves its metrics.
    metrics: String,
    /// Where it serves repositories to movers.
    gateway: String,
}

impl HostServer {
    /// Starts another replica with this name.
    pub fn add(&mut self, identity: &str) {
        let kubeconfig = self.directory.path().join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: gate\n\
             clusters: [{{name: gate, cluster: {{server: '{}'}}}}]\n\
             contexts: [{{name: gate, context: {{cluster: gate, user: anonymous}}}}]\n\
             users: [{{name: anonymous, user: {{}}}}]\n",
            self.cluster.url()
        );
        fs::write(&kubeconfig, text).unwrap();
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let (metrics, gateway) = (free_address("127.0.0.1"), free_address(&host_for_pods()));
        let child = Command::new(self.release.program())
            .args(["server", "--namespace", &self.namespace, "--identity", identity])
            .args(["--metrics-address", &metrics, "--kubeconfig"])
            .arg(&kubeconfig)
            .arg("--plugin-dir")
            .arg(self.plugins())
            .args(["--node-access", "--mover-image", &self.release.image()])
            .args(["--mover-namespace", &self.movers()])
            .args(&self.flags)
            .args(flags_beside_others(self.release, &self.flags, &gateway))
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.replicas.push(Replica { identity: identity.to_owned(), child, metrics, gateway });
    }

    /// Gives the server another flag, from its next start on.
    pub fn set_flag(&mut self, flag: &str) {
        self.flags.push(flag.to_owned());
    }

    /// Takes a flag back, from its next start on.
    pub fn take_flag_back(&mut self, flag: &str) {
        self.flags.retain(|known| known != flag);
    }

    /// The metrics of the first replica, as text.
    pub fn metrics(&self) -> String {
        let url = format!("http://{}/metrics", self.replicas[0].metrics);
        Program::new("curl").args(["--silent", "--show-error", "--fail", &url]).ok()
    }

    /// The address at which a replica serves repositories to movers.
    pub fn gateway(&self, identity: &str) -> String {
        self.replica(identity).gateway.clone()
    }

    /// Kills every process.
    pub fn kill(&mut self) {
        for mut replica in self.replicas.drain(..) {
            replica.child.kill().unwrap();
            replica.child.wait().unwrap();
        }
    }

    /// Sends a signal to a replica: `-STOP` suspends it, `-CONT` continues it, `-KILL` kills it.
    pub fn signal(&self, name: &str, identity: &str) {
        signal(name, &self.replica(identity).child.id().to_string());
    }

    fn replica(&self, identity: &str) -> &Replica {
        self.replicas.iter().find(|replica| replica.identity == identity).unwrap()
    }

    /// Waits until this replica is the leader.
    pub fn wait_for_leader(&self, identity: &str) {
        wait_for("the other leader", 60, || {
            let lease = get(&["-n", &self.namespace, "lease", "lifeboat-server"]);
            let holder = lease["spec"]["holderIdentity"].clone();
            if holder == identity { Ok(()) } else { Err(holder.to_string()) }
        });
    }
}
