//! What a server on this machine needs in the cluster: the objects of an installation, credentials, and an unencrypted
//! connection to the API server, so that a gate can read the requests.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use crate::{Release, kubectl, s3, wait_for};

/// The flag of `install` and of the server for Restics.
const RESTICS: &str = "--experimental-restics";

/// Applies the objects that `install` of a build creates, without running its pods. For a server of Stash's API, by its flags, these
/// include the policies that check who may create its objects.
pub(super) fn apply_objects(release: Release, namespace: &str, flags: &[String]) {
    let knows_stash = release.command().args(["install", "--help"]).ok().contains("--stash");
    let stash: &[&str] = match (knows_stash, serves_stash(flags)) {
        (false, _) => &[],
        (true, true) => &["--stash"],
        (true, false) => &["--stash=false"],
    };
    let restics: &[&str] = if flags.iter().any(|flag| flag == RESTICS) { &[RESTICS] } else { &[] };
    let objects = release
        .command()
        .args(["install", "--dry-run", "-o", "yaml", "--namespace", namespace, "--replicas", "1"])
        .args(["--image", &release.image(), "--provider", "aws", "--bucket", "lifeboat"])
        .args(["--prefix", namespace, "--no-secret", "--node-access"])
        .args(stash)
        .args(restics)
        .ok();
    release.command().args(["install", "--crds-only"]).args(restics).ok();
    let namespaced: Vec<&str> = objects
        .split("\n---\n")
        .filter(|object| !object.contains("kind: CustomResourceDefinition"))
        .collect();
    crate::apply(&namespaced.join("\n---\n").replace("replicas: 1", "replicas: 0"));
}

/// Whether a server with these flags serves Stash's API.
fn serves_stash(flags: &[String]) -> bool {
    flags.iter().any(|flag| flag == "--experimental-stash" || flag == "--stash")
}

/// Further flags of a server beside others on one machine, as far as its build knows them: Stash's API only where it is asked for, and
/// then with a gateway at this address, which pods reach. Its URL is that address, unless the flags have another.
pub(super) fn flags_beside_others(release: Release, flags: &[String], gateway: &str) -> Vec<String> {
    let mut own = Vec::new();
    if serves_stash(flags) {
        own.push(format!("--gateway-address={gateway}"));
        if !flags.iter().any(|flag| flag.starts_with("--gateway-url=")) {
            own.push(format!("--gateway-url=https://{gateway}"));
        }
    } else {
        own.push("--stash=false".to_owned());
    }
    // clap reports the first flag that it does not know, also if help is asked for.
    let is_known = release.command().arg("server").args(&own).arg("--help").run().code == 0;
    if is_known { own } else { Vec::new() }
}

/// Creates the storage credentials, which [`apply_objects`] does not pass to `install`.
pub(super) fn create_credentials(namespace: &str) {
    let credentials = tempfile::NamedTempFile::new().unwrap();
    fs::write(credentials.path(), s3().credentials()).unwrap();
    let file = format!("--from-file=cloud={}", credentials.path().display());
    kubectl().args(["-n", namespace, "create", "secret", "generic", "cloud-credentials", &file]).ok();
}

/// Starts `kubectl proxy`, which serves the API server over plain HTTP, so that a gate can read the requests.
pub(super) fn proxy() -> (Child, String) {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let child = Command::new("kubectl")
        .args(["proxy", "--reject-paths=^$", &format!("--port={}", address.port())])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("kubectl proxy", 20, || {
        TcpStream::connect(address).map(drop).map_err(|error| error.to_string())
    });
    (child, format!("http://{address}"))
}
