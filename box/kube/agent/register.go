package main

import (
	"context"
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// registrar answers the kubelet's plugin watcher for one CSI driver.
type registrar struct {
	registration.UnimplementedRegistrationServer
	driver, endpoint string
}

func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              r.driver,
		Endpoint:          r.endpoint,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus ends the process when the kubelet refused: the supervisor's next start is the retry.
func (r *registrar) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !status.PluginRegistered {
		log.Printf("the kubelet refused %s: %s", r.driver, status.Error)
		os.Exit(1)
	}
	log.Printf("registered %s", r.driver)
	return &registration.RegistrationStatusResponse{}, nil
}

func register(driver, endpoint, socket string) error {
	if err := os.RemoveAll(socket); err != nil {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, &registrar{driver: driver, endpoint: endpoint})
	return server.Serve(listener)
}
