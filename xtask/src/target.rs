//! The cluster that demo and tests use: the box, or one that the user names with `--context`. A cluster that is only
//! set through KUBECONFIG is never used, because tests delete objects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{cluster_box, image, run};

/// Flags of every command that needs a cluster.
#[derive(clap::Args, Clone)]
pub(crate) struct TargetArgs {
    /// Use this context of your kubeconfig instead of the box
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// With --context: the image of Lifeboat in a registry that the cluster reaches
    #[arg(long, value_name = "REF", requires = "context")]
    pub(crate) image: Option<String>,
    /// With --context: the Debian test image in a registry that the cluster reaches
    #[arg(long, value_name = "REF", requires = "context")]
    pub(crate) test_image: Option<String>,
}

/// A cluster and how to connect to it.
pub(crate) struct Cluster {
    /// `None` is the box.
    context: Option<String>,
    /// The Lifeboat program on this machine.
    pub(crate) binary: PathBuf,
    pub(crate) environment: BTreeMap<String, String>,
}

/// A cluster with storage and loaded images.
pub(crate) struct Target {
    pub(crate) cluster: Cluster,
    pub(crate) image: String,
    pub(crate) test_image: String,
    /// The archive of Lifeboat's image; a named cluster pulls its images from a registry.
    pub(crate) archive: Option<PathBuf>,
}

/// Variables that a named cluster needs from the user's environment, because it has no S3 server of ours.
const STORAGE: [&str; 4] =
    ["LIFEBOAT_S3_ENDPOINT", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"];

impl Target {
    /// Builds Lifeboat, then starts the box and loads the images, or checks that a named cluster can be used.
    pub(crate) fn prepare(args: &TargetArgs) -> Result<Self> {
        match &args.context {
            Some(context) => Self::named(Cluster::named(context)?, args),
            None => Self::in_the_box(&image::binary(image::Profile::Fast)?),
        }
    }

    /// Prepares the target with an existing Lifeboat program.
    pub(crate) fn prepare_with(args: &TargetArgs, lifeboat: &Path) -> Result<Self> {
        match &args.context {
            Some(context) => Self::named(Cluster::with(context, lifeboat), args),
            None => Self::in_the_box(lifeboat),
        }
    }

    fn in_the_box(lifeboat: &Path) -> Result<Self> {
        cluster_box::up()?;
        let archive = image::lifeboat_of(lifeboat)?;
        cluster_box::load(&[archive.clone(), image::debian()?])?;
        let (binary, environment) = (lifeboat.to_owned(), cluster_box::environment()?);
        Ok(Self {
            cluster: Cluster { context: None, binary, environment },
            image: image::LIFEBOAT.to_owned(),
            test_image: image::DEBIAN.to_owned(),
            archive: Some(archive),
        })
    }

    fn named(mut cluster: Cluster, args: &TargetArgs) -> Result<Self> {
        let context = cluster.context.clone().unwrap_or_default();
        let (Some(image), Some(test_image)) = (&args.image, &args.test_image) else {
            bail!(
                "cluster {context:?} cannot use images of this machine: build them with `cargo xtask image all`, push \
                 them to a registry that it reaches, and pass --image REF --test-image REF"
            );
        };
        let storage = storage(|name| std::env::var(name).ok()).with_context(|| {
            format!("cluster {context:?} has no S3 server of ours: name one that it can reach, with a bucket `lifeboat`")
        })?;
        cluster.environment.extend(storage);
        Ok(Self { cluster, image: image.clone(), test_image: test_image.clone(), archive: None })
    }
}

/// The storage variables; all of them are required.
fn storage(variable: impl Fn(&str) -> Option<String>) -> Result<BTreeMap<String, String>> {
    let missing: Vec<&str> = STORAGE.into_iter().filter(|name| variable(name).is_none()).collect();
    if !missing.is_empty() {
        bail!("{} not set", missing.join(", "));
    }
    Ok(STORAGE.iter().filter_map(|name| Some(((*name).to_owned(), variable(name)?))).collect())
}

impl Cluster {
    /// A cluster of the user's kubeconfig. Needs only cargo: no root, no packages, no Linux.
    pub(crate) fn named(context: &str) -> Result<Self> {
        run::run(run::cargo().args(["build", "--quiet", "--package", "lifeboat"]))?;
        Ok(Self::with(context, &run::target_directory()?.join("debug/lifeboat")))
    }

    /// A cluster of the user's kubeconfig with an existing Lifeboat program.
    fn with(context: &str, lifeboat: &Path) -> Self {
        Self {
            context: Some(context.to_owned()),
            binary: lifeboat.to_owned(),
            environment: BTreeMap::from([("LIFEBOAT_CONTEXT".to_owned(), context.to_owned())]),
        }
    }

    pub(crate) fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    /// `kubectl` for this cluster only.
    pub(crate) fn kubectl(&self) -> Command {
        let mut command = self.command("kubectl");
        if let Some(context) = &self.context {
            command.args(["--context", context]);
        }
        command
    }

    /// The Lifeboat program for this cluster only.
    pub(crate) fn lifeboat(&self) -> Command {
        let mut command = self.command(&self.binary.to_string_lossy());
        if let Some(context) = &self.context {
            command.args(["--context", context]);
        }
        command
    }

    /// A program with the environment of this cluster.
    fn command(&self, program: &str) -> Command {
        let program = self.resolve(program);
        let mut command = Command::new(program);
        command.envs(&self.environment).current_dir(run::checkout());
        command
    }

    /// `Command` searches the parent's PATH, not the one it is given, so ours is searched first.
    fn resolve(&self, program: &str) -> PathBuf {
        let path = self.environment.get("PATH").cloned().unwrap_or_default();
        path.split(':')
            .map(|directory| Path::new(directory).join(program))
            .find(|candidate| candidate.is_file())
            .unwrap_or_else(|| PathBuf::from(program))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_storage_variable_is_named_at_once() {
        let some = |name: &str| name.starts_with("AWS_").then(|| "x".to_owned());
        assert_eq!(storage(some).expect_err("one is missing").to_string(), "LIFEBOAT_S3_ENDPOINT not set");
        assert_eq!(storage(|_| Some("x".to_owned())).expect("all are there").len(), STORAGE.len());
    }
}
