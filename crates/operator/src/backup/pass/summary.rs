//! The end of a pass: Namespace objects, which depend on what was taken; definitions of custom resources; volumes; counts.

use std::sync::Arc;

use lifeboat_archive::documents::{BackupVolumeInfo, NativeSnapshot, PodVolumeInfo, VolumeAttributes};
use lifeboat_archive::{ArchiveSize, SpoolLimits};
use lifeboat_cluster::list::{ListQuery, Pager, RawItem};
use lifeboat_plan::backup::phase::Counts;
use lifeboat_plan::backup::volumes::{Fate, Method, VolumeRecord, Wishes};
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::csi::SNAPSHOT;
use lifeboat_plan::filter::Verdict;
use lifeboat_plan::pod_volumes::{CHANGED_FILES, CONSISTENCY};
use lifeboat_plan::volume_plugin::stored;
use serde::Deserialize;
use serde_json::Value;

use super::{About, Made, Outcome, Pass, PassError, Report, upload};

impl Pass {
    /// Namespace objects, in their order where there is one.
    pub(super) async fn take_namespaces(self: &Arc<Self>) {
        let resource = GroupResource::new("", "namespaces");
        let Some(kind) = self.catalogue.get(&resource).cloned() else { return };
        if self.stop.is_cancelled() || !self.valid.filter.types().takes(&kind) {
            return;
        }
        let query = ListQuery {
            kind: kind.clone(),
            namespace: None,
            selector: String::new(),
            page_size: self.page_size,
        };
        let mut pager = Pager::new(self.client.clone(), query);
        let mut items: Vec<Option<RawItem>> = Vec::new();
        loop {
            match pager.next().await {
                Ok(Some(page)) => {
                    items.extend(page.items.into_iter().filter(|item| self.takes_namespace(item)).map(Some));
                }
                Ok(None) => break,
                Err(error) => {
                    self.list_failed(&kind, None, &error).await;
                    break;
                }
            }
        }
        self.counters.expect(items.len());
        let names: Vec<_> = items.iter().flatten().map(|item| item.meta.name.clone()).collect();
        let mut ordered = 0;
        let places = match self.valid.orders.by_type.get(&resource) {
            Some(order) => {
                let sorted = order.sort(&names);
                for warning in &sorted.warnings {
                    self.report.warning(&About::Server, warning, None);
                }
                ordered = sorted.listed.len();
                sorted.listed.into_iter().chain(sorted.unlisted).collect()
            }
            None => (0..items.len()).collect::<Vec<_>>(),
        };
        for (number, place) in places.into_iter().enumerate() {
            if let Some(item) = items[place].take()
                && !self.stop.is_cancelled()
            {
                if number < ordered {
                    self.report.info_about(&item.meta.id(&kind), "Backing up ordered item");
                }
                self.take(&kind, item).await;
            }
        }
    }

    fn takes_namespace(&self, item: &RawItem) -> bool {
        #[derive(Deserialize)]
        struct Namespace {
            status: Option<Status>,
        }
        #[derive(Deserialize)]
        struct Status {
            phase: Option<String>,
        }
        let phase = serde_json::from_slice::<Namespace>(&item.json).ok();
        let phase = phase.and_then(|namespace| namespace.status).and_then(|status| status.phase);
        let active = phase.is_none_or(|phase| phase == "Active");
        let holds = self.made().namespaces.contains(&item.meta.name);
        let (name, labels) = (&item.meta.name, &item.meta.labels);
        if item.meta.facts().excluded {
            return false;
        }
        matches!(self.valid.filter.takes_namespace_object(name, labels, active, holds), Verdict::Take)
    }

    /// The definitions of custom resources of which something was taken, where they are neither taken as a type nor
    /// excluded.
    pub(super) async fn take_definitions(&self) {
        let resource = GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions");
        let Some(kind) = self.catalogue.get(&resource) else { return };
        let types = self.valid.filter.types();
        if self.stop.is_cancelled() || types.takes(kind) || types.excludes(kind) {
            return;
        }
        let taken = self.made().types.clone();
        for id in taken.iter().filter(|id| id.group.contains('.')) {
            let definition = ItemId::cluster(resource.clone(), id.to_string());
            if let Err(error) = self.take_definition(kind, &definition).await {
                self.report.error(&About::Item(&definition), "Error backing up item", Some(&error));
            }
        }
    }

