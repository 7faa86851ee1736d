// Plugins on Velero's own framework that record what they are asked. One program serves every kind but object stores, so
// that a host can be tested with what plugin authors really use. What the actions do is told by annotations below
// recorder.lifeboat.dev/ of the item; each call becomes one line of JSON in the file that RECORDER_FILE names, and one
// line of the log.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const prefix = "recorder.lifeboat.dev/"

func main() {
	framework.NewServer().
		BindFlags(pflag.CommandLine).
		RegisterBackupItemAction("example.io/backup-v1", func(log logrus.FieldLogger) (any, error) {
			return &backupV1{recorder{log, "backup-v1"}}, nil
		}).
		RegisterBackupItemActionV2("example.io/backup-v2", func(log logrus.FieldLogger) (any, error) {
			return &backupV2{recorder{log, "backup-v2"}, operations{}}, nil
		}).
		RegisterRestoreItemAction("example.io/restore-v1", func(log logrus.FieldLogger) (any, error) {
			return &restoreV1{recorder{log, "restore-v1"}}, nil
		}).
		RegisterRestoreItemActionV2("example.io/restore-v2", func(log logrus.FieldLogger) (any, error) {
			return &restoreV2{recorder: recorder{log, "restore-v2"}, operations: operations{}}, nil
		}).
		RegisterDeleteItemAction("example.io/delete", func(log logrus.FieldLogger) (any, error) {
			return &deletion{recorder{log, "delete"}}, nil
		}).
		RegisterItemBlockAction("example.io/block", func(log logrus.FieldLogger) (any, error) {
			return &block{recorder{log, "block"}}, nil
		}).
		RegisterVolumeSnapshotter("example.io/snapshotter", func(log logrus.FieldLogger) (any, error) {
			return &snapshotter{recorder: recorder{log, "snapshotter"}}, nil
		}).
		Serve()
}

// recorder writes down calls.
type recorder struct {
	log  logrus.FieldLogger
	name string
}

var file sync.Mutex

func (r recorder) record(call string, what map[string]any) {
	line := map[string]any{"plugin": r.name, "call": call}
	for key, value := range what {
		line[key] = value
	}
	r.log.WithFields(logrus.Fields(line)).Info("called")
	path := os.Getenv("RECORDER_FILE")
	if path == "" {
		return
	}
	file.Lock()
	defer file.Unlock()
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	out, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer out.Close()
	if _, err := out.Write(append(text, '\n')); err != nil {
		panic(err)
	}
}

func (r recorder) selector() (velero.ResourceSelector, error) {
	r.record("AppliesTo", nil)
	return velero.ResourceSelector{
		IncludedNamespaces: []string{"recorder-*"},
		ExcludedNamespaces: []string{"recorder-not"},
		IncludedResources:  []string{"configmaps"},
		ExcludedResources:  []string{"secrets"},
		LabelSelector:      "recorder=yes",
	}, nil
}

// annotation says what an item asks for.
func annotation(item runtime.Unstructured, name string) string {
	object, err := meta.Accessor(item)
	if err != nil {
		return ""
	}
	return object.GetAnnotations()[prefix+name]
}

// mark leaves a trace of a call in an item.
func mark(item runtime.Unstructured, name, value string) {
	object, err := meta.Accessor(item)
	if err != nil {
		return
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[prefix+name] = value
	object.SetAnnotations(annotations)
}

func name(item runtime.Unstructured) string {
	object, err := meta.Accessor(item)
	if err != nil {
		return ""
	}
	return object.GetNamespace() + "/" + object.GetName()
}

// related gives the secret that annotation `secret` names.
func related(item runtime.Unstructured) []velero.ResourceIdentifier {
	secret := annotation(item, "secret")
	if secret == "" {
		return nil
	}
	object, err := meta.Accessor(item)
	if err != nil {
		return nil
	}
	return []velero.ResourceIdentifier{{
		GroupResource: schema.GroupResource{Resource: "secrets"},
		Namespace:     object.GetNamespace(),
		Name:          secret,
	}}
}

// refused does what annotation `fail` asks for: error, panic, crash or hang.
func refused(item runtime.Unstructured) error {
	switch annotation(item, "fail") {
	case "error":
		return fmt.Errorf("the recorder was told to fail for %s", name(item))
	case "panic":
		panic("the recorder was told to panic")
	case "crash":
		os.Exit(7)
	case "hang":
		time.Sleep(time.Hour)
	}
	return nil
}

// operations counts how often each operation was asked for.
type operations map[string]int64

const steps = 3

func (o operations) progress(id string) velero.OperationProgress {
	o[id]++
	done := min(o[id], steps)
	return velero.OperationProgress{
		Completed:      done == steps,
		NCompleted:     done,
		NTotal:         steps,
		OperationUnits: "steps",
		Description:    fmt.Sprintf("step %d", done),
		Updated:        time.Now(),
	}
}
