//! The programs that are compared and their command lines: takes the paths of repository, data and target, returns
//! commands and runs none. Called by `case`. Each program has its default cache, in a home directory of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use clap::ValueEnum;

use super::place::Location;
use crate::bench::measure::around;
use crate::{run, tools};

pub(super) const PASSWORD: &str = "the same for all";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Product {
    /// Lifeboat
    Lifeboat,
    /// restic with its defaults
    Restic,
    /// restic with --pack-size 64 --read-concurrency 4
    ResticTuned,
    /// kopia with zstd
    KopiaZstd,
    /// kopia with zstd-fastest
    KopiaZstdFastest,
}

/// A product, ready to be run on a repository.
pub(super) struct Runner {
    product: Product,
    program: PathBuf,
    pub(super) location: Location,
    /// Caches and settings; also the password file.
    pub(super) home: PathBuf,
}

impl Product {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The path of the program; builds it if it is missing.
    pub(super) fn program(self) -> Result<PathBuf> {
        match self {
            Self::Lifeboat => {
                run::run(run::cargo().args(["build", "--quiet", "--release", "--package", "lifeboat"]))?;
                Ok(run::target_directory()?.join("release/lifeboat"))
            }
            Self::Restic | Self::ResticTuned => tools::restic(),
            Self::KopiaZstd | Self::KopiaZstdFastest => tools::kopia(),
        }
    }

    fn is_kopia(self) -> bool {
        matches!(self, Self::KopiaZstd | Self::KopiaZstdFastest)
    }
}

impl Runner {
    pub(super) fn new(product: Product, program: PathBuf, location: Location, home: PathBuf) -> Self {
        Self { product, program, location, home }
    }

    /// Creates the repository.
    pub(super) fn init(&self) -> Vec<Command> {
        if !self.product.is_kopia() {
            return vec![self.command(&["init"])];
        }
        let create = match &self.location {
            Location::Local(directory) => {
                let mut command = self.command(&["repository", "create", "filesystem", "--path"]);
                command.arg(directory);
                command
            }
            Location::S3 { address, bucket, prefix } => {
                let mut command = self.command(&["repository", "create", "s3", "--disable-tls"]);
                command.arg(format!("--endpoint={address}")).arg(format!("--bucket={bucket}"));
                command.arg(format!("--prefix={prefix}/"));
                command
            }
        };
        let compression = if self.product == Product::KopiaZstd { "zstd" } else { "zstd-fastest" };
        vec![create, self.command(&["policy", "set", "--global", &format!("--compression={compression}")])]
    }

    pub(super) fn backup(&self, data: &Path) -> Command {
        let mut command = match self.product {
            Product::KopiaZstd | Product::KopiaZstdFastest => self.command(&["snapshot", "create"]),
            Product::ResticTuned => self.command(&["backup", "--read-concurrency", "4"]),
            Product::Restic | Product::Lifeboat => self.command(&["backup"]),
        };
        command.arg(data);
        command
    }

    /// Restores the newest snapshot. restic and Lifeboat restore files below the target under their full path.
    pub(super) fn restore(&self, data: &Path, target: &Path) -> (Command, PathBuf) {
        if self.product.is_kopia() {
            let mut command = self.command(&["snapshot", "restore"]);
            command.arg(data).arg(target).arg("--snapshot-time=latest");
            return (command, target.to_owned());
        }
        let mut command = self.command(&["restore", "latest", "--target"]);
        command.arg(target);
        (command, target.join(data.strip_prefix("/").unwrap_or(data)))
    }

    /// Reads and verifies all data.
    pub(super) fn check(&self) -> Command {
        if self.product.is_kopia() {
            return self.command(&["snapshot", "verify", "--verify-files-percent=100"]);
        }
        self.command(&["check", "--read-data"])
    }

    /// Forgets every snapshot but the newest.
    pub(super) fn forget(&self) -> Vec<Command> {
        if !self.product.is_kopia() {
            return vec![self.command(&["forget", "--keep-last", "1"])];
        }
        let keep = ["hourly", "daily", "weekly", "monthly", "annual"].map(|unit| format!("--keep-{unit}=0"));
        let mut policy = self.command(&["policy", "set", "--global", "--keep-latest=1"]);
        policy.args(keep);
        vec![policy, self.command(&["snapshot", "expire", "--all", "--delete"])]
    }

