// The box's own helper, in two roles. `box-agent supervise` runs every other process of the box, restarts what dies and
// answers `cargo xtask box` on a socket. `box-agent register` tells one kubelet about one CSI driver.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	var err error
	switch os.Args[1] {
	case "supervise":
		socket := flags.String("socket", "", "where to listen for requests")
		record := flags.String("record", "", "file that always names the running processes")
		_ = flags.Parse(os.Args[2:])
		err = supervise(*socket, *record)
	case "register":
		driver := flags.String("driver", "", "name of the CSI driver")
		endpoint := flags.String("csi-socket", "", "socket of the CSI driver")
		socket := flags.String("socket", "", "where the kubelet looks for registrations")
		_ = flags.Parse(os.Args[2:])
		err = register(*driver, *endpoint, *socket)
	default:
		usage()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "box-agent:", err)
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: box-agent supervise|register [flags]")
	os.Exit(2)
}
