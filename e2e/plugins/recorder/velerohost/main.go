// A host of plugins with nothing of its own: Velero's code that finds, starts and calls plugins. It loads the plugins of
// the directory that HOST_PLUGINS names, calls those of examples/plugins, and prints what they answered as JSON. So the
// tests know that plugins on our SDK work under Velero.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/sirupsen/logrus"
	api "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt"
	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt/process"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework/common"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func main() {
	// Velero starts itself for the plugins that are built in; here there are none.
	if len(os.Args) > 1 && os.Args[1] == "run-plugins" {
		framework.NewServer().Serve()
		return
	}
	answers := map[string]any{}
	if err := host(answers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		os.Exit(1)
	}
}

func host(answers map[string]any) error {
	log := logrus.New()
	log.SetOutput(os.Stderr)
	registry := process.NewRegistry(os.Getenv("HOST_PLUGINS"), log, logrus.DebugLevel)
	if err := registry.DiscoverPlugins(); err != nil {
		return err
	}
	for _, kind := range common.AllPluginKinds() {
		for _, plugin := range registry.List(kind) {
			answers["kind of "+plugin.Name] = kind.String()
		}
	}
	manager := clientmgmt.NewManager(log, logrus.DebugLevel, registry)
	defer manager.CleanupClients()
	if err := wait(manager, answers); err != nil {
		return err
	}
	return snapshot(manager, answers)
}

func wait(manager clientmgmt.Manager, answers map[string]any) error {
	action, err := manager.GetRestoreItemActionV2("example.io/wait-for-database")
	if err != nil {
		return err
	}
	selector, err := action.AppliesTo()
	if err != nil {
		return err
	}
	answers["applies to"] = selector.IncludedResources
	item := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1",
		"kind":       "Deployment",
		"metadata": map[string]any{
			"name": "shop", "namespace": "web",
			"annotations": map[string]any{"example.io/database": "db:5432", "example.io/database-timeout-seconds": "90"},
		},
	}}
	restore := &api.Restore{ObjectMeta: metav1.ObjectMeta{Name: "again"}}
	output, err := action.Execute(&velero.RestoreItemActionExecuteInput{Item: item, ItemFromBackup: item, Restore: restore})
	if err != nil {
		return err
	}
	answers["waits"] = output.WaitForAdditionalItems
	answers["timeout"] = output.AdditionalItemsReadyTimeout.String()
	answers["additional"] = output.AdditionalItems[0].Resource + " " + output.AdditionalItems[0].Name
	answers["ready"], err = action.AreAdditionalItemsReady(output.AdditionalItems, restore)
	return err
}

func snapshot(manager clientmgmt.Manager, answers map[string]any) error {
	snapshotter, err := manager.GetVolumeSnapshotter("example.io/directory-snapshotter")
	if err != nil {
		return err
	}
	config := map[string]string{"snapshots": os.Getenv("HOST_SNAPSHOTS"), "volumes": os.Getenv("HOST_VOLUMES")}
	if err := snapshotter.Init(config); err != nil {
		return err
	}
	tags := map[string]string{"velero.io/backup": "nightly", "velero.io/pv": "pv-1"}
	if answers["snapshot"], err = snapshotter.CreateSnapshot(os.Getenv("HOST_VOLUME"), "", tags); err != nil {
		return err
	}
	answers["volume"], err = snapshotter.CreateVolumeFromSnapshot(answers["snapshot"].(string), "directory", "", nil)
	if err != nil {
		return err
	}
	if err := snapshotter.DeleteSnapshot(answers["snapshot"].(string)); err != nil {
		return err
	}
	_, err = snapshotter.CreateVolumeFromSnapshot("unknown", "directory", "", nil)
	answers["error"] = fmt.Sprint(err)
	return nil
}
