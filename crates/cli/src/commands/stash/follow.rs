//! Follows a session until it has ended: on a terminal a bar for each running host, otherwise a line for each change. The object is read
//! twice a second and not watched, so that a lost connection needs no special care. A phase other than Succeeded is the command's
//! error.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use jiff::{SignedDuration, Timestamp};
use lifeboat_cluster::{Attempt, objects};
use lifeboat_plan::stash::served::SERVED_BY;
use serde_json::Value;
use tokio::time::sleep;

use super::Tenant;
use super::names::{Kind, ObjectName};
use super::result::ResultArg;
use super::view::View;
use crate::error::CliError;
use crate::printer;

/// How often the object is read.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long after its creation a server has written about an object. Clocks may differ by seconds.
const SERVED_WITHIN: SignedDuration = SignedDuration::from_secs(15);
/// Without a terminal: how often changed counts are printed.
const PRINT_INTERVAL: Duration = Duration::from_secs(10);

/// Follows the session, then prints its hosts and how it ended, or the object as it is then.
pub(super) async fn follow(tenant: &Tenant, session: &ObjectName, result: ResultArg) -> Result<(), CliError> {
    let (object, view) = to_end(tenant, session).await?;
    if result.is_object() {
        result.print(&object, "")?;
        return outcome(tenant, session, &view).map(drop);
    }
    if !view.hosts.is_empty() {
        printer::line(&view.table().trim_fmt());
    }
    printer::line(&outcome(tenant, session, &view)?);
    Ok(())
}

