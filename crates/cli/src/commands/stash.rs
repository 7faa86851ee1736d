//! `lifeboat stash …`: works with the kinds of Stash's API, with upstream's verbs and flags. Under the name `kubectl-stash` (see
//! `crate::kubectl_stash`) the program runs the same commands. The user's own rights count in the cluster and for the Secrets of
//! Repositories.

mod check;
mod debug;
mod delete;
mod download;
mod follow;
mod invoker;
mod key;
mod migrate;
mod names;
mod pause;
mod prune;
mod rebuild_index;
mod repository;
mod result;
mod resume;
mod resume_workload;
mod rollback;
#[cfg(test)]
mod testing;
mod trigger;
mod unlock;
mod view;
mod watch;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::DynamicObject;
use kube::{Api, Client};
use lifeboat_cluster::Attempt;

use crate::args::namespace_name;
use crate::error::CliError;
use crate::nouns::Noun;
use crate::settings::Settings;

/// The arguments of `lifeboat stash`.
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    /// Namespace of the object [default: that of the kubeconfig's context]
    // Declared again, because elsewhere -n is the namespace of the server.
    #[arg(short, long, global = true, value_name = "NAMESPACE", value_parser = namespace_name)]
    pub(crate) namespace: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Start a backup now
    Trigger(trigger::Args),
    /// Pause scheduled backups
    #[command(subcommand)]
    Pause(pause::Command),
    /// Resume scheduled backups, or allow backups after a restore that failed
    Resume(resume::Args),
    /// Follow a session to its end: phase and bytes of each host
    Watch(watch::Args),
    /// Put back what a restore overwrote, from its safety copy
    Rollback(rollback::Args),
    /// Start a workload that a failed restore left stopped, with the data as it is
    ResumeWorkload(resume_workload::Args),
    /// Restore snapshots of a repository to this machine
    Download(download::Args),
    /// Delete a snapshot
    #[command(subcommand)]
    Delete(delete::Command),
    /// Remove stale locks of a repository
    Unlock(unlock::Args),
    /// Check a repository for errors
    Check(check::Args),
    /// Remove data that no snapshot of a repository uses
    Prune(prune::Args),
    /// Rebuild wrong or missing parts of a repository's index
    RebuildIndex(rebuild_index::Args),
    /// Upgrade a repository to version 2 of the format, which compresses
    Migrate(migrate::Args),
    /// Manage the keys of a repository; each has its own password
    #[command(subcommand)]
    Key(key::Command),
    /// Show what helps to find out why something does not work
    #[command(subcommand)]
    Debug(debug::Command),
}

/// A cluster, and the namespace of the objects that a command works with.
pub(crate) struct Tenant {
    client: Client,
    namespace: String,
}

impl Tenant {
    fn api(&self, noun: Noun) -> Api<DynamicObject> {
        noun.api(&self.client, &self.namespace)
    }

    /// Reads the object by name; the error of a missing one lists the existing ones.
    async fn find(&self, noun: Noun, name: &str) -> Result<DynamicObject, CliError> {
        if let Some(found) = self.read(noun, name).await? {
            return Ok(found);
        }
        let names = noun.names(&self.api(noun), name).await?;
        let namespace = &self.namespace;
        let missing = format!("there is no {} {name:?} in namespace {namespace:?}", noun.one);
        // Without the right to read namespaces it is unknown whether this one exists.
        let exists = Api::<Namespace>::all(self.client.clone()).get_opt(namespace).await;
        Err(match exists {
            Ok(None) => CliError::not_found(format!("{missing}: the namespace does not exist"))
                .help("name the right one with -n"),
            _ => CliError::not_found(missing).help(format!("{names}; -n names another namespace")),
        })
    }

    async fn read(&self, noun: Noun, name: &str) -> Result<Option<DynamicObject>, CliError> {
        Ok(self.api(noun).get_opt(name).await.attempt(format!("read {} {name}", noun.one))?)
    }
}

pub(crate) async fn run(settings: &Settings, command: Command) -> Result<(), CliError> {
    let client = settings.client().await?;
    let namespace = if settings.namespace_is_given {
        settings.namespace.clone()
    } else {
        client.default_namespace().to_owned()
    };
    let tenant = &Tenant { client, namespace };
    match command {
        Command::Trigger(args) => trigger::run(tenant, &args).await,
        Command::Pause(command) => pause::run(tenant, &command).await,
        Command::Resume(args) => resume::run(tenant, &args).await,
        Command::Watch(args) => watch::run(tenant, &args).await,
        Command::Rollback(args) => rollback::run(tenant, &args).await,
        Command::ResumeWorkload(args) => resume_workload::run(tenant, &args).await,
        Command::Download(args) => download::run(tenant, &args).await,
        Command::Delete(command) => delete::run(tenant, &command).await,
        Command::Unlock(args) => unlock::run(tenant, args).await,
        Command::Check(args) => check::run(tenant, args).await,
        Command::Prune(args) => prune::run(tenant, args).await,
        Command::RebuildIndex(args) => rebuild_index::run(tenant, args).await,
        Command::Migrate(args) => migrate::run(tenant, &args).await,
        Command::Key(command) => key::run(tenant, command).await,
        Command::Debug(command) => debug::run(tenant, &command).await,
    }
}
