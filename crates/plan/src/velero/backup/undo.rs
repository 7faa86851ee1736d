//! What is undone when a backup ends without a usable result, and in which order. Takes how the backup ended, how far
//! it got and what is known about its files; gives effects. Carried out by `backup/undo.rs` of crate `velero`, for
//! every way in which a backup can end like that.
//!
//! A backup that cannot be restored leaves nothing behind. What may belong to another backup stays: every effect
//! except [`Effect::Files`], [`Effect::Lists`] and [`Effect::Uploads`] finds what it removes by the Backup's UID.

/// How the backup ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It failed or was cancelled. Its object stays and has the reason; its log and results stay in storage.
    Failed,
    /// Its object was deleted while a server worked on it.
    Deleted,
    /// Its object was deleted, or its server died before the cleanup: a later server finds the journal.
    Orphaned,
    /// It has not ended: a server died after the pass and before it removed the backup's entries from the journal.
    GoesOn,
}

/// How far the backup got, which determines where its effects are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its pass did not end: the journal records what it started.
    Pass,
    /// Its pass has ended: lists in storage record what it created.
    AfterPass,
}

/// What is known about the backup's directory in storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// It holds the archive of this backup, identified by UID.
    Own,
    /// It holds no archive: this backup wrote there, and no other backup has ended its pass there.
    Begun,
    /// It holds `velero-backup.json`: the backup can be restored, and the next sync creates its object again.
    Restorable,
    /// Storage was not read, cannot be read, or does not show which backup the files belong to.
    Unknown,
}

/// Where operations and native snapshots are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    Journal,
    Storage,
}

/// Something that a backup created outside its own object, and how it is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Pods whose pre hooks ran: their post hooks run.
    OpenHooks,
    /// Incomplete multipart uploads: aborted.
    Uploads,
    /// Operations that actions started: cancelled.
    Operations(Record),
    /// Native snapshots: deleted.
    NativeSnapshots(Record),
    /// CSI snapshots: deleted.
    CsiSnapshots,
    /// Copies of pod volumes: cancelled, and their restic snapshots forgotten. `listed`: also those that are only in
    /// a list in storage, because their objects may have been deleted with their owner.
    Copies { listed: bool },
    /// Moved data of CSI snapshots: cancelled, and its restic snapshots forgotten.
    Movements { listed: bool },
    /// Restic snapshots that carry the Backup's UID and that neither an object nor a list names: forgotten. Searched
    /// for where the journal, the lists or the objects show that movers of this backup wrote.
    TaggedSnapshots,
    /// Lists in storage of deleted snapshots: rewritten with the remaining ones.
    Lists,
    /// VolumePluginBackups that show a snapshot as running: ended.
    ShownSnapshots,
    /// The files in storage. They list all other effects, so they are removed only when nothing else is left.
    Files,
    /// The journal: deleted.
    Journal,
    /// The journal of a backup that may continue: only the repositories that it names are kept.
    PassedJournal,
}

/// The effects of a backup, in order. Each one can be repeated after a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undo {
    /// Before the backup's end is written to its object.
    pub before: Vec<Effect>,
    /// After the backup's end was written to its object.
    pub after: Vec<Effect>,
}

/// The effects to undo.
pub fn undo(ending: Ending, stage: Stage, files: Files) -> Undo {
    let last = [Effect::ShownSnapshots, Effect::Journal];
    match (ending, stage, files) {
        // The lists in storage have the operations, which are still waited for.
        (Ending::GoesOn, ..) => {
            Undo { before: vec![Effect::OpenHooks, Effect::PassedJournal], after: Vec::new() }
        }
        // The backup can be restored, or it is unknown whether it can: its effects stay.
        (Ending::Orphaned, Stage::AfterPass, Files::Restorable | Files::Unknown) => {
            let journal = if files == Files::Restorable { Effect::Journal } else { Effect::PassedJournal };
            let before = vec![Effect::OpenHooks, Effect::Operations(Record::Journal), journal];
            Undo { before, after: Vec::new() }
        }
        (Ending::Deleted, Stage::AfterPass, Files::Restorable) => {
            Undo { before: vec![Effect::OpenHooks, Effect::Journal], after: Vec::new() }
        }
        // Its object shows that it failed; deleting the backup removes the rest.
        (Ending::Failed, Stage::AfterPass, Files::Restorable) => {
            let after = std::iter::once(Effect::OpenHooks).chain(last).collect();
            Undo { before: Vec::new(), after }
        }
        // If the server dies here, another attempt follows: the end must not be recorded yet.
        (Ending::Failed, Stage::Pass, files) => {
            Undo { before: made(ending, stage, files), after: last.to_vec() }
        }
        // If the server dies here, the next one would complete the backup: the end must already be recorded.
        (Ending::Failed, Stage::AfterPass, files) => {
            let after = made(ending, stage, files).into_iter().chain(last).collect();
            Undo { before: Vec::new(), after }
        }
        (Ending::Deleted | Ending::Orphaned, ..) => {
            let before = made(ending, stage, files).into_iter().chain(last).collect();
            Undo { before, after: Vec::new() }
        }
    }
}

