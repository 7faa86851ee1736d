//! The source of a backup from its arguments: paths, files with paths, and exclude patterns. Reads those files.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use lifeboat_repository::Error;
use lifeboat_repository::source::filter::{Filter, TagFile, file_systems};
use lifeboat_repository::source::patterns::{Case, Patterns};
use lifeboat_repository::source::{given, pattern_files};

use super::settings::Settings;
use crate::error::CliError;

/// The flags that exclude files.
#[derive(clap::Args, Default)]
pub(crate) struct ExcludeArgs {
    /// Exclude matching files; can be repeated
    #[arg(short, long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<OsString>,
    /// Exclude matching files, ignoring case; can be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) iexclude: Vec<OsString>,
    /// File with patterns to exclude, one per line; can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) exclude_file: Vec<PathBuf>,
    /// File with patterns to exclude, ignoring case; can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) iexclude_file: Vec<PathBuf>,
}

/// The flags that include files.
#[derive(clap::Args, Default)]
pub(crate) struct IncludeArgs {
    /// Include only matching files; can be repeated
    #[arg(short, long, value_name = "PATTERN")]
    pub(crate) include: Vec<OsString>,
    /// Include only matching files, ignoring case; can be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) iinclude: Vec<OsString>,
    /// File with patterns to include, one per line; can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) include_file: Vec<PathBuf>,
    /// File with patterns to include, ignoring case; can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) iinclude_file: Vec<PathBuf>,
}

/// Flags of a backup that exclude files by other criteria than patterns.
#[derive(clap::Args, Default)]
pub(crate) struct LeaveOutArgs {
    #[command(flatten)]
    pub(crate) patterns: ExcludeArgs,
    /// Exclude directories with this file, if it starts with HEADER; can be repeated
    #[arg(long, value_name = "NAME[:HEADER]")]
    exclude_if_present: Vec<OsString>,
    /// Exclude directories that a CACHEDIR.TAG marks as a cache
    #[arg(long)]
    exclude_caches: bool,
    /// Exclude files larger than this, as in 500M
    #[arg(long, value_name = "SIZE", value_parser = crate::units::size)]
    exclude_larger_than: Option<u64>,
    /// Stay on the file systems of the paths given
    #[arg(short = 'x', long)]
    one_file_system: bool,
}

/// The flags that name files with paths.
#[derive(clap::Args, Default)]
#[allow(clippy::struct_field_names, reason = "they are restic's flags")]
pub(crate) struct FilesFromArgs {
    /// File with patterns of paths to back up, one per line; "-" for standard input; can be repeated
    #[arg(long, value_name = "FILE")]
    files_from: Vec<PathBuf>,
    /// File with literal paths to back up, one per line; can be repeated
    #[arg(long, value_name = "FILE")]
    files_from_verbatim: Vec<PathBuf>,
    /// File with literal paths to back up, separated by NUL bytes; can be repeated
    #[arg(long, value_name = "FILE")]
    files_from_raw: Vec<PathBuf>,
}

impl FilesFromArgs {
    pub(crate) fn is_given(&self) -> bool {
        !(self.files_from.is_empty() && self.files_from_verbatim.is_empty() && self.files_from_raw.is_empty())
    }

    /// Whether one of the files is standard input.
    pub(crate) fn is_stdin(&self) -> bool {
        let all = [&self.files_from, &self.files_from_verbatim, &self.files_from_raw];
        all.into_iter().flatten().any(|file| file.as_os_str() == "-")
    }

    /// All paths; a pattern of --files-from without a match is reported.
    pub(crate) fn paths(&self) -> Result<Vec<Vec<u8>>, CliError> {
        let mut paths = Vec::new();
        for file in &self.files_from {
            for pattern in pattern_files::meaningful_lines(&content(file)?) {
                let found = given::expand(&pattern)?;
                if found.is_empty() {
                    message!("warning: nothing matches '{}'", String::from_utf8_lossy(&pattern));
                }
                paths.extend(found);
            }
        }
        for file in &self.files_from_verbatim {
            paths.extend(pattern_files::verbatim(&content(file)?));
        }
        for file in &self.files_from_raw {
            paths.extend(pattern_files::raw(&content(file)?)?);
        }
        Ok(paths)
    }
}

impl LeaveOutArgs {
    pub(crate) fn filter(&self, settings: &Settings, targets: &[PathBuf]) -> Result<Filter, CliError> {
        let mut tag_files = Vec::new();
        for text in &self.exclude_if_present {
            tag_files.push(TagFile::parse(text.as_bytes())?);
        }
        if self.exclude_caches {
            tag_files.push(TagFile::of_caches());
        }
        let mut filter = Filter {
            patterns: self.patterns.patterns(settings)?,
            larger_than: self.exclude_larger_than,
            tag_files,
            ..Filter::default()
        };
        if self.one_file_system {
            let current = std::env::current_dir()
                .map_err(|error| CliError::failed("cannot find the current directory", error))?;
            let targets = targets.iter().map(|target| target.as_os_str().as_bytes());
            filter.file_systems = file_systems(targets, current.as_os_str().as_bytes())?;
        }
        Ok(filter)
    }
}

impl ExcludeArgs {
    pub(crate) fn is_given(&self) -> bool {
        !(self.exclude.is_empty()
            && self.iexclude.is_empty()
            && self.exclude_file.is_empty()
            && self.iexclude_file.is_empty())
    }

    pub(crate) fn patterns(&self, settings: &Settings) -> Result<Vec<Patterns>, CliError> {
        Ok(vec![
            list(&self.exclude, &self.exclude_file, Case::Matters, settings)?,
            list(&self.iexclude, &self.iexclude_file, Case::Ignored, settings)?,
        ])
    }
}

impl IncludeArgs {
    pub(crate) fn is_given(&self) -> bool {
        !(self.include.is_empty()
            && self.iinclude.is_empty()
            && self.include_file.is_empty()
            && self.iinclude_file.is_empty())
    }

    pub(crate) fn patterns(&self, settings: &Settings) -> Result<Vec<Patterns>, CliError> {
        Ok(vec![
            list(&self.include, &self.include_file, Case::Matters, settings)?,
            list(&self.iinclude, &self.iinclude_file, Case::Ignored, settings)?,
        ])
    }
}

fn list(
    given: &[OsString],
    files: &[PathBuf],
    case: Case,
    settings: &Settings,
) -> Result<Patterns, CliError> {
    let variable = |name: &[u8]| {
        let name = std::str::from_utf8(name).ok()?;
        Some(settings.variables.get(name)?.as_bytes().to_vec())
    };
    let mut patterns: Vec<Vec<u8>> = given.iter().map(|pattern| pattern.as_bytes().to_vec()).collect();
    for file in files {
        patterns.extend(pattern_files::patterns(&content(file)?, &variable));
    }
    Ok(Patterns::parse(patterns, case)?)
}

fn content(file: &Path) -> Result<Vec<u8>, CliError> {
    if file.as_os_str() == "-" {
        let mut content = Vec::new();
        return match std::io::stdin().lock().read_to_end(&mut content) {
            Ok(_) => Ok(content),
            Err(error) => Err(CliError::failed("cannot read standard input", error)),
        };
    }
    Ok(std::fs::read(file).map_err(Error::file("read", file))?)
}

/// The paths that exist, and an error for each of the others.
pub(crate) fn existing(paths: Vec<Vec<u8>>) -> (Vec<PathBuf>, Vec<Error>) {
    let (found, missing) = given::existing(paths);
    (found.into_iter().map(|path| PathBuf::from(std::ffi::OsString::from_vec(path))).collect(), missing)
}
