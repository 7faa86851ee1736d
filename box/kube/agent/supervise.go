package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A log grows to this size, then moves to NAME.1.
const logLimit = 16 << 20

type request struct {
	Op      string `json:"op"`
	Name    string `json:"name,omitempty"`
	Process *Spec  `json:"process,omitempty"`
}

type reply struct {
	Error     string   `json:"error,omitempty"`
	Processes []Status `json:"processes,omitempty"`
}

type supervisor struct {
	mutex     sync.Mutex
	record    string
	processes map[string]*process
	order     []string
	dirty     chan struct{}
}

func supervise(socket, record string) error {
	// Away from the terminal: Ctrl-C in `box up` must not reach the cluster.
	if _, err := unix.Setsid(); err != nil && !errors.Is(err, unix.EPERM) {
		return err
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT)
	s := &supervisor{record: record, processes: map[string]*process{}, dirty: make(chan struct{}, 1)}
	if err := s.writeRecord(); err != nil {
		return err
	}
	_ = os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return err
	}
	go s.keepRecord()
	go s.trimLogs()
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go s.serve(connection)
	}
}

// serve answers one request: a line of JSON for a line of JSON.
func (s *supervisor) serve(connection net.Conn) {
	defer connection.Close()
	line, err := bufio.NewReader(connection).ReadBytes('\n')
	if err != nil {
		return
	}
	var asked request
	answer := reply{}
	if err := json.Unmarshal(line, &asked); err != nil {
		answer.Error = err.Error()
	} else if err := s.do(asked); err != nil {
		answer.Error = err.Error()
	}
	answer.Processes = s.status()
	_ = json.NewEncoder(connection).Encode(answer)
	if asked.Op == "shutdown" {
		os.Exit(0)
	}
}

func (s *supervisor) do(asked request) error {
	switch asked.Op {
	case "status":
		return nil
	case "start":
		return s.start(asked)
	case "stop":
		p, err := s.find(asked.Name)
		if err == nil {
			p.stop(grace)
		}
		return err
	case "forget":
		p, err := s.find(asked.Name)
		if err != nil {
			return nil
		}
		p.stop(grace)
		s.forget(asked.Name)
		return nil
	case "shutdown":
		var all sync.WaitGroup
		for _, p := range s.all() {
			all.Go(func() { p.stop(0) })
		}
		all.Wait()
		return nil
	}
	return fmt.Errorf("unknown request %q", asked.Op)
}

func (s *supervisor) start(asked request) error {
	if asked.Process == nil {
		p, err := s.find(asked.Name)
		if err == nil {
			p.start(nil)
		}
		return err
	}
	s.mutex.Lock()
	p, known := s.processes[asked.Process.Name]
	if !known {
		p = newProcess(*asked.Process, s.touch, s.restartDependents)
		s.processes[asked.Process.Name] = p
		s.order = append(s.order, asked.Process.Name)
	}
	s.mutex.Unlock()
	p.start(asked.Process)
	return nil
}

// restartDependents ends processes that still look alive but lost their connection; their own loops start them again.
func (s *supervisor) restartDependents(spec Spec) {
	for _, name := range spec.Dependents {
		if p, err := s.find(name); err == nil {
			p.signal(syscall.SIGKILL)
		}
	}
}

func (s *supervisor) find(name string) (*process, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if p, known := s.processes[name]; known {
		return p, nil
	}
	return nil, fmt.Errorf("no component is named %q", name)
}

// forget leaves the process's goroutine asleep for good; it holds nothing.
func (s *supervisor) forget(name string) {
	s.mutex.Lock()
	delete(s.processes, name)
	for i, each := range s.order {
		if each == name {
			s.order = append(s.order[:i:i], s.order[i+1:]...)
			break
		}
	}
	s.mutex.Unlock()
	s.touch()
}

func (s *supervisor) all() []*process {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var all []*process
	for _, name := range s.order {
		all = append(all, s.processes[name])
	}
	return all
}

func (s *supervisor) status() []Status {
	var all []Status
	for _, p := range s.all() {
		all = append(all, p.snapshot())
	}
	return all
}

func (s *supervisor) touch() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

func (s *supervisor) keepRecord() {
	for range s.dirty {
		if err := s.writeRecord(); err != nil {
			log.Printf("cannot write %s: %v", s.record, err)
		}
	}
}

// writeRecord lets `box down` find the processes when this one was killed.
func (s *supervisor) writeRecord() error {
	self := Status{Name: "supervisor", Pid: os.Getpid(), StartTime: startTime(os.Getpid()), State: "running"}
	text, err := json.MarshalIndent(append([]Status{self}, s.status()...), "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.record+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(s.record+".new", s.record)
}

func (s *supervisor) trimLogs() {
	for range time.Tick(5 * time.Second) {
		for _, p := range s.all() {
			if err := trim(p.snapshot().Log); err != nil {
				log.Print(err)
			}
		}
	}
}

// trim copies and truncates: the process keeps its append-only file open.
func trim(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Size() < logLimit {
		return nil
	}
	from, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.Create(path + ".1")
	if err != nil {
		return err
	}
	defer to.Close()
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	return from.Truncate(0)
}

// waitForExit returns when the child has ended, and leaves it to be reaped.
func waitForExit(pid int) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if err == nil || !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
