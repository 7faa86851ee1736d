//! Follows a backup or a restore until it has ended: on a terminal a bar with items, rate and what it waits for,
//! otherwise a line for each change. The object is read twice a second and not watched, so that a lost connection needs
//! no special care. A phase other than Completed is the command's error.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use kube::api::DynamicObject;
use kube::{Api, ResourceExt};
use lifeboat_cluster::Attempt;
use lifeboat_plan::items::waits::{WAITING, Waits};
use tokio::time::sleep;

use super::volumes::Running;
use super::{Noun, number, phase, text};
use crate::error::CliError;
use crate::printer;
use crate::settings::Settings;

/// How often the object is read.
const INTERVAL: Duration = Duration::from_millis(500);
/// Without a terminal: how often changed counts are printed.
const PRINT_INTERVAL: Duration = Duration::from_secs(10);
/// A running server handles a new object at once; after this time it is probably not running.
const IDLE: Duration = Duration::from_secs(20);

/// The progress of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) phase: String,
    pub(crate) done: i64,
    pub(crate) total: i64,
    pub(crate) errors: i64,
    pub(crate) warnings: i64,
    queue: i64,
    /// Operations of plugins: started, completed, failed.
    operations: (i64, i64, i64),
    /// Items of a restore that wait, and what they wait for.
    waits: Waits,
    /// Why it failed, from the object's status.
    pub(crate) reasons: Vec<String>,
}

