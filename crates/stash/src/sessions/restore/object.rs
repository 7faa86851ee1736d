//! A RestoreSession or RestoreBatch in one form: a RestoreSession is a batch with one member.

use std::collections::BTreeMap;

use kube::api::DynamicObject;
use lifeboat_api::stash::{RestoreBatch, RestoreMember, RestoreSession, TargetRef};
use lifeboat_cluster::objects;
use lifeboat_plan::stash::hosts::collisions;
use lifeboat_plan::stash::in_place::{InPlaceSettings, ROLLBACK_OF};
use lifeboat_plan::stash::invoker::{Problems, ValidRestore, restore_batch, restore_hosts, restore_session};
use serde_json::Value;

use crate::sessions::kind::SessionKind;

/// A restore, as its object has it.
#[derive(Clone, Debug)]
pub(super) struct RestoreObject {
    pub(super) kind: SessionKind,
    namespace: String,
    annotations: BTreeMap<String, String>,
    /// The whole object.
    json: Value,
    spec: Spec,
}

#[derive(Clone, Debug)]
enum Spec {
    Session(Box<RestoreSession>),
    Batch(Box<RestoreBatch>),
}

impl RestoreObject {
    pub(super) fn of(kind: SessionKind, object: &DynamicObject) -> Result<Self, serde_json::Error> {
        let spec = if kind == SessionKind::RestoreBatch {
            Spec::Batch(Box::new(objects::typed(object)?))
        } else {
            Spec::Session(Box::new(objects::typed(object)?))
        };
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let annotations = object.metadata.annotations.clone().unwrap_or_default();
        Ok(Self { kind, namespace, annotations, json: objects::to_json(object), spec })
    }

    pub(super) fn annotations(&self) -> &BTreeMap<String, String> {
        &self.annotations
    }

    /// Validates the restore.
    pub(super) fn valid(&self) -> Result<ValidRestore, Problems> {
        match &self.spec {
            Spec::Session(session) => restore_session(&self.namespace, &session.spec),
            Spec::Batch(batch) => {
                let hosts = restore_hosts(&batch.spec.members, |_| Vec::new());
                restore_batch(&self.namespace, &batch.spec, &collisions(&hosts))
            }
        }
    }

    fn members(&self) -> &[RestoreMember] {
        match &self.spec {
            Spec::Session(session) => std::slice::from_ref(&session.spec.member),
            Spec::Batch(batch) => &batch.spec.members,
        }
    }

    /// The targets of its members, in their order.
    pub(super) fn targets(&self) -> Vec<Option<TargetRef>> {
        let target = |member: &RestoreMember| member.target.as_ref()?.reference.clone();
        self.members().iter().map(target).collect()
    }

    /// The settings for volumes in use, from its annotations.
    pub(super) fn settings(&self) -> InPlaceSettings {
        InPlaceSettings::of(&self.json)
    }

    /// The UID of the restore whose safety copies are restored, if this restore is a rollback.
    pub(super) fn rollback_of(&self) -> Option<&str> {
        self.json["metadata"]["annotations"][ROLLBACK_OF].as_str().filter(|uid| !uid.is_empty())
    }
}
