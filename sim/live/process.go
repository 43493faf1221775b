package live

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// process is one node: this program, started again in a role. Its log goes to a
// file that its restarts append to.
type process struct {
	role string
	name string
	spec any // what the role's main needs, as JSON
	log  string
	// group is the process group that it joins, 0 for one of its own.
	group int

	mu    sync.Mutex
	cmd   *exec.Cmd
	stdin io.WriteCloser
	done  chan struct{} // closed when the process has been waited for
	err   error         // how it ended; read after done
	asked bool          // somebody asked the process to end
	may   bool          // it may end by itself: something was done to it
}

// ErrDied means that a node has ended although nobody asked it to.
var ErrDied = errors.New("node has ended by itself")

var (
	errRunning    = errors.New("process is already running")
	errNotRunning = errors.New("process is not running")
)

// start runs the process. Its standard input carries the spec and then stays
// open: the end of it tells the child that its parent is gone.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alive() {
		return fmt.Errorf("start %s: %w", p.name, errRunning)
	}
	spec, err := json.Marshal(p.spec)
	if err != nil {
		return fmt.Errorf("start %s: encode its configuration: %w", p.name, err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start %s: find this program: %w", p.name, err)
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: open its log: %w", p.name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"="+p.role)
	cmd.Stdout, cmd.Stderr = log, log
	// Not the parent's group: Ctrl-C is for the parent, which ends its children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: p.group}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	done := make(chan struct{})
	p.cmd, p.stdin, p.done, p.asked = cmd, stdin, done, false
	go func() {
		p.err = cmd.Wait()
		close(done)
	}()
	if _, err := stdin.Write(append(spec, '\n')); err != nil {
		_ = cmd.Process.Kill() // it has ended already, most likely
		<-done
		return fmt.Errorf("start %s: hand over its configuration: %w", p.name, err)
	}
	return nil
}

// alive reports whether the process runs (or is stopped); p.mu is held.
func (p *process) alive() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.alive()
}

// signal sends a signal to a running process.
func (p *process) signal(s os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.alive() {
		return fmt.Errorf("signal %s: %w", p.name, errNotRunning)
	}
	p.asked = p.asked || s == syscall.SIGKILL || s == syscall.SIGTERM
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// tell sends a running process a message, as JSON.
func (p *process) tell(message any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.alive() {
		return fmt.Errorf("tell %s: %w", p.name, errNotRunning)
	}
	if err := json.NewEncoder(p.stdin).Encode(message); err != nil {
		return fmt.Errorf("tell %s: %w", p.name, err)
	}
	return nil
}

// kill ends the process at once and waits for its end. It is no error when it
// does not run.
func (p *process) kill() {
	if p.signal(syscall.SIGKILL) == nil {
		<-p.done
	}
}

// stop asks the process to end in order and kills it after the grace. It
// returns how it ended.
func (p *process) stop(grace time.Duration) error {
	if p.signal(syscall.SIGTERM) != nil {
		return nil
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.kill()
		return fmt.Errorf("stop %s: did not end within %v, killed", p.name, grace)
	}
	if p.err != nil && !p.terminated() {
		return fmt.Errorf("stop %s: %w\n%s", p.name, p.err, p.tail())
	}
	return nil
}

// terminated reports whether the signal that asks for the end has ended the process
// by itself: one that has just begun does not wait for it yet.
func (p *process) terminated() bool {
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGTERM
}

// died returns an error when the process has ended although nobody asked it to.
func (p *process) died() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.alive() || p.asked || p.may {
		return nil
	}
	how := "exit status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("%w: %s: %s\n%s", ErrDied, p.name, how, p.tail())
}

// mayEnd says that it is no surprise when the process ends by itself from now on,
// or that it is one again.
func (p *process) mayEnd(may bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.may = may
}

// tail returns the end of the log, for error messages.
func (p *process) tail() string {
	const most = 2000
	data, err := os.ReadFile(p.log)
	if err != nil {
		return fmt.Sprintf("(its log cannot be read: %v)", err)
	}
	if len(data) > most {
		data = data[len(data)-most:]
		if _, rest, ok := bytes.Cut(data, []byte("\n")); ok {
			data = rest
		}
	}
	return string(bytes.TrimSpace(data))
}
