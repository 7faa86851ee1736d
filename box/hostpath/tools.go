//go:build tools

// Keeps the program that the box builds straight from its own module in go.mod. The replace lines are upstream's.
package hostpath

import _ "github.com/kubernetes-csi/csi-driver-host-path/cmd/hostpathplugin"