    async fn take_definition(
        &self,
        kind: &lifeboat_plan::catalogue::ResourceType,
        id: &ItemId,
    ) -> Result<(), String> {
        // Types that are built in have no definition.
        let found = lifeboat_cluster::list::get_raw(&self.client, kind, None, &id.name).await;
        if let Some(item) = found.map_err(|error| error.chain())?
            && !item.meta.deleting
        {
            self.take(kind, item).await;
        }
        Ok(())
    }

    /// Ends the archive and sums up.
    pub(super) async fn finish(pass: Arc<Self>) -> Result<Outcome, PassError> {
        pass.keep_unused_snapshots();
        pass.clear_unused_csi().await;
        let volumes = pass.volumes();
        pass.made().volumes = volumes;
        for (kind, count) in &pass.made().per_type {
            pass.report.info(&format!("Backed up {count} items of {kind}"), &[]);
        }
        let Some(pass) = Arc::into_inner(pass) else {
            return Err(PassError::Failed("a task of the backup is still running".to_owned()));
        };
        pass.seal().await
    }

    /// Ends the archive, which becomes visible.
    async fn seal(self) -> Result<Outcome, PassError> {
        let made = self.made.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (fence, writer) = (self.fence, self.writer);
        let finishing = async {
            if let Some(fence) = fence
                && !fence.holds().await
            {
                return Err(PassError::Stopped);
            }
            let written = writer.finish().await.map_err(|error| {
                PassError::Failed(format!("the archive cannot be written: {}", upload::chain(&error)))
            })?;
            restorable(&written, &SpoolLimits::default()).map_err(PassError::Failed)?;
            Ok(written)
        };
        let sealed = tokio::select! {
            biased;
            written = finishing => written,
            () = self.stop.cancelled() => Err(PassError::Stopped),
        };
        match sealed {
            Ok(size) => {
                let copies = self.copying.objects().values().map(stored).collect();
                Ok(outcome(made, size, copies, &self.report, self.velero_compatible))
            }
            Err(error) => {
                super::actions::cancel(&self.actions, &self.backup, &self.journal, &made.operations).await;
                Err(error)
            }
        }
    }

    /// One record for each volume; data that was asked for and is not there is an error.
    fn volumes(&self) -> Vec<BackupVolumeInfo> {
        let wishes = Wishes::new(&self.backup.spec, self.valid.policies.as_ref());
        let copied = self.copying.objects();
        let made = self.made();
        let taken = &made.taken;
        let records = made.book.records(&wishes, &taken.volumes(), &made.copies);
        for record in &records {
            let unclaimed = record.volume.as_ref().and_then(|volume| taken.unclaimed.get(volume));
            match &record.fate {
                Fate::Snapshotted | Fate::CsiSnapshotted => {}
                Fate::Copied(name) => self.tell_copy(record, copied.get(name)),
                Fate::Skipped(reason) => {
                    self.report
                        .info(&format!("The data of volume {} is skipped: {reason}", record.title()), &[]);
                }
                Fate::Missed(method, reason) => {
                    let why = match (method, unclaimed) {
                        (Method::FileCopy, _) => "",
                        (Method::Snapshot, Some(why)) => why,
                        (Method::Snapshot, None) => {
                            "there is no volume snapshot location whose snapshotter takes it, and no CSI driver does"
                        }
                    };
                    let namespace = record.claim.as_ref().map(|claim| claim.0.as_str());
                    let about = namespace.map_or(About::Server, About::Namespace);
                    let and = if why.is_empty() { "" } else { ", and " };
                    let words = format!(
                        "the data of volume {} was not backed up: {reason}{and}{why}",
                        record.title()
                    );
                    self.report.error(&about, &words, None);
                }
            }
        }
        let info_of = |record: VolumeRecord| {
            let snapshot = record.volume.as_ref().and_then(|volume| taken.snapshots.get(volume));
            let copy = if let Fate::Copied(name) = &record.fate { copied.get(name) } else { None };
            let (fate, claim) = (record.fate.clone(), record.claim.clone());
            let mut info = info(record, snapshot, copy);
            if let (Fate::CsiSnapshotted, Some(claim)) = (fate, claim) {
                let mover = self.backup.spec.datamover.as_deref().unwrap_or("velero");
                let quiesced = made.book.is_quiesced(&claim, &made.quiesced);
                made.csi.describe(&claim, quiesced, &made.operations, mover, &mut info);
            }
            info
        };
        records.into_iter().map(info_of).collect()
    }
}

