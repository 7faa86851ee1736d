//! Upstream's own variables, which Functions of any origin expect.

use std::collections::BTreeMap;

use lifeboat_api::stash::RetentionPolicy;

/// What the variables are made of. A member of None has no variables; texts that are empty have an empty value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SystemVariables {
    pub namespace: String,
    pub invoker_kind: String,
    pub invoker_name: String,
    /// Of a backup.
    pub backup_session: Option<String>,
    /// Of a restore.
    pub restore_session: Option<String>,
    pub repository: Option<RepositoryVariables>,
    pub host: String,
    /// Of a restore: the host whose data is restored.
    pub source_host: String,
    pub interim_data_dir: String,
    pub target: Option<TargetVariables>,
    pub app: Option<AppVariables>,
    pub addon_image: String,
    pub exclude: Vec<String>,
    pub include: Vec<String>,
    pub args: Vec<String>,
    pub restore_paths: Vec<String>,
    pub restore_snapshots: Vec<String>,
    pub retention: Option<RetentionPolicy>,
    pub disable_caching: bool,
    pub hook_type: String,
}

/// The Repository and its backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositoryVariables {
    pub name: String,
    pub namespace: String,
    pub provider: String,
    pub secret_name: String,
    pub secret_namespace: String,
    pub bucket: String,
    pub prefix: String,
    pub endpoint: String,
    pub region: String,
    pub insecure_tls: bool,
    pub max_connections: i64,
}

/// The target of the member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetVariables {
    pub api_version: String,
    pub kind: String,
    /// The plural name in lower case, for example `deployments`.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub mount_path: String,
    pub paths: Vec<String>,
}

/// The application of an AppBinding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppVariables {
    pub version: String,
    /// For example `kubedb.com/mysql`: group and resource, with the last slash between them.
    pub app_type: String,
    pub replicas: i32,
}

/// The variables by name.
pub fn system(from: &SystemVariables) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut set = |name: &str, value: &str| {
        all.insert(name.to_owned(), value.to_owned());
    };
    set("NAMESPACE", &from.namespace);
    set("INVOKER_KIND", &from.invoker_kind);
    set("INVOKER_NAME", &from.invoker_name);
    if let Some(session) = &from.backup_session {
        set("BACKUP_SESSION", session);
    }
    if let Some(session) = &from.restore_session {
        set("RESTORE_SESSION", session);
    }
    set("HOSTNAME", &from.host);
    set("SOURCE_HOSTNAME", &from.source_host);
    set("INTERIM_DATA_DIR", &from.interim_data_dir);
    set("ADDON_IMAGE", &from.addon_image);
    set("EXCLUDE_PATTERNS", &from.exclude.join(","));
    set("INCLUDE_PATTERNS", &from.include.join(","));
    set("DRIVER_ARGS", &from.args.join(","));
    set("RESTORE_PATHS", &from.restore_paths.join(","));
    set("RESTORE_SNAPSHOTS", &from.restore_snapshots.join(","));
    set("ENABLE_CACHE", if from.disable_caching { "false" } else { "true" });
    set("HOOK_TYPE", &from.hook_type);
    // There is no pushgateway: the server has the metrics itself.
    set("PROMETHEUS_PUSHGATEWAY_URL", "");
    set("PROMETHEUS_JOB_NAME", "");
    all.extend(from.repository.iter().flat_map(repository));
    all.extend(from.target.iter().flat_map(target));
    all.extend(from.app.iter().flat_map(app));
    all.extend(from.retention.iter().flat_map(retention));
    all
}

type Pairs = Vec<(String, String)>;

fn pairs<const N: usize>(list: [(&str, String); N]) -> Pairs {
    list.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn repository(of: &RepositoryVariables) -> Pairs {
    pairs([
        ("REPOSITORY_NAME", of.name.clone()),
        ("REPOSITORY_NAMESPACE", of.namespace.clone()),
        ("REPOSITORY_PROVIDER", of.provider.clone()),
        ("REPOSITORY_SECRET_NAME", of.secret_name.clone()),
        ("REPOSITORY_SECRET_NAMESPACE", of.secret_namespace.clone()),
        ("REPOSITORY_BUCKET", of.bucket.clone()),
        ("REPOSITORY_PREFIX", of.prefix.clone()),
        ("REPOSITORY_ENDPOINT", of.endpoint.clone()),
        ("REPOSITORY_REGION", of.region.clone()),
        ("REPOSITORY_INSECURE_TLS", of.insecure_tls.to_string()),
        ("MAX_CONNECTIONS", of.max_connections.to_string()),
    ])
}

fn target(of: &TargetVariables) -> Pairs {
    pairs([
        ("TARGET_NAME", of.name.clone()),
        ("TARGET_API_VERSION", of.api_version.clone()),
        ("TARGET_KIND", of.kind.clone()),
        ("TARGET_RESOURCE", of.resource.clone()),
        ("TARGET_NAMESPACE", of.namespace.clone()),
        ("TARGET_MOUNT_PATH", of.mount_path.clone()),
        ("TARGET_PATHS", of.paths.join(",")),
    ])
}

fn app(of: &AppVariables) -> Pairs {
    let (group, resource) = of.app_type.rsplit_once('/').unwrap_or(("", &of.app_type));
    pairs([
        ("TARGET_APP_VERSION", of.version.clone()),
        ("TARGET_APP_TYPE", of.app_type.clone()),
        ("TARGET_APP_GROUP", group.to_owned()),
        ("TARGET_APP_RESOURCE", resource.to_owned()),
        ("TARGET_APP_REPLICAS", of.replicas.to_string()),
    ])
}

fn retention(of: &RetentionPolicy) -> Pairs {
    let number = |number: Option<i64>| number.unwrap_or(0).to_string();
    pairs([
        ("RETENTION_KEEP_LAST", number(of.keep_last)),
        ("RETENTION_KEEP_HOURLY", number(of.keep_hourly)),
        ("RETENTION_KEEP_DAILY", number(of.keep_daily)),
        ("RETENTION_KEEP_WEEKLY", number(of.keep_weekly)),
        ("RETENTION_KEEP_MONTHLY", number(of.keep_monthly)),
        ("RETENTION_KEEP_YEARLY", number(of.keep_yearly)),
        ("RETENTION_KEEP_TAGS", of.keep_tags.join(",")),
        ("RETENTION_PRUNE", of.prune.to_string()),
        ("RETENTION_DRY_RUN", of.dry_run.to_string()),
    ])
}
