//go:build tools

// Keeps programs that are built straight from their own modules (csi-snapshotter, snapshot-controller, helm) and the
// module that carries the snapshot CRDs in go.mod.
package kube

import (
	_ "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	_ "github.com/kubernetes-csi/external-snapshotter/v8/cmd/csi-snapshotter"
	_ "github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller"
	_ "helm.sh/helm/v3/cmd/helm"
)
