//! The steps of a standstill: each from every state that may be seen, and whole runs with a crash after every write.

use rstest::rstest;

use super::*;

fn record(step: Step) -> Standstill {
    let plan = stop_plan(3);
    Standstill {
        step,
        ..Standstill::new(TargetKind::Deployment, ("web", "uid"), &plan, restore_name("back"))
    }
}

fn seen(replicas: u32) -> StandstillFacts {
    StandstillFacts {
        workload: Some(("uid".into(), replicas)),
        users: Vec::new(),
        work: Work::NotBegun,
        give_up: None,
    }
}

/// The step that is written next, or the action.
fn shown(action: &Action) -> String {
    match action {
        Action::Write(record) if record.failure.is_some() => format!("{:?}, failed", record.step),
        Action::Write(record) => format!("{:?}", record.step),
        Action::Scale { replicas } => format!("scale {replicas}"),
        Action::Work => "work".to_owned(),
        Action::Cancel { .. } => "cancel".to_owned(),
        Action::Wait { .. } => "wait".to_owned(),
        Action::End { failure: None } => "end".to_owned(),
        Action::End { failure: Some(_) } => "end, failed".to_owned(),
    }
}

fn working(work: Work) -> StandstillFacts {
    StandstillFacts { work, ..seen(0) }
}

fn used(work: Work) -> StandstillFacts {
    StandstillFacts { users: vec![user("web")], ..working(work) }
}

fn given_up(work: Work) -> StandstillFacts {
    StandstillFacts { give_up: Some("its timeOut passed".into()), ..working(work) }
}

#[rstest]
#[case::the_scale_is_on_record(Step::Recorded, seen(3), "Stopping")]
#[case::the_scale_is_set(Step::Stopping, seen(3), "scale 0")]
#[case::pods_end(Step::Stopping, used(Work::NotBegun), "wait")]
#[case::no_pod_uses_the_volumes(Step::Stopping, seen(0), "Stopped")]
#[case::pods_do_not_end(Step::Stopping, given_up(Work::NotBegun), "Starting, failed")]
#[case::deleted_meanwhile(Step::Stopping, StandstillFacts { workload: None, ..seen(0) }, "Starting, failed")]
#[case::created_again_meanwhile(Step::Stopping, StandstillFacts { workload: Some(("new".into(), 3)), ..seen(0) }, "Starting, failed")]
#[case::a_copy_is_wanted(Step::Stopped, seen(0), "SafetyCopy")]
#[case::scaled_up_before_the_copy(Step::Stopped, seen(1), "Starting, failed")]
#[case::a_pod_came_before_the_copy(Step::Stopped, used(Work::NotBegun), "Starting, failed")]
#[case::copy_begins(Step::SafetyCopy, working(Work::NotBegun), "work")]
#[case::copy_goes_on(Step::SafetyCopy, working(Work::Running), "work")]
#[case::copy_is_done(Step::SafetyCopy, working(Work::Done), "Restoring")]
#[case::copy_fails(Step::SafetyCopy, working(Work::Failed("disk full".into())), "Starting, failed")]
#[case::scaled_up_during_the_copy(Step::SafetyCopy, StandstillFacts { work: Work::Running, ..seen(3) }, "cancel")]
#[case::after_the_cancel(Step::SafetyCopy, StandstillFacts { work: Work::Failed("cancelled".into()), ..seen(3) }, "Starting, failed")]
#[case::restore_begins(Step::Restoring, working(Work::NotBegun), "work")]
#[case::restore_goes_on(Step::Restoring, working(Work::Running), "work")]
#[case::restore_is_done(Step::Restoring, working(Work::Done), "Verified")]
#[case::restore_fails(Step::Restoring, working(Work::Failed("disk full".into())), "HeldDown, failed")]
#[case::nothing_was_stored(Step::Restoring, working(Work::Untouched("no such path".into())), "Starting, failed")]
#[case::nothing_was_written_yet(Step::Restoring, given_up(Work::NotBegun), "Starting, failed")]
#[case::too_late_in_the_middle(Step::Restoring, given_up(Work::Running), "cancel")]
#[case::too_late_and_cancelled(Step::Restoring, given_up(Work::Failed("cancelled".into())), "HeldDown, failed")]
#[case::someone_scales_up(Step::Restoring, StandstillFacts { work: Work::Running, ..seen(1) }, "cancel")]
#[case::a_pod_comes(Step::Restoring, used(Work::Running), "cancel")]
#[case::deleted_in_the_middle(Step::Restoring, StandstillFacts { workload: None, ..working(Work::Running) }, "cancel")]
#[case::done_before_it_was_scaled_up(Step::Restoring, StandstillFacts { work: Work::Done, ..seen(3) }, "Verified")]
#[case::verified(Step::Verified, seen(0), "Starting")]
#[case::the_scale_goes_back(Step::Starting, seen(0), "scale 3")]
#[case::the_scale_is_back(Step::Starting, seen(3), "Started")]
#[case::someone_set_another_scale(Step::Starting, seen(1), "Started")]
#[case::nothing_is_there_to_start(Step::Starting, StandstillFacts { workload: None, ..seen(0) }, "Started")]
#[case::another_one_of_its_name(Step::Starting, StandstillFacts { workload: Some(("new".into(), 0)), ..seen(0) }, "Started")]
#[case::over(Step::Started, seen(3), "end")]
fn each_step_follows_from_what_is_seen(
    #[case] step: Step,
    #[case] seen: StandstillFacts,
    #[case] expected: &str,
) {
    assert_eq!(shown(&record(step).next(&seen)), expected);
}

