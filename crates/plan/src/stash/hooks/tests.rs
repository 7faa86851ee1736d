use jiff::Timestamp;
use lifeboat_api::common::Time;
use lifeboat_api::stash::HostRun;
use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::stash::state::MemberState;

use End::{Failed, Succeeded};
use PostPolicy::{Always, OnFailure, OnFinalRetryFailure, OnSuccess};

fn host(pre: Option<HookPhase>, post: Option<HookPhase>, began: bool) -> HostState {
    let start_time = began.then_some(Time(Timestamp::UNIX_EPOCH));
    let run = HostRun { pre_hook: pre, post_hook: post, start_time, ..HostRun::default() };
    HostState { run, ..HostState::default() }
}

#[rstest]
#[case(Always, Succeeded, 0, true, "in any case")]
#[case(Always, Failed, 2, true, "in any case")]
#[case(OnSuccess, Succeeded, 0, true, "it succeeded")]
#[case(OnSuccess, Failed, 0, false, "it failed")]
#[case(OnFailure, Failed, 2, true, "it failed, retries do not matter")]
#[case(OnFailure, Succeeded, 0, false, "it succeeded")]
#[case(OnFinalRetryFailure, Failed, 1, false, "a retry is left")]
#[case(OnFinalRetryFailure, Failed, 0, true, "no retry is left")]
#[case(OnFinalRetryFailure, Succeeded, 0, false, "it succeeded")]
fn a_policy_decides_by_the_end_and_the_retries(
    #[case] policy: PostPolicy,
    #[case] end: End,
    #[case] retry_left: i32,
    #[case] runs: bool,
    #[case] reason: &str,
) {
    assert_eq!(policy.runs_after(end, retry_left), runs, "{reason}");
}

#[rstest]
#[case::none(false, None, HookStep::Nothing, "no hook")]
#[case::first(true, None, HookStep::Run, "it has not run")]
#[case::died(true, Some(HookPhase::Started), HookStep::Continue, "a server died while it ran")]
#[case::done(true, Some(HookPhase::Succeeded), HookStep::Ended(HookPhase::Succeeded), "once only")]
#[case::failed(
    true,
    Some(HookPhase::Failed),
    HookStep::Ended(HookPhase::Failed),
    "failed hooks are not repeated"
)]
fn the_hook_before_a_host_runs_once(
    #[case] configured: bool,
    #[case] pre: Option<HookPhase>,
    #[case] expected: HookStep,
    #[case] reason: &str,
) {
    assert_eq!(pre_step(configured, &host(pre, None, false)), expected, "{reason}");
}

#[rstest]
#[case::still_works(
    Some(Always),
    true,
    host(Some(HookPhase::Succeeded), None, true),
    None,
    HookStep::Nothing,
    "the mover runs"
)]
#[case::after_success(
    Some(Always),
    true,
    host(Some(HookPhase::Succeeded), None, true),
    Some(Succeeded),
    HookStep::Run,
    "policy"
)]
#[case::pre_failed(
    Some(Always),
    true,
    host(Some(HookPhase::Failed), None, false),
    Some(Failed),
    HookStep::Run,
    "its pre hook began"
)]
#[case::pre_unknown(
    Some(OnFailure),
    true,
    host(Some(HookPhase::Started), None, false),
    Some(Failed),
    HookStep::Run,
    "its pre hook may have run"
)]
#[case::pre_never_began(
    Some(Always),
    true,
    host(None, None, false),
    Some(Failed),
    HookStep::Skip,
    "no pod was found"
)]
#[case::alone(
    Some(Always),
    false,
    host(None, None, true),
    Some(Failed),
    HookStep::Run,
    "there is no pre hook, the work began"
)]
#[case::alone_and_never_began(
    Some(Always),
    false,
    host(None, None, false),
    Some(Failed),
    HookStep::Skip,
    "nothing began"
)]
#[case::policy_says_no(
    Some(OnFailure),
    true,
    host(Some(HookPhase::Succeeded), None, true),
    Some(Succeeded),
    HookStep::Skip,
    "policy"
)]
#[case::only_a_pre_hook(
    None,
    true,
    host(Some(HookPhase::Succeeded), None, true),
    Some(Succeeded),
    HookStep::Skip,
    "the host owes nothing"
)]
#[case::no_hooks(None, false, host(None, None, true), Some(Succeeded), HookStep::Nothing, "no hooks")]
#[case::died(
    Some(Always),
    true,
    host(Some(HookPhase::Succeeded), Some(HookPhase::Started), true),
    Some(Failed),
    HookStep::Continue,
    "a server died"
)]
#[case::done(
    Some(Always),
    true,
    host(Some(HookPhase::Succeeded), Some(HookPhase::Failed), true),
    Some(Failed),
    HookStep::Ended(HookPhase::Failed),
    "once"
)]
fn the_hook_after_a_host_runs_whenever_the_one_before_it_began(
    #[case] policy: Option<PostPolicy>,
    #[case] has_pre: bool,
    #[case] host: HostState,
    #[case] end: Option<End>,
    #[case] expected: HookStep,
    #[case] reason: &str,
) {
    assert_eq!(post_step(policy, has_pre, &host, end, 0), expected, "{reason}");
}

#[rstest]
#[case::well(WorkPhase::Succeeded, false, OnSuccess, true)]
#[case::member_failed(WorkPhase::Failed, false, OnSuccess, false)]
#[case::member_failed_and_wanted(WorkPhase::Failed, false, OnFailure, true)]
#[case::pre_failed(WorkPhase::Succeeded, true, OnFailure, true)]
fn the_hook_after_a_batch_sees_its_members(
    #[case] phase: WorkPhase,
    #[case] pre_failed: bool,
    #[case] policy: PostPolicy,
    #[case] runs: bool,
) {
    let hosts = vec![HostState { phase, ..HostState::default() }];
    let member = MemberState { total_hosts: Some(1), hosts, ..MemberState::default() };
    let state = SessionState { members: vec![member], ..SessionState::default() };
    assert_eq!(global_post_runs(policy, &state, pre_failed, 0), runs);
}

fn a_phase() -> impl Strategy<Value = Option<HookPhase>> {
    prop::option::of(prop::sample::select(HookPhase::KNOWN))
}

proptest! {
    /// Once the engine records what a step says, a host whose work has ended owes no hook.
    #[test]
    fn every_hook_comes_to_an_end(
        pre in a_phase(), post in a_phase(), has_pre: bool, began: bool, retry_left in 0..2i32,
        policy in prop::option::of(prop::sample::select(vec![Always, OnSuccess, OnFailure, OnFinalRetryFailure])),
    ) {
        let mut host = host(pre, post, began);
        match post_step(policy, has_pre, &host, Some(Failed), retry_left) {
            HookStep::Run | HookStep::Continue => host.run.post_hook = Some(HookPhase::Succeeded),
            HookStep::Skip => host.run.post_hook = Some(HookPhase::Skipped),
            HookStep::Ended(phase) => prop_assert_eq!(host.run.post_hook.clone(), Some(phase)),
            HookStep::Nothing => {}
        }
        prop_assert!(!host.owes_post_hook());
    }
}
