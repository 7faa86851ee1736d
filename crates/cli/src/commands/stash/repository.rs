//! The commands of `lifeboat repository` for the repository of a Repository object: reads the Repository and its
//! Secret with the user's rights, opens the storage with the Secret's keys and runs the command in this process. No
//! key is passed to another process, neither as an argument nor in the environment.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use lifeboat_api::stash::Repository;
use lifeboat_cluster::Attempt;
use lifeboat_plan::stash::backend::{
    BackendAccess, BackendStorage, MoversOnly, OpenedBy, SecretData, access as backend_access,
};
use lifeboat_stash::storage_config;
use lifeboat_store::{Environment, Store, Tuning};
use url::Url;

use super::Tenant;
use crate::args::{Output, object_name};
use crate::commands::repository::session::Session;
use crate::commands::repository::settings::{
    LocationSource, PasswordSource, Settings as RepositorySettings, Target, Variables,
};
use crate::commands::repository::{self, CommonArgs, output, signals};
use crate::error::CliError;
use crate::nouns::{STASH_REPOSITORY, typed};
use crate::units;

/// The environment variables that are used. Variables with a repository, a password or keys are ignored, because
/// those of the Repository are used.
const VARIABLES: [&str; 7] = [
    "HOME",
    "XDG_CACHE_HOME",
    "TMPDIR",
    "LIFEBOAT_LOG",
    "LIFEBOAT_LOCK_OWNER",
    "RESTIC_CACHE_DIR",
    "RESTIC_PROGRESS_FPS",
];

#[derive(clap::Args)]
pub(super) struct RepositoryArgs {
    /// Name of the Repository
    #[arg(value_name = "REPOSITORY", value_parser = object_name)]
    pub(super) repository: String,
    #[command(flatten)]
    pub(super) access: AccessArgs,
}

/// How a repository is opened.
#[derive(clap::Args, Default)]
pub(super) struct AccessArgs {
    /// Address of the storage as this machine reaches it, instead of the one in the Repository
    #[arg(long, value_name = "URL")]
    endpoint: Option<Url>,
    /// Format of the output; json has restic's structure
    #[arg(short, long, value_enum)]
    output: Option<Output>,
    /// How long to wait for other locks, as in "5m"
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    retry_lock: Option<Duration>,
    /// Do not cache indexes and trees on this machine
    #[arg(long)]
    no_cache: bool,
    /// Accepted for scripts: no container is started
    #[arg(long, value_name = "REGISTRY", hide = true)]
    docker_registry: Option<String>,
    /// Accepted for scripts: no container is started
    #[arg(long, value_name = "TAG", hide = true)]
    image_tag: Option<String>,
}

/// A repository that is about to be opened.
pub(super) struct RepositoryToOpen {
    pub(super) session: Session,
    /// The Secret with its password.
    pub(super) secret: String,
}

/// Runs a verb of `lifeboat repository` on the repository of a Repository.
pub(super) async fn run(
    tenant: &Tenant,
    args: &RepositoryArgs,
    verb: &str,
    command: repository::Command,
) -> Result<(), CliError> {
    let RepositoryToOpen { session, .. } = find(tenant, &args.repository, &args.access, verb).await?;
    // Boxed, because the largest of the commands determines the size of every future above.
    repository::run_in(&session, Box::pin(repository::dispatch(&session, command))).await
}

/// Finds the storage and the password of a repository. `verb`: the equivalent command of `lifeboat repository`, for
/// messages.
pub(super) async fn find(
    tenant: &Tenant,
    name: &str,
    args: &AccessArgs,
    verb: &str,
) -> Result<RepositoryToOpen, CliError> {
    let object: Repository = typed(&tenant.find(STASH_REPOSITORY, name).await?)?;
    let secret = object.spec.backend.storage_secret_name.clone();
    let data = secret_data(tenant, name, &secret).await?;
    let access = backend_access(&object.spec.backend, &data).map_err(|problem| {
        CliError::ended(format!("Repository {name:?} in namespace {:?}: {problem}", tenant.namespace))
    })?;
    let store = store(tenant, name, args, &access, verb).await?;
    let settings = settings(args, &access)?;
    output::start_log(&settings);
    let session = Session::new(settings, signals::interruption(true)?).on_storage(store);
    Ok(RepositoryToOpen { session, secret })
}