    /// Removes unused data at once. kopia's first run only marks it, even without its safety margins.
    pub(super) fn prune(&self) -> Command {
        match self.product {
            Product::Lifeboat => self.command(&["prune", "--grace", "0"]),
            Product::Restic | Product::ResticTuned => self.command(&["prune"]),
            Product::KopiaZstd | Product::KopiaZstdFastest => {
                twice(&self.command(&["maintenance", "run", "--full", "--safety=none"]))
            }
        }
    }

    pub(super) fn password_file(&self) -> PathBuf {
        self.home.join("password")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars().filter(|(name, _)| is_setting(name)) {
            command.env_remove(name);
        }
        match self.product {
            Product::Lifeboat => {
                command.arg("repository").args(&words[..1]);
                command.arg("--repo").arg(self.repository());
                command.arg("--password-file").arg(self.password_file());
                command.args(&words[1..]);
            }
            Product::Restic | Product::ResticTuned => {
                command.arg("--repo").arg(self.repository());
                command.arg("--password-file").arg(self.password_file());
                if self.product == Product::ResticTuned {
                    command.args(["--pack-size", "64"]);
                }
                command.args(words);
            }
            Product::KopiaZstd | Product::KopiaZstdFastest => {
                // kopia's automatic maintenance after a backup would be measured as a part of the backup.
                command.args(["--no-progress", "--no-auto-maintenance"]).args(words);
                command.env("KOPIA_PASSWORD", PASSWORD).env("KOPIA_CHECK_FOR_UPDATES", "false");
                command.env("KOPIA_CONFIG_PATH", self.home.join("kopia.config"));
                command.env("KOPIA_CACHE_DIRECTORY", self.home.join("cache/kopia"));
            }
        }
        command.env("HOME", &self.home).env("XDG_CACHE_HOME", self.home.join("cache"));
        command.envs(self.location.environment());
        command
    }

    /// The repository in restic's syntax.
    fn repository(&self) -> OsString {
        match &self.location {
            Location::Local(directory) => directory.clone().into_os_string(),
            Location::S3 { address, bucket, prefix } => {
                format!("s3:http://{address}/{bucket}/{prefix}").into()
            }
        }
    }
}

/// A command that runs `command` twice, measured as one.
fn twice(command: &Command) -> Command {
    let mut both = Command::new("sh");
    both.args(["-c", r#""$@" && "$@""#, "sh"]);
    around(both, command)
}

/// Whether a variable configures one of the programs: variables of the caller's environment must not affect them.
fn is_setting(name: &str) -> bool {
    ["RESTIC_", "AWS_", "KOPIA_"].iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runner(product: Product, location: Location) -> Runner {
        Runner::new(product, "/bin/program".into(), location, "/home".into())
    }

    fn local(product: Product) -> Runner {
        runner(product, Location::Local("/repo".into()))
    }

    #[test]
    fn lifeboat_and_restic_get_the_same_words_and_only_their_place_differs() {
        let data = Path::new("/data");
        assert_eq!(
            run::describe(&local(Product::Lifeboat).backup(data)),
            "/bin/program repository backup --repo /repo --password-file /home/password /data"
        );
        assert_eq!(
            run::describe(&local(Product::ResticTuned).backup(data)),
            "/bin/program --repo /repo --password-file /home/password --pack-size 64 backup --read-concurrency 4 /data"
        );
    }

    #[test]
    fn files_are_looked_for_where_each_product_puts_them() {
        let (data, target) = (Path::new("/srv/data"), Path::new("/target"));
        assert_eq!(local(Product::Restic).restore(data, target).1, Path::new("/target/srv/data"));
        assert_eq!(local(Product::KopiaZstd).restore(data, target).1, target);
    }

    #[test]
    fn a_repository_on_s3_is_named_as_each_product_wants_it() {
        let s3 = || Location::S3 { address: "h:1".into(), bucket: "b".into(), prefix: "p".into() };
        assert!(run::describe(&runner(Product::Restic, s3()).check()).contains("--repo s3:http://h:1/b/p "));
        let create = run::describe(&runner(Product::KopiaZstd, s3()).init()[0]);
        assert!(create.ends_with("--disable-tls --endpoint=h:1 --bucket=b --prefix=p/"), "{create}");
    }
}
