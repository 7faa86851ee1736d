//! `logs`: lists the logs of the box's components or prints one.
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use super::layout;
use crate::run;

/// Without a component: lists the logs. With one: prints its log; with `follow` until interrupted.
pub(super) fn logs(component: Option<&str>, follow: bool) -> Result<()> {
    let names = names();
    let Some(component) = component else {
        for name in &names {
            println!("{name:<26} {}", layout::log(name).display());
        }
        return Ok(());
    };
    if !names.iter().any(|name| name == component) {
        bail!("no component is named {component:?}; there are: {}", names.join(", "));
    }
    let mut tail = Command::new("tail");
    if follow {
        tail.args(["-n", "100", "-F"]);
    } else {
        tail.args(["-n", "+1"]);
    }
    run::run(tail.arg(layout::log(component)))
}

fn names() -> Vec<String> {
    let files = std::fs::read_dir(layout::state("logs")).into_iter().flatten().flatten();
    let mut names: Vec<String> = files.filter_map(|file| component(&file.path())).collect();
    names.sort();
    names
}

fn component(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.strip_suffix(".log")?.to_owned())
}
