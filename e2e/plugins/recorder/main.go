// Plugins on Velero's own framework that record what they are asked. One program serves every kind but object stores, so
// that a host can be tested with what plugin authors really use. What the actions do is told by annotations below
// recorder.lifeboat.dev/ of the item; each call becomes one line of JSON in the file that RECORDER_FILE names, and one
// line of the log. Hosts end the program between calls, so what it remembers is what it wrote down there.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
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
			return &backupV2{recorder{log, "backup-v2"}}, nil
		}).
		RegisterRestoreItemAction("example.io/restore-v1", func(log logrus.FieldLogger) (any, error) {
			return &restoreV1{recorder{log, "restore-v1"}}, nil
		}).
		RegisterRestoreItemActionV2("example.io/restore-v2", func(log logrus.FieldLogger) (any, error) {
			return &restoreV2{recorder{log, "restore-v2"}}, nil
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

// recorded counts the lines of a call of this plugin about an operation, also those of processes before this one.
func (r recorder) recorded(call, operation string) (count int64) {
	in, err := os.Open(os.Getenv("RECORDER_FILE"))
	if err != nil {
		return 0
	}
	defer in.Close()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var line struct{ Plugin, Call, Operation string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Plugin == r.name && line.Call == call && line.Operation == operation {
			count++
		}
	}
	return count
}

const steps = 3

// progress of an operation: a step for each question that was written down. One that is called endless never ends, one that
// is called broken fails; a cancelled one is done.
func (r recorder) progress(id string) velero.OperationProgress {
	done := min(r.recorded("Progress", id), steps)
	if strings.HasPrefix(id, "endless") {
		done = 1
	}
	if r.recorded("Cancel", id) > 0 {
		done = steps
	}
	failure := ""
	if strings.HasPrefix(id, "broken") && done == steps {
		failure = "the recorder was told to fail"
	}
	return velero.OperationProgress{
		Completed:      done == steps,
		Err:            failure,
		NCompleted:     done,
		NTotal:         steps,
		OperationUnits: "steps",
		Description:    fmt.Sprintf("step %d", done),
		Updated:        time.Now(),
	}
}
