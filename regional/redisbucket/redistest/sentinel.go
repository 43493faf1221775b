package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Watched is a primary with its replicas and the sentinels that watch it.
type Watched struct {
	// Name is what the sentinels call the primary.
	Name string
	// Servers are the data servers; the first one is the first primary.
	Servers   []*Server
	Sentinels []*Server
}

// StartSentinels starts a primary with replicas, and sentinels that replace it
// half a second after it went silent.
func StartSentinels(replicas, sentinels int) (*Watched, error) {
	return StartWatched(Options{}, replicas, sentinels)
}

// StartWatched is StartSentinels for servers with options. The directory, if there
// is one, gets one for each server in it.
func StartWatched(opts Options, replicas, sentinels int) (w *Watched, err error) {
	w = &Watched{Name: "region"}
	dir := opts.Dir
	within := func(name string, i int) error {
		if dir == "" {
			return nil
		}
		opts.Dir = filepath.Join(dir, fmt.Sprintf("%s-%d", name, i+1))
		if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
			return fmt.Errorf("make directory of %s %d: %w", name, i+1, err)
		}
		return nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Stop())
		}
	}()
	for i := range 1 + replicas {
		if err := within("redis", i); err != nil {
			return w, err
		}
		s, err := Start(opts)
		if err != nil {
			return w, err
		}
		w.Servers = append(w.Servers, s)
		if i > 0 {
			if err := s.ReplicaOf(w.Servers[0]); err != nil {
				return w, err
			}
		}
	}
	opts.sentinel = fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]s %[3]d\nsentinel down-after-milliseconds %[1]s 500\nsentinel failover-timeout %[1]s 3000\n",
		w.Name, w.Servers[0].Port(), sentinels/2+1)
	for i := range sentinels {
		if err := within("sentinel", i); err != nil {
			return w, err
		}
		s, err := Start(opts)
		if err != nil {
			return w, err
		}
		w.Sentinels = append(w.Sentinels, s)
	}
	return w, w.settle(replicas, sentinels)
}

// settle waits until every sentinel knows all replicas and all other sentinels:
// before, they would elect nobody.
func (w *Watched) settle(replicas, sentinels int) error {
	want := fmt.Sprintf("status=ok,address=%s,slaves=%d,sentinels=%d", w.Servers[0].Addr(), replicas, sentinels)
	for _, s := range w.Sentinels {
		if err := until(func() (bool, error) {
			info, err := s.Do("INFO", "sentinel")
			return strings.Contains(info, want), err
		}); err != nil {
			return fmt.Errorf("sentinel %s does not see %s: %w", s.Addr(), want, err)
		}
	}
	return nil
}

// RunSentinels is StartSentinels for a test, which ends with it.
func RunSentinels(tb testing.TB, replicas, sentinels int) *Watched {
	tb.Helper()
	w, err := StartSentinels(replicas, sentinels)
	if err != nil {
		tb.Fatalf("this test needs a real Redis: %v", err)
	}
	tb.Cleanup(func() {
		if err := w.Stop(); err != nil {
			tb.Errorf("stop sentinels and servers: %v", err)
		}
	})
	return w
}

// URL is what a client needs: the sentinels and the primary's name.
func (w *Watched) URL() string {
	addrs := make([]string, len(w.Sentinels))
	for i, s := range w.Sentinels {
		addrs[i] = s.Addr()
	}
	return "redis+sentinel://" + strings.Join(addrs, ",") + "/" + w.Name
}

// Primary returns the server that the sentinels call the primary.
func (w *Watched) Primary() (*Server, error) {
	at, err := w.Sentinels[0].Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", w.Name)
	if err != nil {
		return nil, err
	}
	host, port, _ := strings.Cut(at, "\n")
	for _, s := range w.Servers {
		if s.Addr() == net.JoinHostPort(host, port) {
			return s, nil
		}
	}
	return nil, fmt.Errorf("the sentinels name %s, which is none of the servers", at)
}

// Stop ends all processes.
func (w *Watched) Stop() error {
	var problems []error
	for _, s := range append(w.Sentinels, w.Servers...) {
		problems = append(problems, s.Stop())
	}
	return errors.Join(problems...)
}

// until asks ok until it says yes, for as long as a server may take.
func until(ok func() (bool, error)) error {
	for deadline := time.Now().Add(ready); ; time.Sleep(20 * time.Millisecond) {
		done, err := ok()
		if done && err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("not within %v", ready), err)
		}
	}
}

// Port is the port of the server.
func (s *Server) Port() string { return strconv.Itoa(s.port.Number) }