impl State {
    /// Reads a Backup or a Restore; a few of their fields have different names.
    pub(crate) fn of(object: &DynamicObject) -> Self {
        let either = |first: &str, second: &str| number(object, first).max(number(object, second));
        let operations = |which: &str| {
            either(
                &format!("/status/backupItemOperations{which}"),
                &format!("/status/restoreItemOperations{which}"),
            )
        };
        let errors = object.data.pointer("/status/validationErrors").and_then(|value| value.as_array());
        let mut reasons: Vec<String> =
            errors.into_iter().flatten().filter_map(|error| error.as_str().map(str::to_owned)).collect();
        let reason = text(object, "/status/failureReason");
        if !reason.is_empty() && !reasons.contains(&reason) {
            reasons.insert(0, reason);
        }
        Self {
            phase: phase(object),
            done: either("/status/progress/itemsBackedUp", "/status/progress/itemsRestored"),
            total: number(object, "/status/progress/totalItems"),
            errors: number(object, "/status/errors"),
            warnings: number(object, "/status/warnings"),
            queue: number(object, "/status/queuePosition"),
            operations: (operations("Attempted"), operations("Completed"), operations("Failed")),
            waits: Waits::read(object.annotations().get(WAITING).map(String::as_str)),
            reasons,
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(
            self.phase.as_str(),
            "Completed" | "PartiallyFailed" | "Failed" | "FailedValidation" | "Deleting"
        )
    }

    /// What the object waits for.
    pub(crate) fn waits_for(&self, since: Duration) -> String {
        match self.phase.as_str() {
            "New" if since > IDLE => {
                "the server, which has not started it yet; is it running? (`lifeboat version`)".to_owned()
            }
            "New" => "the server to start it".to_owned(),
            "Queued" if self.queue > 1 => format!("{} other backups before it", self.queue - 1),
            "Queued" => "a running backup to end".to_owned(),
            "ReadyToStart" => "the start".to_owned(),
            "InProgress" => format!("objects{}", self.listed_waits()),
            "WaitingForPluginOperations" | "WaitingForPluginOperationsPartiallyFailed" => {
                let (begun, good, bad) = self.operations;
                let ended = good + bad;
                format!("plugins: {ended} of {begun} operations have ended{}", self.listed_waits())
            }
            "Finalizing" | "FinalizingPartiallyFailed" => "the last files to be written".to_owned(),
            other => other.to_owned(),
        }
    }

    /// The longest of the waits, and the number of the others.
    fn listed_waits(&self) -> String {
        match self.waits.waits.as_slice() {
            [] => String::new(),
            [wait] if self.waits.more == 0 => format!("; {wait}"),
            [wait, rest @ ..] => format!("; {wait}; {} more wait", rest.len() + self.waits.more),
        }
    }

    /// `120 of 512 items`.
    fn items(&self) -> String {
        if self.total > 0 {
            format!("{} of {} items", self.done, self.total.max(self.done))
        } else {
            format!("{} items", self.done)
        }
    }

    /// The state as one line.
    pub(crate) fn line(&self, since: Duration, rate: Option<f64>) -> String {
        let rate = rate.map(|rate| format!(", {rate:.0}/s")).unwrap_or_default();
        let waits = self.waits_for(since);
        if self.total == 0 && self.done == 0 {
            return format!("{}: waiting for {waits}", self.phase);
        }
        format!("{}: {}{rate}; waiting for {waits}", self.phase, self.items())
    }
}

/// The outcome: a sentence for success, or the error that the command ends with.
pub(crate) fn outcome(noun: Noun, name: &str, state: &State) -> Result<String, CliError> {
    let counts = counts(state);
    if state.phase == "Completed" {
        return Ok(format!("{} {name:?} completed: {}{counts}.", capital(noun.one), state.items()));
    }
    if state.phase == "Deleting" {
        return Err(CliError::ended(format!("{} {name:?} is being deleted", noun.one)));
    }
    let reasons =
        if state.reasons.is_empty() { String::new() } else { format!(": {}", state.reasons.join("; ")) };
    let (message, next) = match state.phase.as_str() {
        "PartiallyFailed" => (
            format!("{} {name:?} is incomplete (PartiallyFailed){counts}{reasons}", noun.one),
            format!("see what is missing with `lifeboat {} describe {name}`", noun.one),
        ),
        "FailedValidation" => (
            format!("{} {name:?} is invalid{reasons}", noun.one),
            format!(
                "correct it and create it again; `lifeboat {0} delete {name}` removes this one",
                noun.one
            ),
        ),
        _ => (
            format!("{} {name:?} failed{reasons}", noun.one),
            format!("read the log with `lifeboat {} logs {name}`", noun.one),
        ),
    };
    Err(CliError::ended(message).help(next))
}

fn counts(state: &State) -> String {
    let of = |count: i64, word: &str| match count {
        0 => None,
        1 => Some(format!("1 {word}")),
        count => Some(format!("{count} {word}s")),
    };
    [of(state.errors, "error"), of(state.warnings, "warning")]
        .into_iter()
        .flatten()
        .fold(String::new(), |all, one| all + ", " + &one)
}

pub(crate) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// `watch`: follows an object that exists until it has ended.
pub(crate) async fn watch(settings: &Settings, noun: Noun, name: &str) -> Result<(), CliError> {
    let api = noun.api(&settings.client().await?, &settings.namespace);
    noun.find(&api, name).await?;
    printer::line(&follow(noun, &api, name).await?);
    Ok(())
}

/// Follows the object until it has ended.
pub(crate) async fn follow(noun: Noun, api: &Api<DynamicObject>, name: &str) -> Result<String, CliError> {
    let mut shown = FollowDisplay::new();
    loop {
        match api.get_opt(name).await.attempt(format!("read {} {name}", noun.one)) {
            Ok(Some(object)) => {
                let state = State::of(&object);
                if state.has_ended() {
                    shown.clear();
                    return outcome(noun, name, &state);
                }
                shown.show(&state);
                shown.volumes.show(&api.clone().into_client(), noun, &object).await;
            }
            Ok(None) => {
                shown.clear();
                return Err(CliError::ended(format!("{} {name:?} was deleted before it ended", noun.one)));
            }
            Err(error) if error.is_transient() => shown.show_error(&error.chain()),
            Err(error) => return Err(error.into()),
        }
        sleep(INTERVAL).await;
    }
}

/// What is shown while the object is followed.
struct FollowDisplay {
    bar: Option<ProgressBar>,
    /// Volumes that are being backed up or restored.
    volumes: Running,
    start: Instant,
    /// When items were first counted, and how many there were.
    counted: Option<(Instant, i64)>,
    printed: Option<(State, Instant)>,
}

impl FollowDisplay {
    fn new() -> Self {
        let terminal = std::io::stderr().is_terminal().then(MultiProgress::new);
        let bar = terminal.as_ref().map(|terminal| {
            let bar = terminal.add(ProgressBar::new(0));
            let style = ProgressStyle::with_template("{prefix} [{elapsed}] {bar:24} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { bar, volumes: Running::new(terminal), start: Instant::now(), counted: None, printed: None }
    }

    fn rate(&mut self, state: &State) -> Option<f64> {
        let (since, from) = *self.counted.get_or_insert((Instant::now(), state.done));
        let seconds = since.elapsed().as_secs_f64();
        #[allow(clippy::cast_precision_loss, reason = "no digit of it is shown")]
        let items = (state.done - from) as f64;
        (seconds >= 1.0 && items > 0.0 && state.phase == "InProgress").then(|| items / seconds)
    }

    fn show(&mut self, state: &State) {
        let rate = self.rate(state);
        let line = state.line(self.start.elapsed(), rate);
        if let Some(bar) = &self.bar {
            bar.set_length(u64::try_from(state.total.max(state.done)).unwrap_or_default());
            bar.set_position(u64::try_from(state.done).unwrap_or_default());
            let (phase, rest) = line.split_once(": ").unwrap_or(("", &line));
            bar.set_prefix(phase.to_owned());
            bar.set_message(rest.to_owned());
            bar.tick();
            return;
        }
        let is_news = self.printed.as_ref().is_none_or(|(before, when)| {
            before.phase != state.phase
                || before.waits != state.waits
                || (before != state && when.elapsed() >= PRINT_INTERVAL)
        });
        if is_news {
            eprintln!("  {line}");
            self.printed = Some((state.clone(), Instant::now()));
        }
    }

    fn show_error(&mut self, error: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("the cluster does not answer: {error}"));
            return;
        }
        let is_news = self.printed.as_ref().is_none_or(|(_, when)| when.elapsed() >= PRINT_INTERVAL);
        if is_news {
            eprintln!("  the cluster does not answer, still waiting: {error}");
            self.printed = Some((State::default(), Instant::now()));
        }
    }

    fn clear(&self) {
        self.volumes.clear();
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::objects::BACKUP;

    fn state(status: &Value) -> State {
        let object = json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "b"}, "status": status});
        State::of(&serde_json::from_value(object).unwrap())
    }

