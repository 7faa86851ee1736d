//! The arguments of `install` and their validation: every file is read and every value checked before the cluster is
//! changed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lifeboat_plan::install::{
    CLOUD_CREDENTIALS, DEFAULT_SPOOL_MIB, InstallOptions, MoverOptions, Rights, STASH_BY_DEFAULT, Spool,
    StashOptions, default_resources, labels,
};
use lifeboat_store::{Environment, Files, StoreConfig};
use secrecy::SecretSlice;
use serde_json::{Value, json};
use url::Url;

use crate::args::{Format, namespace_name};
use crate::commands::backup_location::spec::{self, ConfigArg, LocationArgs};
use crate::commands::server::movers::absolute;
use crate::error::CliError;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Image of the server
    #[arg(long, env = "LIFEBOAT_IMAGE", default_value = "localhost/lifeboat:dev", value_parser = image)]
    image: String,
    /// Number of servers; one is the leader, the others are on standby
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=10))]
    replicas: u8,
    /// Grant rights in these namespaces only, instead of the whole cluster; restores need full rights in this
    /// version
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", value_parser = namespace_name)]
    namespaces: Vec<String>,
    /// Grant rights in the whole cluster to an installation that was limited before
    #[arg(long, conflicts_with = "namespaces")]
    full_rights: bool,
    /// Let movers mount directories of nodes, which file copies of pod volumes need
    #[arg(long, visible_alias = "use-node-agent")]
    node_access: bool,
    /// The kubelet's directory on the nodes, if it is not /var/lib/kubelet
    #[arg(long, value_name = "DIRECTORY", value_parser = absolute)]
    kubelet_root_dir: Option<String>,
    /// Networks of your storage: movers may reach these and DNS only
    #[arg(long, value_delimiter = ',', value_name = "CIDR,…", value_parser = network)]
    mover_egress: Vec<String>,
    /// Storage provider of the first location: aws, gcp, azure, local, or the name of a plugin
    #[arg(long, requires = "bucket")]
    provider: Option<String>,
    /// Bucket of the first location
    #[arg(long, requires = "provider")]
    bucket: Option<String>,
    /// Directory in the bucket
    #[arg(long, requires = "bucket")]
    prefix: Option<String>,
    /// Settings of the first location, such as region=…,s3Url=…,s3ForcePathStyle=true
    #[arg(long, value_name = "KEY=VALUE,…", requires = "bucket")]
    backup_location_config: Option<ConfigArg>,
    /// Settings of a volume snapshot location for the same provider; creates the location
    #[arg(long, value_name = "KEY=VALUE,…", requires = "provider")]
    snapshot_location_config: Option<ConfigArg>,
    /// Create a volume snapshot location for the provider; add its plugin with --plugins
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, requires = "provider")]
    use_volume_snapshots: Option<bool>,
    /// File with the certificate authority of the storage endpoint (PEM)
    #[arg(long, value_name = "FILE", requires = "bucket")]
    cacert: Option<PathBuf>,
    /// File with the storage credentials; stored in Secret cloud-credentials
    #[arg(long, value_name = "FILE", conflicts_with = "no_secret")]
    secret_file: Option<PathBuf>,
    /// Use the server's own identity instead of credentials
    #[arg(long)]
    no_secret: bool,
    /// File with the repository password to use, as written by `repository-password export`
    #[arg(long, value_name = "FILE")]
    repository_password_file: Option<PathBuf>,
    /// Annotations of the server's service account (cloud identities), such as key=value
    #[arg(long, value_name = "KEY=VALUE,…")]
    sa_annotations: Option<ConfigArg>,
    /// Annotations of the server's pods
    #[arg(long, value_name = "KEY=VALUE,…")]
    pod_annotations: Option<ConfigArg>,
    /// Labels of the server's pods
    #[arg(long, value_name = "KEY=VALUE,…")]
    pod_labels: Option<ConfigArg>,
    /// Environment variables of the server, such as HTTPS_PROXY=…
    #[arg(long, value_name = "NAME=VALUE,…")]
    env: Option<ConfigArg>,
    /// CPU request of each server
    #[arg(long, visible_alias = "velero-pod-cpu-request", value_name = "QUANTITY")]
    pod_cpu_request: Option<String>,
    /// Memory request of each server
    #[arg(long, visible_alias = "velero-pod-mem-request", value_name = "QUANTITY")]
    pod_mem_request: Option<String>,
    /// CPU limit of each server
    #[arg(long, visible_alias = "velero-pod-cpu-limit", value_name = "QUANTITY")]
    pod_cpu_limit: Option<String>,
    /// Memory limit of each server
    #[arg(long, visible_alias = "velero-pod-mem-limit", value_name = "QUANTITY")]
    pod_mem_limit: Option<String>,
    /// Size in MiB of the volume in which each server unpacks archives; a restore may use three quarters of
    /// it
    #[arg(long, value_name = "MIB", default_value_t = DEFAULT_SPOOL_MIB, value_parser = clap::value_parser!(u64).range(64..))]
    spool_size: u64,
    /// Images of Velero plugins to add
    #[arg(long, value_delimiter = ',', value_name = "IMAGE,…", value_parser = image)]
    plugins: Vec<String>,
    /// Base URL of the server for downloads of backup files (a Service is created for it) [default: links
    /// that storage signs]
    #[arg(long, value_name = "URL")]
    download_url: Option<Url>,
    /// Install the kinds of Stash's API with the policies that check who may create them, and serve them
    #[arg(long, default_value_t = STASH_BY_DEFAULT, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        action = clap::ArgAction::Set)]
    stash: bool,
    /// Serve Stash's API in these namespaces only [default: all; with --namespaces, those]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", value_parser = namespace_name)]
    tenant_namespaces: Vec<String>,
    /// Install Restics and serve them; volumes only
    #[arg(long, hide = true)]
    experimental_restics: bool,
    /// Further argument for `lifeboat server`; can be repeated
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    server_arg: Vec<String>,
    /// Install although Velero, Stash or KubeStash is running, and adopt its objects
    #[arg(long)]
    adopt: bool,
    /// Install the custom resource definitions only
    #[arg(long)]
    crds_only: bool,
    /// Print the objects without changing anything
    #[arg(long)]
    dry_run: bool,
    /// Wait until the server runs and the location is available
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    wait: bool,
    /// Seconds to wait
    #[arg(long, default_value_t = 180, value_name = "SECONDS", value_parser = crate::args::seconds)]
    timeout: u64,
    /// Format of --dry-run
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Format,
}

