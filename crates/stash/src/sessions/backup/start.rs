//! Gathers what decides whether a BackupSession starts: its invoker, other sessions on its targets, restores.

use kube::ResourceExt;
use kube::api::ListParams;
use lifeboat_api::stash::BackupSession;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::stash::invoker::ValidBackup;
use lifeboat_plan::stash::session::{
    BackupFacts, DUE, InvokerFacts, Order, OtherBackup, OtherRestore, OtherTarget, SessionKey, TargetKey,
};
use lifeboat_plan::stash::state::SessionState;

use crate::context::Context;
use crate::invokers::Invoker;
use crate::sessions::record::SessionRecord;
use crate::sessions::restore::others::restores;

/// What was gathered.
pub(super) struct Gathered {
    session: SessionKey,
    by_hand: bool,
    invoker: Option<InvokerFacts>,
    order: Order,
    targets: Vec<Option<TargetKey>>,
    siblings: Vec<OtherBackup>,
    others: Vec<OtherBackup>,
    restores: Vec<OtherRestore>,
}

impl Gathered {
    pub(super) fn facts(&self) -> BackupFacts<'_> {
        BackupFacts {
            session: &self.session,
            by_hand: self.by_hand,
            invoker: self.invoker.clone(),
            order: self.order,
            targets: &self.targets,
            siblings: &self.siblings,
            others: &self.others,
            restores: &self.restores,
        }
    }
}

pub(super) async fn gather(
    context: &Context,
    session: &BackupSession,
    record: &SessionRecord,
    invoker: Option<&Invoker>,
    valid: Option<&ValidBackup>,
) -> Result<Gathered, ApiError> {
    let key = SessionKey {
        created: record.created,
        namespace: record.namespace.clone(),
        name: record.name.clone(),
    };
    let (siblings, others) = open_sessions(context, session).await?;
    let facts = invoker.map(|invoker| InvokerFacts {
        phase: invoker.status.phase.clone(),
        paused: valid.is_some_and(|valid| valid.paused),
        message: message(invoker),
    });
    let targets = valid.map(|valid| {
        let target = |member: &lifeboat_plan::stash::invoker::ValidMember| {
            member.target.as_ref().map(|target| target.key.clone())
        };
        valid.members.iter().map(target).collect()
    });
    Ok(Gathered {
        session: key,
        by_hand: !session.annotations().contains_key(DUE),
        invoker: facts,
        order: valid.map(|valid| valid.order).unwrap_or_default(),
        targets: targets.unwrap_or_default(),
        siblings,
        others,
        restores: restores(context, &record.namespace, None).await?,
    })
}

/// Why an invoker is not Ready.
fn message(invoker: &Invoker) -> String {
    let conditions = invoker.status.conditions.iter();
    let bad = conditions.filter(|condition| condition.status != "True");
    bad.map(|condition| condition.message.clone())
        .filter(|message| !message.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

/// The sessions of the namespace that have not ended: those of the same invoker, and the others.
async fn open_sessions(
    context: &Context,
    session: &BackupSession,
) -> Result<(Vec<OtherBackup>, Vec<OtherBackup>), ApiError> {
    let namespace = session.namespace().unwrap_or_default();
    let resource = objects::resource_of::<BackupSession>();
    let api = objects::namespaced(&context.core.client, &namespace, &resource);
    let listed = api.list(&ListParams::default()).await;
    let listed = listed.attempt(format!("list BackupSessions of namespace {namespace}"))?;
    let (mut siblings, mut others) = (Vec::new(), Vec::new());
    for object in listed.items.iter().filter(|object| object.uid() != session.uid()) {
        let Ok(other) = objects::typed::<BackupSession>(object) else { continue };
        let state = SessionState::of_backup_session(&other.status.clone().unwrap_or_default());
        if state.phase.has_ended() {
            continue;
        }
        let members = state.members.iter();
        let targets = members.filter_map(|member| {
            let target = TargetKey::of(member.reference.as_ref()?, &namespace);
            Some(OtherTarget { target, phase: member.current_phase() })
        });
        let backup = OtherBackup {
            session: SessionKey {
                created: other.creation_timestamp().map_or_else(|| context.core.now(), |time| time.0),
                namespace: namespace.clone(),
                name: other.name_any(),
            },
            phase: state.phase,
            targets: targets.collect(),
        };
        let is_sibling = other.spec.invoker.kind == session.spec.invoker.kind
            && other.spec.invoker.name == session.spec.invoker.name;
        if is_sibling { siblings.push(backup) } else { others.push(backup) }
    }
    Ok((siblings, others))
}
