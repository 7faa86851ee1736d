//! Makes CSI snapshots readable for movers: creates a VolumeSnapshotContent with the snapshot's handle, a
//! VolumeSnapshot and a claim in the mover's namespace, and removes them again. The source snapshot is not changed.
//! Every object is named by the UID of the object that the mover works for, so that another server finds it. Called
//! by the controllers of objects whose data movers copy.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Client;
use lifeboat_cluster::ApiError;
use lifeboat_plan::json::text;
use lifeboat_plan::transfer::consumer::waits_for_pods;
use lifeboat_plan::transfer::exposed::{self, Exposure, MADE_FOR, exposed_name, made_for};
use lifeboat_plan::transfer::snapshots as csi;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::attempts::{AttemptRecord, NotPrepared};
use crate::claims::Claims;
use crate::snapshots::{PollTimer, Snapshots};

/// Creates and removes the objects through which movers in one namespace read snapshots.
pub struct Exposures {
    snapshots: Snapshots,
    claims: Claims,
    /// The namespace of the movers.
    namespace: String,
    /// The namespace of the server: several installations may share the movers' namespace.
    server: String,
}

/// A snapshot that a mover is to read.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotSource<'a> {
    /// The namespace of the claim and of its VolumeSnapshot.
    pub namespace: &'a str,
    /// The claim that the snapshot was taken of; it may be gone.
    pub claim: &'a str,
    pub snapshot: &'a str,
    /// The VolumeSnapshotClass, or empty.
    pub snapshot_class: &'a str,
    /// The StorageClass of the volume that is made for the mover; empty means the cluster's default.
    pub storage_class: &'a str,
}

/// How to wait for a snapshot that is not ready to use.
#[derive(Clone, Copy)]
pub struct Waiting<'a> {
    /// Records what the transfer waits for.
    pub record: &'a dyn AttemptRecord,
    pub limit: Duration,
    pub cancel: &'a CancellationToken,
}

/// A claim from which a mover can read the snapshot's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposed {
    /// The claim's name, in the mover's namespace.
    pub claim: String,
    pub block: bool,
    /// The only node on which the claim can be mounted, if there is only one and the PersistentVolume does not say so
    /// itself.
    pub node: Option<String>,
}

/// The objects that exist for movers in a namespace.
pub struct ExposedObjects {
    claims: Vec<Value>,
    uids: BTreeSet<String>,
}

impl ExposedObjects {
    pub fn is_empty(&self) -> bool {
        self.uids.is_empty()
    }
}

impl Exposures {
    pub fn new(client: &Client, namespace: &str, server: &str) -> Self {
        Self {
            snapshots: Snapshots::new(client),
            claims: Claims::new(client),
            namespace: namespace.to_owned(),
            server: server.to_owned(),
        }
    }

    /// Waits until the snapshot is ready to use, and creates a claim from it for the mover of the object with this
    /// UID.
    pub async fn expose(
        &self,
        uid: &str,
        source: SnapshotSource<'_>,
        waiting: Waiting<'_>,
    ) -> Result<Exposed, NotPrepared> {
        let content = self.ready(source.namespace, source.snapshot, waiting).await?;
        let name = exposed_name(uid);
        let claim = self.claims.get(source.namespace, source.claim).await?;
        let exposure = Exposure { name: &name, namespace: &self.namespace, uid, server: &self.server };
        self.snapshots.make_content(&exposed::content(&content, exposure, source.snapshot_class)).await?;
        self.snapshots.make(&exposed::snapshot(exposure)).await?;
        let wanted = exposed::claim(exposure, claim.as_ref(), &content, source.storage_class);
        self.claims.make(&wanted).await?;
        let node = self.node(&wanted, claim.as_ref(), &content).await?;
        Ok(Exposed { claim: name, block: wanted["spec"]["volumeMode"] == "Block", node })
    }

