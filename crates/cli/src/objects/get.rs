//! `get`: prints a table of objects, or the objects as JSON or YAML. Each noun defines its columns.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::DynamicObject;
use kube::{Api, Client, ResourceExt};
use lifeboat_api::common::LabelSelector;
use lifeboat_plan::selector::Selector;
use serde_json::{Value, json};

use super::Noun;
use crate::args::{Output, OutputArg};
use crate::error::CliError;
use crate::printer;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct GetArgs {
    /// Names [default: all]
    names: Vec<String>,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "names")]
    selector: Option<String>,
    /// Show all labels in a last column
    #[arg(long)]
    show_labels: bool,
    /// Labels to show as columns
    #[arg(short = 'L', long, value_name = "KEY,…", value_delimiter = ',')]
    label_columns: Vec<String>,
    #[command(flatten)]
    output: OutputArg,
}

/// The columns of a kind.
pub(crate) struct Columns {
    pub(crate) headings: &'static [&'static str],
    pub(crate) row: fn(&DynamicObject, Timestamp) -> Vec<String>,
    /// Sorts the objects.
    pub(crate) sort: fn(&mut [DynamicObject]),
}

pub(crate) async fn run(
    settings: &Settings,
    noun: Noun,
    args: GetArgs,
    columns: &Columns,
) -> Result<(), CliError> {
    let client = settings.client().await?;
    let api = noun.api(&client, &settings.namespace);
    let mut found = noun.chosen(&api, &args.names, args.selector.as_deref()).await?;
    (columns.sort)(&mut found);
    if args.output.output == Output::Table && found.is_empty() {
        eprintln!("{}", none_found(settings, &client, noun, args.selector.as_deref()).await?);
        return Ok(());
    }
    // Like kubectl: one named object is printed as an object, everything else as a list.
    let value = match (&args.names[..], &found[..]) {
        ([_], [one]) => json!(one),
        _ => printer::list(&found),
    };
    printer::print(args.output.output, &value, || {
        table(&found, columns, &args.label_columns, args.show_labels, Timestamp::now())
    })
}

/// The message for an empty list. If the namespace does not exist, that is an error instead.
pub(crate) async fn none_found(
    settings: &Settings,
    client: &Client,
    noun: Noun,
    selector: Option<&str>,
) -> Result<String, CliError> {
    let (namespace, many) = (&settings.namespace, noun.many);
    // A user without the right to read namespaces gets the general message.
    if let Ok(None) = Api::<Namespace>::all(client.clone()).get_opt(namespace).await {
        return Err(CliError::not_found(format!("there is no namespace {namespace:?}"))
            .help("name Lifeboat's namespace with -n"));
    }
    if let Some(selector) = selector {
        return Ok(format!("No {many} in namespace {namespace} match {selector:?}."));
    }
    // The command for volume snapshot locations lacks the word "volume".
    let command = noun.one.trim_start_matches("volume ").replace(' ', "-");
    Ok(format!("No {many} in namespace {namespace}; make one with `lifeboat {command} create`."))
}

pub(crate) fn table(
    found: &[DynamicObject],
    columns: &Columns,
    labels: &[String],
    all_labels: bool,
    now: Timestamp,
) -> comfy_table::Table {
    let mut headings: Vec<String> = columns.headings.iter().map(|heading| (*heading).to_owned()).collect();
    headings.extend(labels.iter().map(|key| key.rsplit('/').next().unwrap_or(key).to_uppercase()));
    if all_labels {
        headings.push("LABELS".to_owned());
    }
    let headings: Vec<_> = headings.iter().map(String::as_str).collect();
    let rows = found.iter().map(|object| {
        let mut row = (columns.row)(object, now);
        row.extend(labels.iter().map(|key| object.labels().get(key).cloned().unwrap_or_default()));
        if all_labels {
            let pairs: Vec<_> = object.labels().iter().map(|(key, value)| format!("{key}={value}")).collect();
            row.push(or_none(pairs.join(",")));
        }
        row
    });
    printer::table(&headings, rows)
}

/// Stock Velero prints `<none>` for an empty value.
pub(crate) fn or_none(text: String) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text }
}

/// The time at this JSON pointer.
pub(crate) fn time_at(object: &DynamicObject, pointer: &str) -> Option<Timestamp> {
    object.data.pointer(pointer).and_then(Value::as_str)?.parse().ok()
}

/// The label selector at this JSON pointer, in the form used on the command line.
pub(crate) fn selector_at(object: &DynamicObject, pointer: &str) -> String {
    let selector = object.data.pointer(pointer).cloned().and_then(|value| serde_json::from_value(value).ok());
    or_none(selector.map(|selector| selector_text(&selector)).unwrap_or_default())
}

pub(crate) fn selector_text(selector: &LabelSelector) -> String {
    Selector::new(selector).map_or_else(|error| error.to_string(), |selector| selector.to_query())
}

#[cfg(test)]
pub(crate) fn table_text(objects: &[Value], columns: &Columns, now: &str) -> String {
    let mut objects: Vec<DynamicObject> =
        objects.iter().map(|object| serde_json::from_value(object.clone()).unwrap()).collect();
    (columns.sort)(&mut objects);
    table(&objects, columns, &["team".to_owned()], true, now.parse().unwrap()).trim_fmt()
}
