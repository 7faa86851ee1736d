//go:build tools

// Keeps the program that the box builds straight from its own module in go.mod. The replace lines are upstream's.
package provisioner

import _ "github.com/kubernetes-csi/external-provisioner/v5/cmd/csi-provisioner"
