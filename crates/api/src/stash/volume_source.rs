//! [`VolumeSource`]: the source of a volume, written inline as in a pod's `volumes`.
//!
//! k8s-openapi has the sources only as part of `Volume`, which has a name; the backend and a Recovery name
//! their volumes themselves. The inner types are Kubernetes' own.

use k8s_openapi::api::core::v1 as core;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Declares [`VolumeSource`], the list of its fields and the way to a `Volume`, from one list.
macro_rules! volume_sources {
    ($($(#[$meta:meta])* $field:ident ($name:literal): $type:ident,)+) => {
        /// One of Kubernetes' volume sources.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct VolumeSource {
            $(
                $(#[$meta])*
                #[serde(default, rename = $name, skip_serializing_if = "Option::is_none")]
                pub $field: Option<core::$type>,
            )+
        }

        impl VolumeSource {
            /// The names of all sources, as they stand in an object.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// The volume of a pod that has this source.
            pub fn into_volume(self, name: impl Into<String>) -> core::Volume {
                core::Volume { name: name.into(), $($field: self.$field,)+ }
            }

            /// The source of a pod's volume.
            pub fn from_volume(volume: core::Volume) -> Self {
                Self { $($field: volume.$field,)+ }
            }
        }
    };
}

volume_sources! {
    /// An AWS EBS disk, through its CSI driver.
    aws_elastic_block_store("awsElasticBlockStore"): AWSElasticBlockStoreVolumeSource,
    /// An Azure data disk.
    azure_disk("azureDisk"): AzureDiskVolumeSource,
    /// An Azure file share.
    azure_file("azureFile"): AzureFileVolumeSource,
    /// A Ceph file system.
    cephfs("cephfs"): CephFSVolumeSource,
    /// An OpenStack Cinder volume.
    cinder("cinder"): CinderVolumeSource,
    /// The content of a ConfigMap.
    config_map("configMap"): ConfigMapVolumeSource,
    /// An inline volume that a CSI driver creates for the pod.
    csi("csi"): CSIVolumeSource,
    /// Fields of the pod, as files.
    downward_api("downwardAPI"): DownwardAPIVolumeSource,
    /// An empty directory that is deleted with the pod.
    empty_dir("emptyDir"): EmptyDirVolumeSource,
    /// A claim that is created for the pod and deleted with it.
    ephemeral("ephemeral"): EphemeralVolumeSource,
    /// A Fibre Channel disk.
    fc("fc"): FCVolumeSource,
    /// A volume of a FlexVolume driver.
    flex_volume("flexVolume"): FlexVolumeSource,
    /// A Flocker volume.
    flocker("flocker"): FlockerVolumeSource,
    /// A Google Compute Engine disk.
    gce_persistent_disk("gcePersistentDisk"): GCEPersistentDiskVolumeSource,
    /// A clone of a Git repository.
    git_repo("gitRepo"): GitRepoVolumeSource,
    /// A Gluster file system.
    glusterfs("glusterfs"): GlusterfsVolumeSource,
    /// A directory or file of the node.
    host_path("hostPath"): HostPathVolumeSource,
    /// The content of a container image.
    image("image"): ImageVolumeSource,
    /// An iSCSI disk.
    iscsi("iscsi"): ISCSIVolumeSource,
    /// A directory of an NFS server.
    nfs("nfs"): NFSVolumeSource,
    /// A claim in the namespace of the pod.
    persistent_volume_claim("persistentVolumeClaim"): PersistentVolumeClaimVolumeSource,
    /// A Photon controller disk.
    photon_persistent_disk("photonPersistentDisk"): PhotonPersistentDiskVolumeSource,
    /// A Portworx volume.
    portworx_volume("portworxVolume"): PortworxVolumeSource,
    /// Secrets, ConfigMaps, pod fields and tokens in one directory.
    projected("projected"): ProjectedVolumeSource,
    /// A Quobyte volume.
    quobyte("quobyte"): QuobyteVolumeSource,
    /// A Ceph block device.
    rbd("rbd"): RBDVolumeSource,
    /// A ScaleIO volume.
    scale_io("scaleIO"): ScaleIOVolumeSource,
    /// The content of a Secret.
    secret("secret"): SecretVolumeSource,
    /// A StorageOS volume.
    storageos("storageos"): StorageOSVolumeSource,
    /// A vSphere disk.
    vsphere_volume("vsphereVolume"): VsphereVirtualDiskVolumeSource,
}
