// Package redistest runs real redis-server processes for tests and for the live
// simulator, and does to them what production does: pause them, kill them, start
// them again with or without their data, make one a replica of another.
//
// It starts no goroutine, and it ends processes by their id only: Stop ends
// exactly the process that Start began.
package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ErrNotInstalled: there is no redis-server in PATH.
var ErrNotInstalled = errors.New("redis-server is not in PATH: install it (apt-get install redis-server, brew install redis)")

// Find returns the path of the redis-server in PATH.
func Find() (path string, ok bool) {
	path, err := exec.LookPath("redis-server")
	return path, err == nil
}

// Options of a server. The zero value is an empty server on a free port of the
// loopback that keeps nothing.
type Options struct {
	// Dir holds the dump and the log. Default: a temporary directory, removed by Stop.
	Dir string
	// Args are more configuration words, for example "--maxmemory", "10mb".
	Args []string
	// Group is the process group that the server joins. Default: one of its own.
	Group int
	// sentinel is the configuration of a sentinel, which wants it in a file.
	sentinel string
}

// Server is one redis-server process, or a sequence of them at one address.
type Server struct {
	path    string
	dir     string
	ownsDir bool
	port    *Port
	args    []string
	conf    string // of a sentinel
	bus     *Port  // of a cluster's node
	group   int
	proc    *os.Process
}

// ready bounds the time a server may take to answer, on a busy machine.
const ready = 15 * time.Second

// Start starts a server and returns when it answers.
func Start(opts Options) (*Server, error) {
	path, ok := Find()
	if !ok {
		return nil, ErrNotInstalled
	}
	s := &Server{path: path, dir: opts.Dir, args: opts.Args, conf: opts.sentinel, group: opts.Group}
	if s.dir == "" {
		dir, err := os.MkdirTemp("", "quorate-redis-")
		if err != nil {
			return nil, fmt.Errorf("make redis directory: %w", err)
		}
		s.dir, s.ownsDir = dir, true
	}
	// Where ports are not held, one that is free now may be taken a moment later: try
	// another then.
	var err error
	for range 3 {
		if s.port, err = holdLow(); err != nil {
			break
		}
		if err = s.launch(); err == nil {
			return s, nil
		}
		s.port.Release()
	}
	return nil, errors.Join(fmt.Errorf("start redis-server: %w", err), s.Stop())
}

// Run starts a server that ends with the test, and fails the test without one.
func Run(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s, err := Start(Options{Args: args})
	if err != nil {
		tb.Fatalf("this test needs a real Redis: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Stop(); err != nil {
			tb.Errorf("stop redis-server: %v", err)
		}
	})
	return s
}

// Addr is host:port.
func (s *Server) Addr() string { return s.port.Addr() }

// URL is redis://host:port.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// PID is the process id, 0 when the server is not running.
func (s *Server) PID() int {
	if s.proc == nil {
		return 0
	}
	return s.proc.Pid
}

// Pause stops the process in its tracks, as a VM pause or a long fork would:
// connections stay open and nothing answers.
func (s *Server) Pause() error { return s.signal("pause", syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (s *Server) Resume() error { return s.signal("resume", syscall.SIGCONT) }

// Save writes the data to disk: what a Restart that keeps data will come back with.
func (s *Server) Save() error {
	_, err := s.Do("SAVE")
	return err
}

// Kill ends the process at once, as a crash would. The last Save stays.
func (s *Server) Kill() error {
	if s.proc == nil {
		return nil
	}
	proc := s.proc
	s.proc = nil
	if err := proc.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill redis-server %d: %w", proc.Pid, err)
	}
	if _, err := proc.Wait(); err != nil {
		return fmt.Errorf("wait for redis-server %d: %w", proc.Pid, err)
	}
	return nil
}

// Restart kills the process and starts another at the same address: with the
// data of the last Save when keep is set, else empty.
func (s *Server) Restart(keep bool) error {
	if err := s.Kill(); err != nil {
		return err
	}
	if !keep {
		if err := os.Remove(filepath.Join(s.dir, "dump.rdb")); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove redis dump: %w", err)
		}
	}
	if err := s.launch(); err != nil {
		return fmt.Errorf("restart redis-server: %w", err)
	}
	return nil
}

