package main

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// snapshotter makes snapshots of nothing. Volumes are hostPath volumes; their path is their name.
type snapshotter struct {
	recorder
	config map[string]string
}

func (s *snapshotter) Init(config map[string]string) error {
	s.record("Init", map[string]any{"config": config})
	if config["refuse"] != "" {
		return errors.New("the recorder was told to refuse this configuration")
	}
	s.config = config
	return nil
}

func (s *snapshotter) CreateVolumeFromSnapshot(snapshotID, volumeType, volumeAZ string, iops *int64) (string, error) {
	s.record("CreateVolumeFromSnapshot", map[string]any{"snapshot": snapshotID, "type": volumeType, "zone": volumeAZ, "iops": iops})
	return "volume-of-" + snapshotID, nil
}

func (s *snapshotter) GetVolumeID(volume runtime.Unstructured) (string, error) {
	id, _, err := unstructured.NestedString(volume.UnstructuredContent(), "spec", "hostPath", "path")
	s.record("GetVolumeID", map[string]any{"volume": id})
	return id, err
}

func (s *snapshotter) SetVolumeID(volume runtime.Unstructured, volumeID string) (runtime.Unstructured, error) {
	s.record("SetVolumeID", map[string]any{"volume": volumeID})
	err := unstructured.SetNestedField(volume.UnstructuredContent(), volumeID, "spec", "hostPath", "path")
	return volume, err
}

func (s *snapshotter) GetVolumeInfo(volumeID, volumeAZ string) (string, *int64, error) {
	s.record("GetVolumeInfo", map[string]any{"volume": volumeID, "zone": volumeAZ})
	iops := int64(100)
	return "recorded", &iops, nil
}

func (s *snapshotter) CreateSnapshot(volumeID, volumeAZ string, tags map[string]string) (string, error) {
	s.record("CreateSnapshot", map[string]any{"volume": volumeID, "zone": volumeAZ, "tags": tags, "config": s.config})
	if s.config == nil {
		return "", errors.New("CreateSnapshot before Init")
	}
	return fmt.Sprintf("snapshot-of-%s", volumeID), nil
}

func (s *snapshotter) DeleteSnapshot(snapshotID string) error {
	s.record("DeleteSnapshot", map[string]any{"snapshot": snapshotID})
	return nil
}
