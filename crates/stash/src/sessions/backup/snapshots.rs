//! CSI snapshots of a host's claims, if the target names a VolumeSnapshotClass: a snapshot of each claim is taken,
//! and the mover reads a volume created from it. All objects are in the namespace of the target and are named by the
//! host's task and the volume, so that another server finds them; they are removed when the mover has ended.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::try_join_all;
use lifeboat_cluster::ApiError;
use lifeboat_control::Core;
use lifeboat_plan::json::text;
use lifeboat_plan::label;
use lifeboat_plan::stash::targets::{HostVolume, MoverSource, VolumeAccess};
use lifeboat_plan::transfer::exposed::{MADE_FOR, made_for};
use lifeboat_plan::transfer::snapshots::{GROUP, SERVER, VERSION};
use lifeboat_transfer::attempts::{AttemptRecord, NotPrepared};
use lifeboat_transfer::claims::Claims;
use lifeboat_transfer::exposure::{Exposed, Exposures, SnapshotSource, Waiting};
use lifeboat_transfer::snapshots::{NotTaken, Snapshots, TimeLimit};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// How long a driver may take for a snapshot.
const LIMIT: TimeLimit =
    TimeLimit { time: Duration::from_mins(10), setting: "the limit of target.snapshotClassName" };

/// The snapshots of the claims that one mover reads.
pub(super) struct HostSnapshots<'a> {
    pub(super) core: &'a Core,
    /// The namespace of the target and of the mover.
    pub(super) namespace: &'a str,
    /// The common prefix of the mover's tasks.
    pub(super) base: &'a str,
}

impl HostSnapshots<'_> {
    /// The source that the mover reads: each claim that is to be snapshotted is replaced by a volume created from its
    /// snapshot.
    pub(super) async fn exposed(
        &self,
        source: &MoverSource,
        record: &dyn AttemptRecord,
        cancel: &CancellationToken,
    ) -> Result<MoverSource, NotPrepared> {
        let MoverSource::Volumes { volumes, node } = source else { return Ok(source.clone()) };
        // All claims of the host at once: their data belongs together.
        let taken = volumes.iter().enumerate().filter_map(|(number, volume)| match &volume.access {
            VolumeAccess::Snapshot { claim, class, .. } => Some((self.uid(number), claim, class)),
            _ => None,
        });
        let taken = taken
            .map(|(uid, claim, class)| async move { self.take(&uid, claim, class, record, cancel).await });
        try_join_all(taken).await?;
        let (mut exposed, mut node) = (Vec::new(), node.clone());
        for (number, volume) in volumes.iter().enumerate() {
            let VolumeAccess::Snapshot { claim, class, .. } = &volume.access else {
                exposed.push(volume.clone());
                continue;
            };
            let made = self.expose(&self.uid(number), claim, class, record, cancel).await?;
            node = node.or(made.node);
            // The source remains a snapshot, whose files do not change while they are read.
            let access =
                VolumeAccess::Snapshot { claim: made.claim, class: class.clone(), block: made.block };
            exposed.push(HostVolume { name: volume.name.clone(), access });
        }
        Ok(MoverSource::Volumes { volumes: exposed, node })
    }

    /// Identifies a volume of the host among all objects that are created for movers.
    fn uid(&self, number: usize) -> String {
        format!("{}.v{number}", self.base)
    }

    fn exposures(&self) -> Exposures {
        Exposures::new(&self.core.client, self.namespace, &self.core.namespace)
    }

    /// Takes the snapshot of a claim, unless it exists.
    async fn take(
        &self,
        uid: &str,
        claim: &str,
        class: &str,
        record: &dyn AttemptRecord,
        cancel: &CancellationToken,
    ) -> Result<(), NotPrepared> {
        let wanted = self.wanted(uid, &taken_name(uid), claim, class);
        let snapshots = Snapshots::new(&self.core.client);
        record.waiting(&format!("waits for a CSI snapshot of claim {claim}")).await?;
        match cancel.run_until_cancelled(snapshots.take(&wanted, LIMIT)).await {
            Some(Ok(_)) => Ok(()),
            Some(Err(NotTaken::Api(error))) => Err(error.into()),
            Some(Err(error)) => {
                Err(NotPrepared::Because(format!("no CSI snapshot of claim {claim}: {error}")))
            }
            None => Err(NotPrepared::Because("it was cancelled".to_owned())),
        }
    }

    /// Creates a volume from the snapshot of a claim.
    async fn expose(
        &self,
        uid: &str,
        claim: &str,
        class: &str,
        record: &dyn AttemptRecord,
        cancel: &CancellationToken,
    ) -> Result<Exposed, NotPrepared> {
        let name = taken_name(uid);
        let found = Claims::new(&self.core.client).get(self.namespace, claim).await?.unwrap_or_default();
        let source = SnapshotSource {
            namespace: self.namespace,
            claim,
            snapshot: &name,
            snapshot_class: class,
            storage_class: text(&found, "/spec/storageClassName"),
        };
        self.exposures().expose(uid, source, Waiting { record, limit: LIMIT.time, cancel }).await
    }

    fn wanted(&self, uid: &str, name: &str, claim: &str, class: &str) -> Value {
        json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": "VolumeSnapshot",
            "metadata": {"name": name, "namespace": self.namespace,
                "labels": {MADE_FOR: uid, SERVER: label::value(&self.core.namespace)}},
            "spec": {"volumeSnapshotClassName": class, "source": {"persistentVolumeClaimName": claim}},
        })
    }

    /// Why a volume could not be created from a snapshot, from the provisioner's last report.
    pub(super) async fn complaint(&self, source: &MoverSource) -> Option<String> {
        for number in snapshot_numbers(source) {
            if let Some(complaint) = self.exposures().complaint(&self.uid(number)).await {
                return Some(complaint);
            }
        }
        None
    }

    /// Removes volumes and snapshots that were created for the mover, which has ended.
    pub(super) async fn remove(&self, source: &MoverSource) -> Result<(), ApiError> {
        for number in snapshot_numbers(source) {
            remove(self.core, self.namespace, &self.uid(number)).await?;
        }
        Ok(())
    }
}

