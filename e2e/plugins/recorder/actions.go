package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	api "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
	"k8s.io/apimachinery/pkg/runtime"
)

type backupV1 struct{ recorder }

func (a *backupV1) AppliesTo() (velero.ResourceSelector, error) { return a.selector() }

func (a *backupV1) Execute(item runtime.Unstructured, backup *api.Backup) (runtime.Unstructured, []velero.ResourceIdentifier, error) {
	a.record("Execute", map[string]any{"item": name(item), "backup": backup.Name})
	if err := refused(item); err != nil {
		return nil, nil, err
	}
	mark(item, "backup-v1", backup.Name)
	return item, related(item), nil
}

type backupV2 struct{ recorder }

func (a *backupV2) Name() string { return "example.io/backup-v2" }

func (a *backupV2) AppliesTo() (velero.ResourceSelector, error) { return a.selector() }

func (a *backupV2) Execute(item runtime.Unstructured, backup *api.Backup) (runtime.Unstructured, []velero.ResourceIdentifier, string, []velero.ResourceIdentifier, error) {
	a.record("Execute", map[string]any{"item": name(item), "backup": backup.Name, "phase": string(backup.Status.Phase)})
	if err := refused(item); err != nil {
		return nil, nil, "", nil, err
	}
	mark(item, "backup-v2", backup.Name)
	return item, related(item), annotation(item, "operation"), related(item), nil
}

func (a *backupV2) Progress(operationID string, backup *api.Backup) (velero.OperationProgress, error) {
	a.record("Progress", map[string]any{"operation": operationID, "backup": backup.Name})
	return a.progress(operationID), nil
}

func (a *backupV2) Cancel(operationID string, backup *api.Backup) error {
	a.record("Cancel", map[string]any{"operation": operationID, "backup": backup.Name})
	return nil
}

type restoreV1 struct{ recorder }

func (a *restoreV1) AppliesTo() (velero.ResourceSelector, error) { return a.selector() }

func (a *restoreV1) Execute(input *velero.RestoreItemActionExecuteInput) (*velero.RestoreItemActionExecuteOutput, error) {
	a.record("Execute", map[string]any{
		"item": name(input.Item), "fromBackup": name(input.ItemFromBackup), "restore": input.Restore.Name,
	})
	if err := refused(input.Item); err != nil {
		return nil, err
	}
	mark(input.Item, "restore-v1", input.Restore.Name)
	output := velero.NewRestoreItemActionExecuteOutput(input.Item)
	output.AdditionalItems = related(input.Item)
	if annotation(input.Item, "skip") != "" {
		output = output.WithoutRestore()
	}
	return output, nil
}

type restoreV2 struct{ recorder }

func (a *restoreV2) Name() string { return "example.io/restore-v2" }

func (a *restoreV2) AppliesTo() (velero.ResourceSelector, error) { return a.selector() }

func (a *restoreV2) Execute(input *velero.RestoreItemActionExecuteInput) (*velero.RestoreItemActionExecuteOutput, error) {
	a.record("Execute", map[string]any{
		"item": name(input.Item), "fromBackup": name(input.ItemFromBackup), "restore": input.Restore.Name,
	})
	if err := refused(input.Item); err != nil {
		return nil, err
	}
	mark(input.Item, "restore-v2", input.Restore.Name)
	output := velero.NewRestoreItemActionExecuteOutput(input.Item).WithOperationID(annotation(input.Item, "operation"))
	output.AdditionalItems = related(input.Item)
	if annotation(input.Item, "wait") != "" {
		output = output.WithItemsWait()
	}
	if text := annotation(input.Item, "wait-timeout"); text != "" {
		timeout, err := time.ParseDuration(text)
		if err != nil {
			return nil, err
		}
		output.AdditionalItemsReadyTimeout = timeout
	}
	return output, nil
}

func (a *restoreV2) Progress(operationID string, restore *api.Restore) (velero.OperationProgress, error) {
	a.record("Progress", map[string]any{"operation": operationID, "restore": restore.Name})
	return a.progress(operationID), nil
}

func (a *restoreV2) Cancel(operationID string, restore *api.Restore) error {
	a.record("Cancel", map[string]any{"operation": operationID, "restore": restore.Name})
	return nil
}

// AreAdditionalItemsReady says yes when it is asked for the third time about the same items. Some names of items give other
// answers: gate-… is ready when a file of this name is beside RECORDER_FILE, never-… never, error-… is an error.
func (a *restoreV2) AreAdditionalItemsReady(items []velero.ResourceIdentifier, restore *api.Restore) (bool, error) {
	var names []string
	for _, item := range items {
		names = append(names, item.Resource+" "+item.Namespace+"/"+item.Name)
	}
	all := strings.Join(names, " ")
	a.record("AreAdditionalItemsReady", map[string]any{"items": names, "operation": all, "restore": restore.Name})
	for _, item := range items {
		switch kind, _, _ := strings.Cut(item.Name, "-"); kind {
		case "gate":
			_, err := os.Stat(filepath.Join(filepath.Dir(os.Getenv("RECORDER_FILE")), item.Name))
			return err == nil, nil
		case "never":
			return false, nil
		case "error":
			return false, fmt.Errorf("the recorder was told to fail for %s", item.Name)
		}
	}
	return a.recorded("AreAdditionalItemsReady", all) >= 3, nil
}

type deletion struct{ recorder }

func (a *deletion) AppliesTo() (velero.ResourceSelector, error) { return a.selector() }

func (a *deletion) Execute(input *velero.DeleteItemActionExecuteInput) error {
	a.record("Execute", map[string]any{"item": name(input.Item), "backup": input.Backup.Name})
	return refused(input.Item)
}

type block struct{ recorder }

func (a *block) Name() string { return "example.io/block" }

func (a *block) AppliesTo() (velero.ResourceSelector, error) { return a.selector() }

func (a *block) GetRelatedItems(item runtime.Unstructured, backup *api.Backup) ([]velero.ResourceIdentifier, error) {
	a.record("GetRelatedItems", map[string]any{"item": name(item), "backup": backup.Name})
	return related(item), refused(item)
}
