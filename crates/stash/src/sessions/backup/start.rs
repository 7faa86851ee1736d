//! Gathers the facts that determine whether a BackupSession, or one member of it, starts: its invoker, other sessions
//! on its targets, restores.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::ListParams;
use lifeboat_api::stash::{BackupSession, InvokerRef, TargetRef};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::stash::invoker::{ValidBackup, ValidMember};
use lifeboat_plan::stash::session::{
    BackupFacts, BackupTargetFacts, DUE, InvokerFacts, InvokerId, MemberStart, Order, OtherBackup,
    OtherRestore, OtherTarget, SessionKey, TargetKey, TargetVolumes, backup_member,
};
use lifeboat_plan::stash::state::{SessionState, WorkPhase};

use crate::context::Context;
use crate::invokers::Invoker;
use crate::sessions::record::SessionRecord;
use crate::sessions::restores::restores;
use crate::sessions::volumes::{self, Claims};

/// What was gathered.
pub(super) struct Gathered {
    session: SessionKey,
    by_hand: bool,
    invoker: Option<InvokerFacts>,
    order: Order,
    targets: Vec<Option<BackupTargetFacts>>,
    around: Surroundings,
}

impl Gathered {
    pub(super) fn facts(&self) -> BackupFacts<'_> {
        BackupFacts {
            session: &self.session,
            by_hand: self.by_hand,
            invoker: self.invoker.clone(),
            order: self.order,
            targets: &self.targets,
            siblings: &self.around.siblings,
            others: &self.around.others,
            restores: &self.around.restores,
        }
    }

    /// The claims of each member's target.
    pub(super) fn claims(&self) -> Vec<BTreeSet<String>> {
        let claims = |target: &Option<BackupTargetFacts>| {
            target.as_ref().map(|target| target.on.claims.clone()).unwrap_or_default()
        };
        self.targets.iter().map(claims).collect()
    }
}

/// Gathers the facts for a session that has not started.
pub(super) async fn gather(
    context: &Context,
    session: &BackupSession,
    record: &SessionRecord,
    invoker: Option<&Invoker>,
    valid: Option<&ValidBackup>,
) -> Result<Gathered, ApiError> {
    let facts = invoker.map(|invoker| InvokerFacts {
        phase: invoker.status.phase.clone(),
        paused: valid.is_some_and(|valid| valid.paused),
        message: message(invoker),
    });
    let around = Surroundings::read(context, record, &session.spec.invoker).await?;
    let mut targets = Vec::new();
    for member in valid.map(|valid| valid.members.as_slice()).unwrap_or_default() {
        targets.push(around.target(context, member).await?);
    }
    Ok(Gathered {
        session: key(record),
        by_hand: !session.annotations().contains_key(DUE),
        invoker: facts,
        order: valid.map(|valid| valid.order).unwrap_or_default(),
        targets,
        around,
    })
}

fn key(record: &SessionRecord) -> SessionKey {
    SessionKey { created: record.created, namespace: record.namespace.clone(), name: record.name.clone() }
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

/// The other sessions and restores in the namespace of a session.
pub(super) struct Surroundings {
    /// Sessions of the same invoker that have not ended.
    siblings: Vec<OtherBackup>,
    /// Sessions of other invokers that have not ended.
    others: Vec<OtherBackup>,
    restores: Vec<OtherRestore>,
    claims: Claims,
}

impl Surroundings {
    pub(super) async fn read(
        context: &Context,
        record: &SessionRecord,
        invoker: &InvokerRef,
    ) -> Result<Self, ApiError> {
        let namespace = record.namespace.as_str();
        let api =
            objects::namespaced(&context.core.client, namespace, &objects::resource_of::<BackupSession>());
        let listed = api.list(&ListParams::default()).await;
        let listed = listed.attempt(format!("list BackupSessions of namespace {namespace}"))?;
        let (mut siblings, mut others) = (Vec::new(), Vec::new());
        for object in &listed.items {
            let uid = object.metadata.uid.as_deref();
            if uid == Some(record.uid.as_str()) || context.abandoned.has(uid) {
                continue;
            }
            let Ok(other) = objects::typed::<BackupSession>(object) else { continue };
            let is_sibling =
                other.spec.invoker.kind == invoker.kind && other.spec.invoker.name == invoker.name;
            if let Some(backup) = open_backup(context, namespace, &other).await? {
                if is_sibling { siblings.push(backup) } else { others.push(backup) }
            }
        }
        let restores = restores(&context.core, &context.abandoned, namespace).await?;
        let claims = Claims::read(&context.core, namespace).await?;
        Ok(Self { siblings, others, restores, claims })
    }

    /// The data of a member's target.
    pub(super) async fn target(
        &self,
        context: &Context,
        member: &ValidMember,
    ) -> Result<Option<BackupTargetFacts>, ApiError> {
        let Some(target) = &member.target else { return Ok(None) };
        volumes::of_target(&context.core, &self.claims, &target.key, target.kind).await.map(Some)
    }

    /// Whether a member of the session may start on its target.
    pub(super) fn member(&self, record: &SessionRecord, target: Option<&BackupTargetFacts>) -> MemberStart {
        backup_member(&key(record), target, &self.others, &self.restores)
    }
}

/// A session as others see it; None if it has ended. A session that no server has processed yet has the targets of
/// its invoker.
async fn open_backup(
    context: &Context,
    namespace: &str,
    session: &BackupSession,
) -> Result<Option<OtherBackup>, ApiError> {
    let state = SessionState::of_backup_session(&session.status.clone().unwrap_or_default());
    if state.phase.has_ended() {
        return Ok(None);
    }
    let targets: Vec<_> = if state.members.is_empty() {
        let id = InvokerId {
            kind: session.spec.invoker.kind.clone(),
            namespace: namespace.to_owned(),
            name: session.spec.invoker.name.clone(),
        };
        let invoker = Invoker::read(context, &id).await?;
        let targets = invoker.map(|invoker| invoker.targets()).unwrap_or_default();
        targets.into_iter().map(|target| (target, BTreeSet::new(), WorkPhase::Pending)).collect()
    } else {
        let members = state.members.into_iter();
        members
            .map(|member| {
                let phase = member.current_phase();
                (member.reference, member.claims, phase)
            })
            .collect()
    };
    let target = |(reference, claims, phase): (Option<TargetRef>, BTreeSet<String>, WorkPhase)| {
        let key = TargetKey::of(&reference?, namespace);
        Some(OtherTarget { on: TargetVolumes::new(namespace, Some(key), claims), phase })
    };
    Ok(Some(OtherBackup {
        session: SessionKey {
            created: session.creation_timestamp().map_or_else(|| context.core.now(), |time| time.0),
            namespace: namespace.to_owned(),
            name: session.name_any(),
        },
        phase: state.phase,
        targets: targets.into_iter().filter_map(target).collect(),
    }))
}