/// The numbers of the volumes that are read from snapshots.
fn snapshot_numbers(source: &MoverSource) -> Vec<usize> {
    let MoverSource::Volumes { volumes, .. } = source else { return Vec::new() };
    let volumes = volumes.iter().enumerate();
    let of_snapshots = volumes.filter(|(_, volume)| matches!(volume.access, VolumeAccess::Snapshot { .. }));
    of_snapshots.map(|(number, _)| number).collect()
}

/// The name of the snapshot of a claim; the volume created from it has another name.
fn taken_name(uid: &str) -> String {
    format!("lifeboat-of-{uid}")
}

async fn remove(core: &Core, namespace: &str, uid: &str) -> Result<(), ApiError> {
    Exposures::new(&core.client, namespace, &core.namespace).remove(uid).await?;
    Snapshots::new(&core.client).remove(namespace, &taken_name(uid), None, true).await
}

/// Removes objects that interrupted servers left for sessions that have ended or no longer exist. `is_open`: whether
/// the session with a UID is still worked on.
pub(super) async fn sweep(core: &Core, is_open: impl Fn(&str) -> bool) -> Result<(), ApiError> {
    let snapshots = Snapshots::new(&core.client);
    let labelled = snapshots.labelled(MADE_FOR, None).await?.into_iter().map(|found| {
        let namespace = text(&found, "/metadata/namespace").to_owned();
        (namespace, found)
    });
    let contents = snapshots.labelled_contents(MADE_FOR, None).await?.into_iter().map(|found| {
        let namespace = text(&found, "/spec/volumeSnapshotRef/namespace").to_owned();
        (namespace, found)
    });
    let left: BTreeSet<(String, String)> = labelled
        .chain(contents)
        .filter_map(|(namespace, found)| Some((namespace, made_for(&found, &core.namespace)?.to_owned())))
        // `<session>.<member>.<host>.v<number>`: other APIs have UIDs without a dot.
        .filter(|(_, uid)| uid.split_once('.').is_some_and(|(session, _)| !is_open(session)))
        .collect();
    for (namespace, uid) in left {
        tracing::info!(namespace, uid, "removing CSI snapshots of a backup that is over");
        remove(core, &namespace, &uid).await?;
    }
    Ok(())
}