    /// The only node on which the claim made from `content` can be mounted. `of` is the claim that the snapshot was
    /// taken of.
    async fn node(
        &self,
        made: &Value,
        of: Option<&Value>,
        content: &Value,
    ) -> Result<Option<String>, ApiError> {
        let volume = of.and_then(|claim| claim["spec"]["volumeName"].as_str());
        let volume = match volume.filter(|volume| !volume.is_empty()) {
            Some(volume) => self.claims.volume(volume).await?,
            None => None,
        };
        // A class with immediate binding chooses the node itself; one with WaitForFirstConsumer follows the mover's
        // pod.
        let class = match made["spec"]["storageClassName"].as_str() {
            Some(class) => self.claims.class(class).await?,
            None => None,
        };
        if !class.is_some_and(|class| waits_for_pods(&class)) {
            return Ok(None);
        }
        let nodes = self.claims.nodes().await?;
        Ok(exposed::node(content, volume.as_ref(), &nodes))
    }

    /// Waits until the snapshot is ready to use; returns its content.
    async fn ready(&self, namespace: &str, name: &str, waiting: Waiting<'_>) -> Result<Value, NotPrepared> {
        let (timer, mut written) = (PollTimer::new(waiting.limit), String::new());
        loop {
            let Some(snapshot) = self.snapshots.snapshot(namespace, name).await? else {
                return Err(NotPrepared::Because(format!("VolumeSnapshot {namespace}/{name} is gone")));
            };
            let content = self.snapshots.content_of(&snapshot).await?;
            let reported =
                csi::reported_error(&snapshot).or_else(|| content.as_ref().and_then(csi::reported_error));
            if let Some(content) = content.filter(csi::is_ready) {
                return Ok(content);
            }
            let message = reported.unwrap_or_else(|| "its CSI driver has not finished it".to_owned());
            let message = format!("snapshot {namespace}/{name} is not ready to use: {message}");
            if waiting.cancel.is_cancelled() || !timer.pause().await {
                return Err(NotPrepared::Because(message));
            }
            if message != written {
                waiting.record.waiting(&message).await?;
                written = message;
            }
        }
    }

    /// The last warning of the provisioner about a mover's claim that gets no volume.
    pub async fn complaint(&self, uid: &str) -> Option<String> {
        self.claims.complaint(&self.namespace, &exposed_name(uid)).await
    }

    /// Removes the objects that were made for the mover. The driver's snapshot stays.
    pub async fn remove(&self, uid: &str) -> Result<(), ApiError> {
        let name = exposed_name(uid);
        self.claims.delete_with_volume(&self.namespace, &name).await?;
        self.snapshots.remove(&self.namespace, &name, Some(&name), false).await
    }

    /// Lists the objects that this server made for movers in the namespace, including claims that movers fill.
    pub async fn made(&self) -> Result<ExposedObjects, ApiError> {
        let claims = self.claims.made_for(&self.namespace, MADE_FOR).await?;
        let parts = self.snapshots.made_for(&self.namespace, MADE_FOR).await?;
        // Contents have no namespace; each one names the namespace of its VolumeSnapshot.
        let here = |part: &&Value| {
            let of = text(part, "/spec/volumeSnapshotRef/namespace");
            of.is_empty() || of == self.namespace
        };
        let uids = claims.iter().chain(parts.iter().filter(here)).filter_map(|object| self.uid(object));
        let uids = uids.collect();
        Ok(ExposedObjects { claims, uids })
    }

    /// Removes the objects that were made for movers of objects that are gone. `known` are the UIDs of the existing
    /// objects, read after `made`, so that an object created in between is among them.
    pub async fn remove_left(&self, made: &ExposedObjects, known: &BTreeSet<String>) -> Result<(), ApiError> {
        for gone in made.uids.difference(known) {
            tracing::warn!(uid = gone, "removing what was made for a data movement that is gone");
            self.remove(gone).await?;
            for claim in made.claims.iter().filter(|claim| self.uid(claim).as_ref() == Some(gone)) {
                self.claims.delete_with_volume(&self.namespace, text(claim, "/metadata/name")).await?;
            }
        }
        Ok(())
    }

    fn uid(&self, object: &Value) -> Option<String> {
        made_for(object, &self.server).map(str::to_owned)
    }
}
