//! Shows CSI snapshots to movers: for each a content with the snapshot's handle, a VolumeSnapshot and a claim in the mover's
//! namespace; and removes them again. The source stays as it is meanwhile. Everything is named by the UID of the object that
//! the mover works for, so that another server finds it. Called by the controllers of objects whose data movers copy.

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
use crate::snapshots::{Patience, Snapshots};

/// What is made for movers in one namespace.
pub struct Exposures {
    snapshots: Snapshots,
    claims: Claims,
    /// That of the movers.
    namespace: String,
    /// That of the server: installations may share the movers' namespace.
    server: String,
}

/// A snapshot that a mover is to read.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotSource<'a> {
    /// Of the claim and of its VolumeSnapshot.
    pub namespace: &'a str,
    /// The claim whose snapshot it is; it may be gone.
    pub claim: &'a str,
    pub snapshot: &'a str,
    /// The VolumeSnapshotClass, or nothing.
    pub snapshot_class: &'a str,
    /// The class of the volume that is made for the mover; nothing means the cluster's default.
    pub storage_class: &'a str,
}

/// How a snapshot that cannot be used yet is waited for.
#[derive(Clone, Copy)]
pub struct Waiting<'a> {
    /// Learns what is waited for.
    pub record: &'a dyn AttemptRecord,
    pub limit: Duration,
    pub cancel: &'a CancellationToken,
}

/// What a mover can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposed {
    /// In the mover's namespace.
    pub claim: String,
    pub block: bool,
    /// The only node on which it can be read, where there is only one and the volume does not say so itself.
    pub node: Option<String>,
}

/// What there is for movers.
pub struct Made {
    claims: Vec<Value>,
    uids: BTreeSet<String>,
}

impl Made {
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

    /// Waits until volumes can be made from the snapshot, and makes a claim from it for the mover of the object with this UID.
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

    /// The only node on which a claim that was made from a content can be read. `of` is the claim whose snapshot it is.
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
        // A class that makes volumes at once chooses where; one that waits follows the mover.
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

    /// Waits until volumes can be made from the snapshot; gives its content.
    async fn ready(&self, namespace: &str, name: &str, waiting: Waiting<'_>) -> Result<Value, NotPrepared> {
        let (patience, mut written) = (Patience::new(waiting.limit), String::new());
        loop {
            let Some(snapshot) = self.snapshots.snapshot(namespace, name).await? else {
                return Err(NotPrepared::Because(format!("VolumeSnapshot {namespace}/{name} is gone")));
            };
            let content = match csi::bound_content(&snapshot) {
                Some(content) => self.snapshots.content(content).await?,
                None => None,
            };
            let trouble = csi::trouble(&snapshot).or_else(|| content.as_ref().and_then(csi::trouble));
            if let Some(content) = content.filter(csi::is_ready) {
                return Ok(content);
            }
            let message = trouble.unwrap_or_else(|| "its driver is not done with it".to_owned());
            let message = format!("snapshot {namespace}/{name} is not ready to use: {message}");
            if waiting.cancel.is_cancelled() || !patience.pause().await {
                return Err(NotPrepared::Because(message));
            }
            if message != written {
                waiting.record.waiting(&message).await?;
                written = message;
            }
        }
    }

    /// What a provisioner said last about the claim for a mover, where it gets no volume.
    pub async fn complaint(&self, uid: &str) -> Option<String> {
        self.claims.complaint(&self.namespace, &exposed_name(uid)).await
    }

    /// Removes what was made for the mover. The driver's snapshot stays.
    pub async fn remove(&self, uid: &str) -> Result<(), ApiError> {
        let name = exposed_name(uid);
        self.claims.delete_with_volume(&self.namespace, &name).await?;
        self.snapshots.take_away(&self.namespace, &name, Some(&name), false).await
    }

    /// What this server made for movers in the namespace, claims that movers fill among it.
    pub async fn made(&self) -> Result<Made, ApiError> {
        let claims = self.claims.made_for(&self.namespace, MADE_FOR).await?;
        let parts = self.snapshots.made_for(&self.namespace, MADE_FOR).await?;
        // Contents have no namespace; they are for the VolumeSnapshots of one.
        let here = |part: &&Value| {
            let of = text(part, "/spec/volumeSnapshotRef/namespace");
            of.is_empty() || of == self.namespace
        };
        let uids = claims.iter().chain(parts.iter().filter(here)).filter_map(|object| self.uid(object));
        let uids = uids.collect();
        Ok(Made { claims, uids })
    }

    /// Removes what was made for movers of objects that are gone. `known` are the UIDs of the objects that there are, read
    /// after `made`: one that begins meanwhile is among them.
    pub async fn remove_left(&self, made: &Made, known: &BTreeSet<String>) -> Result<(), ApiError> {
        for gone in made.uids.difference(known) {
            tracing::warn!(uid = gone, "what was made for a data movement that is gone is taken away");
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
