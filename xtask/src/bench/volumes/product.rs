//! The products: what each needs in the cluster, and how it runs one backup or restore there.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::json;

use super::agents::Agents;
use super::app::{App, Node};
use super::bucket::Bucket;
use super::floor::Floor;
use super::pods::{Usage, Watch};
use super::{Work, work};
use crate::bench::process;
use crate::servers::{self, Home, Kubectl, Server};
use crate::{cluster_box, image, run};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Product {
    /// restic on the volumes' directories, one after the other
    Restic,
    /// restic on the volumes' directories, as many at a time as Lifeboat's movers
    ResticParallel,
    Lifeboat,
    /// Velero 1.18.3 and its node agents with their defaults: one volume at a time
    Velero,
    /// Velero 1.18.3 and its node agents, as many volumes at a time as Lifeboat's movers
    VeleroTuned,
}

/// Lifeboat's default number of movers on one node; there are two nodes.
const ON_NODE: u32 = 4;
const TUNED: [&str; 2] = ["--item-block-worker-count", "8"];

impl Product {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// A product to measure.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) product: Product,
    /// The name of its rows, its namespace and its prefix in storage.
    pub(super) name: String,
    /// The program of Lifeboat's server.
    pub(super) program: PathBuf,
    /// The image of Lifeboat's movers.
    pub(super) image: String,
}

/// The time and resources that one backup or restore used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Taken {
    pub(super) wall_s: f64,
    pub(super) cpu_s: f64,
    pub(super) server_mb: Option<f64>,
    pub(super) agent_mb: Option<f64>,
    pub(super) mover_mb: Option<f64>,
}

impl Taken {
    /// The usage of both together: the sums of the times, the larger memory.
    pub(super) fn and(&self, other: &Self) -> Self {
        let larger = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        };
        Self {
            wall_s: self.wall_s + other.wall_s,
            cpu_s: self.cpu_s + other.cpu_s,
            server_mb: larger(self.server_mb, other.server_mb),
            agent_mb: larger(self.agent_mb, other.agent_mb),
            mover_mb: larger(self.mover_mb, other.mover_mb),
        }
    }
}

/// A product with the objects that it needs, which are deleted when it is dropped.
pub(super) struct Ready {
    product: Product,
    name: String,
    means: Means,
}

enum Means {
    Restic(Floor),
    Velero {
        // Dropped before the namespace that they are in.
        _agents: Agents,
        home: Home,
        environment: BTreeMap<String, String>,
    },
    Lifeboat {
        movers: MoverNamespace,
        home: Home,
        program: PathBuf,
        image: String,
        environment: BTreeMap<String, String>,
    },
}

impl Ready {
    pub(super) fn prepare(
        candidate: &Candidate,
        environment: &BTreeMap<String, String>,
        bucket: &Bucket,
        nodes: &[Node],
    ) -> Result<Self> {
        let Candidate { product, name, program, image } = candidate;
        let home = || Home::new(environment, &format!("bench-volumes-{name}"), &bucket.prefix(name));
        let restic = |at_once| Floor::prepare(environment, bucket.restic(name), at_once);
        let velero = |at_once| -> Result<Means> {
            cluster_box::load(&[image::velero()?])?;
            let home = home()?;
            Ok(Means::Velero {
                _agents: Agents::start(&home, nodes, at_once)?,
                home,
                environment: environment.clone(),
            })
        };
        let means = match product {
            Product::Restic => Means::Restic(restic(1)?),
            Product::ResticParallel => Means::Restic(restic(nodes.len() * ON_NODE as usize)?),
            Product::Velero => velero(None)?,
            Product::VeleroTuned => velero(Some(ON_NODE))?,
            Product::Lifeboat => {
                let home = home()?;
                Means::Lifeboat {
                    movers: MoverNamespace::new(environment, &home)?,
                    home,
                    program: program.clone(),
                    image: image.clone(),
                    environment: environment.clone(),
                }
            }
        };
        Ok(Self { product: *product, name: name.clone(), means })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Deletes the data before a restore: restic needs empty directories, the others create claims and pods themselves.
    pub(super) fn lose(&self, app: &App) -> Result<()> {
        match self.means {
            Means::Restic(_) => app.empty(),
            _ => app.delete(),
        }
    }

    /// Measures one backup or restore by a new server, from its creation to its final phase.
    pub(super) fn work(&self, work: Work, app: &App) -> Result<Taken> {
        match &self.means {
            Means::Restic(floor) => floor.work(work, &app.directories()?),
            Means::Velero { home, environment, .. } => {
                let flags: &[&str] = if self.product == Product::VeleroTuned { &TUNED } else { &[] };
                let server = servers::velero(environment, home, flags, &[])?;
                by_server(&server, home, &home.kubectl_maker(), work)
            }
            Means::Lifeboat { movers, home, program, image, environment } => {
                let namespace = &movers.name;
                let mut flags = vec!["--node-access", "--mover-image", image, "--mover-namespace", namespace];
                flags.extend(servers::without_stash(program)?);
                let server = servers::lifeboat(program, environment, home, &flags, &[])?;
                by_server(&server, home, &movers.kubectl, work)
            }
        }
    }
}

fn by_server(server: &Server, home: &Home, movers: &Kubectl, work: Work) -> Result<Taken> {
    let before = process::cpu(server.pid())?;
    let watch = Watch::begin(movers)?;
    let wall_s = work::run(home, work);
    let Usage { cpu_s, agent_mb, mover_mb } = watch.end();
    let wall_s = wall_s.with_context(|| server.last_words())?;
    let cpu_s = cpu_s + process::cpu(server.pid())? - before;
    Ok(Taken { wall_s, cpu_s, server_mb: Some(process::memory(server.pid())?.0), agent_mb, mover_mb })
}

/// The namespace in which Lifeboat's movers run, as the installation creates it.
pub(in crate::bench) struct MoverNamespace {
    pub(in crate::bench) name: String,
    kubectl: Kubectl,
}

impl MoverNamespace {
    pub(in crate::bench) fn new(environment: &BTreeMap<String, String>, home: &Home) -> Result<Self> {
        let name = format!("{}-movers", home.namespace);
        let kubectl = Kubectl::new(environment, &name);
        kubectl.await_removal()?;
        let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "lifeboat-mover", "namespace": name}},
        ]});
        run::with_input(kubectl.command().args(["apply", "-f", "-"]), &objects.to_string())?;
        Ok(Self { name, kubectl })
    }
}

impl Drop for MoverNamespace {
    fn drop(&mut self) {
        let delete = ["delete", "namespace", &self.name, "--ignore-not-found", "--wait=false"];
        let _ = run::output(self.kubectl.command().args(delete));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_add_their_times_and_the_largest_counts() {
        let one = Taken { cpu_s: 1.0, mover_mb: Some(50.0), ..Taken::default() };
        let both = one.and(&Taken { cpu_s: 2.0, mover_mb: Some(70.0), ..Taken::default() });
        assert_eq!(both, Taken { cpu_s: 3.0, mover_mb: Some(70.0), ..Taken::default() });
        assert_eq!(Taken::default().and(&one), one);
    }
}
