//! The servers of Stash's API on this machine. Tests that run at the same time share one, each in a namespace of its own: starting a
//! server takes longer than many a test. Called by [`super::StashTest`].

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use super::StashTest;
use crate::{HostServer, kubectl, lifeboat, unique, variable};

/// The families of databases whose tools are in the image of the databases.
const FAMILIES: [&str; 3] = ["mysql", "mariadb", "postgres"];

/// The server that is shared, while a test uses it, and its name.
static SHARED: Mutex<(Weak<HostServer>, String)> = Mutex::new((Weak::new(), String::new()));

/// The shared server and its name; starts it if no test has it.
pub(super) fn shared() -> (Arc<HostServer>, String) {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = shared.0.upgrade() {
        return (server, shared.1.clone());
    }
    let (server, name) = own(&[]);
    *shared = (Arc::downgrade(&server), name.clone());
    (server, name)
}

/// A new server with these flags, and its name.
pub(super) fn own(flags: &[&str]) -> (Arc<HostServer>, String) {
    apply_kinds();
    let name = unique("tests");
    let image = variable("LIFEBOAT_DATABASES_IMAGE");
    let tools: Vec<String> = FAMILIES.iter().map(|family| format!("--tool-image={family}={image}")).collect();
    let mut all = vec!["--experimental-stash", "--served-by", &name];
    all.extend(tools.iter().map(String::as_str));
    all.extend(flags);
    let server = HostServer::start("stash", &all);
    (Arc::new(server), name)
}

/// Applies the kinds of Stash's API, once in a process.
fn apply_kinds() {
    static APPLIED: OnceLock<()> = OnceLock::new();
    APPLIED.get_or_init(|| {
        // Those with a controller; before they were installed, all of them.
        let served = lifeboat().args(["crds", "--stash"]).run();
        let crds = if served.code == 0 { served.stdout } else { lifeboat().args(["crds", "--all"]).ok() };
        kubectl().args(["apply", "--server-side", "--force-conflicts", "-f", "-"]).input(&crds).ok();
        kubectl().args(["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]).ok();
    });
}

/// A server of the test's own.
impl StashTest {
    /// Kills the server and starts it again.
    pub fn kill_server(&mut self) {
        self.own_server().kill_and_restart();
        self.storage.open();
    }

    /// Kills the server and starts it again with another flag.
    pub fn restart_with(&mut self, flag: &str) {
        self.own_server().set_flag(flag);
        self.kill_server();
    }

    /// Kills the server and starts it again without this flag.
    pub fn restart_without(&mut self, flag: &str) {
        self.own_server().take_flag_back(flag);
        self.kill_server();
    }

    /// Kills the server.
    pub fn stop_server(&mut self) {
        self.own_server().kill();
    }

    /// Starts the server again.
    pub fn start_server(&mut self) {
        self.add_replica("one");
    }

    /// Starts another replica of the server, before other tests or namespaces share it.
    pub fn add_replica(&mut self, identity: &str) {
        self.own_server().add(identity);
    }

    fn own_server(&mut self) -> &mut HostServer {
        let server = Arc::get_mut(&mut self.server);
        server.unwrap_or_else(|| panic!("other tests use this server: use StashTest::alone"))
    }
}
