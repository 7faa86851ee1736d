//! `diff`: shows what changed between two snapshots.

use lifeboat_repository::diff::{Change, DiffCounts, DiffStatistics, Side, diff};
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshots::{Filter, Selection};

use super::output;
use super::select;
use super::session::Session;
use crate::args::Output;
use crate::error::CliError;
use crate::printer;
use crate::units;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The earlier snapshot, as in latest~1 or 1a2b3c4d:/srv
    #[arg(value_name = "SNAPSHOT[:FOLDER]", value_parser = select::selection())]
    before: Selection,
    /// The later snapshot
    #[arg(value_name = "SNAPSHOT[:FOLDER]", value_parser = select::selection())]
    after: Selection,
    /// Also show files of which only owner, mode, times or attributes changed
    #[arg(long)]
    metadata: bool,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let repository = session.open().await?;
    let sides = async { Ok((side(&repository, &args.before).await?, side(&repository, &args.after).await?)) };
    let (before, after) = session.interruptible(sides).await?;
    let output = session.settings.output;
    let mut all = Vec::new();
    let mut each = |change: Change| {
        match output {
            Output::Json => drop(output::line_of_json(&change)),
            Output::Table => printer::line(&format!("{:4} {}", change.modifier, change.path)),
            Output::Yaml => all.push(change),
        }
        Ok(())
    };
    let lock = session.lock_for_reading();
    let statistics =
        diff(&repository, &before, &after, args.metadata, lock, &mut each, &session.interrupted).await?;
    if output == Output::Yaml {
        let value = serde_json::json!({"changes": all, "statistics": statistics});
        printer::text(&printer::yaml(&value)?);
    } else {
        output::summary(session, &statistics, &summary_text(&statistics))?;
    }
    statistics.problems.iter().for_each(|problem| message!("error: {problem}"));
    match statistics.problems.len() {
        0 => Ok(()),
        count => Err(CliError::restic(1, format!("{count} directories could not be compared"))
            .help("run `check` to see what is damaged")),
    }
}

async fn side(repository: &Repository, selection: &Selection) -> Result<Side, CliError> {
    let ((id, snapshot), subfolder) = select::one(repository, selection, &Filter::default()).await?;
    let folder = subfolder.as_ref().map(|folder| format!(":{}", folder.display())).unwrap_or_default();
    Ok(Side { name: format!("{}{folder}", id.short()), tree: snapshot.tree, subfolder })
}

fn summary_text(statistics: &DiffStatistics) -> String {
    let line = |label: &str, now: u64, then: u64| format!("{label:12}{now:>5} new, {then:>5} removed");
    let DiffStatistics { added, removed, .. } = statistics;
    let size = |counts: &DiffCounts| units::bytes(counts.bytes);
    [
        format!(
            "\nFiles:      {:>5} new, {:>5} removed, {:>5} changed",
            added.files, removed.files, statistics.changed_files
        ),
        line("Dirs:", added.dirs, removed.dirs),
        line("Others:", added.others, removed.others),
        line("Data blobs:", added.data_blobs, removed.data_blobs),
        line("Tree blobs:", added.tree_blobs, removed.tree_blobs),
        format!("Added:   {}\nRemoved: {}", size(added), size(removed)),
    ]
    .join("\n")
}
