//! `status`: the state of all processes, as a table or JSON. Healthy means that every process runs and both nodes are
//! ready.
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde::Serialize;

use super::layout::{self, ADDRESS, NODES, S3, S3_TLS, STATE};
use super::state::{self, Found, Recorded, State};
use super::{kubectl, supervisor};
use crate::run;

#[derive(Debug, Serialize)]
pub(super) struct Status {
    pub healthy: bool,
    pub summary: String,
    components: Vec<Component>,
    nodes: Vec<Node>,
    kubernetes: Option<String>,
    api_server: String,
    s3: [String; 2],
    disk_used: Option<String>,
}

#[derive(Debug, Serialize)]
struct Component {
    name: String,
    pid: i32,
    state: String,
    restarts: u32,
    ports: Vec<u16>,
}

#[derive(Debug, Serialize)]
struct Node {
    name: String,
    ready: bool,
    version: String,
}

pub(super) fn status() -> Result<Status> {
    Ok(match state::find()? {
        Found::Nothing => {
            report("there is no box; start it with `cargo xtask box up`".into(), Vec::new(), Vec::new())
        }
        Found::Stale(_, why) => {
            let text = format!("the box is not usable: {why}; `cargo xtask box up` replaces it");
            report(text, dead(state::recorded()), Vec::new())
        }
        Found::Running(state) => running(&state),
    })
}

fn running(state: &State) -> Status {
    let components = supervisor::status().unwrap_or_default().into_iter().map(component).collect();
    let mut status = report("the box is up".into(), components, nodes(state));
    let stopped: Vec<&str> = status
        .components
        .iter()
        .filter(|each| each.state != "running")
        .map(|each| each.name.as_str())
        .collect();
    let unready: Vec<&str> =
        status.nodes.iter().filter(|node| !node.ready).map(|node| node.name.as_str()).collect();
    status.healthy = stopped.is_empty() && unready.is_empty() && status.nodes.len() == NODES.len();
    if !stopped.is_empty() {
        status.summary = format!("not running: {}", stopped.join(", "));
    } else if status.nodes.is_empty() {
        status.summary = "the API server does not answer".into();
    } else if !status.healthy {
        status.summary = format!("nodes not ready: {}", unready.join(", "));
    }
    status
}

fn report(summary: String, components: Vec<Component>, nodes: Vec<Node>) -> Status {
    Status {
        healthy: false,
        summary,
        kubernetes: nodes.first().map(|node| node.version.clone()),
        components,
        nodes,
        api_server: format!("https://{ADDRESS}:{}", layout::API_SERVER.number),
        s3: [format!("http://{ADDRESS}:{}", S3.number), format!("https://{ADDRESS}:{}", S3_TLS.number)],
        disk_used: disk_used(),
    }
}

fn component(recorded: Recorded) -> Component {
    let ports = layout::ports()
        .iter()
        .filter(|port| port.component == recorded.name)
        .map(|port| port.number)
        .collect();
    Component {
        name: recorded.name,
        pid: recorded.process.pid,
        state: recorded.state,
        restarts: recorded.restarts,
        ports,
    }
}

/// The record of a box without a supervisor: a process counts as running only if it is alive.
fn dead(recorded: Vec<Recorded>) -> Vec<Component> {
    recorded
        .into_iter()
        .map(|each| {
            let state = if each.process.is_alive() { "left over" } else { "dead" };
            component(Recorded { state: state.into(), ..each })
        })
        .collect()
}

fn nodes(state: &State) -> Vec<Node> {
    let path = "{range .items[*]}{.metadata.name} {.status.conditions[?(@.type=='Ready')].status} \
                {.status.nodeInfo.kubeletVersion}{'\\n'}{end}";
    let path = path.replace('\'', "\"");
    let mut command = kubectl::command(state);
    command.args(["get", "nodes", "--request-timeout=4s", "-o", &format!("jsonpath={path}")]);
    run::output(&mut command).map(|text| text.lines().filter_map(parse_node).collect()).unwrap_or_default()
}

fn parse_node(line: &str) -> Option<Node> {
    let mut columns = line.split_whitespace();
    let (name, ready, version) = (columns.next()?, columns.next()?, columns.next()?);
    Some(Node { name: name.into(), ready: ready == "True", version: version.into() })
}

fn disk_used() -> Option<String> {
    Path::new(STATE).exists().then_some(())?;
    let output = run::output(Command::new("du").args(["-sxh", STATE])).ok()?;
    output.split_whitespace().next().map(str::to_owned)
}

impl Status {
    pub(super) fn table(&self) -> String {
        let mut text = format!("{}\n", self.summary);
        if self.components.is_empty() {
            return text;
        }
        let _ = writeln!(
            text,
            "
{:<26} {:>8}  {:<11} {:>8}  PORTS",
            "COMPONENT", "PID", "STATE", "RESTARTS"
        );
        for each in &self.components {
            let ports: Vec<String> = each.ports.iter().map(u16::to_string).collect();
            let line = format!(
                "{:<26} {:>8}  {:<11} {:>8}  {}",
                each.name,
                each.pid,
                each.state,
                each.restarts,
                ports.join(" ")
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text += "\n";
        for node in &self.nodes {
            let ready = if node.ready { "Ready" } else { "NotReady" };
            let _ = writeln!(text, "node {:<7} {ready:<9} {}", node.name, node.version);
        }
        let _ =
            writeln!(text, "API server   {}\nS3           {}  {}", self.api_server, self.s3[0], self.s3[1]);
        let _ = writeln!(text, "disk used    {} in {STATE}", self.disk_used.as_deref().unwrap_or("unknown"));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_ready_only_when_its_condition_is_true() {
        assert!(parse_node("box-1 True v1.34.4").is_some_and(|node| node.ready));
        assert!(parse_node("box-1 Unknown v1.34.4").is_some_and(|node| !node.ready));
    }

    #[test]
    fn without_components_the_table_is_the_summary() {
        assert_eq!(report("nothing".into(), Vec::new(), Vec::new()).table(), "nothing\n");
    }
}