/// A workload that an earlier restore left down on half-restored data.
fn held(step: Step) -> Standstill {
    let earlier = Some(restore_name("first"));
    Standstill { held_by: earlier.clone(), safety_of: earlier, safety_copy: false, ..record(step) }
}

#[rstest]
#[case::it_is_down_already(Step::Stopping, seen(0), "Stopped")]
#[case::given_up(Step::Stopping, given_up(Work::NotBegun), "LeftDown, failed")]
#[case::started_by_a_person(Step::Stopping, seen(2), "LeftDown, failed")]
#[case::a_pod_came(Step::Stopped, used(Work::NotBegun), "LeftDown, failed")]
#[case::the_copy_failed(Step::SafetyCopy, working(Work::Failed("disk full".into())), "LeftDown, failed")]
#[case::given_up_before_the_first_mover(Step::Restoring, given_up(Work::NotBegun), "LeftDown, failed")]
#[case::nothing_was_stored(Step::Restoring, working(Work::Untouched("no such path".into())), "LeftDown, failed")]
#[case::it_wrote(Step::Restoring, working(Work::Failed("disk full".into())), "HeldDown, failed")]
#[case::it_succeeded(Step::Restoring, working(Work::Done), "Verified")]
#[case::only_then_it_is_started(Step::Starting, seen(0), "scale 3")]
#[case::over(Step::LeftDown, seen(0), "end")]
fn only_a_restore_that_succeeds_starts_what_an_earlier_one_left_down(
    #[case] step: Step,
    #[case] seen: StandstillFacts,
    #[case] expected: &str,
) {
    assert_eq!(shown(&held(step).next(&seen)), expected);
}

#[test]
fn the_advice_after_a_restore_was_deleted_names_the_workload_and_not_the_restore() {
    let reason = Some(DELETED.to_owned());
    let seen =
        StandstillFacts { give_up: reason, ..given_up(Work::Failed("the restore was deleted".into())) };
    let Action::Write(left) = record(Step::Restoring).next(&seen) else { panic!() };
    let failure = left.failure.unwrap();
    assert!(failure.ends_with("lifeboat stash resume-workload deployment/web -n demo"), "{failure}");
    assert!(!failure.contains("restoresession"), "{failure}");
    let removed = record(Step::Restoring).removed().failure.unwrap();
    assert!(removed.ends_with("lifeboat stash resume-workload deployment/web -n demo"), "{removed}");
}

#[test]
fn a_workload_that_is_left_as_it_was_found_names_the_ways_out() {
    let Action::Write(left) = held(Step::Stopping).next(&given_up(Work::NotBegun)) else { panic!() };
    assert_eq!(
        left.failure.as_deref(),
        Some(
            "its timeOut passed. Nothing was written, and Deployment web stays as RestoreSession demo/first left it, with data that may be \
             half restored. Restore again; put the earlier data back: lifeboat stash rollback restoresession/back -n demo; start it with the \
             data as it is: lifeboat stash resume-workload deployment/web -n demo"
        )
    );
}

#[test]
fn without_a_safety_copy_its_step_is_left_out() {
    let record = Standstill { safety_copy: false, ..record(Step::Stopped) };
    assert_eq!(shown(&record.next(&seen(0))), "Restoring");
}

#[test]
fn copies_that_are_added_belong_to_the_earlier_restore() {
    let adding = Standstill { safety_copy: true, ..held(Step::SafetyCopy) };
    assert_eq!(adding.copies_of(), "uid-first");
    let Action::Write(copied) = adding.next(&working(Work::Done)) else { panic!() };
    assert_eq!((copied.step, &copied.safety_of), (Step::Restoring, &Some(restore_name("first"))));
    let own = record(Step::SafetyCopy);
    assert_eq!(own.copies_of(), own.restore.uid);
    let Action::Write(copied) = own.next(&working(Work::Done)) else { panic!() };
    assert!(copied.has_own_copy());
}

#[test]
fn a_workload_that_stays_down_names_the_ways_out() {
    let copied = Standstill { safety_of: Some(restore_name("first")), ..record(Step::Restoring) };
    let failed = working(Work::Failed("no space left on device.".into()));
    let Action::Write(held) = copied.next(&failed) else { panic!() };
    assert_eq!(
        held.failure.as_deref(),
        Some(
            "no space left on device. Deployment web stays stopped (it had 3 replicas). Try again: kubectl -n demo get restoresession back \
             -o yaml | kubectl replace --force -f -; put the earlier data back: lifeboat stash rollback restoresession/back -n demo; start \
             it with the data as it is: lifeboat stash resume-workload restoresession/back -n demo"
        )
    );
    assert_eq!(held.next(&failed), Action::End { failure: held.failure.clone() }, "it is not started");
    let Action::Write(held) = record(Step::Restoring).next(&failed) else { panic!() };
    assert!(held.failure.unwrap().contains("no safety copy to go back to"));
}

