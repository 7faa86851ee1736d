//! restic's commands that do not work on a repository's content, and those that this program lacks, which are refused
//! with the alternative to use.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap_complete::{Shell, generate};
use serde_json::json;

use crate::commands::repository::CommonArgs;
use crate::error::CliError;
use crate::printer;

/// The version whose command line and format this program follows.
const RESTIC: &str = "0.19.1";

#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Print the version
    Version,
    /// Write completion scripts
    Generate(GenerateArgs),
    /// List the settings of the storage for -o
    Options,
    #[command(hide = true)]
    SelfUpdate(Ignored),
    #[command(hide = true)]
    Mount(Ignored),
    #[command(hide = true)]
    Recover(Ignored),
    #[command(hide = true)]
    Rewrite(Ignored),
    #[command(hide = true)]
    Features(Ignored),
    #[command(hide = true)]
    Debug(Ignored),
}

/// Accepts any arguments, because the command is refused anyway.
#[derive(clap::Args)]
pub(super) struct Ignored {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

#[derive(clap::Args)]
pub(super) struct GenerateArgs {
    /// Write bash's script to this file; "-" is standard output
    #[arg(long, value_name = "FILE")]
    bash_completion: Option<PathBuf>,
    /// Write fish's script to this file
    #[arg(long, value_name = "FILE")]
    fish_completion: Option<PathBuf>,
    /// Write zsh's script to this file
    #[arg(long, value_name = "FILE")]
    zsh_completion: Option<PathBuf>,
    /// Write PowerShell's script to this file
    #[arg(long, value_name = "FILE")]
    powershell_completion: Option<PathBuf>,
    #[arg(long, value_name = "DIRECTORY", hide = true)]
    man: Option<PathBuf>,
}

pub(super) fn run(command: Command, common: &CommonArgs) -> Result<(), CliError> {
    match command {
        Command::Version => {
            version(common.json);
            Ok(())
        }
        Command::Generate(args) => args.run(),
        Command::Options => {
            options();
            Ok(())
        }
        Command::SelfUpdate(_) => refused(
            "self-update",
            "this is Lifeboat under restic's name: update Lifeboat as you installed it, or its container image",
        ),
        Command::Mount(_) => refused(
            "mount",
            "list files with `ls` and `find`, and restore them with `restore --include` or `dump`",
        ),
        Command::Recover(_) => refused("recover", "use restic itself; it reads the same repository"),
        Command::Rewrite(_) => refused(
            "rewrite",
            "change tags with `tag`, repair damaged snapshots with `repair snapshots`, or use restic itself",
        ),
        Command::Features(_) => refused("features", "this program has no feature flags"),
        Command::Debug(_) => refused("debug", "`list`, `cat` and `check` show the content of a repository"),
    }
}

fn refused(name: &str, instead: &str) -> Result<(), CliError> {
    Err(CliError::restic(1, format!("'{name}' is not supported")).help(instead))
}

fn version(json: bool) {
    let lifeboat = env!("CARGO_PKG_VERSION");
    let (system, processor) = (std::env::consts::OS, processor());
    if json {
        let message = json!({
            "message_type": "version", "version": RESTIC, "go_version": "", "go_os": system, "go_arch": processor,
            "lifeboat_version": lifeboat,
        });
        printer::line(&message.to_string());
    } else {
        printer::line(&format!(
            "restic {RESTIC} command line of lifeboat {lifeboat} on {system}/{processor}"
        ));
    }
}

/// The processor's name in Go's spelling.
fn processor() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn options() {
    let rows = [
        ("azure.connections", "requests at a time"),
        ("gs.connections", "requests at a time"),
        ("local.connections", "requests at a time"),
        ("rest.connections", "requests at a time"),
        ("s3.bucket-lookup", "how requests name the bucket: auto, dns or path"),
        ("s3.connections", "requests at a time"),
        ("s3.region", "region of the bucket"),
        ("s3.retries", "retries of a failed request"),
        ("s3.unsafe-anonymous-auth", "send requests without credentials"),
    ];
    let rows = rows.map(|(name, description)| vec![name.to_owned(), description.to_owned()]);
    printer::line(&printer::table(&["OPTION", "MEANING"], rows).trim_fmt());
}

impl GenerateArgs {
    fn run(self) -> Result<(), CliError> {
        if self.man.is_some() {
            return refused("generate --man", "docs/reference/cli.md describes every command");
        }
        let wanted = [
            (Shell::Bash, self.bash_completion),
            (Shell::Fish, self.fish_completion),
            (Shell::Zsh, self.zsh_completion),
            (Shell::PowerShell, self.powershell_completion),
        ];
        let mut written = false;
        for (shell, file) in wanted {
            if let Some(file) = file {
                script(shell, &file)?;
                written = true;
            }
        }
        if written {
            return Ok(());
        }
        Err(CliError::usage("nothing to generate").help("name a file, as in --bash-completion FILE"))
    }
}

fn script(shell: Shell, file: &Path) -> Result<(), CliError> {
    let mut text = Vec::new();
    generate(shell, &mut super::command(), "restic", &mut text);
    if file.as_os_str() == "-" {
        printer::text(&String::from_utf8_lossy(&text));
        return Ok(());
    }
    std::fs::write(file, text)
        .map_err(|error| CliError::failed(format!("cannot write '{}'", file.display()), error))
}
