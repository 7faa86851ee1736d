//! The name `kubectl-stash`: called by it, which kubectl does for `kubectl stash …`, the program has the commands of `lifeboat stash`
//! at the top of its tree.

use std::path::{Path, PathBuf};

use clap::{CommandFactory, FromArgMatches, Parser};

use crate::args::Global;
use crate::commands::stash;
use crate::error::CliError;
use crate::settings::Settings;
use crate::{go_flags, runtime};

/// Back up and restore single workloads with the kinds of Stash's API
#[derive(Parser)]
#[command(name = "kubectl-stash", bin_name = "kubectl stash", version, propagate_version = true)]
#[command(subcommand_required = true, arg_required_else_help = true, max_term_width = 110)]
struct KubectlStash {
    /// Context of the kubeconfig to use instead of the current one
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
    /// Kubeconfig file to use instead of $KUBECONFIG or ~/.kube/config
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    stash: stash::Args,
}

/// Whether the program was started by that name.
pub(crate) fn is_called() -> bool {
    std::env::args_os()
        .next()
        .is_some_and(|name| Path::new(&name).file_stem().is_some_and(|name| name == "kubectl-stash"))
}

/// Runs the arguments of the process.
pub(crate) fn run() -> Result<(), CliError> {
    let mut tree = KubectlStash::command();
    tree.build();
    let arguments = go_flags::plain(&tree, std::env::args_os());
    let parsed =
        tree.try_get_matches_from(arguments).and_then(|matches| KubectlStash::from_arg_matches(&matches));
    match parsed {
        Ok(KubectlStash { context, kubeconfig, stash: stash::Args { namespace, command } }) => {
            let namespace_is_given = namespace.is_some();
            let namespace = namespace.unwrap_or_default();
            let settings = Settings::new(Global { namespace, namespace_is_given, context, kubeconfig });
            runtime::run(Box::pin(stash::run(&settings, command)))
        }
        Err(error) => error.exit(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn the_command_tree_is_consistent() {
        KubectlStash::command().debug_assert();
    }

    #[rstest]
    #[case("trigger app -n shop")]
    #[case("trigger backupbatch/apps --wait")]
    #[case("trigger app -o json")]
    #[case("pause backup --backupconfig=app --namespace=shop")]
    #[case("resume backup --backupbatch apps")]
    #[case("resume restoresession/r")]
    #[case("resume restoresession/r -o yaml")]
    #[case("resume backup --backupconfig app -o json")]
    #[case("pause backup --backupbatch apps --output yaml")]
    #[case("download repo --destination=/tmp/x --host=host-0 --paths=/a,/b --image-tag=v1")]
    #[case("download repo --snapshots=repo-0123abcd,89abcdef")]
    #[case("delete snapshot repo-0123abcd")]
    #[case("unlock repo --context c")]
    #[case("check repo --read-data --with-cache")]
    #[case("check repo --read-data-subset=1/5")]
    #[case(
        "prune repo --max-unused-limit=10% --max-repack-size=1G --dry-run --repack-small --repack-uncompressed --repack-cacheable-only"
    )]
    #[case("rebuild-index repo --read-all-packs")]
    #[case("migrate repo")]
    #[case("key add repo --host h --user u --new-password-file f")]
    #[case("key list repo -o json")]
    #[case("key update repo --new-password-file f")]
    #[case("key remove repo --id 0123abcd")]
    #[case("debug backup --backupconfig app")]
    #[case("debug restore --restorebatch r")]
    #[case("debug operator")]
    #[case("watch restorebatch/r")]
    #[case("watch restorebatch/r -o json")]
    #[case("rollback restoresession/r --wait")]
    #[case("resume-workload deployment/web")]
    fn every_verb_and_flag_is_known(#[case] line: &str) {
        let parsed = KubectlStash::try_parse_from(std::iter::once("kubectl-stash").chain(line.split(' ')));
        assert!(
            parsed.is_ok(),
            "{line}: {}",
            parsed.err().map(|error| error.to_string()).unwrap_or_default()
        );
    }

    #[rstest]
    #[case("pause backup", "--backupconfig")]
    #[case("pause backup --backupconfig a --backupbatch b", "cannot be used with")]
    #[case("trigger deployment/app", "backupbatch/NAME")]
    #[case("trigger App", "lower-case")]
    #[case("delete snapshot repo", "repo-0123abcd")]
    #[case("key remove repo", "--id")]
    #[case("resume", "NAME")]
    fn what_cannot_be_meant_is_refused_with_what_is_expected(#[case] line: &str, #[case] expected: &str) {
        let parsed = KubectlStash::try_parse_from(std::iter::once("kubectl-stash").chain(line.split(' ')));
        let message = parsed.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(message.contains(expected), "{line}: {message}");
    }
}
