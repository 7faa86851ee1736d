//! `args` of a target: restic's arguments that a mover's task can express. All others are invalid, and named.

/// The prefix of tags with a meaning of their own.
const RESERVED: &str = "lifeboat-";
const KIB: u64 = 1024;

/// The arguments of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupArgs {
    pub excludes: Vec<String>,
    pub tags: Vec<String>,
    pub limits: Limits,
}

/// The arguments of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreArgs {
    pub exclude: Vec<String>,
    pub include: Vec<String>,
    /// Leave holes where files have zeros.
    pub sparse: bool,
    pub limits: Limits,
}

/// Limits of the network, in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub upload: Option<u64>,
    pub download: Option<u64>,
}

/// Why an argument is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgError {
    #[error("{arg:?} is not supported; use {supported}")]
    Unknown { arg: String, supported: &'static str },
    #[error("{arg:?} needs a value, as the next entry of the list or after \"=\"")]
    NoValue { arg: String },
    #[error("{arg:?} takes no value")]
    Value { arg: String },
    #[error("{arg:?} needs a number of KiB per second above zero, not {value:?}")]
    Number { arg: String, value: String },
    #[error("tag {tag:?} is reserved: tags that start with {RESERVED:?} have a meaning of their own")]
    ReservedTag { tag: String },
    #[error("tag {tag:?} has a character that cannot be shown")]
    Tag { tag: String },
}

/// Reads the arguments of a backup's target.
pub fn backup_args(args: &[String]) -> Result<BackupArgs, ArgError> {
    const SUPPORTED: &str = "--exclude, --tag, --limit-upload or --limit-download";
    let mut read = BackupArgs::default();
    let mut words = Words::new(args);
    while let Some(word) = words.next() {
        match word.name {
            "--exclude" | "-e" => read.excludes.push(words.value(&word)?),
            "--tag" => read.tags.extend(tags(&words.value(&word)?)?),
            _ if limit(&mut read.limits, &word, &mut words)? => {}
            _ => return Err(ArgError::Unknown { arg: word.text.to_owned(), supported: SUPPORTED }),
        }
    }
    Ok(read)
}

/// Reads the arguments of a restore's target.
pub fn restore_args(args: &[String]) -> Result<RestoreArgs, ArgError> {
    const SUPPORTED: &str = "--exclude, --include, --sparse, --limit-upload or --limit-download";
    let mut read = RestoreArgs::default();
    let mut words = Words::new(args);
    while let Some(word) = words.next() {
        match word.name {
            "--exclude" | "-e" => read.exclude.push(words.value(&word)?),
            "--include" | "-i" => read.include.push(words.value(&word)?),
            "--sparse" if word.value.is_some() => return Err(ArgError::Value { arg: word.text.to_owned() }),
            "--sparse" => read.sparse = true,
            _ if limit(&mut read.limits, &word, &mut words)? => {}
            _ => return Err(ArgError::Unknown { arg: word.text.to_owned(), supported: SUPPORTED }),
        }
    }
    Ok(read)
}

/// Reads a limit; false if the argument is not one.
fn limit<'a>(limits: &mut Limits, word: &Word<'a>, words: &mut Words<'a>) -> Result<bool, ArgError> {
    let place = match word.name {
        "--limit-upload" => &mut limits.upload,
        "--limit-download" => &mut limits.download,
        _ => return Ok(false),
    };
    let value = words.value(word)?;
    let kibibytes = value.parse::<u32>().ok().filter(|number| *number > 0);
    let kibibytes = kibibytes.ok_or(ArgError::Number { arg: word.name.to_owned(), value })?;
    *place = Some(u64::from(kibibytes) * KIB);
    Ok(true)
}

/// restic's list of tags: separated by commas, blanks around them ignored.
fn tags(text: &str) -> Result<Vec<String>, ArgError> {
    let tags = text.split(',').map(str::trim).filter(|tag| !tag.is_empty());
    tags.map(|tag| {
        if tag.starts_with(RESERVED) {
            return Err(ArgError::ReservedTag { tag: tag.to_owned() });
        }
        if tag.chars().any(char::is_control) {
            return Err(ArgError::Tag { tag: tag.to_owned() });
        }
        Ok(tag.to_owned())
    })
    .collect()
}

/// One argument: `--name`, `--name=value` or `-n`.
struct Word<'a> {
    text: &'a str,
    name: &'a str,
    value: Option<&'a str>,
}

