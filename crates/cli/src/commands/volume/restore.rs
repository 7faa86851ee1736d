//! `lifeboat volume restore BACKUP VOLUME[:PATH] --to DIRECTORY`: restores files of a backup to this machine, laid out
//! as `cp -r` would. Existing files stay unless --overwrite is set. With `--to-volume` the files are restored into a
//! volume of the cluster ([`super::into_volume`]).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lifeboat_repository::progress::Progress;
use lifeboat_repository::restore::{Overwrite, RestoreOptions, RestoreOutcome, Select, Selection, restore};

use super::bucket::{BucketArgs, OpenBucket, failed};
use super::into_volume::{self, Target, directory, target};
use super::{Wanted, wanted};
use crate::commands::repository::progress::Shown;
use crate::error::CliError;
use crate::settings::Settings;
use crate::units::{bytes, clock};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the backup
    pub(super) backup: String,
    /// A volume, as `lifeboat volume ls BACKUP` shows it; with ":/PATH" a directory or file in it
    #[arg(value_name = "VOLUME[:PATH]", value_parser = wanted)]
    pub(super) volume: Wanted,
    /// Directory on this machine to restore to; created if missing
    #[arg(
        long,
        value_name = "DIRECTORY",
        required_unless_present = "to_volume",
        conflicts_with = "to_volume"
    )]
    to: Option<PathBuf>,
    /// Volume of a running pod to restore into, in a new directory: NAMESPACE/CLAIM, or NAMESPACE/POD/VOLUME
    #[arg(long, value_name = "VOLUME", value_parser = target, conflicts_with = "location")]
    to_volume: Option<Target>,
    /// With --to-volume: name of the new directory below the volume's root (default: restored-BACKUP-TIME)
    #[arg(long, value_name = "NAME", value_parser = directory, requires = "to_volume")]
    pub(super) directory: Option<String>,
    /// Replace existing files that differ
    #[arg(long, conflicts_with = "to_volume")]
    overwrite: bool,
    #[command(flatten)]
    bucket: BucketArgs,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let bucket = OpenBucket::open(settings, &args.bucket, &args.backup).await?;
    if let Some(target) = &args.to_volume {
        return into_volume::run(settings, &args, &bucket, target).await;
    }
    let to = args.to.clone().unwrap_or_default();
    let (repository, snapshot) = bucket.snapshot(&args.backup, &args.volume.volume).await?;
    let (subfolder, select) = chosen(args.volume.path.as_deref());
    let options = RestoreOptions {
        target: to.clone(),
        subfolder,
        select,
        overwrite: if args.overwrite { Overwrite::Always } else { Overwrite::Never },
        sparse: true,
        verify: true,
        stop_when_full: true,
        ..RestoreOptions::default()
    };
    let progress = Arc::new(Progress::default());
    let started = Instant::now();
    let restoring = bucket.session.reading(&repository, |cancel| async {
        let shown = Shown::start(&bucket.session, &progress, None);
        let outcome = restore(&repository, &snapshot, options, Arc::clone(&progress), cancel).await;
        shown.stop();
        outcome.map_err(failed)
    });
    report(&args, &to, &restoring.await?, started.elapsed())
}

/// The directory of the snapshot to restore from, and what to select in it.
fn chosen(path: Option<&str>) -> (Option<PathBuf>, Option<Select>) {
    let Some((parent, _)) = path.and_then(|path| path.rsplit_once('/')) else { return (None, None) };
    let name = path.unwrap_or_default().as_bytes()[parent.len()..].to_vec();
    let select: Select = Arc::new(move |path, _is_directory| {
        let rest = path.strip_prefix(name.as_slice());
        let include = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"));
        Selection { include, descend: include }
    });
    (Some(PathBuf::from(format!("{parent}/"))), Some(select))
}

fn report(args: &Args, to: &Path, outcome: &RestoreOutcome, took: Duration) -> Result<(), CliError> {
    let Wanted { volume, path } = &args.volume;
    if outcome.total_files == 0 && path.is_some() {
        let path = path.as_deref().unwrap_or_default();
        return Err(CliError::not_found(format!("volume {volume} has no {path}"))
            .help(format!("`lifeboat volume ls {} {volume}` shows what it has", args.backup)));
    }
    for problem in outcome.problems.iter().take(20) {
        eprintln!("{}: {}", problem.path, problem.message);
    }
    if outcome.problem_count > 0 {
        let message = format!("{} files or directories were not restored completely", outcome.problem_count);
        return Err(
            CliError::ended(message).help("the first of them are listed above; all others were restored")
        );
    }
    eprintln!(
        "Restored {} files and directories ({}) to {} in {}, verified.",
        outcome.files_restored,
        bytes(outcome.bytes_restored),
        to.display(),
        clock(took)
    );
    if outcome.files_skipped > 0 {
        let message = format!("{} files existed already and were left unchanged", outcome.files_skipped);
        return Err(CliError::refused(message).help("give another directory, or --overwrite"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_put_into_the_directory_under_its_own_name() {
        let (subfolder, select) = chosen(Some("/a/b"));
        assert_eq!(subfolder, Some("/a/".into()));
        let select = select.unwrap();
        let included = |path: &str| select(path.as_bytes(), true).include;
        assert!(included("/b") && included("/b/c") && !included("/bc") && !included("/a"));
        assert_eq!(chosen(Some("/file")).0, Some("/".into()));
        assert!(chosen(None).0.is_none());
    }
}
