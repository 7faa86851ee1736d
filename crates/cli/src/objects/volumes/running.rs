//! Running volumes while `watch` and `--wait` follow their backup or restore: bars on a terminal, lines otherwise.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::{Client, ResourceExt};
use lifeboat_plan::velero::volume_plugin::Kind;

use super::{Volume, list};
use crate::objects::Noun;

/// How often running ones are listed.
const INTERVAL: Duration = Duration::from_secs(2);
/// Without a terminal: how often the progress of a volume is printed while it changes.
const PRINT_INTERVAL: Duration = Duration::from_secs(10);

/// Shows running volumes: a bar for each on a terminal, lines otherwise.
pub(crate) struct Running {
    bars: Option<(MultiProgress, BTreeMap<String, ProgressBar>)>,
    asked: Instant,
    printed: BTreeMap<String, (String, Instant)>,
}

impl Running {
    pub(crate) fn new(terminal: Option<MultiProgress>) -> Self {
        let bars = terminal.map(|terminal| (terminal, BTreeMap::new()));
        Self { bars, asked: Instant::now(), printed: BTreeMap::new() }
    }

    /// Lists and shows running volumes, if the interval has passed. Errors of listing are ignored.
    pub(crate) async fn show(&mut self, client: &Client, noun: Noun, owner: &DynamicObject) {
        if self.asked.elapsed() < INTERVAL {
            return;
        }
        self.asked = Instant::now();
        let kind = if noun.one == "backup" { Kind::Backup } else { Kind::Restore };
        let namespace = owner.namespace().unwrap_or_default();
        let Ok(objects) = list(client, &namespace, kind, &owner.name_any()).await else { return };
        let now = Timestamp::now();
        let volumes: Vec<Volume> = objects.iter().map(|object| Volume::of(object, now)).collect();
        let running: Vec<Volume> = volumes.into_iter().filter(Volume::is_running).collect();
        if self.bars.is_some() { self.draw(&running) } else { self.print(&running) }
    }

    fn draw(&mut self, running: &[Volume]) {
        let Some((terminal, bars)) = &mut self.bars else { return };
        bars.retain(|name, bar| {
            let stays = running.iter().any(|volume| volume.name == *name);
            if !stays {
                bar.finish_and_clear();
            }
            stays
        });
        for volume in running {
            let bar = bars.entry(volume.name.clone()).or_insert_with(|| {
                let style = ProgressStyle::with_template("  {prefix} {bar:24} {msg}");
                let bar = terminal.add(ProgressBar::new(0));
                bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
                bar.set_prefix(volume.name.clone());
                bar
            });
            let (done, total) = volume.bytes.unwrap_or_default();
            bar.set_length(total.max(done));
            bar.set_position(done);
            bar.set_message(volume.state());
            bar.tick();
        }
    }

    fn print(&mut self, running: &[Volume]) {
        for volume in running {
            let state = volume.state();
            let known = self.printed.get(&volume.name);
            if known.is_none_or(|(before, when)| *before != state && when.elapsed() >= PRINT_INTERVAL) {
                eprintln!("  volume {}: {state}", volume.name);
                self.printed.insert(volume.name.clone(), (state, Instant::now()));
            }
        }
    }

    pub(crate) fn clear(&self) {
        for bar in self.bars.iter().flat_map(|(_, bars)| bars.values()) {
            bar.finish_and_clear();
        }
    }
}
