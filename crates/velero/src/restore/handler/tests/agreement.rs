//! A dry run and a restore agree: for backups of every kind that has an action or a rule of its own, against objects that
//! exist already, with each policy, mapping, modifier, filter and configuration of an action. Each line of the preview is
//! compared with what the restore did, and each write of the restore with the preview.

mod done;
mod settings;
mod watched;

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::Config;

use super::generated::{KINDS, Line, backup};
use super::world::spool;
use done::{Done, Fate, fights};
use settings::{Before, Configured, Settings, before, settings, world};
pub(super) use watched::Effective;

fn lines() -> impl Strategy<Value = Vec<(Line, Before)>> {
    let line = (0..KINDS.len(), 0_u8..16).prop_map(|(kind, variation)| Line { kind, variation });
    let before = prop_oneof![
        3 => Just(Before::Nothing),
        2 => Just(Before::Equal),
        2 => Just(Before::Different),
        1 => Just(Before::Terminating)
    ];
    prop::collection::vec((line, before), 1..7)
}

async fn agree(lines: Vec<(Line, Before)>, settings: Settings) -> Result<(), TestCaseError> {
    let (lines, states): (Vec<Line>, Vec<Before>) = lines.into_iter().unzip();
    let backup = backup(&lines);
    let there = before(&backup, &settings, &states).await;
    let (planned, api) = world(&backup, &settings, there.clone()).dry_run().await;
    let written = api.asked.lock().unwrap().clone();
    prop_assert!(written.is_empty(), "the preview wrote {written:?}");
    let expected = fights(&planned.items, &backup, &there);
    let named: BTreeSet<String> =
        planned.fights.iter().map(|fight| format!("{} {}", fight.pod, fight.controller)).collect();
    prop_assert!(named.is_superset(&expected), "{expected:?} are not all in {named:?}");
    let (ended, api) = world(&backup, &settings, there).restore_from(spool(&backup.objects).await).await;
    let done = Done::new(&ended, &api);
    for item in &planned.items {
        let (preview, restore) = (Fate::planned(&item.would), done.fate(item, &backup));
        prop_assert_eq!(
            preview,
            restore,
            "{:?}\nlist {:?}\nerrors {}\nwarnings {:?}\nnotes {:?}",
            item,
            done.list,
            done.errors,
            ended.results.warnings,
            planned.notes
        );
    }
    let unannounced = done.unannounced(&planned.items, &backup);
    prop_assert!(unannounced.is_empty(), "{unannounced:?} are not in the preview:\n{:#?}", planned.items);
    Ok(())
}

proptest! {
    #![proptest_config(Config { cases: 128, failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_preview_says_what_the_restore_does(lines in lines(), settings in settings()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(agree(lines, settings))?;
    }
}

/// Every kind in every variation, into a cluster that has nothing, and into one that has other objects.
#[tokio::test]
async fn a_preview_says_what_the_restore_does_for_every_kind() {
    for kind in 0..KINDS.len() {
        for before in [Before::Nothing, Before::Different] {
            Box::pin(agree(every_variation(kind, before), Settings::default())).await.unwrap();
        }
    }
}

/// Every kind in every variation, with settings that all differ from the ordinary ones.
#[tokio::test]
async fn a_preview_says_what_the_restore_does_for_every_kind_with_settings() {
    for settings in unusual() {
        for kind in 0..KINDS.len() {
            Box::pin(agree(every_variation(kind, Before::Nothing), settings.clone())).await.unwrap();
        }
    }
}

fn every_variation(kind: usize, before: Before) -> Vec<(Line, Before)> {
    (0..16).map(|variation| (Line { kind, variation }, before)).collect()
}

fn unusual() -> [Settings; 3] {
    let mapped = Settings {
        mapped: true,
        vault_excluded: true,
        node_ports: true,
        statuses: Some("*"),
        configured: Configured::Well,
        parcels: &["v2"],
        endpoint: Some(false),
        ready: false,
        ..Settings::default()
    };
    let refused = Settings {
        untrusted: true,
        csi_served: false,
        configured: Configured::MissingClass,
        parcels: &["v3"],
        ..Settings::default()
    };
    let doubled = Settings { labelled: true, configured: Configured::Twice, ..Settings::default() };
    [mapped, refused, doubled]
}

/// The generated items would be of no use if an action had nothing to do with any of them.
#[tokio::test]
async fn each_built_in_action_changes_or_refuses_a_generated_item() {
    let effective = Arc::new(Effective::default());
    for kind in 0..KINDS.len() {
        let lines: Vec<Line> = (0..16).map(|variation| Line { kind, variation }).collect();
        // Where a namespace is excluded, nothing of the cluster is restored.
        let [mapped, ..] = unusual();
        let (backup, settings) = (backup(&lines), Settings { vault_excluded: false, ..mapped });
        let mut world = world(&backup, &settings, Vec::new());
        world.watch = Some(effective.clone());
        world.restore().await;
    }
    let (all, effective) = effective.names();
    let idle: Vec<&String> = all.difference(&effective).collect();
    assert!(idle.is_empty(), "{idle:?} do nothing with any generated item");
    let built_in = lifeboat_plugin::builtin::restore::actions();
    assert!(all.len() >= built_in.len() + 4, "the actions for CSI snapshots are among them: {all:?}");
    assert!(built_in.iter().all(|action| effective.contains(action.name())));
}
