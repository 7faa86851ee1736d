//! `lifeboat volume …`: lists the data of a backup's volumes and restores single files to this machine or into a volume
//! of the cluster. Reads the bucket directly; the bucket is found through the cluster or named by flags.

mod bucket;
mod into_volume;
mod ls;
mod restore;
mod volumes;

use crate::error::CliError;
use crate::settings::Settings;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List the volumes in a backup, or the files of one of them
    Ls(ls::Args),
    /// Restore a volume of a backup, or a file or directory in it, to this machine or into a volume
    Restore(restore::Args),
}

pub(crate) async fn run(settings: &Settings, command: Command) -> Result<(), CliError> {
    match command {
        Command::Ls(args) => Box::pin(ls::run(settings, args)).await,
        Command::Restore(args) => Box::pin(restore::run(settings, args)).await,
    }
}

/// A volume, and optionally a path in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    volume: String,
    /// Absolute, from the volume's root.
    path: Option<String>,
}

/// Parses `VOLUME` or `VOLUME:PATH`; volume names contain no colon.
fn wanted(text: &str) -> Result<Wanted, String> {
    let (volume, path) = match text.split_once(':') {
        None => (text, None),
        Some((volume, path)) => (volume, Some(path)),
    };
    let volume = volume.trim_matches('/');
    if volume.is_empty() {
        return Err(
            "expected NAMESPACE/CLAIM or NAMESPACE/POD/VOLUME, as `lifeboat volume ls BACKUP` shows them"
                .to_owned(),
        );
    }
    let path = path.map(|path| format!("/{}", path.trim_matches('/')));
    if path.as_deref().is_some_and(|path| path.split('/').any(|part| matches!(part, "." | ".."))) {
        return Err("the path must not contain '.' or '..'".to_owned());
    }
    Ok(Wanted { volume: volume.to_owned(), path: path.filter(|path| path != "/") })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("shop/data", "shop/data", None)]
    #[case("shop/data:", "shop/data", None)]
    #[case("shop/data:/", "shop/data", None)]
    #[case("shop/db-0/cache:etc/a:b/", "shop/db-0/cache", Some("/etc/a:b"))]
    fn a_volume_may_have_a_path(#[case] text: &str, #[case] volume: &str, #[case] path: Option<&str>) {
        let expected = Wanted { volume: volume.to_owned(), path: path.map(str::to_owned) };
        assert_eq!(wanted(text).unwrap(), expected);
        assert!(wanted(":/a").is_err() && wanted("shop/data:/a/../b").is_err());
    }
}
