//! An installation of Lifeboat on the cluster, shared by the tests of one file, and the storage beside it.

use std::fs;
use std::sync::OnceLock;

use crate::{Program, Release, get, kubectl, variable, wait_for};

/// The S3 server beside the cluster.
#[derive(Clone, Debug)]
pub struct S3 {
    pub endpoint: String,
    /// Only beside the box; tests that use it are skipped on a named cluster.
    pub tls_endpoint: String,
    /// The file with the certificate authority of the TLS endpoint.
    pub ca: String,
    pub region: String,
    pub access_key: String,
    pub secret_key: String,
}

/// The storage, from the environment.
pub fn s3() -> S3 {
    let of_the_box = |name: &str| std::env::var(name).unwrap_or_default();
    S3 {
        endpoint: variable("LIFEBOAT_S3_ENDPOINT"),
        tls_endpoint: of_the_box("LIFEBOAT_S3_TLS_ENDPOINT"),
        ca: of_the_box("LIFEBOAT_S3_CA"),
        region: variable("AWS_REGION"),
        access_key: variable("AWS_ACCESS_KEY_ID"),
        secret_key: variable("AWS_SECRET_ACCESS_KEY"),
    }
}

impl S3 {
    /// The credentials in the form of Velero's Secret.
    pub fn credentials(&self) -> String {
        format!(
            "[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
            self.access_key, self.secret_key
        )
    }

    /// The `--config` of a location on the plain endpoint.
    pub fn config(&self) -> String {
        format!("region={},s3Url={},s3ForcePathStyle=true", self.region, self.endpoint)
    }

    /// The `--config` of a location on the TLS endpoint.
    pub fn tls_config(&self) -> String {
        format!("region={},s3Url={},s3ForcePathStyle=true", self.region, self.tls_endpoint)
    }
}

/// Lifeboat on the cluster, with location `default`.
#[derive(Debug)]
pub struct Installation;

impl Installation {
    /// Installs Lifeboat, or updates the installation.
    pub fn ensure() -> Self {
        Self::ensure_with(&[])
    }

    /// Installs or updates with further flags of `install`.
    pub fn ensure_with(flags: &[&str]) -> Self {
        Self::of(Release::New, flags)
    }

    /// Installs a build, or replaces another build by it, and waits until only its pods exist.
    pub fn of(release: Release, flags: &[&str]) -> Self {
        let credentials = tempfile::NamedTempFile::new().unwrap();
        fs::write(credentials.path(), s3().credentials()).unwrap();
        release
            .command()
            .args(["install", "--image", &release.image(), "--provider", "aws", "--bucket", "lifeboat"])
            .args(["--prefix", "e2e", "--secret-file", &credentials.path().to_string_lossy()])
            .args(["--backup-location-config", &s3().config()])
            .args([
                "--server-arg=--store-validation-frequency=10s",
                "--server-arg=--item-block-worker-count=8",
            ])
            .args(["--pod-annotations", &format!("e2e.lifeboat.io/build={}", build(release))])
            .args(flags)
            .ok();
        Self
    }

    /// `kubectl` in Lifeboat's namespace.
    pub fn kubectl(&self) -> Program {
        kubectl().args(["--namespace", "lifeboat"])
    }

    /// Waits until the location is in `phase`; returns its message.
    pub fn wait_for_phase(&self, location: &str, phase: &str, seconds: u64) -> String {
        wait_for(&format!("location {location} {phase}"), seconds, || {
            let object = get(&["-n", "lifeboat", "bsl", location]);
            let status = &object["status"];
            if status["phase"] == phase && status["lastValidationTime"].is_string() {
                Ok(status["message"].as_str().unwrap_or_default().to_owned())
            } else {
                Err(status.to_string())
            }
        })
    }

    /// The pod that holds the lease and is not terminating: a terminating pod hands the lease over soon.
    pub fn leader(&self) -> String {
        wait_for("a leader", 60, || {
            let lease = get(&["-n", "lifeboat", "lease", "lifeboat-server"]);
            let holder = lease["spec"]["holderIdentity"].as_str().ok_or_else(|| lease.to_string())?;
            let pods = get(&["-n", "lifeboat", "pods"]);
            let mut pods = pods["items"].as_array().into_iter().flatten();
            let pod = pods.find(|pod| pod["metadata"]["name"] == holder);
            match pod {
                Some(pod) if pod["metadata"]["deletionTimestamp"].is_null() => Ok(holder.to_owned()),
                Some(_) => Err(format!("pod {holder} holds the lease and is being deleted")),
                None => Err(format!("pod {holder} holds the lease and is gone")),
            }
        })
    }
}

/// An identifier of the build. The image keeps its name, so without it pods of an older build would not be replaced.
fn build(release: Release) -> &'static str {
    static BUILDS: [OnceLock<String>; 2] = [OnceLock::new(), OnceLock::new()];
    let [old, new] = &BUILDS;
    let build = if release == Release::Old { old } else { new };
    build.get_or_init(|| Program::new("sha256sum").arg(&release.program()).ok()[..12].to_owned())
}
