//! `cache`: lists the caches on this machine and removes those that have not been used for a while.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::settings::Settings;
use crate::error::CliError;
use crate::printer;

const DAY: Duration = Duration::from_hours(24);
const OLD: Duration = Duration::from_hours(24 * 30);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Remove caches that were not used for --max-age days
    #[arg(long)]
    cleanup: bool,
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    max_age: u32,
    /// Accepted for scripts: sizes are not shown
    #[arg(long, hide = true)]
    no_size: bool,
}

/// The directory of all caches; None if the cache is disabled or the user has no home directory.
pub(crate) fn directory(settings: &Settings) -> Option<PathBuf> {
    if settings.connection.no_cache {
        return None;
    }
    let chosen = settings.connection.cache_dir.clone();
    let usual = || {
        let home = || settings.variable("HOME").map(|home| Path::new(home).join(".cache"));
        settings.variable("XDG_CACHE_HOME").map(PathBuf::from).or_else(home).map(|base| base.join("lifeboat"))
    };
    chosen.or_else(usual)
}

/// Removes old caches, for --cleanup-cache.
pub(crate) fn clean_up(settings: &Settings) {
    if let Some(directory) = directory(settings).filter(|_| settings.connection.cleanup_cache) {
        remove_older(&directory, OLD);
    }
}

pub(crate) fn run(settings: &Settings, args: &Args) -> Result<(), CliError> {
    let Some(directory) = directory(settings) else {
        return Err(
            CliError::usage("there is no cache directory").help("leave out --no-cache, or give --cache-dir")
        );
    };
    if args.cleanup {
        let removed = remove_older(&directory, DAY * args.max_age);
        printer::line(&format!("removed {removed} caches"));
        return Ok(());
    }
    let rows = caches(&directory).into_iter().map(|(path, age)| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        vec![name.chars().take(10).collect(), format!("{} days ago", age.as_secs() / DAY.as_secs())]
    });
    printer::line(&printer::table(&["REPOSITORY", "LAST USED"], rows).trim_fmt());
    Ok(())
}

fn remove_older(directory: &Path, limit: Duration) -> usize {
    let old = caches(directory).into_iter().filter(|(_, age)| *age > limit);
    old.filter(|(path, _)| std::fs::remove_dir_all(path).is_ok()).count()
}

/// Each repository's cache and the time since it was last written to.
fn caches(directory: &Path) -> Vec<(PathBuf, Duration)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_cache = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let used = |path: &Path| {
        let inside = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let times = inside.chain([path.to_owned()]).filter_map(|path| path.metadata().ok()?.modified().ok());
        times.max().and_then(|time| SystemTime::now().duration_since(time).ok()).unwrap_or_default()
    };
    let paths = entries.map(|entry| entry.path()).filter(is_cache);
    paths.map(|path| (path.clone(), used(&path))).collect()
}
