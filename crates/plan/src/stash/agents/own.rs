//! The commands of the agent `stash`, which our own program carries out. Its flags are those of older versions: names give way
//! to those of the object, logging flags act, and all others mean nothing any more. Pure.

/// A command that our program carries out in the agent's image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnCommand {
    flags: Vec<(String, String)>,
}

/// The names of the object that the command works for, as its flags have them.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnNames<'a> {
    pub restic: Option<&'a str>,
    pub recovery: Option<&'a str>,
    pub workload_kind: Option<&'a str>,
    pub workload_name: Option<&'a str>,
}

impl OwnCommand {
    /// Whether the words are a command of our program and not another one.
    pub(super) fn is_own(words: &[String]) -> bool {
        let Some((verb, flags)) = words.split_first() else { return false };
        matches!(verb.as_str(), "backup" | "recover" | "recovery")
            && flags.iter().all(|flag| flag.starts_with("--"))
    }

    pub(super) fn parse(words: &[String]) -> Self {
        let flags = words.iter().skip(1).map(|flag| {
            let (name, value) = flag.split_once('=').unwrap_or((flag, "true"));
            (name.trim_start_matches('-').to_owned(), value.to_owned())
        });
        Self { flags: flags.collect() }
    }

    /// The level of the log, for the mover's `--log-level`; None if no flag sets one.
    pub fn log_level(&self) -> Option<&'static str> {
        let value = |wanted: &str| {
            self.flags.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
        };
        if value("logtostderr") == Some("false") && value("alsologtostderr") != Some("true") {
            return Some("error");
        }
        match (value("v").and_then(|level| level.parse::<u8>().ok()), value("stderrthreshold")) {
            (Some(5..), _) => Some("trace"),
            (Some(3..=4), _) => Some("debug"),
            (Some(_), _) | (None, Some("0" | "INFO")) => Some("info"),
            (None, Some("1" | "WARNING")) => Some("warn"),
            (None, Some(_)) => Some("error"),
            (None, None) => None,
        }
    }

    /// Warnings: one for each name that differs from the object's, and one for all flags without a meaning.
    pub fn warnings(&self, names: OwnNames<'_>) -> Vec<String> {
        let (mut warnings, mut ignored) = (Vec::new(), Vec::new());
        for (name, value) in &self.flags {
            let meant = match name.as_str() {
                "restic-name" => names.restic,
                "recovery-name" => names.recovery,
                "workload-kind" => names.workload_kind,
                "workload-name" => names.workload_name,
                "v" | "logtostderr" | "alsologtostderr" | "stderrthreshold" => continue,
                _ => {
                    ignored.push(format!("--{name}"));
                    continue;
                }
            };
            match meant {
                Some(meant) if meant.eq_ignore_ascii_case(value) => {}
                Some(meant) => warnings.push(format!(
                    "--{name}={value} of the agent's command gives way to {meant:?}, which the object says"
                )),
                None => ignored.push(format!("--{name}")),
            }
        }
        if !ignored.is_empty() {
            warnings
                .push(format!("flags of the agent's command that mean nothing here: {}", ignored.join(", ")));
        }
        warnings
    }
}