struct Words<'a> {
    rest: std::slice::Iter<'a, String>,
}

impl<'a> Words<'a> {
    fn new(args: &'a [String]) -> Self {
        Self { rest: args.iter() }
    }

    fn next(&mut self) -> Option<Word<'a>> {
        let text = self.rest.next()?.as_str();
        let split = if text.starts_with("--") { text.split_once('=') } else { None };
        let (name, value) = split.map_or((text, None), |(name, value)| (name, Some(value)));
        Some(Word { text, name, value })
    }

    /// The value of an argument: after its "=", or the next word.
    fn value(&mut self, word: &Word<'a>) -> Result<String, ArgError> {
        let next = || self.rest.next().map(String::as_str);
        let value = word.value.or_else(next).filter(|value| !value.is_empty());
        value.map(str::to_owned).ok_or_else(|| ArgError::NoValue { arg: word.name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn owned(args: &[&str]) -> Vec<String> {
        args.iter().map(|&arg| arg.to_owned()).collect()
    }

    #[test]
    fn arguments_of_a_backup_are_read_in_both_forms() {
        let args =
            ["--exclude", "*.tmp", "--exclude=/source/data/cache", "-e", "x", "--tag=a, b", "--tag", "c"];
        let read = backup_args(&owned(&args)).unwrap();
        assert_eq!(read.excludes, ["*.tmp", "/source/data/cache", "x"]);
        assert_eq!(read.tags, ["a", "b", "c"]);
        let read = backup_args(&owned(&["--limit-upload", "100", "--limit-download=2"])).unwrap();
        assert_eq!(read.limits, Limits { upload: Some(102_400), download: Some(2_048) });
        assert_eq!(backup_args(&[]).unwrap(), BackupArgs::default());
    }

    #[test]
    fn arguments_of_a_restore_are_read() {
        let args = ["--include=/a", "-i", "/b", "--exclude", "*.log", "--sparse", "--limit-download=1"];
        let read = restore_args(&owned(&args)).unwrap();
        assert_eq!((read.include, read.exclude), (owned(&["/a", "/b"]), owned(&["*.log"])));
        assert!(read.sparse);
        assert_eq!(read.limits, Limits { upload: None, download: Some(1_024) });
    }

    #[rstest]
    #[case::of_other_flags(&["--ignore-inode"], "\"--ignore-inode\" is not supported")]
    #[case::caches(&["--exclude-caches"], "\"--exclude-caches\" is not supported")]
    #[case::host(&["--host=other"], "\"--host=other\" is not supported")]
    #[case::positional(&["/etc"], "\"/etc\" is not supported")]
    #[case::both_in_one_word(&["--exclude *.tmp"], "is not supported")]
    #[case::short_with_equals(&["-e=x"], "is not supported")]
    #[case::include_is_for_restores(&["--include=x"], "is not supported")]
    #[case::value_is_missing(&["--exclude"], "needs a value")]
    #[case::value_is_empty(&["--tag="], "needs a value")]
    #[case::no_number(&["--limit-upload=fast"], "not \"fast\"")]
    #[case::zero(&["--limit-upload", "0"], "above zero")]
    #[case::reserved(&["--tag=nightly,lifeboat-safety"], "\"lifeboat-safety\" is reserved")]
    #[case::control(&["--tag=a\u{7}"], "cannot be shown")]
    fn what_a_task_cannot_express_is_named(#[case] args: &[&str], #[case] says: &str) {
        let message = backup_args(&owned(args)).unwrap_err().to_string();
        assert!(message.contains(says), "{message}");
    }

    #[rstest]
    #[case::tag(&["--tag=a"], "is not supported")]
    #[case::value(&["--sparse=true"], "takes no value")]
    #[case::delete(&["--delete"], "is not supported")]
    fn a_restore_has_other_arguments(#[case] args: &[&str], #[case] says: &str) {
        let message = restore_args(&owned(args)).unwrap_err().to_string();
        assert!(message.contains(says), "{message}");
    }

    proptest! {
        #[test]
        fn any_arguments_are_read_or_refused(args in proptest::collection::vec("(--exclude|--tag|-e|--limit-upload)?[=a-z0-9-]{0,8}", 0..6)) {
            let _ = restore_args(&args);
            if let Ok(read) = backup_args(&args) {
                prop_assert!(read.tags.iter().all(|tag| !tag.starts_with(RESERVED)));
                prop_assert!(read.excludes.iter().all(|pattern| !pattern.is_empty()));
            }
        }
    }
}