// ReplicaOf makes s a replica of master and returns when it has its data; with
// nil it makes s a primary again.
func (s *Server) ReplicaOf(master *Server) error {
	if master == nil {
		_, err := s.Do("REPLICAOF", "NO", "ONE")
		return err
	}
	if _, err := s.Do("REPLICAOF", "127.0.0.1", master.Port()); err != nil {
		return err
	}
	for deadline := time.Now().Add(ready); ; time.Sleep(20 * time.Millisecond) {
		info, err := s.Do("INFO", "replication")
		if err == nil && strings.Contains(info, "master_link_status:up") {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("replica %s did not catch up with %s in %v", s.Addr(), master.Addr(), ready)
		}
	}
}

// Stop ends the process and removes its temporary directory.
func (s *Server) Stop() error {
	err := s.Kill()
	if s.port != nil {
		s.port.Release()
	}
	if s.bus != nil {
		s.bus.Release()
	}
	if s.ownsDir {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

func (s *Server) signal(verb string, sig syscall.Signal) error {
	if s.proc == nil {
		return fmt.Errorf("%s redis-server: it is not running", verb)
	}
	if err := s.proc.Signal(sig); err != nil {
		return fmt.Errorf("%s redis-server %d: %w", verb, s.proc.Pid, err)
	}
	return nil
}

// words returns the arguments of a process.
func (s *Server) words(logName string) ([]string, error) {
	where := []string{"--port", s.Port(), "--bind", "127.0.0.1", "--dir", s.dir, "--logfile", logName}
	if s.conf == "" {
		return append(append(where,
			"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0", "--maxmemory-policy", "noeviction"), s.args...), nil
	}
	// A sentinel writes what it learns into its file.
	file := filepath.Join(s.dir, "sentinel.conf")
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(file, []byte(s.conf), 0o600); err != nil {
			return nil, fmt.Errorf("write sentinel configuration: %w", err)
		}
	}
	return append(append([]string{file, "--sentinel"}, where...), s.args...), nil
}

// launch starts a process at the server's port and waits until it answers.
func (s *Server) launch() error {
	logName := filepath.Join(s.dir, "redis.log")
	args, err := s.words(logName)
	if err != nil {
		return err
	}
	proc, err := os.StartProcess(s.path, append([]string{s.path}, args...), &os.ProcAttr{
		Dir: s.dir,
		// Not in the group of this program: an interrupt typed at the demo must not
		// take the server away before the demo has ended.
		Sys: &syscall.SysProcAttr{Setpgid: true, Pgid: s.group},
	})
	if err != nil {
		return fmt.Errorf("run %s: %w", s.path, err)
	}
	s.proc = proc
	for deadline := time.Now().Add(ready); ; time.Sleep(5 * time.Millisecond) {
		info, err := s.Do("INFO", "server")
		if err == nil {
			if strings.Contains(info, "process_id:"+strconv.Itoa(proc.Pid)+"\r") {
				return nil
			}
			err = errors.New("another process answers there")
		}
		if time.Now().After(deadline) || exited(proc) {
			tail, _ := os.ReadFile(logName)
			return errors.Join(fmt.Errorf("redis-server at %s does not answer (%w); its log: %s", s.Addr(), err, tail), s.Kill())
		}
	}
}

// exited reports whether proc is a zombie or gone. It does not reap it.
func exited(proc *os.Process) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(proc.Pid) + "/stat")
	if err != nil {
		return proc.Signal(syscall.Signal(0)) != nil
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z")
}

// Do sends one command on a connection of its own and returns the reply as text:
// enough to arrange a scene without a client.
func (s *Server) Do(words ...string) (reply string, err error) {
	c, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	if err != nil {
		return "", fmt.Errorf("dial redis: %w", err)
	}
	defer c.Close() //nolint:errcheck // the reply is read
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", fmt.Errorf("set deadline: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := c.Write([]byte(b.String())); err != nil {
		return "", fmt.Errorf("send %s: %w", words[0], err)
	}
	reply, err = read(bufio.NewReader(c))
	if err != nil {
		return "", fmt.Errorf("redis %s: %w", words[0], err)
	}
	return reply, nil
}
