//! The fate of one item in a dry run: the steps of [`super::super::item`], with questions instead of writes.

use lifeboat_plan::catalogue::GroupResource;
use lifeboat_plan::restore::existing::{Existing, compare};
use lifeboat_plan::restore::volumes::{DataIn, VolumePlan, plan};
use lifeboat_plan::restore::{filter, sanitise, trust};
use lifeboat_plugin::actions::RestoreInput;
use serde_json::Value;

use super::super::apply::{resource_of, target};
use super::super::item::{Subject, drop_hooks};
use super::super::run::takes;
use super::{Judged, Session, Would};
use crate::restore::handler::volumes;

pub(crate) async fn judge(session: &Session<'_>, subject: &Subject) -> Judged {
    let mut judged = Judged::plain(Would::Create);
    judged.would = match steps(session, subject, &mut judged).await {
        Ok(would) | Err(would) => would,
    };
    judged
}

/// The fate of the item; found early, it is the error.
async fn steps(session: &Session<'_>, subject: &Subject, judged: &mut Judged) -> Result<Would, Would> {
    let question = session.question;
    untrusted(session, &subject.id.resource)?;
    let bytes = question.spool.get(subject.place).await.map_err(|error| Would::Fail(error.to_string()))?;
    let mut object: Value =
        serde_json::from_slice(&bytes).map_err(|error| Would::Fail(format!("it cannot be read: {error}")))?;
    if sanitise::is_completed(&subject.id.resource, &object) {
        return Err(Would::Skip("it is complete".to_owned()));
    }
    if sanitise::is_mirror_pod(&subject.id.resource, &object) {
        return Err(Would::Skip("it is a mirror pod".to_owned()));
    }
    if sanitise::job_of(&subject.id, &object).is_some_and(|job| takes(question.spool, question.valid, &job)) {
        return Err(Would::Skip("its Job is restored and makes a new one".to_owned()));
    }
    if subject.is("persistentvolumes") {
        volume(session, subject, &mut object)?;
    }
    if let Some(location) = question.untrusted.filter(|_| subject.is("pods"))
        && drop_hooks(&mut object)
    {
        judged.notes.push(trust::hooks_left_out(&subject.resource_id(), location));
    }
    let from_backup = object.clone();
    sanitise::strip(&mut object).map_err(|error| Would::Fail(error.to_string()))?;
    actions(session, subject, &from_backup, &mut object, judged).await?;
    if subject.is("persistentvolumeclaims") {
        claim(session, subject, &mut object, judged).await;
    }
    judged.notes.extend(question.valid.modifiers.apply(&mut object, &subject.id.resource));
    sanitise::mark(&mut object, subject.target.as_deref(), question.names.0, question.names.1);
    compared(session, subject, &object).await
}

fn untrusted(session: &Session<'_>, resource: &GroupResource) -> Result<(), Would> {
    match session
        .question
        .untrusted
        .filter(|_| trust::is_privileged(resource) && !filter::is_never_created(resource))
    {
        None => Ok(()),
        Some(location) => {
            Err(Would::Skip(format!("location {location} is untrusted (--allow-privileged restores it)")))
        }
    }
}

async fn claim(session: &Session<'_>, subject: &Subject, object: &mut Value, judged: &mut Judged) {
    let question = session.question;
    volumes::bind_anew(object, |volume| session.provisioned.contains(volume));
    let Some(volume) = volumes::bound_to(object) else { return };
    let restored =
        question.spool.find(&volume).is_some() && question.valid.filter.judge_additional(&volume).is_ok();
    if !restored && volumes::is_nowhere(&session.lookup, &volume).await {
        judged.notes.push(volumes::unbound(&subject.resource_id(), &volume.name));
        volumes::bind_anew(object, |_| true);
    }
}

fn volume(session: &Session<'_>, subject: &Subject, object: &mut Value) -> Result<(), Would> {
    let question = session.question;
    let data = question.volumes.get(&subject.id.name).copied().unwrap_or(DataIn::Nothing);
    match plan(object, data, question.valid.volumes) {
        VolumePlan::AsItIs | VolumePlan::FromSnapshot => {
            sanitise::move_claim(object, &question.valid.mapping);
            sanitise::unbind(object);
            Ok(())
        }
        VolumePlan::Provision => Err(Would::Skip("its claim gets a new volume".to_owned())),
    }
}

async fn actions(
    session: &Session<'_>,
    subject: &Subject,
    from_backup: &Value,
    object: &mut Value,
    judged: &mut Judged,
) -> Result<(), Would> {
    let question = session.question;
    for one in session.actions.for_type(&subject.id.resource).iter() {
        if !one.is_for(subject.target.as_deref(), object) {
            continue;
        }
        let input = RestoreInput { item: std::mem::take(object), from_backup, restore: question.restore };
        let outcome = one.execute(input, &session.lookup, question.action_limit).await;
        let outcome = outcome.map_err(|error| Would::Fail(format!("{}: {error}", one.name())))?;
        if outcome.skip {
            return Err(Would::Skip(format!("{} leaves it out", one.name())));
        }
        *object = outcome.item;
        judged.asks_for.extend(outcome.additional_items);
    }
    Ok(())
}

async fn compared(session: &Session<'_>, subject: &Subject, object: &Value) -> Result<Would, Would> {
    let question = session.question;
    let mut target = target(question.catalogue, question.spool, subject, object).map_err(Would::Fail)?;
    let resource = resource_of(&target);
    if filter::is_never_created(&resource) {
        return Err(Would::Skip("objects of this type are never restored".to_owned()));
    }
    untrusted(session, &resource)?;
    let is_namespace = subject.is("namespaces");
    if is_namespace {
        question.valid.target(&subject.id.name).clone_into(&mut target.name);
    }
    let found = question.writer.get(&target).await;
    let found =
        found.map_err(|error| Would::Fail(format!("the cluster cannot be asked: {}", error.chain())))?;
    Ok(match found {
        None => Would::Create,
        Some(_) if is_namespace => Would::Skip("it is there".to_owned()),
        Some(found) => match compare(found, object, question.valid.existing.as_ref()) {
            Existing::Same => Would::Skip("it is there and the same".to_owned()),
            Existing::Different { .. } => Would::Skip(
                "it is there and different (--existing-resource-policy update changes it)".to_owned(),
            ),
            Existing::Labels { .. } | Existing::Merge { .. } => Would::Update,
        },
    })
}
