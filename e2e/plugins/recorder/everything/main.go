// A restore action on Velero's own framework that is for every item and changes nothing: what a plugin costs at least.
package main

import (
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
)

type everything struct{}

func (everything) AppliesTo() (velero.ResourceSelector, error) {
	return velero.ResourceSelector{}, nil
}

func (everything) Execute(input *velero.RestoreItemActionExecuteInput) (*velero.RestoreItemActionExecuteOutput, error) {
	return velero.NewRestoreItemActionExecuteOutput(input.Item), nil
}

func main() {
	framework.NewServer().
		BindFlags(pflag.CommandLine).
		RegisterRestoreItemAction("example.io/everything", func(logrus.FieldLogger) (any, error) {
			return everything{}, nil
		}).
		Serve()
}
