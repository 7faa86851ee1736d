//! What is undone when a backup comes to nothing, and in which order. Takes how the backup ended, how far it came and what is
//! known of its files; gives effects. Carried out by `backup/undo.rs` of crate `velero`, for every way in which a backup ends
//! without a result that can be restored.
//!
//! A backup of which nothing can be restored leaves nothing behind. What may belong to another backup stays: every effect but
//! [`Effect::Files`], [`Effect::Lists`] and [`Effect::Uploads`] finds what it removes by the Backup's UID.

/// How the backup ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It failed or was cancelled. Its object stays and says why; its log and results stay in storage.
    Failed,
    /// Its object was deleted while a server worked on it.
    Deleted,
    /// Its object was deleted, or its server died before it had cleared up: a later server finds the journal.
    Orphaned,
    /// It has not: a server died after the pass and before it had removed what the journal has of it.
    GoesOn,
}

/// How far the backup came, which says where its effects are on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its pass did not end: the journal has what it began.
    Pass,
    /// Its pass has ended: lists in storage have what it made.
    AfterPass,
}

/// What is known of the backup's directory in storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// It holds the archive of this very backup.
    Own,
    /// It holds no archive: this backup wrote there, and no other has ended its pass.
    Begun,
    /// It holds `velero-backup.json`: the backup can be restored, and the next sync makes its object again.
    Restorable,
    /// Storage was not read, cannot be read, or does not say whose the files are.
    Unknown,
}

/// Where operations and snapshots of volume plugins are on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    Journal,
    Storage,
}

/// One thing that a backup made outside its own object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Pods whose pre hooks ran: their post hooks run.
    OpenHooks,
    /// Parts of uploads that never ended: aborted.
    Uploads,
    /// Operations that actions go on with: cancelled.
    Operations(Record),
    /// Snapshots of volume plugins: deleted.
    NativeSnapshots(Record),
    /// Snapshots of CSI drivers: deleted.
    CsiSnapshots,
    /// Copies of pods' volumes: cancelled, and their snapshots forgotten. `listed`: also those that only a list in storage
    /// has, because their objects may be gone with their owner.
    Copies { listed: bool },
    /// Data of CSI snapshots that was moved into repositories: cancelled, and its snapshots forgotten.
    Movements { listed: bool },
    /// Snapshots in repositories that carry the Backup's UID and that neither an object nor a list names: forgotten. Looked
    /// for where the journal, the lists or the objects say that movers of this backup wrote.
    TaggedSnapshots,
    /// Lists in storage of snapshots that are gone now: written anew with what is left.
    Lists,
    /// VolumePluginBackups that show a snapshot as running: ended.
    ShownSnapshots,
    /// The files in storage, which are the last list of all else: they go only where nothing else is left.
    Files,
    /// The journal: removed.
    Journal,
    /// The journal of a backup that may go on: only the repositories that it names stay.
    PassedJournal,
}

/// The effects of a backup, in their order. Each can be carried out again after a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undo {
    /// Before the backup's end is written into its object.
    pub before: Vec<Effect>,
    /// After it.
    pub after: Vec<Effect>,
}

/// What is undone.
pub fn undo(ending: Ending, stage: Stage, files: Files) -> Undo {
    let last = [Effect::ShownSnapshots, Effect::Journal];
    match (ending, stage, files) {
        // The lists in storage have the operations, which are waited for.
        (Ending::GoesOn, ..) => {
            Undo { before: vec![Effect::OpenHooks, Effect::PassedJournal], after: Vec::new() }
        }
        // The backup can be restored, or nobody knows: what it made stays.
        (Ending::Orphaned, Stage::AfterPass, Files::Restorable | Files::Unknown) => {
            let journal = if files == Files::Restorable { Effect::Journal } else { Effect::PassedJournal };
            let before = vec![Effect::OpenHooks, Effect::Operations(Record::Journal), journal];
            Undo { before, after: Vec::new() }
        }
        (Ending::Deleted, Stage::AfterPass, Files::Restorable) => {
            Undo { before: vec![Effect::OpenHooks, Effect::Journal], after: Vec::new() }
        }
        // Its object says that it failed, and a deletion of the backup removes the rest.
        (Ending::Failed, Stage::AfterPass, Files::Restorable) => {
            let after = std::iter::once(Effect::OpenHooks).chain(last).collect();
            Undo { before: Vec::new(), after }
        }
        // A server that dies here is followed by another attempt: the end must not be on record before.
        (Ending::Failed, Stage::Pass, files) => {
            Undo { before: made(ending, stage, files), after: last.to_vec() }
        }
        // A server that dies here is followed by one that would complete the backup: it must find the end on record.
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

/// All but what comes last.
fn made(ending: Ending, stage: Stage, files: Files) -> Vec<Effect> {
    let after_pass = stage == Stage::AfterPass;
    let (own, writable) = (files == Files::Own, matches!(files, Files::Own | Files::Begun));
    // Another backup of the same name may be writing where an orphan wrote.
    let uploads = (writable && ending != Ending::Orphaned).then_some(Effect::Uploads);
    // The journal is all that is left of an orphan.
    let record = if after_pass && ending != Ending::Orphaned { Record::Storage } else { Record::Journal };
    // Objects are there as long as their owner is.
    let tagged = (ending != Ending::Failed).then_some(Effect::TaggedSnapshots);
    let lists = match ending {
        Ending::Failed => writable,
        Ending::Deleted => own,
        Ending::Orphaned | Ending::GoesOn => false,
    };
    // Pods first: one may be frozen.
    let effects = std::iter::once(Effect::OpenHooks).chain(uploads).chain([
        Effect::Operations(record),
        Effect::NativeSnapshots(record),
        Effect::CsiSnapshots,
        Effect::Copies { listed: after_pass && writable },
        // Entries of the list of volumes carry no UID.
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

    /// Every combination with its effects, before and after the end is on record.
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
