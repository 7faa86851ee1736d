//! `key add|list|remove|passwd`: manages the keys of a repository and their passwords.

use std::path::PathBuf;

use lifeboat_repository::change_password::change_password;
use lifeboat_repository::id::KeyId;
use lifeboat_repository::keys::{Cost, NewKey};
use lifeboat_repository::lock::LockKind;
use lifeboat_repository::remove_key::remove_key;
use lifeboat_repository::repository::{Identity, Repository};
use secrecy::SecretString;
use serde::Serialize;

use super::output;
use super::password::Ask;
use super::session::Session;
use super::settings::{PasswordSource, Target};
use crate::error::CliError;
use crate::printer;
use crate::units;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Add a key with another password
    Add(NewKeyArgs),
    /// List the keys; "*" is the one in use
    List,
    /// Remove a key, and with it its password
    Remove(RemoveArgs),
    /// Change the current password
    Passwd(NewKeyArgs),
}

#[derive(clap::Args)]
pub(crate) struct NewKeyArgs {
    /// File with the new password (default: a prompt on the terminal)
    #[arg(long, value_name = "FILE")]
    new_password_file: Option<PathBuf>,
    /// Allow an empty password for the new key
    #[arg(long, conflicts_with = "new_password_file")]
    new_insecure_no_password: bool,
    /// Name of the user in the key
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Name of the host in the key
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
}

#[derive(clap::Args)]
pub(crate) struct RemoveArgs {
    /// Id of the key, or a prefix of it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

/// A key in restic's JSON format.
#[derive(Serialize)]
struct KeyInJson {
    current: bool,
    id: String,
    #[serde(rename = "userName")]
    user: String,
    #[serde(rename = "hostName")]
    host: String,
    created: String,
}

pub(crate) async fn run(session: &Session, command: Command) -> Result<(), CliError> {
    let repository = session.open().await?;
    match command {
        Command::List => session.reading(&repository, |_| list(session, &repository)).await,
        Command::Add(args) => {
            let password = args.password(session).await?;
            let identity = args.identity(&repository);
            let new = args.key(&password, &identity);
            let adding = |_| async { Ok(repository.add_key(&new).await?) };
            let id = session.locked(&repository, LockKind::Shared, adding).await?;
            session.say(format!("saved new key {id}"));
            Ok(())
        }
        Command::Remove(args) => {
            let id = session.interruptible(find(&repository, &args.id)).await?;
            remove_key(&repository, id, &session.settings.lock).await?;
            session.say(format!("removed key {id}"));
            Ok(())
        }
        Command::Passwd(args) => {
            let password = args.password(session).await?;
            let identity = args.identity(&repository);
            let new = args.key(&password, &identity);
            let id = change_password(&repository, &new, &session.settings.lock).await?;
            session.say(format!("saved new key {id}, removed key {}", repository.key_id()));
            Ok(())
        }
    }
}

async fn list(session: &Session, repository: &Repository) -> Result<(), CliError> {
    let keys: Vec<KeyInJson> = repository
        .keys()
        .await?
        .into_iter()
        .map(|key| KeyInJson {
            current: key.id == repository.key_id(),
            id: key.id.to_string(),
            user: key.file.as_ref().map_or_else(|| "(damaged)".to_owned(), |file| file.username.clone()),
            host: key.file.as_ref().map(|file| file.hostname.clone()).unwrap_or_default(),
            created: key.file.as_ref().map(|file| units::moment(&file.created)).unwrap_or_default(),
        })
        .collect();
    output::value(session, &keys, || {
        let mark = |key: &KeyInJson| if key.current { "*" } else { " " };
        let rows = keys.iter().map(|key| {
            vec![
                format!("{}{}", mark(key), &key.id[..8]),
                key.user.clone(),
                key.host.clone(),
                key.created.clone(),
            ]
        });
        printer::table(&[" ID", "USER", "HOST", "CREATED"], rows)
    })
}

async fn find(repository: &Repository, prefix: &str) -> Result<KeyId, CliError> {
    let keys = repository.keys().await?;
    let matching: Vec<_> = keys.iter().filter(|key| key.id.to_string().starts_with(prefix)).collect();
    match matching.as_slice() {
        [key] => Ok(key.id),
        [] => Err(CliError::usage(format!("there is no key '{prefix}'")).help("`key list` shows them")),
        many => Err(CliError::usage(format!("{} keys start with '{prefix}'", many.len()))
            .help("give more digits of the id; `key list -o json` shows all of them")),
    }
}

impl NewKeyArgs {
    async fn password(&self, session: &Session) -> Result<SecretString, CliError> {
        let password = match &self.new_password_file {
            _ if self.new_insecure_no_password => PasswordSource::Empty,
            Some(file) => PasswordSource::File(file.clone()),
            None => PasswordSource::Question,
        };
        let target = Target { password, ..session.settings.target.clone() };
        session.password(&target, "new password", Ask::Twice).await
    }

    fn identity(&self, repository: &Repository) -> Identity {
        let system = repository.options().identity.clone();
        Identity {
            user: self.user.clone().unwrap_or(system.user),
            host: self.host.clone().unwrap_or(system.host),
            ..system
        }
    }

    /// The new key. An empty password needs the flag for it.
    fn key<'a>(&self, password: &'a SecretString, identity: &'a Identity) -> NewKey<'a> {
        NewKey { password, allow_empty: self.new_insecure_no_password, cost: Cost::default(), identity }
    }
}
