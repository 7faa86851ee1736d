//! Resolves the common arguments and the environment into settings, once: a flag wins over a variable, a variable over
//! the default. Pure: the variables are an argument.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use lifeboat_repository::compress::Compression;
use lifeboat_repository::lock::LockOptions;
use lifeboat_repository::repository::{Identity, Options};
use secrecy::SecretString;

use super::arguments::CommonArgs;
use crate::args::Output;
use crate::error::CliError;

/// The environment variables with UTF-8 values.
pub(crate) type Variables = BTreeMap<String, String>;

/// Where the password comes from.
#[derive(Clone)]
pub(crate) enum PasswordSource {
    Empty,
    Given(SecretString),
    File(PathBuf),
    Command(String),
    /// A prompt on the terminal.
    Question,
}

/// Where the location comes from.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum LocationSource {
    Given(String),
    File(PathBuf),
    Missing,
}

/// One repository: its location and how it is opened. `copy` has a second one.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) location: LocationSource,
    pub(crate) password: PasswordSource,
    pub(crate) key_hint: Option<String>,
}

/// How the storage is accessed.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) upload_limit: Option<u64>,
    pub(crate) download_limit: Option<u64>,
    pub(crate) options: Vec<(String, String)>,
    pub(crate) cacert: Vec<PathBuf>,
    pub(crate) client_cert: Option<PathBuf>,
    pub(crate) insecure_tls: bool,
    pub(crate) no_cache: bool,
    pub(crate) cache_dir: Option<PathBuf>,
    pub(crate) cleanup_cache: bool,
}

/// All settings of a repository command.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) target: Target,
    pub(crate) connection: Connection,
    pub(crate) output: Output,
    pub(crate) quiet: bool,
    pub(crate) verbosity: u8,
    pub(crate) no_lock: bool,
    pub(crate) lock: LockOptions,
    pub(crate) lock_owner: Option<String>,
    pub(crate) compression: Compression,
    pub(crate) pack_size: Option<usize>,
    /// Number of worker threads; None for one per core.
    pub(crate) threads: Option<usize>,
    /// Status lines per second, if the environment sets it.
    pub(crate) frames: Option<f64>,
    pub(crate) variables: Variables,
}

impl fmt::Debug for PasswordSource {
    /// Hides the password and the command, which may contain it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::Given(_) => f.write_str("Given(…)"),
            Self::File(file) => f.debug_tuple("File").field(file).finish(),
            Self::Command(_) => f.write_str("Command(…)"),
            Self::Question => f.write_str("Question"),
        }
    }
}

impl fmt::Debug for LocationSource {
    /// Hides the location, which may contain a password, as in rest:https://USER:PASSWORD@HOST/.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(_) => f.write_str("Given(…)"),
            Self::File(file) => f.debug_tuple("File").field(file).finish(),
            Self::Missing => f.write_str("Missing"),
        }
    }
}

impl fmt::Debug for Settings {
    /// Hides the variables, which contain secrets, and the options of the storage, which may.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("target", &self.target)
            .field("output", &self.output)
            .field("no_lock", &self.no_lock)
            .field("lock", &self.lock)
            .finish_non_exhaustive()
    }
}

