//! `lifeboat restore create --dry-run`: computes what a restore would do, with the user's own rights, and prints it.
//! Nothing is changed.

use std::collections::BTreeMap;

use kube::Client;
use lifeboat_api::velero::Restore;
use lifeboat_velero::{NotPlanned, Planned, PlannedItem, VeleroSettings, Would};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::Output;
use crate::error::CliError;
use crate::objects::show::{Node, Page};
use crate::printer;
use crate::settings::Settings;

/// How many reasons and notes are shown without --details.
const SHOWN: usize = 20;

/// How the plan is printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) output: Output,
    /// List each item.
    pub(crate) details: bool,
}

pub(crate) async fn run(
    settings: &Settings,
    client: Client,
    restore: Restore,
    form: Form,
) -> Result<(), CliError> {
    let cloud = lifeboat_store::Environment::from_vars(crate::settings::readable_variables());
    let server = VeleroSettings::new(cloud);
    let name = restore.metadata.name.clone().unwrap_or_default();
    eprintln!(
        "Reading the backup and the cluster; nothing is changed. Plugins are not called: what they would change, add or \
         leave out is not in the plan."
    );
    let planned = Box::pin(lifeboat_velero::preview_restore(client, &settings.namespace, server, restore))
        .await
        .map_err(|problems| refusal(settings, &problems))?;
    match form.output {
        Output::Table => printer::text(&page(&name, &planned, form.details).to_text()),
        Output::Json => printer::line(&printer::json(&document(&name, &planned))?),
        Output::Yaml => printer::text(&printer::yaml(&document(&name, &planned))?),
    }
    Ok(())
}

/// The error for a Restore that is invalid, or whose backup cannot be read.
fn refusal(settings: &Settings, not_planned: &NotPlanned) -> CliError {
    let namespace = &settings.namespace;
    let error = CliError::refused(format!("the restore could not run: {}", not_planned.problems.join("; ")));
    if not_planned.refused {
        return error;
    }
    error.help(format!(
        "a dry run reads the backup from here, with your rights: it needs to read Secrets in namespace {namespace} and to reach the bucket. If you cannot, run it in the server's pod: `kubectl exec -n {namespace} deploy/lifeboat -- /lifeboat restore create … --dry-run`"
    ))
}

/// Items with the same outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    create: usize,
    update: usize,
    skip: usize,
    fail: usize,
    not_selected: usize,
}

impl Counts {
    fn of<'a>(items: impl IntoIterator<Item = &'a PlannedItem>) -> Self {
        let mut counts = Self::default();
        for item in items {
            counts.add(&item.would);
        }
        counts
    }

    fn add(&mut self, would: &Would) {
        let place = match would {
            Would::Create => &mut self.create,
            Would::Update => &mut self.update,
            Would::Skip(_) => &mut self.skip,
            Would::Fail(_) => &mut self.fail,
            Would::NotSelected(_) => &mut self.not_selected,
        };
        *place += 1;
    }

    fn selected(&self) -> usize {
        self.create + self.update + self.skip + self.fail
    }
}

/// The plan as JSON.
fn document(name: &str, planned: &Planned) -> Value {
    json!({
        "restore": name,
        "backup": planned.backup,
        "changed": false,
        "pluginsCalled": false,
        "summary": Counts::of(&planned.items),
        "items": planned.items,
        "fights": planned.fights,
        "notes": planned.notes,
    })
}

/// The plan as text.
fn page(name: &str, planned: &Planned, details: bool) -> Page {
    let counts = Counts::of(&planned.items);
    let mut page = Page::default();
    page.text("Dry run", "nothing was changed");
    page.text("Restore", name);
    page.text("Backup", &planned.backup);
    for (label, count) in
        [("Would create", counts.create), ("Would change", counts.update), ("Would skip", counts.skip)]
    {
        page.text(label, count.to_string());
    }
    for (label, count) in [("Would fail", counts.fail), ("Not asked for", counts.not_selected)] {
        page.text_if(label, (count > 0).then(|| count.to_string()));
    }
    let selected = || planned.items.iter().filter(|item| !matches!(item.would, Would::NotSelected(_)));
    let by_namespace = selected()
        .map(|item| (item.namespace.clone().unwrap_or_else(|| "(cluster-scoped)".to_owned()), item));
    put_table(&mut page, "By namespace", "NAMESPACE", by_namespace);
    put_table(&mut page, "By type", "TYPE", selected().map(|item| (item.resource.clone(), item)));
    let limit = if details { usize::MAX } else { SHOWN };
    put_conflicts(&mut page, planned, limit);
    put_reasons(&mut page, "Why some would fail", planned, limit, |would| match would {
        Would::Fail(why) => Some(why),
        _ => None,
    });
    put_lines(&mut page, "Also", planned.notes.clone(), limit);
    put_reasons(&mut page, "Why some would be skipped", planned, limit, |would| match would {
        Would::Skip(why) => Some(why),
        _ => None,
    });
    if details {
        put_items(&mut page, planned);
    } else if counts.selected() > 0 {
        page.text("Each item", "with --details, or -o json");
    }
    page
}

