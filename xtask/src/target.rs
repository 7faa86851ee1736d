//! The cluster that demo and tests use: the box, or one that the user names with `--context`. A cluster that is merely
//! inherited through KUBECONFIG is never used: tests delete things.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

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

/// A cluster with storage beside it, and how to reach both.
pub(crate) struct Target {
    /// `None` is the box.
    context: Option<String>,
    pub(crate) image: String,
    pub(crate) test_image: String,
    /// Lifeboat on this machine, the same program that is in the image.
    pub(crate) binary: PathBuf,
    /// The archive of Lifeboat's image.
    pub(crate) archive: PathBuf,
    pub(crate) environment: BTreeMap<String, String>,
}

/// What a named cluster needs from the user's environment, because it has no S3 server of ours beside it.
const STORAGE: [&str; 4] =
    ["LIFEBOAT_S3_ENDPOINT", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"];

impl Target {
    /// Brings the box up and loads the images, or checks that a named cluster can be used.
    pub(crate) fn prepare(args: &TargetArgs) -> Result<Self> {
        match &args.context {
            Some(context) => Self::named(context, args),
            None => Self::in_the_box(),
        }
    }

    fn in_the_box() -> Result<Self> {
        cluster_box::up()?;
        let archive = image::lifeboat(image::Profile::Fast)?;
        cluster_box::load(&[archive.clone(), image::debian()?])?;
        Ok(Self {
            context: None,
            image: image::LIFEBOAT.to_owned(),
            test_image: image::DEBIAN.to_owned(),
            binary: image::binary(image::Profile::Fast)?,
            archive,
            environment: cluster_box::environment()?,
        })
    }

    fn named(context: &str, args: &TargetArgs) -> Result<Self> {
        let (Some(image), Some(test_image)) = (&args.image, &args.test_image) else {
            bail!(
                "cluster {context:?} cannot see images of this machine: make them with `cargo xtask image all`, push \
                 them to a registry that it reaches, and pass --image REF --test-image REF"
            );
        };
        let mut environment = BTreeMap::new();
        for name in STORAGE {
            let Ok(value) = std::env::var(name) else {
                bail!(
                    "cluster {context:?} has no S3 server of ours beside it: set {} for one that it reaches, with a bucket `lifeboat`",
                    STORAGE.join(", ")
                );
            };
            environment.insert(name.to_owned(), value);
        }
        environment.insert("LIFEBOAT_CONTEXT".to_owned(), context.to_owned());
        Ok(Self {
            context: Some(context.to_owned()),
            image: image.clone(),
            test_image: test_image.clone(),
            archive: image::lifeboat(image::Profile::Fast)?,
            binary: image::binary(image::Profile::Fast)?,
            environment,
        })
    }

    pub(crate) fn is_box(&self) -> bool {
        self.context.is_none()
    }

    /// `kubectl` for this cluster and no other.
    pub(crate) fn kubectl(&self) -> Command {
        let mut command = self.command("kubectl");
        if let Some(context) = &self.context {
            command.args(["--context", context]);
        }
        command
    }

    /// Our own binary, as it is in the image, for this cluster and no other.
    pub(crate) fn lifeboat(&self) -> Command {
        let mut command = self.command(&self.binary.to_string_lossy());
        if let Some(context) = &self.context {
            command.args(["--context", context]);
        }
        command
    }

    /// A program with the environment that leads to this cluster.
    pub(crate) fn command(&self, program: &str) -> Command {
        let program = self.resolve(program);
        let mut command = Command::new(program);
        command.envs(&self.environment).current_dir(run::checkout());
        command
    }

    /// `Command` looks in the parent's PATH, not in the one it is given: look in ours first.
    fn resolve(&self, program: &str) -> PathBuf {
        let path = self.environment.get("PATH").cloned().unwrap_or_default();
        path.split(':')
            .map(|directory| Path::new(directory).join(program))
            .find(|candidate| candidate.is_file())
            .unwrap_or_else(|| PathBuf::from(program))
    }
}
