//! Arguments of all kopia commands, and the settings from them. Variables have kopia's prefix.

use std::path::PathBuf;

use clap::Args;

use crate::args::Output;
use crate::commands::repository::CommonArgs as RepositoryArgs;
use crate::commands::repository::settings::{LocationSource, Settings, Target, TargetFlags, Variables};
use crate::error::CliError;

/// The heading of these arguments in the help.
pub(crate) const COMMON_HEADING: &str = "Options of all kopia commands";

/// The repository, its password, and how to access it.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = COMMON_HEADING)]
pub(crate) struct CommonArgs {
    /// The repository: a directory, or s3:, gs:, azure: and an address (default: $KOPIA_REPOSITORY)
    #[arg(short, long, global = true, value_name = "LOCATION")]
    repo: Option<String>,
    /// File with the password (default: $KOPIA_PASSWORD_FILE, then $KOPIA_PASSWORD, then a prompt)
    #[arg(short, long, global = true, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Command that prints the password (default: $KOPIA_PASSWORD_COMMAND)
    #[arg(long, global = true, value_name = "COMMAND", conflicts_with = "password_file")]
    password_command: Option<String>,
    /// Format of the output; json has the structure of `lifeboat repository`
    #[arg(short, long, global = true, value_enum)]
    output: Option<Output>,
    /// Print JSON, as --output json
    #[arg(long, global = true, conflicts_with = "output")]
    json: bool,
    /// Print errors and data only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Print more; twice for everything
    #[arg(short, long, global = true, num_args = 0..=1, require_equals = true, default_missing_value = "1",
        action = clap::ArgAction::Append, value_name = "LEVEL")]
    verbose: Vec<u8>,
    /// Download limit in KiB per second; 0 for no limit
    #[arg(long, global = true, value_name = "KIB", default_value_t = 0, hide_default_value = true)]
    limit_download: u32,
    /// Setting of the storage, as in s3.bucket-lookup=path; can be repeated
    #[arg(long, global = true, value_name = "KEY=VALUE", value_delimiter = ',', hide_short_help = true)]
    option: Vec<String>,
    /// PEM file of certificate authorities to trust; can be repeated (default: the system's)
    #[arg(long, global = true, value_name = "FILE", value_delimiter = ',', hide_short_help = true)]
    cacert: Vec<PathBuf>,
    /// PEM file of the client's certificate and key
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    tls_client_cert: Option<PathBuf>,
    /// Do not verify the server's certificate: others on the network can then read and change requests
    #[arg(long, global = true, hide_short_help = true)]
    insecure_tls: bool,
}

impl CommonArgs {
    /// The settings of a repository command, for a kopia repository. Variables that name a repository in restic's format
    /// say nothing about this one.
    pub(super) fn resolve(self, variables: &Variables) -> Result<Settings, CliError> {
        let names_repository = |name: &str| {
            ["RESTIC_REPOSITORY", "RESTIC_PASSWORD"].iter().any(|prefix| name.starts_with(prefix))
        };
        let others = variables.iter().filter(|(name, _)| !names_repository(name));
        let others: Variables = others.map(|(name, value)| (name.clone(), value.clone())).collect();
        let flags = TargetFlags {
            location: self.repo,
            location_file: None,
            password_file: self.password_file,
            password_command: self.password_command,
            no_password: false,
            key_hint: None,
        };
        let target = Target::resolve(flags, "KOPIA_", variables)?;
        if target.location == LocationSource::Missing {
            return Err(CliError::usage("no repository is named").help(
                "name one with --repo or KOPIA_REPOSITORY: a directory, s3:https://HOST/BUCKET/PREFIX, …",
            ));
        }
        let shared = RepositoryArgs {
            output: self.output,
            json: self.json,
            quiet: self.quiet,
            verbose: self.verbose,
            limit_download: self.limit_download,
            option: self.option,
            cacert: self.cacert,
            tls_client_cert: self.tls_client_cert,
            insecure_tls: self.insecure_tls,
            ..RepositoryArgs::default()
        };
        Ok(Settings { target, ..Settings::resolve(shared, others)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::repository::settings::PasswordSource;

    fn resolve(args: CommonArgs, variables: &[(&str, &str)]) -> Result<Settings, CliError> {
        let variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        args.resolve(&variables)
    }

    #[test]
    fn variables_have_kopias_prefix_and_flags_win() {
        let given = [("KOPIA_REPOSITORY", "/a"), ("KOPIA_PASSWORD", "secret"), ("RESTIC_REPOSITORY", "/b")];
        let settings = resolve(CommonArgs::default(), &given).unwrap();
        assert!(settings.target.location == LocationSource::Given("/a".to_owned()));
        assert!(matches!(settings.target.password, PasswordSource::Given(_)));
        let args = CommonArgs { repo: Some("/c".to_owned()), ..CommonArgs::default() };
        let settings = resolve(args, &given).unwrap();
        assert!(settings.target.location == LocationSource::Given("/c".to_owned()));
    }

    #[test]
    fn the_variables_of_another_repository_are_not_used() {
        let other =
            [("RESTIC_REPOSITORY", "/b"), ("RESTIC_PASSWORD_FILE", "/x"), ("RESTIC_PASSWORD_COMMAND", "y")];
        let error = resolve(CommonArgs::default(), &other).unwrap_err().to_string();
        assert!(error.contains("no repository is named"), "{error}");
        let args = CommonArgs { repo: Some("/c".to_owned()), ..CommonArgs::default() };
        assert!(matches!(resolve(args, &other).unwrap().target.password, PasswordSource::Question));
    }
}