/// Validated arguments, with the content of every file they name.
pub(super) struct Checked {
    pub(super) options: InstallOptions,
    pub(super) location: Option<Value>,
    pub(super) snapshot_location: Option<Value>,
    pub(super) credentials: Option<Value>,
    pub(super) password: Option<String>,
    pub(super) adopt: bool,
    pub(super) full_rights: bool,
    pub(super) crds_only: bool,
    pub(super) dry_run: bool,
    pub(super) wait: bool,
    pub(super) timeout: Duration,
    pub(super) output: Format,
}

pub(super) fn check(namespace: &str, args: &Args) -> Result<Checked, CliError> {
    if !args.stash && !args.tenant_namespaces.is_empty() {
        return Err(CliError::refused("--tenant-namespaces was given, but Stash's API is not served")
            .help("leave out --stash=false, or --tenant-namespaces"));
    }
    if args.provider.is_some() && args.secret_file.is_none() && !args.no_secret {
        return Err(CliError::refused("no credentials were given for the storage location")
            .help("pass --secret-file FILE, or --no-secret if the server has its own identity"));
    }
    let credentials = match &args.secret_file {
        Some(path) => Some(cloud_credentials(namespace, &spec::read_file(path, "credentials")?)),
        None => None,
    };
    let password = match &args.repository_password_file {
        Some(path) => Some(read_text(path)?),
        None => None,
    };
    check_storage(args)?;
    let location = match (&args.provider, &args.bucket) {
        (Some(provider), Some(bucket)) => Some(spec::object(
            namespace,
            "default",
            &LocationArgs {
                provider: provider.clone(),
                bucket: bucket.clone(),
                prefix: args.prefix.clone(),
                default: true,
                config: args.backup_location_config.clone(),
                cacert: args.cacert.clone(),
                ..LocationArgs::default()
            },
        )?),
        _ => None,
    };
    Ok(Checked {
        options: options(namespace, args),
        location,
        snapshot_location: snapshot_location(namespace, args)?,
        credentials,
        password,
        adopt: args.adopt,
        full_rights: args.full_rights,
        crds_only: args.crds_only,
        dry_run: args.dry_run,
        wait: args.wait,
        timeout: Duration::from_secs(args.timeout),
        output: args.output,
    })
}

/// The volume snapshot location, if the flags ask for one.
fn snapshot_location(namespace: &str, args: &Args) -> Result<Option<Value>, CliError> {
    let config = args.snapshot_location_config.as_ref().map(|config| &config.0);
    let Some(provider) = &args.provider else { return Ok(None) };
    match (args.use_volume_snapshots, config) {
        (Some(false), Some(_)) => {
            Err(CliError::refused("--snapshot-location-config was given with --use-volume-snapshots=false")
                .help("leave out one of the two"))
        }
        (Some(false) | None, None) => Ok(None),
        (_, config) => {
            let mut spec = json!({"provider": provider});
            if let Some(config) = config {
                spec["config"] = json!(config);
            }
            Ok(Some(json!({"apiVersion": "velero.io/v1", "kind": "VolumeSnapshotLocation",
                "metadata": {"name": "default", "namespace": namespace}, "spec": spec})))
        }
    }
}

