package main

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	firstDelay = 200 * time.Millisecond
	lastDelay  = 5 * time.Second
	// After this long a process counts as healthy, and its next death is restarted at once.
	healthyAfter = 20 * time.Second
	// How long a process may take to end by itself after SIGTERM.
	grace = 5 * time.Second
)

// Spec is what `cargo xtask box` asks for.
type Spec struct {
	Name string   `json:"name"`
	Argv []string `json:"argv"`
	Env  []string `json:"env,omitempty"`
	Log  string   `json:"log"`
	// Sockets that the last run may have left and the next one could not bind.
	Remove []string `json:"remove,omitempty"`
	// Processes that keep a connection to this one and do not survive losing it (the CSI sidecars).
	Dependents []string `json:"dependents,omitempty"`
}

// Status is what the record file and `status` say of one process.
type Status struct {
	Name      string `json:"name"`
	Pid       int    `json:"pid"`
	StartTime uint64 `json:"start_time"`
	State     string `json:"state"`
	Restarts  int    `json:"restarts"`
	Log       string `json:"log"`
}

// process is one supervised program. All fields are guarded by mutex; `run` is the only goroutine that starts it.
type process struct {
	mutex   sync.Mutex
	spec    Spec
	wanted  bool
	running bool
	status  Status
	wake    chan struct{}
	changed func()
	died    func(Spec)
}

func newProcess(spec Spec, changed func(), died func(Spec)) *process {
	p := &process{spec: spec, wake: make(chan struct{}, 1), changed: changed, died: died}
	p.status = Status{Name: spec.Name, State: "stopped", Log: spec.Log}
	go p.run()
	return p
}

func (p *process) start(spec *Spec) {
	p.mutex.Lock()
	if spec != nil {
		p.spec = *spec
	}
	p.wanted = true
	p.mutex.Unlock()
	p.poke()
}

// stop ends the process and returns when it is gone.
func (p *process) stop(patience time.Duration) {
	p.mutex.Lock()
	p.wanted = false
	p.mutex.Unlock()
	p.poke()
	p.signal(syscall.SIGTERM)
	for deadline := time.Now().Add(patience); p.alive(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.signal(syscall.SIGKILL)
		}
	}
}

func (p *process) alive() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.running
}

// signal reaches the child only while it has not been waited for, so the pid cannot have been reused.
func (p *process) signal(s syscall.Signal) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.running {
		_ = syscall.Kill(p.status.Pid, s)
	}
}

func (p *process) snapshot() Status {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.status
}

func (p *process) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *process) run() {
	delay := firstDelay
	for {
		p.mutex.Lock()
		spec, wanted := p.spec, p.wanted
		p.mutex.Unlock()
		if !wanted {
			p.set("stopped", 0)
			delay = firstDelay
			<-p.wake
			continue
		}
		began := time.Now()
		err := p.once(spec)
		p.died(spec)
		p.mutex.Lock()
		wanted = p.wanted
		p.mutex.Unlock()
		if !wanted {
			continue
		}
		log.Printf("%s ended after %s: %v", spec.Name, time.Since(began).Round(time.Millisecond), err)
		p.mutex.Lock()
		p.status.Restarts++
		p.mutex.Unlock()
		p.set("restarting", 0)
		if time.Since(began) > healthyAfter {
			delay = firstDelay
		}
		select {
		case <-p.wake:
		case <-time.After(delay):
		}
		delay = min(delay*2, lastDelay)
	}
}

// once starts the program and waits for its end.
func (p *process) once(spec Spec) error {
	for _, path := range spec.Remove {
		_ = os.Remove(path)
	}
	output, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer output.Close()
	command := exec.Command(spec.Argv[0], spec.Argv[1:]...)
	command.Env = append(os.Environ(), spec.Env...)
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	p.mutex.Lock()
	if !p.wanted {
		p.mutex.Unlock()
		return nil
	}
	if err := command.Start(); err != nil {
		p.mutex.Unlock()
		fmt.Fprintf(output, "box-agent: cannot start %s: %v\n", spec.Argv[0], err)
		return err
	}
	p.running = true
	p.status.Pid = command.Process.Pid
	p.status.StartTime = startTime(command.Process.Pid)
	p.status.State = "running"
	p.mutex.Unlock()
	p.changed()

	// Wait without reaping first: `running` must turn false before the pid becomes free for reuse.
	waitForExit(command.Process.Pid)
	p.mutex.Lock()
	p.running = false
	err = command.Wait()
	p.mutex.Unlock()
	return err
}

func (p *process) set(state string, pid int) {
	p.mutex.Lock()
	same := p.status.State == state
	p.status.State, p.status.Pid, p.status.StartTime = state, pid, 0
	p.mutex.Unlock()
	if !same {
		p.changed()
	}
}

// startTime is field 22 of /proc/PID/stat: with the pid it names one process for as long as the machine runs.
func startTime(pid int) uint64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	text := string(stat)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	var ticks uint64
	if len(fields) > 19 {
		_, _ = fmt.Sscan(fields[19], &ticks)
	}
	return ticks
}