async fn secret_data(tenant: &Tenant, repository: &str, name: &str) -> Result<SecretData, CliError> {
    let namespace = &tenant.namespace;
    let api: Api<Secret> = Api::namespaced(tenant.client.clone(), namespace);
    let found = api.get_opt(name).await.attempt(format!("read Secret {name} of Repository {repository}"));
    let found = found.map_err(|error| match error.code() {
        Some(403) => CliError::from(error).help(format!(
            "commands on repositories read Secret {name:?} with your own rights: ask for `get` on it in namespace {namespace:?}"
        )),
        _ => error.into(),
    })?;
    let Some(secret) = found else {
        let message = format!(
            "Secret {name:?} (spec.backend.storageSecretName of Repository {repository:?}) does not exist in namespace {namespace:?}"
        );
        return Err(CliError::not_found(message)
            .help("create it with RESTIC_PASSWORD and the keys of the storage, or correct the field"));
    };
    Ok(secret.data.unwrap_or_default())
}

/// Opens the storage with the Secret's keys only.
async fn store(
    tenant: &Tenant,
    name: &str,
    args: &AccessArgs,
    access: &BackendAccess,
    verb: &str,
) -> Result<Store, CliError> {
    if let OpenedBy::Movers(reason) = access.opened_by {
        return Err(movers_only(tenant, name, access, reason, verb));
    }
    let tuning = Tuning::default();
    let concurrency = access.connections.unwrap_or(tuning.concurrency);
    let tuning = Tuning { concurrency, ..tuning };
    let opened = match &access.storage {
        BackendStorage::Bucket(bucket) => {
            let mut config = storage_config::bucket(access, bucket);
            if let Some(endpoint) = &args.endpoint {
                if bucket.provider != "aws" {
                    return Err(no_endpoint(&access.identifier));
                }
                config.config.insert("s3Url".to_owned(), endpoint.as_str().trim_end_matches('/').to_owned());
                config.config.insert("s3ForcePathStyle".to_owned(), "true".to_owned());
            }
            let nothing = Environment::from_vars(std::iter::empty::<(String, String)>());
            lifeboat_store::open(&config, &nothing, tuning).await
        }
        BackendStorage::Rest(server) => storage_config::rest(access, server).and_then(|mut config| {
            if let Some(endpoint) = &args.endpoint {
                let mut url = endpoint.clone();
                url.set_path(config.url.path());
                config.url = url;
            }
            config.open(tuning)
        }),
        BackendStorage::Volume(_) => return Err(movers_only(tenant, name, access, MoversOnly::Volume, verb)),
    };
    let opened = opened.map_err(|error| {
        CliError::ended(format!("cannot open {} of Repository {name:?}: {error}", access.identifier))
            .help(error.hint())
    })?;
    Ok(opened.with_name(&access.identifier))
}

/// The error for a repository that this machine cannot open; it describes the alternative.
fn movers_only(
    tenant: &Tenant,
    name: &str,
    access: &BackendAccess,
    reason: MoversOnly,
    verb: &str,
) -> CliError {
    let (location, namespace) = (&access.identifier, &tenant.namespace);
    let help = match reason {
        MoversOnly::Volume => format!(
            "run a pod in namespace {namespace:?} that mounts the volume at {location:?} and has RESTIC_PASSWORD from the Secret, and in \
             it `lifeboat repository -r {location} {verb}`; docs/stash-cli.md has its manifest"
        ),
        MoversOnly::CloudIdentity => format!(
            "with an identity of your own that may use the storage: `lifeboat repository -r {location} {verb}`; it asks for the password"
        ),
    };
    CliError::refused(format!("Repository {name:?} cannot be opened from here: {reason}")).help(help)
}

fn no_endpoint(location: &str) -> CliError {
    CliError::usage(format!(
        "--endpoint is for repositories on S3, B2 and REST servers; this one is {location}"
    ))
    .help("leave it out")
}

