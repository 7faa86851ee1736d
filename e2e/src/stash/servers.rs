//! The servers of Stash's API on this machine. Tests that run at the same time share one, each in a namespace of its own: starting a
//! server takes longer than many a test. Called by [`super::StashTest`].

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

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
        let crds = lifeboat().args(["crds", "--all"]).ok();
        kubectl().args(["apply", "--server-side", "--force-conflicts", "-f", "-"]).input(&crds).ok();
        kubectl().args(["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]).ok();
    });
}