    #[rstest]
    #[case::new(json!({}), 1, "New: waiting for the server to start it")]
    #[case::no_server(json!({}), 30, "New: waiting for the server, which has not started it yet; is it running? (`lifeboat version`)")]
    #[case::next(json!({"phase": "Queued", "queuePosition": 1}), 1, "Queued: waiting for a running backup to end")]
    #[case::queued(json!({"phase": "Queued", "queuePosition": 4}), 1, "Queued: waiting for 3 other backups before it")]
    #[case::running(json!({"phase": "InProgress", "progress": {"totalItems": 512, "itemsBackedUp": 120}}), 1,
        "InProgress: 120 of 512 items, 40/s; waiting for objects")]
    #[case::plugins(json!({"phase": "WaitingForPluginOperations", "progress": {"totalItems": 5, "itemsBackedUp": 5},
        "backupItemOperationsAttempted": 3, "backupItemOperationsCompleted": 1}), 1,
        "WaitingForPluginOperations: 5 of 5 items, 40/s; waiting for plugins: 1 of 3 operations have ended")]
    fn what_is_waited_for(#[case] status: Value, #[case] seconds: u64, #[case] expected: &str) {
        assert_eq!(state(&status).line(Duration::from_secs(seconds), Some(40.2)), expected);
    }

    #[test]
    fn a_restore_says_which_item_waits_for_what_since_when() {
        let wait = json!({"item": "pods/shop/web", "for": ["services shop/db"], "action": "example.io/x",
            "since": "2026-11-16T08:00:00Z"});
        let line = |waits: Value| {
            let annotations = json!({WAITING: waits.to_string()});
            let object = json!({"apiVersion": "velero.io/v1", "kind": "Restore",
                "metadata": {"name": "r", "annotations": annotations}, "status": {"phase": "InProgress"}});
            State::of(&serde_json::from_value(object).unwrap()).line(Duration::ZERO, None)
        };
        let one = "InProgress: waiting for objects; pods/shop/web waits for services shop/db since 2026-11-16T08:00:00Z (example.io/x)";
        assert_eq!(line(json!({"waits": [wait]})), one);
        assert_eq!(line(json!({"waits": [wait, wait], "more": 3})), format!("{one}; 4 more wait"));
        assert_eq!(line(json!("nonsense")), "InProgress: waiting for objects");
    }

    #[test]
    fn only_a_completed_backup_is_a_success_and_every_other_end_says_why_and_what_next() {
        let done = state(
            &json!({"phase": "Completed", "warnings": 1, "progress": {"totalItems": 3, "itemsBackedUp": 3}}),
        );
        assert_eq!(outcome(BACKUP, "b", &done).unwrap(), "Backup \"b\" completed: 3 of 3 items, 1 warning.");
        for (status, message) in [
            (json!({"phase": "PartiallyFailed", "errors": 2}), "PartiallyFailed), 2 errors"),
            (json!({"phase": "Failed", "failureReason": "the bucket is full"}), "failed: the bucket is full"),
            (json!({"phase": "FailedValidation", "validationErrors": ["no location x"]}), "no location x"),
        ] {
            let error = outcome(BACKUP, "b", &state(&status)).unwrap_err();
            assert!(error.full_text().contains(message), "{error}");
            assert_eq!(error.code(), 1);
            assert!(miette::Diagnostic::help(&error).unwrap().to_string().contains("lifeboat backup"));
        }
    }
}
