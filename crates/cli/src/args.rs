//! Arguments that several commands share: the cluster, the output format, names and durations. Arguments of one command
//! are in that command's file.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use lifeboat_plan::install::DEFAULT_NAMESPACE;

/// The cluster and the namespace that a command works with.
#[derive(Args, Clone)]
pub(crate) struct Global {
    /// Namespace of Lifeboat's server; $VELERO_NAMESPACE is also read
    #[arg(short, long, global = true, env = "LIFEBOAT_NAMESPACE", default_value = DEFAULT_NAMESPACE, value_parser = namespace_name)]
    pub(crate) namespace: String,
    /// Whether an argument names the namespace, and neither a variable nor the default.
    #[arg(skip)]
    pub(crate) namespace_is_given: bool,
    /// Context of the kubeconfig to use instead of the current one
    #[arg(long, global = true, visible_alias = "kubecontext", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Kubeconfig file to use instead of $KUBECONFIG or ~/.kube/config
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

/// How a command prints its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Table,
    Json,
    Yaml,
}

/// How a command prints objects that have no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// The flag of every command that prints objects.
#[derive(Args, Clone, Copy)]
pub(crate) struct OutputArg {
    /// Format of the output
    #[arg(short, long, value_enum, default_value = "table")]
    pub(crate) output: Output,
}

/// Why a name or a duration is refused; clap prints it after the flag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ValueError {
    #[error(
        "a namespace has at most 63 lower-case letters, digits and \"-\", and starts and ends with a letter or digit"
    )]
    Namespace,
    #[error(
        "a name has lower-case letters, digits, \"-\" and \".\", and starts and ends with a letter or digit"
    )]
    Name,
    #[error("it has {0} characters; a name has at most 253")]
    TooLong(usize),
    #[error(
        "it has {length} characters; use at most {longest}, because files in the bucket are named after it{more}"
    )]
    TooLongForFiles { length: usize, longest: usize, more: &'static str },
    #[error("{0:?} is not a duration; write seconds (\"90\") or a duration (\"1m30s\")")]
    Time(String),
}

/// Checks a namespace's name by the rules of Kubernetes.
pub(crate) fn namespace_name(text: &str) -> Result<String, ValueError> {
    if text.len() <= 63 && is_label(text) {
        return Ok(text.to_owned());
    }
    Err(ValueError::Namespace)
}

/// Checks an object's name by the rules of Kubernetes.
pub(crate) fn object_name(text: &str) -> Result<String, ValueError> {
    if text.len() <= 253 && text.split('.').all(is_label) {
        return Ok(text.to_owned());
    }
    if text.len() > 253 {
        return Err(ValueError::TooLong(text.len()));
    }
    Err(ValueError::Name)
}

/// Checks the name of a new backup or restore. Its files in the bucket carry the name, and many stores accept names of
/// at most 255 characters.
pub(crate) fn new_name(text: &str) -> Result<String, ValueError> {
    const LONGEST: usize = 255 - "-csi-volumesnapshotcontents.json.gz".len();
    limited(text, LONGEST, "")
}

/// Checks the name of a schedule. Its backups have this name with the time appended.
pub(crate) fn schedule_name(text: &str) -> Result<String, ValueError> {
    const LONGEST: usize = 255 - "-20261116010203-csi-volumesnapshotcontents.json.gz".len();
    limited(text, LONGEST, " and the time of the backup")
}

fn limited(text: &str, longest: usize, more: &'static str) -> Result<String, ValueError> {
    if text.len() > longest {
        return Err(ValueError::TooLongForFiles { length: text.len(), longest, more });
    }
    object_name(text)
}

fn is_label(text: &str) -> bool {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inside) && !text.starts_with('-') && !text.ends_with('-')
}

/// Parses a timeout: seconds, or a duration as stock Velero's command line accepts it.
pub(crate) fn seconds(text: &str) -> Result<u64, ValueError> {
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    let wrong = || ValueError::Time(text.to_owned());
    let parsed: lifeboat_api::common::GoDuration = text.parse().map_err(|_| wrong())?;
    u64::try_from(parsed.as_nanos()).map(|nanos| nanos.div_ceil(1_000_000_000)).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_wait_is_seconds_or_a_duration() {
        assert_eq!(seconds("90"), Ok(90));
        assert_eq!(seconds("1m30s"), Ok(90));
        assert_eq!(seconds("1500ms"), Ok(2));
        assert!(seconds("soon").unwrap_err().to_string().contains("\"soon\""));
        assert!(seconds("-5s").is_err());
    }

    #[test]
    fn a_name_that_is_too_long_is_refused_with_the_limit() {
        assert!(
            object_name(&"a".repeat(260))
                .unwrap_err()
                .to_string()
                .contains("260 characters; a name has at most 253")
        );
        assert!(new_name(&"a".repeat(220)).is_ok() && schedule_name(&"a".repeat(205)).is_ok());
        assert!(new_name(&"a".repeat(221)).unwrap_err().to_string().contains("at most 220"));
        assert!(schedule_name(&"a".repeat(244)).unwrap_err().to_string().contains("at most 205"));
    }

    #[test]
    fn names_are_judged_as_kubernetes_would() {
        assert!(namespace_name("lifeboat-2").is_ok() && object_name("a.b-c").is_ok());
        for bad in ["", "Bad", "a b", "-a", "a-", "a..b", "ünï", "../x"] {
            assert!(namespace_name(bad).is_err() && object_name(bad).is_err(), "{bad}");
        }
    }
}
