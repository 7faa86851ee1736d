// The CSI host-path driver, one per node, with one difference: a volume can be made from a snapshot or a volume that
// lives on the other node, as with storage that both nodes share. Upstream keeps snapshots to their node, so a restored
// pod would have to be scheduled where its snapshot is. A storage class with the parameter `sources: node-local` keeps
// upstream's way, for tests of exactly that failure. The replace lines in go.mod are upstream's.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-driver-host-path/pkg/hostpath"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func main() {
	config := hostpath.Config{VendorVersion: "v1.7.2", MaxVolumeSize: 1 << 40, EnableTopology: true, EnableVolumeExpansion: true}
	_ = flag.Set("logtostderr", "true")
	flag.StringVar(&config.DriverName, "drivername", "", "name of the driver")
	flag.StringVar(&config.Endpoint, "endpoint", "", "where the driver listens")
	flag.StringVar(&config.NodeID, "nodeid", "", "name of this node")
	flag.StringVar(&config.StateDir, "statedir", "", "where this node's volumes and snapshots are")
	others := flag.String("other-statedirs", "", "those of the other nodes, with commas between")
	flag.Parse()

	driver, err := hostpath.NewHostPathDriver(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot start the driver:", err)
		os.Exit(1)
	}
	server := hostpath.NewNonBlockingGRPCServer()
	controller := &controller{ControllerServer: driver, stateDir: config.StateDir, others: strings.Split(*others, ",")}
	server.Start(config.Endpoint, driver, controller, driver)
	server.Wait()
}

// controller is the driver's own, with a second place to look for the source of a new volume.
type controller struct {
	csi.ControllerServer
	stateDir string
	others   []string
}

func (c *controller) CreateVolume(ctx context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	marker := filepath.Join(c.stateDir, "unfinished-"+request.GetName())
	if err := c.removeUnfinished(ctx, request, marker); err != nil {
		return nil, err
	}
	response, err := c.ControllerServer.CreateVolume(ctx, request)
	if status.Code(err) != codes.NotFound || request.GetParameters()["sources"] == "node-local" {
		return response, err
	}
	path := c.find(request.GetVolumeContentSource())
	if path == "" {
		return response, err
	}
	return c.createFrom(ctx, path, request, marker)
}

// createFrom makes an empty volume and fills it. The marker tells the next attempt if this one is cut short.
func (c *controller) createFrom(ctx context.Context, path string, request *csi.CreateVolumeRequest, marker string) (*csi.CreateVolumeResponse, error) {
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		return nil, err
	}
	response, err := c.createEmpty(ctx, request)
	if err != nil {
		return nil, err
	}
	if err := fill(path, filepath.Join(c.stateDir, response.Volume.VolumeId)); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	response.Volume.ContentSource = request.VolumeContentSource
	return response, os.Remove(marker)
}

// removeUnfinished deletes the half-filled volume of an attempt that failed or was cut short.
func (c *controller) removeUnfinished(ctx context.Context, request *csi.CreateVolumeRequest, marker string) error {
	if _, err := os.Stat(marker); err != nil {
		return nil
	}
	response, err := c.createEmpty(ctx, request) // finds the volume by its name
	if err != nil {
		return err
	}
	if _, err := c.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: response.Volume.VolumeId}); err != nil {
		return err
	}
	return os.Remove(marker)
}

func (c *controller) createEmpty(ctx context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	empty := *request
	empty.VolumeContentSource = nil
	return c.ControllerServer.CreateVolume(ctx, &empty)
}

// find gives the file or directory of a source on another node, or nothing.
func (c *controller) find(source *csi.VolumeContentSource) string {
	name := source.GetVolume().GetVolumeId()
	if id := source.GetSnapshot().GetSnapshotId(); id != "" {
		name = id + ".snap"
	}
	for _, dir := range c.others {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil && dir != "" && name != "" {
			return path
		}
	}
	return ""
}

// fill does what the driver does with a source of its own: unpack a snapshot of files, copy files, or copy blocks.
func fill(source, target string) error {
	command := exec.Command("dd", "if="+source, "of="+target, "bs=1M")
	if info, err := os.Stat(target); err == nil && info.IsDir() {
		command = exec.Command("tar", "-xzf", source, "-C", target)
		if !strings.HasSuffix(source, ".snap") {
			command = exec.Command("cp", "-a", source+"/.", target)
		}
	}
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot fill the volume from %s: %w: %s", source, err, output)
	}
	return nil
}