impl Pass {
    /// How the copy of a volume ended.
    fn tell_copy(&self, record: &VolumeRecord, object: Option<&Value>) {
        let text =
            |pointer: &str| object.and_then(|object| object.pointer(pointer)?.as_str()).unwrap_or_default();
        let Some((namespace, pod, volume)) = &record.pod else { return };
        let what = format!("volume {volume} of pod {namespace}/{pod}");
        if text("/status/phase") == "Completed" {
            let changed = object.and_then(|one| one["metadata"]["annotations"][CHANGED_FILES].as_str());
            let changed = changed.unwrap_or("0");
            let snapshot = text("/status/snapshotID");
            self.report
                .info(&format!("Copied {what}: snapshot {snapshot}, {changed} files changed meanwhile"), &[]);
            return;
        }
        let reason = match text("/status/message") {
            "" => "it did not end",
            words => words,
        };
        self.report.error(&About::Namespace(namespace), &format!("{what} was not copied: {reason}"), None);
    }
}

/// Sums up what a pass made.
fn outcome(
    mut made: Made,
    size: ArchiveSize,
    copies: Vec<Value>,
    report: &Report,
    velero_compatible: bool,
) -> Outcome {
    made.resources.sort();
    let items = made.resources.count();
    report.info(&format!("Backed up a total of {items} items"), &[]);
    let (counts, results) = (counts(&made, items, report), report.results());
    if velero_compatible && !copies.is_empty() {
        let message = "The copies of volumes are also listed in the file that Velero reads (--velero-compatible-volumes): Velero 1.19 and later do not show a backup with such a list at all";
        report.warning(&About::Server, message, None);
    }
    let (snapshots, volume_plugin_backups) = made.taken.listed();
    Outcome {
        counts,
        size,
        resources: made.resources,
        operations: made.operations,
        volumes: made.volumes,
        snapshots,
        volume_plugin_backups,
        copies,
        velero_compatible,
        results,
    }
}

fn counts(made: &Made, items: usize, report: &Report) -> Counts {
    let log = report.log().counts();
    let open = made.operations.iter().filter(|operation| !operation.status.phase.has_ended()).count();
    Counts {
        items,
        warnings: usize::try_from(log.warnings).unwrap_or(usize::MAX),
        errors: usize::try_from(log.errors).unwrap_or(usize::MAX),
        hooks_attempted: made.hooks_attempted,
        hooks_failed: made.hooks_failed,
        operations: made.operations.len(),
        operations_open: open,
        operations_failed: 0,
        snapshots: made.taken.snapshots.len(),
        snapshots_failed: made.taken.failed(),
        snapshots_open: made.taken.open,
        csi_snapshots: made.csi.attempted(),
        csi_ready: made.csi.ready(),
    }
}

/// Whether a restore will read the archive: one that it refuses is no backup.
fn restorable(size: &ArchiveSize, limits: &SpoolLimits) -> Result<(), String> {
    let too_large = |what: String| {
        Err(format!(
            "the archive has {what}, which no restore would read: back up fewer namespaces or types at once"
        ))
    };
    // An item has two entries; the version of the format is another.
    let entries = size.items * 2 + 1;
    if entries > limits.entries {
        return too_large(format!("{entries} entries, more than {}", limits.entries));
    }
    if size.plain > limits.plain_bytes {
        return too_large(format!("{} bytes, more than {}", size.plain, limits.plain_bytes));
    }
    if size.plain > limits.ratio_from && size.plain / limits.ratio > size.compressed {
        return too_large(format!(
            "{} bytes in {}, more than {} for each",
            size.plain, size.compressed, limits.ratio
        ));
    }
    Ok(())
}

