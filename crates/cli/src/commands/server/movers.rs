//! The server's flags for movers and the volumes they copy, with stock Velero's names where Velero has such a flag.

use std::time::Duration;

use lifeboat_operator::MoverSettings;
use lifeboat_plan::policy::is_quantity;
use lifeboat_plan::transfer::movers::DEFAULT_NAMESPACE;

use super::duration;
use crate::args::namespace_name;

#[derive(clap::Args)]
pub(super) struct MoverArgs {
    /// Namespace in which movers run
    #[arg(long, default_value = DEFAULT_NAMESPACE, value_parser = namespace_name, overrides_with = "mover_namespace")]
    mover_namespace: String,
    /// Image of movers, normally the server's own; without it no volume data is moved
    #[arg(
        long,
        value_name = "IMAGE",
        default_value = "",
        hide_default_value = true,
        overrides_with = "mover_image"
    )]
    mover_image: String,
    /// Let movers mount directories of nodes, which file copies of pod volumes need
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        action = clap::ArgAction::Set, overrides_with = "node_access")]
    node_access: bool,
    /// The kubelet's directory on nodes without the annotation lifeboat.io/kubelet-root
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/kubelet", value_parser = absolute, overrides_with = "kubelet_root")]
    kubelet_root: String,
    /// How many movers run in parallel
    #[arg(long, default_value_t = 20, value_parser = count)]
    movers_at_once: usize,
    /// How many movers run in parallel on one node
    #[arg(long, default_value_t = 4, value_parser = count)]
    movers_per_node: usize,
    /// How many movers use one repository (the volumes of one namespace) in parallel
    #[arg(long, default_value_t = 8, value_parser = count)]
    movers_per_repository: usize,
    /// CPU request of each mover
    #[arg(long, value_name = "QUANTITY", default_value = "100m", value_parser = amount)]
    mover_cpu_request: String,
    /// Memory request of each mover
    #[arg(long, value_name = "QUANTITY", default_value = "128Mi", value_parser = amount)]
    mover_memory_request: String,
    /// Memory limit of each mover
    #[arg(long, value_name = "QUANTITY", default_value = "1Gi", value_parser = amount)]
    mover_memory_limit: String,
    /// Priority class of movers
    #[arg(long, value_name = "NAME")]
    mover_priority_class: Option<String>,
    /// How long a mover's pod may take until it runs: scheduling, image, volumes
    #[arg(long, default_value = "30m0s", value_parser = duration)]
    mover_prepare_timeout: Duration,
    /// How long a node may not report before its movers are given up as lost
    #[arg(long, default_value = "5m0s", value_parser = duration)]
    mover_node_timeout: Duration,
    /// How long a volume may wait for its turn: its mover must have started by then
    #[arg(long, default_value = "24h0m0s", value_parser = duration)]
    mover_queue_timeout: Duration,
    /// How long copying or moving one volume may take, from the start of its mover
    #[arg(long, visible_alias = "pod-volume-operation-timeout", default_value = "4h0m0s", value_parser = duration)]
    fs_backup_timeout: Duration,
    /// How often to maintain repositories without a frequency of their own; 0 for never
    #[arg(long, default_value = "24h0m0s", value_parser = duration)]
    default_repo_maintain_frequency: Duration,
    /// Also list copied volumes in the file that Velero reads; Velero 1.19 and later hide such backups
    #[arg(long)]
    pub(super) velero_compatible_volumes: bool,
}

impl MoverArgs {
    pub(super) fn settings(self) -> MoverSettings {
        MoverSettings {
            namespace: self.mover_namespace,
            image: self.mover_image,
            node_access: self.node_access,
            kubelet_root: self.kubelet_root,
            at_once: self.movers_at_once,
            at_once_on_node: self.movers_per_node,
            at_once_on_repository: self.movers_per_repository,
            cpu_request: self.mover_cpu_request,
            memory_request: self.mover_memory_request,
            memory_limit: self.mover_memory_limit,
            priority_class: self.mover_priority_class.filter(|name| !name.is_empty()),
            prepare_timeout: self.mover_prepare_timeout,
            node_timeout: self.mover_node_timeout,
            copy_timeout: self.fs_backup_timeout,
            queue_timeout: self.mover_queue_timeout,
            maintenance_frequency: self.default_repo_maintain_frequency,
        }
    }
}

fn count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| format!("{text:?} is not a number above 0"))
}

/// The text is not an absolute path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an absolute path; write it like /var/lib/kubelet")]
pub(crate) struct NoDirectory(String);

/// Parses an absolute path that pods can mount.
pub(crate) fn absolute(text: &str) -> Result<String, NoDirectory> {
    let parts = text.strip_prefix('/').map(|rest| rest.trim_end_matches('/').split('/'));
    match parts {
        Some(parts) if parts.clone().all(|part| !part.is_empty() && part != "." && part != "..") => {
            Ok(text.trim_end_matches('/').to_owned())
        }
        _ => Err(NoDirectory(text.to_owned())),
    }
}

fn amount(text: &str) -> Result<String, String> {
    is_quantity(text)
        .then(|| text.to_owned())
        .ok_or_else(|| format!("{text:?} is not a quantity; write it like 100m, 128Mi or 1Gi"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: MoverArgs,
    }

    fn parsed(line: &[&str]) -> Result<MoverSettings, String> {
        let line = ["server"].iter().chain(line);
        Line::try_parse_from(line).map(|line| line.args.settings()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_the_flags_say_by_default_is_what_the_settings_say() {
        assert_eq!(format!("{:?}", parsed(&[]).unwrap()), format!("{:?}", MoverSettings::default()));
    }

    #[test]
    fn an_argument_that_was_added_at_install_wins_over_the_installations_own() {
        let settings =
            parsed(&["--mover-image=a", "--kubelet-root=/a", "--mover-image=b", "--kubelet-root=/b/"])
                .unwrap();
        assert_eq!((settings.image.as_str(), settings.kubelet_root.as_str()), ("b", "/b"));
    }

    #[test]
    fn node_access_can_be_taken_back() {
        assert!(parsed(&["--node-access"]).unwrap().node_access);
        assert!(!parsed(&["--node-access", "--node-access=false"]).unwrap().node_access);
    }

    #[test]
    fn upstreams_older_name_of_the_timeout_is_taken() {
        let settings = parsed(&["--pod-volume-operation-timeout=1h"]).unwrap();
        assert_eq!(settings.copy_timeout, Duration::from_hours(1));
    }

    #[test]
    fn what_no_mover_could_run_with_is_refused() {
        for (line, shown) in [
            ("--movers-at-once=0", "above 0"),
            ("--kubelet-root=var", "like /var/lib/kubelet"),
            ("--kubelet-root=/a/../b", "like /var/lib/kubelet"),
            ("--mover-memory-limit=lots", "128Mi"),
        ] {
            let error = parsed(&[line]).unwrap_err();
            assert!(error.contains(shown), "{line}: {error}");
        }
    }
}