/// All effects except the final ones.
fn made(ending: Ending, stage: Stage, files: Files) -> Vec<Effect> {
    let after_pass = stage == Stage::AfterPass;
    let (own, writable) = (files == Files::Own, matches!(files, Files::Own | Files::Begun));
    // Another backup of the same name may be writing to the directory of an orphan.
    let uploads = (writable && ending != Ending::Orphaned).then_some(Effect::Uploads);
    // The journal is the only record of an orphan.
    let record = if after_pass && ending != Ending::Orphaned { Record::Storage } else { Record::Journal };
    // The objects exist as long as their owner does.
    let tagged = (ending != Ending::Failed).then_some(Effect::TaggedSnapshots);
    let lists = match ending {
        Ending::Failed => writable,
        Ending::Deleted => own,
        Ending::Orphaned | Ending::GoesOn => false,
    };
    // Pods first, because one may be frozen.
    let effects = std::iter::once(Effect::OpenHooks).chain(uploads).chain([
        Effect::Operations(record),
        Effect::NativeSnapshots(record),
        Effect::CsiSnapshots,
        Effect::Copies { listed: after_pass && writable },
        // Entries in the list of volumes have no UID.
        Effect::Movements { listed: after_pass && own },
    ]);
    let effects = effects.chain(tagged).chain(lists.then_some(Effect::Lists));
    effects.chain((own && ending == Ending::Deleted).then_some(Effect::Files)).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const ENDINGS: [Ending; 4] = [Ending::Failed, Ending::Deleted, Ending::Orphaned, Ending::GoesOn];
    const STAGES: [Stage; 2] = [Stage::Pass, Stage::AfterPass];
    const FILES: [Files; 4] = [Files::Own, Files::Begun, Files::Restorable, Files::Unknown];

    /// Every combination with its effects, before and after the end is recorded.
    fn all() -> impl Iterator<Item = ((Ending, Stage, Files), Undo)> {
        let pairs = ENDINGS.into_iter().flat_map(|ending| STAGES.map(|stage| (ending, stage)));
        let all = pairs.flat_map(|(ending, stage)| FILES.map(|files| (ending, stage, files)));
        all.map(|(ending, stage, files)| ((ending, stage, files), undo(ending, stage, files)))
    }

    fn keeps(case: (Ending, Stage, Files)) -> bool {
        match case {
            (Ending::GoesOn, ..) => true,
            (Ending::Orphaned, Stage::AfterPass, files) => {
                matches!(files, Files::Restorable | Files::Unknown)
            }
            (_, Stage::AfterPass, files) => files == Files::Restorable,
            _ => false,
        }
    }

    #[test]
    fn a_backup_of_which_nothing_can_be_restored_leaves_nothing_behind() {
        for (case, undo) in all().filter(|(case, _)| !keeps(*case)) {
            let effects: Vec<Effect> = undo.before.iter().chain(&undo.after).copied().collect();
            let has =
                |wanted: fn(&Effect) -> bool| assert!(effects.iter().any(wanted), "{case:?}: {effects:?}");
            assert_eq!(effects.first(), Some(&Effect::OpenHooks), "{case:?}");
            has(|effect| matches!(effect, Effect::Operations(_)));
            has(|effect| matches!(effect, Effect::NativeSnapshots(_)));
            has(|effect| matches!(effect, Effect::CsiSnapshots));
            has(|effect| matches!(effect, Effect::Copies { .. }));
            has(|effect| matches!(effect, Effect::Movements { .. }));
            has(|effect| matches!(effect, Effect::ShownSnapshots));
            assert_eq!(effects.last(), Some(&Effect::Journal), "{case:?}");
        }
    }

    #[test]
    fn a_backup_that_can_be_restored_keeps_what_it_made() {
        for (case, undo) in all().filter(|(case, _)| keeps(*case)) {
            let made = |effect: &Effect| {
                let ends = [Effect::OpenHooks, Effect::Operations(Record::Journal), Effect::ShownSnapshots];
                !ends.contains(effect) && !matches!(effect, Effect::Journal | Effect::PassedJournal)
            };
            assert!(!undo.before.iter().chain(&undo.after).any(made), "{case:?}: {undo:?}");
        }
    }

    #[test]
    fn a_backup_that_goes_on_keeps_its_operations() {
        let undo = undo(Ending::GoesOn, Stage::AfterPass, Files::Unknown);
        assert_eq!(undo.before, [Effect::OpenHooks, Effect::PassedJournal]);
    }

    #[test]
    fn files_go_only_with_a_deleted_backup_whose_own_they_are_and_last() {
        for (case, undo) in all() {
            let place = undo.before.iter().position(|effect| *effect == Effect::Files);
            assert_eq!(place.is_some(), matches!(case, (Ending::Deleted, _, Files::Own)), "{case:?}");
            if let Some(place) = place {
                let rest = &undo.before[place + 1..];
                assert_eq!(rest, [Effect::ShownSnapshots, Effect::Journal], "{case:?}");
            }
            let changes = |effect: &Effect| matches!(effect, Effect::Files | Effect::Lists | Effect::Uploads);
            if matches!(case.2, Files::Unknown | Files::Restorable) {
                assert!(!undo.before.iter().chain(&undo.after).any(changes), "{case:?}: {undo:?}");
            }
        }
    }

    #[rstest]
    #[case::another_attempt_follows(Stage::Pass, false)]
    #[case::it_would_be_completed(Stage::AfterPass, true)]
    fn what_a_failed_backup_made_goes_in_an_order_that_survives_a_crash(
        #[case] stage: Stage,
        #[case] recorded_first: bool,
    ) {
        let undo = undo(Ending::Failed, stage, Files::Own);
        assert_eq!(undo.after.contains(&Effect::CsiSnapshots), recorded_first);
        assert_eq!(undo.before.contains(&Effect::CsiSnapshots), !recorded_first);
        assert_eq!(undo.after.last(), Some(&Effect::Journal));
    }

    #[test]
    fn copies_whose_objects_went_with_their_owner_are_found_by_list_and_tag() {
        let effects = undo(Ending::Deleted, Stage::AfterPass, Files::Own).before;
        for wanted in
            [Effect::Copies { listed: true }, Effect::Movements { listed: true }, Effect::TaggedSnapshots]
        {
            assert!(effects.contains(&wanted), "{wanted:?} is not in {effects:?}");
        }
    }
}