/// Checks the location as the server will, as far as that needs no network: wrong settings or credentials must not
/// replace working ones.
fn check_storage(args: &Args) -> Result<(), CliError> {
    let (Some(provider), Some(bucket), Some(secret_file)) = (&args.provider, &args.bucket, &args.secret_file)
    else {
        return Ok(());
    };
    let config = StoreConfig {
        provider: provider.clone(),
        bucket: bucket.clone(),
        prefix: args.prefix.clone().unwrap_or_default(),
        config: args.backup_location_config.clone().unwrap_or_default().0,
        ca_pem: args
            .cacert
            .as_deref()
            .map(|path| spec::read_file(path, "certificate authority"))
            .transpose()?,
        credentials: Some(SecretSlice::from(spec::read_file(secret_file, "credentials")?)),
        customer_key: None,
    };
    // Only the plugin knows which settings it accepts.
    if !args.plugins.is_empty() {
        return Ok(());
    }
    // Keys and files that only the server can read are checked by the server.
    let only_there = ["customerKeyEncryptionSecret", "customerKeyEncryptionFile"];
    if config.config.keys().any(|key| only_there.contains(&key.as_str())) {
        return Ok(());
    }
    config.validate(&Environment::default(), &Files::default()).map(drop).map_err(|error| {
        let hint = error.hint();
        CliError::refused(format!("the storage location cannot be used: {error}")).help(hint)
    })
}

/// The text is not an image reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write the image like registry.example/lifeboat:0.1.0")]
pub(crate) struct NoImage;

/// Rejects text that no registry would accept as an image reference.
pub(crate) fn image(text: &str) -> Result<String, NoImage> {
    let wrong =
        text.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) || text.contains("::");
    if wrong {
        return Err(NoImage);
    }
    Ok(text.to_owned())
}

fn options(namespace: &str, args: &Args) -> InstallOptions {
    let map = |given: &Option<ConfigArg>| given.as_ref().map_or_else(|| json!({}), |map| json!(map.0));
    InstallOptions {
        replicas: i64::from(args.replicas),
        rights: if args.namespaces.is_empty() {
            Rights::Full
        } else {
            Rights::Namespaces(args.namespaces.clone())
        },
        server_args: args.server_arg.clone(),
        service_account_annotations: map(&args.sa_annotations),
        pod_annotations: map(&args.pod_annotations),
        pod_labels: map(&args.pod_labels),
        env: env(args),
        resources: resources(args),
        spool: Spool::mib(args.spool_size),
        plugins: args.plugins.clone(),
        download_url: args.download_url.as_ref().map(ToString::to_string),
        movers: MoverOptions {
            node_access: args.node_access,
            kubelet_root: args.kubelet_root_dir.clone(),
            egress: args.mover_egress.clone(),
            ..MoverOptions::new(namespace)
        },
        stash: StashOptions {
            is_served: args.stash,
            tenant_namespaces: args.tenant_namespaces.clone(),
            restics: args.experimental_restics,
        },
        ..InstallOptions::new(namespace, &args.image)
    }
}

fn network(text: &str) -> Result<String, String> {
    let parts = text.split_once('/').and_then(|(address, bits)| {
        let address: std::net::IpAddr = address.parse().ok()?;
        let bits: u8 = bits.parse().ok()?;
        (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some(())
    });
    match parts {
        Some(()) => Ok(text.to_owned()),
        None => Err(format!(
            "{text:?} is not a network; write it like 10.20.0.0/16, or 10.20.0.7/32 for one address"
        )),
    }
}

fn env(args: &Args) -> Vec<Value> {
    let given = args.env.iter().flat_map(|map| &map.0);
    given.map(|(name, value)| json!({"name": name, "value": value})).collect()
}

/// The default requests and limits, overridden by flags.
fn resources(args: &Args) -> Value {
    let mut resources = default_resources();
    for (given, kind, resource) in [
        (&args.pod_cpu_request, "requests", "cpu"),
        (&args.pod_mem_request, "requests", "memory"),
        (&args.pod_cpu_limit, "limits", "cpu"),
        (&args.pod_mem_limit, "limits", "memory"),
    ] {
        if let Some(quantity) = given {
            resources[kind][resource] = json!(quantity);
        }
    }
    resources
}

fn cloud_credentials(namespace: &str, bytes: &[u8]) -> Value {
    let (name, key) = CLOUD_CREDENTIALS;
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": labels()},
        "data": {key: STANDARD.encode(bytes)},
    })
}

fn read_text(path: &Path) -> Result<String, CliError> {
    let bytes = spec::read_file(path, "repository password")?;
    String::from_utf8(bytes).map_err(|error| {
        CliError::failed(format!("{} is not UTF-8 text", path.display()), error.utf8_error())
    })
}
