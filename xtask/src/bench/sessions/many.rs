//! Waits for many objects in the namespaces of a measurement, always with an end.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::site::{Site, TENANT};
use crate::run;

/// Each look is a process that shares the cores with what it waits for.
const INTERVAL: Duration = Duration::from_secs(2);

/// A kind, what is shown of each object, and when that is as wanted.
pub(super) struct Wanted<'a> {
    pub(super) kind: &'a str,
    /// As in a JSON path, after the name of the namespace.
    pub(super) fields: &'a str,
    /// Gets the fields as words.
    pub(super) is_so: &'a dyn Fn(&[&str]) -> bool,
}

/// Claims that have a volume.
pub(super) const BOUND: Wanted<'static> =
    Wanted { kind: "persistentvolumeclaims", fields: "{.status.phase}", is_so: &|words| words == ["Bound"] };

/// BackupConfigurations whose present schedule is in force.
pub(super) const IN_FORCE: Wanted<'static> = Wanted {
    kind: "backupconfigurations.stash.appscode.com",
    fields: "{.status.phase} {.metadata.generation} {.status.observedGeneration}",
    is_so: &is_in_force,
};

fn is_in_force(words: &[&str]) -> bool {
    matches!(words, ["Ready", generation, observed] if generation == observed)
}

/// How many objects are as wanted: as soon as there are `count`, or when the time is over.
pub(super) fn wait(site: &Site, wanted: &Wanted<'_>, count: usize, patience: Duration) -> Result<usize> {
    let began = Instant::now();
    loop {
        let found = count_of(&list(site, wanted)?, wanted.is_so);
        if found >= count || began.elapsed() >= patience {
            return Ok(found);
        }
        thread::sleep(INTERVAL);
    }
}

/// A line for each object of the measurement's namespaces: the namespace, and the fields.
pub(super) fn list(site: &Site, wanted: &Wanted<'_>) -> Result<Vec<String>> {
    let path =
        format!("jsonpath={{range .items[*]}}{{.metadata.namespace}} {}{{\"\\n\"}}{{end}}", wanted.fields);
    let get = ["get", wanted.kind, "--all-namespaces", "-o", &path];
    let text = run::output(site.kubectl(TENANT).command().args(get))?;
    Ok(text.lines().filter(|line| line.starts_with(TENANT)).map(str::to_owned).collect())
}

pub(super) fn count_of(lines: &[String], is_so: impl Fn(&[&str]) -> bool) -> usize {
    let fits = |line: &&String| {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        is_so(&words)
    };
    lines.iter().filter(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_in_force_once_the_server_has_seen_its_spec() {
        let lines = ["n Ready 2 2", "n Ready 2 1", "n Ready 2", "n Invalid 2 2", "n "].map(str::to_owned);
        assert_eq!(count_of(&lines, IN_FORCE.is_so), 1);
        assert_eq!(count_of(&["n Bound".to_owned(), "n Pending".to_owned()], BOUND.is_so), 1);
    }
}
