//! Runs one session: creates it, waits for its end, and reads how long each host took.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::objects;
use super::site::{DATA, Site};
use crate::run;

const SESSIONS: &str = "backupsessions.stash.appscode.com";
/// The final phases.
const END: [&str; 3] = ["Succeeded", "Failed", "Skipped"];
/// How long a session, or the look at an invoker, may take.
const PATIENCE: &str = "--request-timeout=900s";

/// How long a session took.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Taken {
    /// From its creation to its end, in seconds.
    pub(super) wall_s: f64,
    /// Each host by its name, from its beginning to its end.
    pub(super) hosts_s: Vec<(String, f64)>,
}

/// Waits until an invoker is Ready.
pub(super) fn ready(site: &Site, kind: &str, name: &str) -> Result<()> {
    watched(site, kind, name, &["Ready"]).map(drop)
}

/// Runs a session of a batch; an end other than Succeeded is an error.
pub(super) fn of_batch(site: &Site, batch: &str) -> Result<Taken> {
    ready(site, "backupbatches.stash.appscode.com", batch)?;
    let session = objects::session(DATA, batch, "BackupBatch", batch);
    let began = Instant::now();
    run::with_input(site.kubectl(DATA).command().args(["create", "-f", "-"]), &session.to_string())?;
    let phase = watched(site, SESSIONS, batch, &END)?;
    let wall_s = began.elapsed().as_secs_f64();
    let found = run::output(site.kubectl(DATA).command().args(["get", SESSIONS, batch, "-o", "json"]))?;
    let found: Value = serde_json::from_str(&found).context("cannot read the session")?;
    ensure!(phase == "Succeeded", "session {batch} is {phase}: {:#}", found["status"]);
    Ok(Taken { wall_s, hosts_s: hosts(&found["status"])? })
}

/// The phase of an object, as soon as it is one of these.
fn watched(site: &Site, kind: &str, name: &str, phases: &[&str]) -> Result<String> {
    let mut child = site
        .kubectl(DATA)
        .command()
        .args(["get", kind, name, "--watch", PATIENCE, "-o", "jsonpath={.status.phase}{\"\\n\"}"])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start kubectl")?;
    let output = child.stdout.take().context("a pipe was asked for")?;
    let found =
        BufReader::new(output).lines().map_while(Result::ok).find(|line| phases.contains(&line.as_str()));
    let _ = child.kill();
    let _ = child.wait();
    let Some(phase) = found else { bail!("{kind} {name} did not become {}", phases.join(" or ")) };
    Ok(phase)
}

/// The hosts of a session that has ended.
fn hosts(status: &Value) -> Result<Vec<(String, f64)>> {
    let targets = status["targets"].as_array().into_iter().flatten();
    let hosts = targets.filter_map(|target| target["stats"].as_array()).flatten();
    let host = |host: &Value| {
        let name = host["hostname"].as_str().context("a host has no name")?.to_owned();
        let lasted = host["duration"].as_str().and_then(seconds);
        Ok((name, lasted.with_context(|| format!("a host has no duration: {host}"))?))
    };
    hosts.map(host).collect()
}

/// The seconds of a duration such as `1m2.5s` or `850ms`.
fn seconds(text: &str) -> Option<f64> {
    let mut sum = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let unit = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let end =
            rest[unit..].find(|letter: char| letter.is_ascii_digit()).map_or(rest.len(), |at| unit + at);
        let number: f64 = rest[..unit].parse().ok()?;
        sum += number
            * match &rest[unit..end] {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
        rest = &rest[end..];
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        let near = |text: &str, expected: f64| {
            let found = seconds(text).expect("a duration");
            assert!((found - expected).abs() < 1e-9, "{text}: {found}");
        };
        near("1m2.5s", 62.5);
        near("850ms", 0.85);
        near("1h0m3s", 3603.0);
        near("0s", 0.0);
        assert_eq!(seconds("12"), None);
        assert_eq!(seconds("1d"), None);
    }

    #[test]
    fn every_host_of_every_member_counts() {
        let host = |name: &str| json!({"hostname": name, "duration": "2s"});
        let status = json!({"targets": [{"stats": [host("a"), host("b")]}, {"stats": [host("c")]}]});
        let names: Vec<String> = hosts(&status).expect("hosts").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(hosts(&json!({"targets": [{"stats": [{"hostname": "a"}]}]})).is_err(), "it has no duration");
    }
}