impl Settings {
    pub(crate) fn resolve(args: CommonArgs, variables: Variables) -> Result<Self, CliError> {
        let variable = |name: &str| variables.get(name).filter(|value| !value.is_empty()).cloned();
        let compression = args.compression.or_else(|| variable("RESTIC_COMPRESSION"));
        let compression = compression.unwrap_or_else(|| "auto".to_owned());
        let pack_size = pack_size(args.pack_size, variable("RESTIC_PACK_SIZE"))?;
        let mut cacert = args.cacert;
        if cacert.is_empty() {
            let files = variable("RESTIC_CACERT").unwrap_or_default();
            cacert = files.split(',').filter(|file| !file.is_empty()).map(PathBuf::from).collect();
        }
        let mut dead_owners = args.dead_owners;
        let more = variable("LIFEBOAT_DEAD_OWNERS").unwrap_or_default();
        dead_owners.extend(more.split(',').filter(|name| !name.is_empty()).map(str::to_owned));
        let flags = TargetFlags {
            location: args.repo,
            location_file: args.repository_file,
            password_file: args.password_file,
            password_command: args.password_command,
            no_password: args.insecure_no_password,
            key_hint: args.key_hint,
        };
        Ok(Self {
            target: Target::resolve(flags, "RESTIC_", &variables)?,
            connection: Connection {
                upload_limit: limit(args.limit_upload),
                download_limit: limit(args.limit_download),
                options: args.option.iter().map(|text| option(text)).collect::<Result<_, _>>()?,
                cacert,
                client_cert: args
                    .tls_client_cert
                    .or_else(|| variable("RESTIC_TLS_CLIENT_CERT").map(PathBuf::from)),
                insecure_tls: args.insecure_tls,
                no_cache: args.no_cache,
                cache_dir: args.cache_dir.or_else(|| variable("RESTIC_CACHE_DIR").map(PathBuf::from)),
                cleanup_cache: args.cleanup_cache,
            },
            output: if args.json { Output::Json } else { args.output.unwrap_or(Output::Table) },
            quiet: args.quiet,
            verbosity: args.verbose.iter().fold(0, |sum, level| u8::saturating_add(sum, *level)),
            no_lock: args.no_lock,
            lock: LockOptions {
                wait: args.retry_lock.unwrap_or(Duration::ZERO),
                dead_owners,
                ..LockOptions::default()
            },
            lock_owner: args.lock_owner.or_else(|| variable("LIFEBOAT_LOCK_OWNER")),
            compression: compression.parse().map_err(CliError::from)?,
            pack_size: pack_size
                .map(|size| usize::try_from(size).unwrap_or(usize::MAX).saturating_mul(1 << 20)),
            threads: None,
            frames: variable("RESTIC_PROGRESS_FPS")
                .and_then(|text| text.parse().ok())
                .filter(|fps| *fps > 0.0),
            variables,
        })
    }

    /// The engine's options.
    pub(crate) fn engine(&self, target: &Target) -> Options {
        let mut options = Options { compression: self.compression, ..Options::default() };
        options.key_hint.clone_from(&target.key_hint);
        if let Some(size) = self.pack_size {
            options.pack_size = size;
        }
        if let Some(threads) = self.threads {
            options.threads = threads;
        }
        if let Some(host) = &self.lock_owner {
            options.identity = Identity { host: host.clone(), ..options.identity };
        }
        if let Some(directory) = self.variable("TMPDIR") {
            options.temporary = PathBuf::from(directory);
        }
        options
    }

    /// The value of a variable that is set and not empty.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether progress and results are printed as text beside the data.
    pub(crate) fn is_for_people(&self) -> bool {
        self.output == Output::Table && !self.quiet
    }
}

/// The flags that name a repository.
pub(crate) struct TargetFlags {
    pub(crate) location: Option<String>,
    pub(crate) location_file: Option<PathBuf>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) password_command: Option<String>,
    pub(crate) no_password: bool,
    pub(crate) key_hint: Option<String>,
}

impl Target {
    /// A flag for the location or the password overrides both variables for it. `prefix` is RESTIC_ or RESTIC_FROM_.
    pub(crate) fn resolve(flags: TargetFlags, prefix: &str, variables: &Variables) -> Result<Self, CliError> {
        let variable =
            |name: &str| variables.get(&format!("{prefix}{name}")).filter(|value| !value.is_empty()).cloned();
        let location = match (flags.location, flags.location_file) {
            (Some(location), _) => LocationSource::Given(location),
            (None, Some(file)) => LocationSource::File(file),
            (None, None) => match (variable("REPOSITORY"), variable("REPOSITORY_FILE")) {
                (Some(_), Some(_)) => {
                    return Err(CliError::usage(format!(
                        "both {prefix}REPOSITORY and {prefix}REPOSITORY_FILE are set"
                    ))
                    .help("unset one of them, or name the repository with --repo"));
                }
                (Some(location), None) => LocationSource::Given(location),
                (None, Some(file)) => LocationSource::File(file.into()),
                (None, None) => LocationSource::Missing,
            },
        };
        let from_variables = || match (variable("PASSWORD_FILE"), variable("PASSWORD_COMMAND")) {
            (Some(_), Some(_)) => Err(CliError::usage(format!(
                "both {prefix}PASSWORD_FILE and {prefix}PASSWORD_COMMAND are set"
            ))
            .help("unset one of them")),
            (Some(file), None) => Ok(PasswordSource::File(file.into())),
            (None, Some(command)) => Ok(PasswordSource::Command(command)),
            (None, None) => Ok(variable("PASSWORD")
                .map_or(PasswordSource::Question, |text| PasswordSource::Given(SecretString::from(text)))),
        };
        let password = match (flags.password_file, flags.password_command) {
            _ if flags.no_password => PasswordSource::Empty,
            (Some(file), _) => PasswordSource::File(file),
            (None, Some(command)) => PasswordSource::Command(command),
            (None, None) => from_variables()?,
        };
        Ok(Self { location, password, key_hint: flags.key_hint.or_else(|| variable("KEY_HINT")) })
    }
}

