//! `init`: creates a repository, on request with the chunker parameters of another one.

use lifeboat_repository::Error;
use lifeboat_repository::config::Version;
use lifeboat_repository::repository::{InitOptions, Repository};
use serde_json::json;

use super::output;
use super::password::Ask;
use super::second::SecondArgs;
use super::session::{Session, location};
use super::settings::PasswordSource;
use crate::error::CliError;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Version of the format: 1, 2, stable or latest
    #[arg(long, value_name = "VERSION", default_value = "stable")]
    repository_version: Version,
    /// Use the chunker parameters of --from-repo, so that copies between both are deduplicated
    #[arg(long)]
    copy_chunker_params: bool,
    #[command(flatten)]
    second: SecondArgs,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let target = session.settings.target.clone();
    let location = location(&target)?;
    let polynomial = if args.copy_chunker_params {
        let from =
            session.open_target(&args.second.target(session)?, "password of the source repository").await?;
        Some(from.config().chunker_polynomial)
    } else if args.second.is_given() {
        return Err(CliError::usage("--from-repo is given without --copy-chunker-params")
            .help("add --copy-chunker-params, or leave --from-repo out"));
    } else {
        None
    };
    let password = session.password(&target, "password for the new repository", Ask::Twice).await?;
    let creating = async { Ok(location.create(&session.open_settings()).await?) };
    let store = session.interruptible(creating).await?;
    let init = InitOptions {
        version: args.repository_version,
        polynomial,
        allow_empty_password: matches!(target.password, PasswordSource::Empty),
        ..InitOptions::default()
    };
    let making = Repository::init(store, &password, init, session.settings.engine(&target));
    let repository = session
        .interruptible(async {
            making.await.map_err(|error| match error {
                Error::RepositoryExists { .. } => {
                    Error::RepositoryExists { location: location.to_string() }.into()
                }
                other => CliError::from(other),
            })
        })
        .await?;
    let id = repository.config().id.clone();
    let shown = location.to_string();
    let message = json!({"message_type": "initialized", "id": id, "repository": shown});
    let text = format!("created restic repository {} at {shown}", id.get(..10).unwrap_or(&id));
    output::summary(session, &message, &text)?;
    session.say(if matches!(target.password, PasswordSource::Empty) {
        "There is no password: anyone with access to the repository can read it."
    } else {
        "Keep the password: without it the data cannot be read, not even by you."
    });
    Ok(())
}