fn settings(args: &AccessArgs, access: &BackendAccess) -> Result<RepositorySettings, CliError> {
    let common = CommonArgs {
        output: args.output,
        retry_lock: args.retry_lock,
        no_cache: args.no_cache,
        ..CommonArgs::default()
    };
    let variables: Variables =
        repository::variables().into_iter().filter(|(name, _)| VARIABLES.contains(&name.as_str())).collect();
    let mut settings = RepositorySettings::resolve(common, variables)?;
    settings.target = Target {
        location: LocationSource::Given(access.identifier.clone()),
        password: PasswordSource::Given(access.password.clone()),
        key_hint: None,
    };
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::commands::stash::testing::World;

    const KEYS: [(&str, &str); 3] =
        [("RESTIC_PASSWORD", "hidden"), ("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "hidden")];

    async fn world(mut backend: Value, secret: Option<&[(&str, &str)]>) -> World {
        let world = World::new().await;
        backend["storageSecretName"] = json!("keys");
        world.put("repositories", "repo", json!({"spec": {"backend": backend}}));
        if let Some(entries) = secret {
            world.put_secret("keys", entries);
        }
        world
    }

    async fn found(world: &World, args: &AccessArgs) -> Result<RepositoryToOpen, CliError> {
        find(&world.tenant, "repo", args, "check").await
    }

    async fn refused(backend: Value, secret: Option<&[(&str, &str)]>) -> (String, String) {
        let world = world(backend, secret).await;
        let error = found(&world, &AccessArgs::default()).await.map(|_| ()).unwrap_err();
        let help = miette::Diagnostic::help(&error).map(|help| help.to_string()).unwrap_or_default();
        (error.full_text(), help)
    }

    #[tokio::test]
    async fn a_repository_is_opened_with_the_keys_of_its_secret() {
        let s3 = json!({"s3": {"endpoint": "minio:9000", "bucket": "bkt", "prefix": "app", "region": "eu"}});
        let world = world(s3, Some(&KEYS)).await;
        let found = found(&world, &AccessArgs::default()).await.unwrap();
        assert_eq!(found.secret, "keys");
        let settings = &found.session.settings;
        assert_eq!(settings.target.location, LocationSource::Given("s3:minio:9000/bkt/app".into()));
        assert!(matches!(settings.target.password, PasswordSource::Given(_)));
        assert!(settings.variables.keys().all(|name| VARIABLES.contains(&name.as_str())));
        assert!(!format!("{settings:?}").contains("hidden"));
    }

    #[tokio::test]
    async fn what_is_missing_is_named_with_its_field_and_the_next_step() {
        let s3 = || json!({"s3": {"endpoint": "minio:9000", "bucket": "bkt"}});
        let (message, help) = refused(s3(), None).await;
        assert!(
            message.contains("Secret \"keys\" (spec.backend.storageSecretName of Repository \"repo\")"),
            "{message}"
        );
        assert!(help.contains("RESTIC_PASSWORD"), "{help}");
        let (message, _) = refused(s3(), Some(&KEYS[1..])).await;
        assert!(message.contains("Secret 'keys' has no key 'RESTIC_PASSWORD'"), "{message}");
        let (message, _) = refused(json!({"s3": {"endpoint": "a b", "bucket": "bkt"}}), Some(&KEYS)).await;
        assert!(message.contains("spec.backend.s3.endpoint is 'a b'"), "{message}");
        let (message, _) = refused(json!({"swift": {"container": "c"}}), Some(&KEYS)).await;
        assert!(message.contains("S3 API"), "{message}");
    }

    #[tokio::test]
    async fn a_repository_that_only_pods_open_says_how() {
        let local = json!({"local": {"mountPath": "/repo", "persistentVolumeClaim": {"claimName": "nfs"}}});
        let (message, help) = refused(local, Some(&KEYS[..1])).await;
        assert!(message.contains("it is on a volume"), "{message}");
        assert!(help.contains("`lifeboat repository -r /repo check`"), "{help}");
        let s3 = json!({"s3": {"endpoint": "s3.amazonaws.com", "bucket": "bkt"}});
        let (message, help) = refused(s3, Some(&KEYS[..1])).await;
        assert!(message.contains("cloud identity"), "{message}");
        assert!(help.contains("-r s3:s3.amazonaws.com/bkt check"), "{help}");
    }

    #[tokio::test]
    async fn another_address_is_for_storage_that_has_one() {
        let args =
            AccessArgs { endpoint: Some("http://127.0.0.1:9000".parse().unwrap()), ..AccessArgs::default() };
        let s3 = world(json!({"s3": {"endpoint": "minio:9000", "bucket": "bkt"}}), Some(&KEYS)).await;
        assert!(found(&s3, &args).await.is_ok());
        let azure = [("RESTIC_PASSWORD", "p"), ("AZURE_ACCOUNT_NAME", "a"), ("AZURE_ACCOUNT_KEY", "a2V5")];
        let azure = world(json!({"azure": {"container": "c"}}), Some(&azure)).await;
        let error = found(&azure, &args).await.map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("azure:c:/"), "{error}");
    }

    #[tokio::test]
    async fn the_right_that_a_user_lacks_is_named() {
        let world = world(json!({"s3": {"endpoint": "minio:9000", "bucket": "bkt"}}), Some(&KEYS)).await;
        world.server.answer(|_, asked| {
            asked
                .path
                .ends_with("/secrets/keys")
                .then(|| lifeboat_cluster::testing::failure(403, "Forbidden"))
        });
        let error = found(&world, &AccessArgs::default()).await.map(|_| ()).unwrap_err();
        assert!(
            miette::Diagnostic::help(&error)
                .unwrap()
                .to_string()
                .contains("`get` on it in namespace \"shop\"")
        );
    }
}