/// The pack size in MiB: the flag, or else the variable.
fn pack_size(flag: Option<u32>, variable: Option<String>) -> Result<Option<u32>, CliError> {
    match (flag, variable) {
        (Some(size), _) => Ok(Some(size)),
        (None, Some(text)) => text.parse().map(Some).map_err(|_| {
            CliError::usage(format!("RESTIC_PACK_SIZE: '{text}' is not a number of MiB"))
                .help("write it like 16; 4 to 128 are allowed")
        }),
        (None, None) => Ok(None),
    }
}

/// Converts KiB per second to bytes; 0 means no limit.
fn limit(kib: u32) -> Option<u64> {
    (kib > 0).then(|| u64::from(kib) * 1024)
}

fn option(text: &str) -> Result<(String, String), CliError> {
    let (key, value) = text.split_once('=').ok_or_else(|| {
        CliError::usage(format!("option '{text}' has no value")).help("write it like s3.bucket-lookup=path")
    })?;
    Ok((key.trim().to_lowercase(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_flag_of_either_kind_beats_the_variables_of_both() {
        let environment = variables(&[("RESTIC_REPOSITORY_FILE", "/f"), ("RESTIC_PASSWORD_COMMAND", "pass")]);
        let args = CommonArgs {
            repo: Some("/repo".into()),
            password_file: Some("/password".into()),
            ..CommonArgs::default()
        };
        let settings = Settings::resolve(args, environment).unwrap();
        assert_eq!(settings.target.location, LocationSource::Given("/repo".into()));
        assert!(matches!(settings.target.password, PasswordSource::File(file) if file.ends_with("password")));
    }

    #[test]
    fn variables_are_named_as_restic_names_them() {
        let environment = variables(&[
            ("RESTIC_REPOSITORY", "s3:http://h/b"),
            ("RESTIC_PASSWORD", "secret"),
            ("RESTIC_PACK_SIZE", "64"),
            ("RESTIC_COMPRESSION", "max"),
            ("RESTIC_CACERT", "/a,/b"),
        ]);
        let settings = Settings::resolve(CommonArgs::default(), environment).unwrap();
        assert_eq!(settings.target.location, LocationSource::Given("s3:http://h/b".into()));
        assert!(matches!(settings.target.password, PasswordSource::Given(_)));
        assert_eq!(settings.engine(&settings.target).pack_size, 64 << 20);
        assert_eq!(settings.compression, Compression::Max);
        assert_eq!(settings.connection.cacert.len(), 2);
    }

    #[test]
    fn two_variables_that_contradict_each_other_are_refused() {
        for pair in [
            [("RESTIC_REPOSITORY", "a"), ("RESTIC_REPOSITORY_FILE", "b")],
            [("RESTIC_PASSWORD_FILE", "a"), ("RESTIC_PASSWORD_COMMAND", "b")],
        ] {
            let error = Settings::resolve(CommonArgs::default(), variables(&pair)).unwrap_err();
            assert!(error.to_string().contains(pair[1].0), "{error}");
        }
    }

    #[test]
    fn no_secret_is_in_what_a_log_would_show() {
        let environment = variables(&[
            ("RESTIC_REPOSITORY", "rest:https://user:hidden@host/"),
            ("RESTIC_PASSWORD", "hidden"),
            ("AWS_SECRET_ACCESS_KEY", "hidden"),
        ]);
        let args = CommonArgs { option: vec!["s3.x=hidden".into()], ..CommonArgs::default() };
        let shown = format!("{:?}", Settings::resolve(args, environment).unwrap());
        assert!(!shown.contains("hidden"), "{shown}");
        let command = variables(&[("RESTIC_PASSWORD_COMMAND", "echo hidden")]);
        let shown = format!("{:?}", Settings::resolve(CommonArgs::default(), command).unwrap());
        assert!(!shown.contains("hidden"), "{shown}");
    }
}
