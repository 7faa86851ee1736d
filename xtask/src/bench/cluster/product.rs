//! The products: how each server is started, its namespace, and the account by which its requests are counted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::identity::Identity;
use crate::bench::baseline::Build;
use crate::servers::{self, Home, Server};
use crate::{run, tools};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Product {
    /// Velero 1.18.3 with its defaults
    Velero,
    /// Velero 1.18.3 that may make more requests at once
    VeleroTuned,
    Lifeboat,
    /// The tuned Velero, with an action in Go that applies to every item
    VeleroTunedAction,
    /// Lifeboat with the same action
    LifeboatAction,
    /// The older build of Lifeboat that --baseline names
    #[value(skip)]
    Baseline,
    /// The older build with the same action
    #[value(skip)]
    BaselineAction,
}

const TUNED: [&str; 6] = ["--client-qps", "2000", "--client-burst", "4000", "--item-block-worker-count", "8"];

impl Product {
    /// Whether its plugin is measured as well.
    pub(super) fn has_action(self) -> bool {
        matches!(self, Self::VeleroTunedAction | Self::LifeboatAction | Self::BaselineAction)
    }

    /// The build under test.
    fn is_lifeboat(self) -> bool {
        matches!(self, Self::Lifeboat | Self::LifeboatAction)
    }

    pub(super) fn name(self) -> String {
        match self {
            Self::Baseline => Build::Old.product().to_owned(),
            Self::BaselineAction => format!("{}-action", Build::Old.product()),
            _ => self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default(),
        }
    }
}

/// The builds of Lifeboat that are measured.
pub(super) struct Programs {
    pub(super) new: PathBuf,
    /// Set if `--baseline` is given.
    pub(super) old: Option<PathBuf>,
}

/// The objects that the products need in the cluster; all of them are deleted when it is dropped.
pub(super) struct Products {
    programs: Programs,
    environment: BTreeMap<String, String>,
    // Dropped before the namespaces that they are in.
    peer: Identity,
    lifeboat: Identity,
    unrelated: Identity,
    /// The namespace of Velero or of the older build.
    peer_home: Home,
    lifeboat_home: Home,
}

impl Products {
    /// Prepares the cluster. Both products use the custom resource definitions of the new build, because an upgrade applies
    /// them first.
    pub(super) fn prepare(programs: Programs, environment: &BTreeMap<String, String>) -> Result<Self> {
        run::output(Command::new(&programs.new).envs(environment).args(["install", "--crds-only"]))?;
        // Each run has its own prefix, because backups that are in the bucket would be synced.
        let stamp = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let home = |product| {
            Home::new(environment, &format!("{product}-bench"), &format!("bench-{stamp}/{product}"))
        };
        let peer = if programs.old.is_some() { Build::Old.product() } else { "velero" };
        let (peer_home, lifeboat_home) = (home(peer)?, home("lifeboat")?);
        Ok(Self {
            peer: Identity::new(&peer_home, "product")?,
            lifeboat: Identity::new(&lifeboat_home, "product")?,
            unrelated: Identity::new(&lifeboat_home, "unrelated")?,
            peer_home,
            lifeboat_home,
            programs,
            environment: environment.clone(),
        })
    }

    /// Starts a new server process and waits until its location is available.
    pub(super) fn start(&self, product: Product) -> Result<Server> {
        let (home, mut environment) = (self.home(product), self.environment.clone());
        let kubeconfig = self.identity(product).kubeconfig();
        environment.insert("KUBECONFIG".to_owned(), kubeconfig.to_string_lossy().into_owned());
        let plugins = if product.has_action() { vec![tools::everything_plugin()?] } else { Vec::new() };
        match product {
            Product::Velero => servers::velero(&environment, home, &[], &plugins),
            Product::VeleroTuned | Product::VeleroTunedAction => {
                servers::velero(&environment, home, &TUNED, &plugins)
            }
            Product::Lifeboat | Product::LifeboatAction => {
                start_lifeboat(&self.programs.new, &environment, home, &plugins)
            }
            Product::Baseline | Product::BaselineAction => {
                let old = self.programs.old.as_deref().context("the older build was not named")?;
                start_lifeboat(old, &environment, home, &plugins)
            }
        }
    }

    pub(super) fn home(&self, product: Product) -> &Home {
        if product.is_lifeboat() { &self.lifeboat_home } else { &self.peer_home }
    }

    /// Requests that the product has made so far.
    pub(super) fn requests(&self, product: Product) -> Result<u64> {
        self.identity(product).requests()
    }

    /// The kubeconfig of a client that belongs to none of the products.
    pub(super) fn unrelated(&self) -> PathBuf {
        self.unrelated.kubeconfig()
    }

    /// How long the action of a restore ran, from the restore's log. Velero does not log it.
    pub(super) fn action_seconds(&self, product: Product, restore: &str) -> Result<Option<f64>> {
        if product != Product::LifeboatAction {
            return Ok(None);
        }
        let mut command = Command::new(&self.programs.new);
        command.envs(&self.environment).args(["--namespace", &self.lifeboat_home.namespace]);
        let log = run::output(command.args(["restore", "logs", restore]))?;
        let line = log.lines().find_map(|line| line.split_once(": Execute was called "));
        let seconds = line.and_then(|(_, rest)| rest.split_once("took ")?.1.split_once(' ')?.0.parse().ok());
        Ok(Some(seconds.context("the restore's log does not say how its plugin was used")?))
    }

    fn identity(&self, product: Product) -> &Identity {
        if product.is_lifeboat() { &self.lifeboat } else { &self.peer }
    }
}

/// Starts a server of Velero's API only, as the peers' are.
fn start_lifeboat(
    program: &Path,
    environment: &BTreeMap<String, String>,
    home: &Home,
    plugins: &[PathBuf],
) -> Result<Server> {
    let flags: Vec<&str> = servers::without_stash(program)?.into_iter().collect();
    servers::lifeboat(program, environment, home, &flags, plugins)
}