fn info(record: VolumeRecord, snapshot: Option<&NativeSnapshot>, copy: Option<&Value>) -> BackupVolumeInfo {
    let (pvc_namespace, pvc_name) = record.claim.unwrap_or_default();
    let mut info = BackupVolumeInfo {
        pvc_name,
        pvc_namespace,
        pv_name: record.volume.unwrap_or_default(),
        pv_info: Some(VolumeAttributes {
            reclaim_policy: record.reclaim_policy,
            labels: (!record.labels.is_empty()).then_some(record.labels),
        }),
        ..BackupVolumeInfo::default()
    };
    match record.fate {
        Fate::Snapshotted => {
            let well = snapshot.is_some_and(|snapshot| snapshot.status.phase == "Completed");
            "NativeSnapshot".clone_into(&mut info.backup_method);
            if well { "succeeded" } else { "failed" }.clone_into(&mut info.result);
            if well {
                SNAPSHOT.clone_into(&mut info.consistency);
            }
            info.native_snapshot_info = snapshot.map(crate::backup::volumes::native::info);
        }
        Fate::Copied(_) => describe_copy(&mut info, record.pod, copy),
        Fate::CsiSnapshotted => {}
        Fate::Skipped(reason) => {
            info.skipped = true;
            info.skipped_reason = reason;
        }
        Fate::Missed(method, _) => {
            "failed".clone_into(&mut info.result);
            info.backup_method = match method {
                Method::FileCopy => "PodVolumeBackup".to_owned(),
                Method::Snapshot => "NativeSnapshot".to_owned(),
            };
            info.pvb_info = record.pod.map(|(pod_namespace, pod_name, volume_name)| PodVolumeInfo {
                uploader_type: "restic".to_owned(),
                volume_name,
                pod_name,
                pod_namespace,
                phase: "Failed".to_owned(),
                ..PodVolumeInfo::default()
            });
        }
    }
    info
}

/// A copied volume, as its PodVolumeBackup shows it.
fn describe_copy(info: &mut BackupVolumeInfo, pod: Option<(String, String, String)>, copy: Option<&Value>) {
    "PodVolumeBackup".clone_into(&mut info.backup_method);
    let status = copy.map(|copy| &copy["status"]).cloned().unwrap_or_default();
    let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
    let time = |field: &str| serde_json::from_value(status[field].clone()).ok();
    let well = text("phase") == "Completed";
    if well { "succeeded" } else { "failed" }.clone_into(&mut info.result);
    let consistency = copy.and_then(|copy| copy["metadata"]["annotations"][CONSISTENCY].as_str());
    consistency.unwrap_or_default().clone_into(&mut info.consistency);
    info.start_timestamp = time("startTimestamp");
    info.completion_timestamp = time("completionTimestamp");
    info.pvb_info = pod.map(|(pod_namespace, pod_name, volume_name)| PodVolumeInfo {
        snapshot_handle: text("snapshotID"),
        size: status["progress"]["totalBytes"].as_i64().unwrap_or_default(),
        incremental_size: status["incrementalBytes"].as_i64().unwrap_or_default(),
        uploader_type: "restic".to_owned(),
        volume_name,
        pod_name,
        pod_namespace,
        node_name: copy.and_then(|copy| copy["spec"]["node"].as_str()).unwrap_or_default().to_owned(),
        phase: text("phase"),
    });
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::ordinary(10, 1 << 20, 1 << 17, true)]
    #[case::too_many(50, 1 << 20, 1 << 17, false)]
    #[case::too_long(10, 1 << 31, 1 << 28, false)]
    #[case::too_dense(10, 1 << 28, 1 << 10, false)]
    #[case::dense_and_small(10, 1 << 20, 1 << 10, true)]
    fn an_archive_that_no_restore_would_read_is_no_backup(
        #[case] items: u64,
        #[case] plain: u64,
        #[case] compressed: u64,
        #[case] expected: bool,
    ) {
        let limits = SpoolLimits { entries: 100, plain_bytes: 1 << 30, ..SpoolLimits::default() };
        assert_eq!(restorable(&ArchiveSize { compressed, plain, items }, &limits).is_ok(), expected);
    }
}
