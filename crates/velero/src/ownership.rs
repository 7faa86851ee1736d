//! The keys that prove what this installation made, derived from its repository passwords, and the proofs in the lists of
//! a backup. A cluster that is set up again with the exported password can prove the same.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};

use lifeboat_archive::documents::{BackupVolumeInfo, NativeSnapshot};
use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_plan::password::{is_public_default, to_try};
use lifeboat_plan::velero::ownership::{Owned, OwnerId, OwnershipKeys};
use sha2::{Digest, Sha256};

use crate::context::Context;
use crate::password;

/// The cost of trying a password: as for the repositories, because every reader of the bucket can read the
/// proofs.
const COST: (u8, u32, u32) = (15, 8, 3);

/// The keys of this installation. Velero's public default password is no secret, and proves nothing.
pub(crate) async fn keys(context: &Context) -> Result<OwnershipKeys, ApiError> {
    let secret = password::read(&context.client, &context.namespace).await?.unwrap_or_default();
    let own = to_try(&secret).into_iter().filter(|text| !is_public_default(text.as_bytes()));
    let passwords: Vec<String> = own.map(str::to_owned).collect();
    let derived =
        tokio::task::spawn_blocking(move || passwords.iter().filter_map(|text| derived(text)).collect());
    Ok(OwnershipKeys::new(derived.await.unwrap_or_default()))
}

/// The key of a password; each is derived once by this process, because that takes a tenth of a second.
fn derived(password: &str) -> Option<[u8; 32]> {
    static KNOWN: LazyLock<Mutex<BTreeMap<[u8; 32], [u8; 32]>>> = LazyLock::new(Mutex::default);
    let name: [u8; 32] = Sha256::digest(password.as_bytes()).into();
    if let Some(key) = locked(&KNOWN).get(&name) {
        return Some(*key);
    }
    let params = scrypt::Params::new(COST.0, COST.1, COST.2).ok()?;
    let mut key = [0; 32];
    scrypt::scrypt(password.as_bytes(), b"lifeboat ownership", &params, &mut key).ok()?;
    locked(&KNOWN).insert(name, key);
    Some(key)
}

/// The volumes of a backup, with proofs for their CSI snapshots.
pub(crate) fn volumes(
    keys: &OwnershipKeys,
    owner: OwnerId<'_>,
    volumes: &[BackupVolumeInfo],
) -> Vec<BackupVolumeInfo> {
    let mut volumes = volumes.to_vec();
    for csi in volumes.iter_mut().filter_map(|volume| volume.csi_snapshot_info.as_mut()) {
        let what = Owned::Csi { driver: &csi.driver, handle: &csi.snapshot_handle };
        csi.proof = keys.proof(owner, what).filter(|_| !csi.snapshot_handle.is_empty()).unwrap_or_default();
    }
    volumes
}

/// The plugin snapshots of a backup, with proofs.
pub(crate) fn snapshots(
    keys: &OwnershipKeys,
    owner: OwnerId<'_>,
    snapshots: &[NativeSnapshot],
) -> Vec<NativeSnapshot> {
    let mut snapshots = snapshots.to_vec();
    for one in &mut snapshots {
        let what = Owned::Native { location: &one.spec.location, id: &one.status.provider_snapshot_id };
        let proof = keys.proof(owner, what);
        one.status.proof = proof.filter(|_| !one.status.provider_snapshot_id.is_empty()).unwrap_or_default();
    }
    snapshots
}
