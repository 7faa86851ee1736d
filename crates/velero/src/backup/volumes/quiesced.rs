//! Whether hooks keep all pods of a claim quiet while its snapshot is taken, or when its copy starts. Only pods that are
//! between their pre hooks and their post hooks count, at the moment of the snapshot and not at the end of the pass.

use std::collections::BTreeSet;

use lifeboat_plan::velero::csi::VolumeGroup;
use serde_json::Value;

use crate::backup::pass::Pass;
use crate::csi;

/// A claim, or the claims of a volume group, which have one moment.
pub(in crate::backup) type MomentKey = (String, String);

impl Pass {
    /// Notes which pods are quiet before the snapshot of a claim is taken. The claims of a volume group have the moment of
    /// the first of them; a snapshot that an earlier attempt began has none that is known.
    pub(in crate::backup) async fn note_moment(&self, claim: &Value) {
        let quiet = self.made().quiesced.clone();
        let key = self.moment_key(claim);
        if quiet.is_empty() || self.made().csi.moments.contains_key(&key) {
            self.made().csi.moments.entry(key).or_default();
            return;
        }
        let begun = csi::was_begun(&self.client, claim, &self.backup).await;
        let quiet = if matches!(begun, Ok(false)) { quiet } else { BTreeSet::new() };
        self.made().csi.moments.entry(key).or_insert(quiet);
    }

    /// Whether the snapshot that was just taken of a claim is of a moment at which all of its pods were quiet.
    pub(in crate::backup) async fn was_quiesced(&self, claim: &Value) -> bool {
        let before = self.made().csi.moments.get(&self.moment_key(claim)).cloned().unwrap_or_default();
        let text = |field: &str| claim["metadata"][field].as_str().unwrap_or_default().to_owned();
        self.is_quiesced(&(text("namespace"), text("name")), &before).await
    }

    /// Whether all pods that mount a claim are quiet now, and were when `before` was noted.
    pub(in crate::backup) async fn is_quiesced(
        &self,
        claim: &(String, String),
        before: &BTreeSet<String>,
    ) -> bool {
        let quiet: BTreeSet<String> = before.intersection(&self.made().quiesced).cloned().collect();
        if quiet.is_empty() {
            return false;
        }
        let known = self.pods(&claim.0).await;
        if !known.is_ok_and(|pods| pods.is_quiesced(claim, &quiet)) {
            return false;
        }
        // A pod that was started since the pods were listed writes, too.
        self.list_pods(&claim.0).await.is_ok_and(|pods| pods.is_quiesced(claim, &quiet))
    }

    fn moment_key(&self, claim: &Value) -> MomentKey {
        let text = |field: &str| claim["metadata"][field].as_str().unwrap_or_default();
        match csi::group_of(claim, &self.backup) {
            Some(VolumeGroup { namespace, key, value, .. }) => (namespace, format!("{key}={value}")),
            None => (text("namespace").to_owned(), text("name").to_owned()),
        }
    }
}
