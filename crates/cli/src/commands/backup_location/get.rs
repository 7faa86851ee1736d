//! `lifeboat backup-location get [NAME…]`.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifeboat_plan::location::STORE_ANNOTATION;
use serde_json::json;

use super::{api, find, is_default, listed, text};
use crate::args::{Output, OutputArg};
use crate::error::CliError;
use crate::objects::get::{Columns, table};
use crate::printer;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Names of locations [default: all]
    names: Vec<String>,
    /// Only the default location
    #[arg(long)]
    default: bool,
    /// Only locations with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
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

const COLUMNS: Columns = Columns {
    headings: &[
        "NAME",
        "PROVIDER",
        "BUCKET/PREFIX",
        "PHASE",
        "LAST VALIDATED",
        "ACCESS MODE",
        "DEFAULT",
        "STORE",
    ],
    row,
    sort: |_| {},
};

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let api = api(&settings.client().await?, &settings.namespace);
    let mut found = Vec::new();
    if args.names.is_empty() {
        found.extend(listed(&api, args.selector.as_deref()).await?);
    } else {
        for name in &args.names {
            found.push(find(&api, name).await?);
        }
    }
    let total = found.len();
    if args.default {
        found.retain(is_default);
    }
    if args.output.output == Output::Table && found.is_empty() {
        let namespace = &settings.namespace;
        if total > 0 {
            eprintln!(
                "None of the {total} backup locations in namespace {namespace} is the default; make one with `lifeboat backup-location set NAME --default`."
            );
        } else {
            eprintln!(
                "No backup locations in namespace {namespace}; make one with `lifeboat backup-location create`."
            );
        }
        return Ok(());
    }
    // Like kubectl: one named location is printed as an object, everything else as a list.
    let value = match (&args.names[..], &found[..]) {
        ([_], [one]) => json!(one),
        _ => printer::list(&found),
    };
    printer::print(args.output.output, &value, || {
        table(&found, &COLUMNS, &args.label_columns, args.show_labels, Timestamp::now())
    })?;
    if args.output.output == Output::Table {
        for location in found.iter().filter(|location| text(location, "/status/phase") == "Unavailable") {
            eprintln!("{}: {}", location.name_any(), text(location, "/status/message"));
        }
    }
    Ok(())
}

fn row(location: &DynamicObject, now: Timestamp) -> Vec<String> {
    let bucket = text(location, "/spec/objectStorage/bucket");
    let prefix = text(location, "/spec/objectStorage/prefix");
    let or = |value: String, other: &str| if value.is_empty() { other.to_owned() } else { value };
    vec![
        location.name_any(),
        text(location, "/spec/provider"),
        if prefix.is_empty() { bucket } else { format!("{bucket}/{prefix}") },
        or(text(location, "/status/phase"), "Unknown"),
        ago(&text(location, "/status/lastValidationTime"), now),
        or(text(location, "/spec/accessMode"), "ReadWrite"),
        if is_default(location) { "true".to_owned() } else { String::new() },
        location.annotations().get(STORE_ANNOTATION).cloned().unwrap_or_default(),
    ]
}

/// The time since then, in the largest unit.
fn ago(time: &str, now: Timestamp) -> String {
    let Ok(time) = time.parse::<Timestamp>() else { return "Never".to_owned() };
    let seconds = now.duration_since(time).max(SignedDuration::ZERO).as_secs();
    match seconds {
        0..120 => format!("{seconds}s ago"),
        120..7200 => format!("{}m ago", seconds / 60),
        7200..172_800 => format!("{}h ago", seconds / 3600),
        _ => format!("{}d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_the_largest_unit() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let at = |ago: i64| Timestamp::from_second(1_000_000 - ago).unwrap().to_string();
        assert_eq!(super::ago(&at(5), now), "5s ago");
        assert_eq!(super::ago(&at(3600), now), "60m ago");
        assert_eq!(super::ago(&at(200_000), now), "2d ago");
        assert_eq!(super::ago(&at(-5), now), "0s ago");
        assert_eq!(super::ago("", now), "Never");
    }
}