#[test]
fn a_workload_that_someone_started_is_not_said_to_be_down() {
    let started = StandstillFacts { work: Work::Failed("cancelled".into()), ..seen(2) };
    let Action::Write(held) = record(Step::Restoring).next(&started) else { panic!() };
    let message = held.failure.unwrap();
    assert!(
        message.contains("Deployment web runs with 2 replicas, although its data may be half restored"),
        "{message}"
    );
}

#[test]
fn a_workload_that_may_not_be_started_stays_down_and_says_how_to_start_it() {
    let down = record(Step::Starting).not_started("admission denied");
    assert_eq!(down.next(&seen(0)), Action::End { failure: down.failure.clone() });
    assert_eq!(
        down.failure.as_deref(),
        Some(
            "all data was restored. Deployment web stays stopped, because it could not be started: admission denied. Remove what refuses that, \
             then start it: kubectl -n demo scale deployment/web --replicas=3"
        )
    );
}

#[test]
fn the_record_is_read_as_it_was_written() {
    let record = Standstill { failure: Some("why".into()), ..record(Step::HeldDown) };
    let text = serde_json::to_string(&record).unwrap();
    assert!(text.contains("\"step\":\"HeldDown\"") && text.contains("\"replicas\":3"), "{text}");
    assert_eq!(serde_json::from_str::<Standstill>(&text).unwrap(), record);
}

/// A cluster in which actions have their effect.
struct World {
    record: Standstill,
    replicas: u32,
    copy: Work,
    data: Work,
}

impl World {
    fn new() -> Self {
        Self { record: record(Step::Recorded), replicas: 3, copy: Work::NotBegun, data: Work::NotBegun }
    }

    fn work(&mut self) -> &mut Work {
        if self.record.step < Step::Restoring { &mut self.copy } else { &mut self.data }
    }

    fn seen(&mut self) -> StandstillFacts {
        let users = (0..self.replicas).map(|number| user(&format!("web-{number}"))).collect();
        let workload = Some(("uid".into(), self.replicas));
        StandstillFacts { workload, users, work: self.work().clone(), give_up: None }
    }

    /// Carries out the next action; at the end, how it was.
    fn act(&mut self) -> Option<Result<(), String>> {
        let seen = self.seen();
        match self.record.next(&seen) {
            Action::Write(record) => self.record = *record,
            Action::Scale { replicas } => self.replicas = replicas,
            Action::Work => {
                assert_eq!(self.replicas, 0, "movers work on volumes at rest");
                let begun = *self.work() == Work::Running;
                *self.work() = if begun { Work::Done } else { Work::Running };
                assert!(
                    self.data == Work::NotBegun || self.copy == Work::Done,
                    "data is written after the copy"
                );
            }
            Action::Cancel { reason } => *self.work() = Work::Failed(reason),
            Action::End { failure } => return Some(failure.map_or(Ok(()), Err)),
            Action::Wait { message } => panic!("{message}"),
        }
        None
    }
}

#[test]
fn a_restore_that_succeeds_goes_through_all_steps() {
    let mut world = World::new();
    let mut steps = vec![world.record.step];
    let end = (0..30).find_map(|_| {
        let end = world.act();
        steps.push(world.record.step);
        end
    });
    steps.dedup();
    let expected = [
        Step::Recorded,
        Step::Stopping,
        Step::Stopped,
        Step::SafetyCopy,
        Step::Restoring,
        Step::Verified,
        Step::Starting,
        Step::Started,
    ];
    assert_eq!((end, steps, world.replicas), (Some(Ok(())), expected.to_vec(), 3));
    assert_eq!(world.record.safety_of, Some(restore_name("back")));
}

/// Someone scales the workload up before any action: it ends as before or with the restored data, or is said to be half restored.
#[test]
fn someone_may_scale_up_at_any_time() {
    let mut ends = BTreeSet::new();
    for moment in 0..15 {
        let mut world = World::new();
        let end = (0..40).find_map(|number| {
            if number == moment {
                world.replicas = 2;
            }
            world.act()
        });
        let end = end.unwrap_or_else(|| panic!("no end, scaled up at {moment}: {:?}", world.record));
        let is_half = !matches!(world.data, Work::NotBegun | Work::Untouched(_) | Work::Done);
        let expected = if is_half { Step::HeldDown } else { Step::Started };
        assert_eq!(world.record.step, expected, "scaled up at {moment}");
        assert_eq!(end.is_ok(), world.data == Work::Done, "scaled up at {moment}: {end:?}");
        assert!(world.replicas > 0, "scaled up at {moment}");
        ends.insert(world.record.step);
    }
    assert_eq!(ends, BTreeSet::from([Step::Started, Step::HeldDown]), "both kinds of end were seen");
}