/// One line for each group, with the numbers of its items.
fn put_table<'a>(
    page: &mut Page,
    label: &str,
    heading: &str,
    items: impl Iterator<Item = (String, &'a PlannedItem)>,
) {
    let mut groups: BTreeMap<String, Counts> = BTreeMap::new();
    for (group, item) in items {
        groups.entry(group).or_default().add(&item.would);
    }
    if groups.is_empty() {
        return;
    }
    let rows = groups.into_iter().map(|(group, counts)| {
        let numbers = [counts.create, counts.update, counts.skip, counts.fail];
        std::iter::once(group).chain(numbers.map(|number| number.to_string())).collect()
    });
    let table = printer::table(&[heading, "CREATE", "CHANGE", "SKIP", "FAIL"], rows).trim_fmt();
    page.put(label, Node::List(table.lines().map(str::to_owned).collect()));
}

/// Controllers that would adopt the same pods.
fn put_conflicts(page: &mut Page, planned: &Planned, limit: usize) {
    let mut pods: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for fight in &planned.fights {
        pods.entry(&fight.controller).or_default().push(&fight.pod);
    }
    let lines = pods.into_iter().map(|(controller, pods)| {
        let more = if pods.len() > 3 { format!(" and {} more", pods.len() - 3) } else { String::new() };
        format!(
            "{controller} would adopt pods {}{more}: scale it to 0 first, or leave pods out",
            pods[..pods.len().min(3)].join(", ")
        )
    });
    put_lines(page, "Controllers that would fight restored pods", lines.collect(), limit);
}

/// Reasons, the most frequent first, each with an example.
fn put_reasons(
    page: &mut Page,
    label: &str,
    planned: &Planned,
    limit: usize,
    of: impl Fn(&Would) -> Option<&String>,
) {
    let mut reasons: BTreeMap<&String, (usize, String)> = BTreeMap::new();
    for item in &planned.items {
        if let Some(why) = of(&item.would) {
            let entry = reasons.entry(why).or_insert_with(|| (0, format!("{} {}", item.resource, item.item)));
            entry.0 += 1;
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(why, (count, _))| (std::cmp::Reverse(*count), (*why).clone()));
    let lines = reasons.into_iter().map(|(why, (count, example))| match count {
        1 => format!("{example}: {why}"),
        _ => format!("{count} items, such as {example}: {why}"),
    });
    put_lines(page, label, lines.collect(), limit);
}

fn put_lines(page: &mut Page, label: &str, mut lines: Vec<String>, limit: usize) {
    if lines.is_empty() {
        return;
    }
    let more = lines.len().saturating_sub(limit);
    lines.truncate(limit);
    if more > 0 {
        lines.push(format!("and {more} more (--details)"));
    }
    page.put(label, Node::List(lines));
}

fn put_items(page: &mut Page, planned: &Planned) {
    let mut fates: [(&str, Vec<String>); 5] =
        ["Create", "Change", "Skip", "Fail", "Not asked for"].map(|label| (label, Vec::new()));
    for item in &planned.items {
        let name = format!("{} {}", item.resource, item.item);
        let moved = item.namespace.as_ref().filter(|to| !item.item.starts_with(&format!("{to}/")));
        let name = moved.map_or(name.clone(), |to| format!("{name} into {to}"));
        let (place, line) = match &item.would {
            Would::Create => (0, name),
            Would::Update => (1, name),
            Would::Skip(why) => (2, format!("{name}: {why}")),
            Would::Fail(why) => (3, format!("{name}: {why}")),
            Would::NotSelected(why) => (4, format!("{name}: {why}")),
        };
        fates[place].1.push(line);
    }
    for (label, lines) in fates {
        put_lines(page, label, lines, usize::MAX);
    }
}

#[cfg(test)]
mod tests;