async fn to_end(tenant: &Tenant, session: &ObjectName) -> Result<(Value, View), CliError> {
    let (noun, name) = (session.kind.noun(), &session.name);
    let api = tenant.api(noun);
    let mut shown = SessionDisplay::new();
    let mut told = false;
    loop {
        match api.get_opt(name).await.attempt(format!("read {} {name}", noun.one)) {
            Ok(Some(object)) => {
                let object = objects::to_json(&object);
                let view = View::of(&object);
                if view.has_ended() {
                    shown.clear();
                    return Ok((object, view));
                }
                shown.show(&view);
                if !told && is_unserved(&object, Timestamp::now()) {
                    told = true;
                    shown.note(&unserved(&tenant.namespace));
                }
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

/// Whether no server has written anything about an object although it had the time.
pub(super) fn is_unserved(object: &Value, now: Timestamp) -> bool {
    let created: Option<Timestamp> =
        object["metadata"]["creationTimestamp"].as_str().and_then(|time| time.parse().ok());
    object["status"]["phase"].as_str().unwrap_or_default().is_empty()
        && created.is_some_and(|created| now.duration_since(created) >= SERVED_WITHIN)
}

/// Why that may be, and how to find out.
pub(super) fn unserved(namespace: &str) -> String {
    format!(
        "No server has picked it up yet. See whether one runs: `lifeboat stash debug operator`; whether it serves namespace {namespace:?} (its \
         flag --tenant-namespaces); and whether the namespace has label {SERVED_BY}, which gives it to the server of that name: `kubectl \
         get namespace {namespace} --show-labels`."
    )
}

/// A sentence for success, or the error that the command ends with.
fn outcome(tenant: &Tenant, session: &ObjectName, view: &View) -> Result<String, CliError> {
    let title = format!("{} {:?}", session.kind.noun().one, session.name);
    let reasons = view.reasons();
    let why = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
    match view.phase.as_str() {
        "Succeeded" => Ok(format!("{title} succeeded{why}.")),
        phase => {
            let (namespace, name) = (&tenant.namespace, &session.name);
            let more = match session.kind {
                Kind::RestoreSession => format!("lifeboat stash debug restore --restoresession {name}"),
                Kind::RestoreBatch => format!("lifeboat stash debug restore --restorebatch {name}"),
                _ => format!("kubectl describe backupsession {name}"),
            };
            Err(CliError::ended(format!("{title} is {phase}{why}"))
                .help(format!("see more with `{more} -n {namespace}`")))
        }
    }
}

/// What is shown while the session is followed.
struct SessionDisplay {
    bars: Option<Bars>,
    printed: Option<(View, Instant)>,
}

struct Bars {
    all: MultiProgress,
    session: ProgressBar,
    hosts: BTreeMap<String, ProgressBar>,
}

impl SessionDisplay {
    fn new() -> Self {
        let bars = std::io::stderr().is_terminal().then(|| {
            let all = MultiProgress::new();
            let session = all.add(ProgressBar::new_spinner());
            Bars { all, session, hosts: BTreeMap::new() }
        });
        Self { bars, printed: None }
    }

    fn show(&mut self, view: &View) {
        if let Some(bars) = &mut self.bars {
            return bars.draw(view);
        }
        let is_news = self.printed.as_ref().is_none_or(|(before, when)| {
            let phases = |view: &View| (view.phase.clone(), view.notices.clone());
            phases(before) != phases(view) || (before != view && when.elapsed() >= PRINT_INTERVAL)
        });
        if is_news {
            eprintln!("  {}", view.line());
            for host in view.hosts.iter().filter(|host| host.is_running()) {
                eprintln!("    {}: {}", host.key(), host.state());
            }
            self.printed = Some((view.clone(), Instant::now()));
        }
    }

    fn show_error(&mut self, error: &str) {
        if let Some(bars) = &self.bars {
            bars.session.set_message(format!("the cluster does not answer: {error}"));
            return;
        }
        let is_news = self.printed.as_ref().is_none_or(|(_, when)| when.elapsed() >= PRINT_INTERVAL);
        if is_news {
            eprintln!("  the cluster does not answer, still waiting: {error}");
            self.printed = Some((View::default(), Instant::now()));
        }
    }

    /// Prints a sentence beside what is shown.
    fn note(&self, sentence: &str) {
        match &self.bars {
            Some(bars) => drop(bars.all.println(sentence)),
            None => eprintln!("  {sentence}"),
        }
    }

    fn clear(&self) {
        if let Some(bars) = &self.bars {
            bars.hosts.values().for_each(ProgressBar::finish_and_clear);
            bars.session.finish_and_clear();
        }
    }
}

impl Bars {
    fn draw(&mut self, view: &View) {
        self.session.set_message(view.line());
        self.session.tick();
        let running: Vec<_> = view.hosts.iter().filter(|host| host.is_running()).collect();
        self.hosts.retain(|key, bar| {
            let stays = running.iter().any(|host| host.key() == *key);
            if !stays {
                bar.finish_and_clear();
            }
            stays
        });
        for host in running {
            let all = &self.all;
            let bar = self.hosts.entry(host.key()).or_insert_with(|| {
                let style = ProgressStyle::with_template("  {prefix} {bar:24} {msg}");
                let bar = all.add(ProgressBar::new(0));
                bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
                bar.set_prefix(host.key());
                bar
            });
            let (done, total) = host.bytes();
            bar.set_length(total.max(done));
            bar.set_position(done);
            bar.set_message(host.state());
            bar.tick();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::stash::names;
    use crate::commands::stash::testing::{World, path};

    async fn ended(status: Value) -> Result<String, CliError> {
        let world = World::new().await;
        world.put("backupsessions", "app-1", json!({"status": status}));
        let session = names::session("app-1").unwrap();
        let (_, view) = to_end(&world.tenant, &session).await?;
        outcome(&world.tenant, &session, &view)
    }

    #[tokio::test]
    async fn a_session_that_succeeded_is_success_and_any_other_end_says_why() {
        assert_eq!(ended(json!({"phase": "Succeeded"})).await.unwrap(), "BackupSession \"app-1\" succeeded.");
        let skipped = json!({"phase": "Skipped",
            "conditions": [{"type": "BackupSkipped", "status": "True", "message": "its invoker is paused"}]});
        let error = ended(skipped).await.unwrap_err();
        assert_eq!(error.to_string(), "BackupSession \"app-1\" is Skipped: its invoker is paused");
        assert_eq!(error.code(), 1);
    }

    #[tokio::test]
    async fn a_session_is_followed_to_its_end() {
        let world = World::new().await;
        world.put("backupsessions", "app-1", json!({"status": {"phase": "Running"}}));
        let server = world.server.clone();
        world.server.after(move |_, asked, _| {
            if asked.method == "GET" && asked.path.ends_with("/app-1") {
                server.change(&path("backupsessions", "app-1"), &json!({"status": {"phase": "Succeeded"}}));
            }
        });
        let (object, view) = to_end(&world.tenant, &names::session("app-1").unwrap()).await.unwrap();
        assert_eq!(view.phase, "Succeeded");
        assert_eq!(
            (&object["kind"], &object["status"]["phase"]),
            (&"BackupSession".into(), &"Succeeded".into())
        );
    }

    #[test]
    fn an_object_that_no_server_picks_up_is_told_with_what_may_be_missing() {
        let at = |time: &str| time.parse::<Timestamp>().unwrap();
        let session = |phase: &str| json!({"metadata": {"creationTimestamp": "2026-11-18T00:00:00Z"}, "status": {"phase": phase}});
        assert!(!is_unserved(&session(""), at("2026-11-18T00:00:10Z")), "a server needs a moment");
        assert!(is_unserved(&session(""), at("2026-11-18T00:00:20Z")));
        assert!(
            !is_unserved(&session("Pending"), at("2026-11-18T01:00:00Z")),
            "a server has it, and it waits"
        );
        let sentence = unserved("shop");
        for part in ["debug operator", "\"shop\"", "lifeboat.io/served-by"] {
            assert!(sentence.contains(part), "{sentence}");
        }
    }

    #[tokio::test]
    async fn a_session_that_is_deleted_meanwhile_is_an_error() {
        let world = World::new().await;
        let error = to_end(&world.tenant, &names::session("restorebatch/r").unwrap()).await.unwrap_err();
        assert_eq!(error.to_string(), "RestoreBatch \"r\" was deleted before it ended");
    }
}
