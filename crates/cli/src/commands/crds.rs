//! `lifeboat crds`: prints the custom resource definitions, for `kubectl apply -f -`, GitOps and tests.

use lifeboat_api::crds;
use lifeboat_plan::install::STASH_BY_DEFAULT;

use crate::args::Output;
use crate::error::CliError;
use crate::printer;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Include the kinds of Stash's API that have a controller
    #[arg(long, default_value_t = STASH_BY_DEFAULT, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        action = clap::ArgAction::Set)]
    stash: bool,
    /// Include kinds that this version never installs, because it has no controllers for them
    #[arg(long)]
    all: bool,
    /// Format of the output
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Output,
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let crds = if args.all { crds::all() } else { crds::installed(args.stash) };
    match args.output {
        Output::Yaml => printer::text(&printer::documents(&crds)?),
        Output::Json => printer::line(&printer::json(&printer::list(&crds))?),
        Output::Table => {
            let rows = crds.iter().map(|crd| {
                let crd = crd.definition();
                vec![
                    crd.spec.names.kind.clone(),
                    crd.spec.group.clone(),
                    crd.spec
                        .versions
                        .iter()
                        .map(|version| version.name.clone())
                        .collect::<Vec<_>>()
                        .join(","),
                    crd.spec.scope.clone(),
                    crd.spec.names.short_names.clone().unwrap_or_default().join(","),
                ]
            });
            let headings = ["KIND", "GROUP", "VERSIONS", "SCOPE", "SHORT NAMES"];
            printer::line(&printer::table(&headings, rows).trim_fmt());
        }
    }
    Ok(())
}
