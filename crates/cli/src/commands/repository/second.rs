//! The second repository of `copy` and `init --copy-chunker-params`, from which data or parameters are taken.

use std::path::PathBuf;

use super::session::Session;
use super::settings::{Target, TargetFlags};
use crate::error::CliError;

#[derive(clap::Args, Clone, Default)]
#[command(next_help_heading = "Options of the source repository")]
#[allow(clippy::struct_field_names, reason = "they are restic's flags")]
pub(crate) struct SecondArgs {
    /// The repository to copy from (default: $RESTIC_FROM_REPOSITORY)
    #[arg(long, value_name = "LOCATION", alias = "repo2")]
    from_repo: Option<String>,
    /// File with its location (default: $RESTIC_FROM_REPOSITORY_FILE)
    #[arg(long, value_name = "FILE", conflicts_with = "from_repo", alias = "repository-file2")]
    from_repository_file: Option<PathBuf>,
    /// File with its password (default: $RESTIC_FROM_PASSWORD_FILE, then $RESTIC_FROM_PASSWORD)
    #[arg(long, value_name = "FILE", alias = "password-file2")]
    from_password_file: Option<PathBuf>,
    /// Command that prints its password (default: $RESTIC_FROM_PASSWORD_COMMAND)
    #[arg(long, value_name = "COMMAND", conflicts_with = "from_password_file", alias = "password-command2")]
    from_password_command: Option<String>,
    /// Its password is empty
    #[arg(long)]
    from_insecure_no_password: bool,
    /// Id of its key to try first (default: $RESTIC_FROM_KEY_HINT)
    #[arg(long, value_name = "ID", alias = "key-hint2")]
    from_key_hint: Option<String>,
}

impl SecondArgs {
    /// Whether a flag names the repository.
    pub(crate) fn is_given(&self) -> bool {
        self.from_repo.is_some() || self.from_repository_file.is_some()
    }

    pub(crate) fn target(&self, session: &Session) -> Result<Target, CliError> {
        let args = self.clone();
        let flags = TargetFlags {
            location: args.from_repo,
            location_file: args.from_repository_file,
            password_file: args.from_password_file,
            password_command: args.from_password_command,
            no_password: args.from_insecure_no_password,
            key_hint: args.from_key_hint,
        };
        let target = Target::resolve(flags, "RESTIC_FROM_", &session.settings.variables)?;
        if target.location == super::settings::LocationSource::Missing {
            return Err(CliError::usage("no source repository is named")
                .help("name it with --from-repo or RESTIC_FROM_REPOSITORY"));
        }
        Ok(target)
    }
}
