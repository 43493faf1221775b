package live

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quorate/quorate/regional/redisbucket/redistest"
	"github.com/quorate/quorate/sim/netproxy"
)

// pairName is the name of a pair at its Sentinels.
const pairName = "region"

const (
	// sentinels watch a pair; two of them must agree.
	sentinels, quorum = 3, 2
	// downAfter is how long a primary may be silent.
	downAfter = 500 * time.Millisecond
	// promotion bounds a fail-over, with a second attempt of the Sentinels.
	promotion = 30 * time.Second
	lookEvery = 50 * time.Millisecond
)

// pair is a primary and a replica on real servers, watched by real Sentinels. The
// links to it lead to whom the Sentinels call the primary.
type pair struct {
	servers   [2]*redistest.Server
	sentinels []*sentinel
	cancel    context.CancelFunc
	watching  sync.WaitGroup

	mu       sync.Mutex
	primary  *redistest.Server
	promoted int
	links    []*netproxy.Link
}

// openPair starts a pair with its Sentinels. It does not wait for them: ready does.
func (w *World) openPair(region string, free *ports) (*pair, error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &pair{cancel: cancel}
	var err error
	for i := range p.servers {
		if p.servers[i], err = w.openRedis(fmt.Sprintf("redis-%s-%d", region, i+1)); err != nil {
			return p, err
		}
	}
	p.primary = p.servers[0]
	if err := p.servers[1].ReplicaOf(p.primary); err != nil {
		return p, err
	}
	addrs, err := free.take(sentinels)
	if err != nil {
		return p, err
	}
	for i, addr := range addrs {
		s, err := w.openSentinel(fmt.Sprintf("sentinel-%s-%d", region, i+1), addr, p.primary.Addr())
		if err != nil {
			return p, err
		}
		p.sentinels = append(p.sentinels, s)
	}
	p.watching.Go(func() { p.watch(ctx) })
	return p, nil
}

// ready returns nil when the Sentinels know each other and the replica, so that
// they could fail over.
func (p *pair) ready() error {
	for _, s := range p.sentinels {
		if _, err := redistest.Ask(s.addr, "SENTINEL", "CKQUORUM", pairName); err != nil {
			return fmt.Errorf("sentinel %s: %w", s.addr, err)
		}
		known, err := redistest.Ask(s.addr, "SENTINEL", "REPLICAS", pairName)
		if err != nil || !strings.Contains(known, "master-link-status\nok") {
			return errors.Join(fmt.Errorf("sentinel %s does not know a replica that is in step", s.addr), err)
		}
		peers, err := redistest.Ask(s.addr, "SENTINEL", "SENTINELS", pairName)
		if n := strings.Count(peers, "runid\n"); err != nil || n < sentinels-1 {
			return errors.Join(fmt.Errorf("sentinel %s knows %d others, want %d", s.addr, n, sentinels-1), err)
		}
	}
	return nil
}

func (p *pair) current() *redistest.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.primary
}

func (p *pair) changes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.promoted
}

// lead makes a link follow the primary.
func (p *pair) lead(l *netproxy.Link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links = append(p.links, l)
	l.SetTarget(p.primary.Addr())
}

// watch asks the Sentinels for the primary until ctx ends.
func (p *pair) watch(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if addr := p.agreed(); addr != "" {
			p.turn(addr)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// agreed returns the address of the primary that a quorum of Sentinels names, or "".
func (p *pair) agreed() string {
	votes := map[string]int{}
	for _, s := range p.sentinels {
		answer, err := redistest.Ask(s.addr, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", pairName)
		host, port, ok := strings.Cut(answer, "\n")
		if err != nil || !ok {
			continue
		}
		addr := net.JoinHostPort(host, port)
		if votes[addr]++; votes[addr] >= quorum {
			return addr
		}
	}
	return ""
}

// turn makes the server at an address the primary: its links lead there, and what
// was connected to the other one breaks.
func (p *pair) turn(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.primary.Addr() == addr {
		return
	}
	for _, s := range p.servers {
		if s.Addr() == addr {
			p.primary = s
			p.promoted++
			for _, l := range p.links {
				l.SetTarget(addr)
				l.Reset()
			}
		}
	}
}

// failOver is Region.FailOver.
func (p *pair) failOver(ctx context.Context) error {
	old := p.current()
	if err := old.Kill(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, promotion)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for p.current() == old {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait until the Sentinels promote a Redis: %w", ctx.Err()), old.Restart(true))
		}
	}
	if err := old.Restart(true); err != nil {
		return err
	}
	return p.follow(ctx, old)
}

// follow makes a server a replica of the primary, unless it is the primary.
func (p *pair) follow(ctx context.Context, server *redistest.Server) error {
	primary := p.current()
	if server == primary || ctx.Err() != nil {
		return ctx.Err()
	}
	return server.ReplicaOf(primary)
}

func (p *pair) close() error {
	p.cancel()
	p.watching.Wait()
	var problems []error
	for _, s := range p.sentinels {
		problems = append(problems, s.close())
	}
	for _, s := range p.servers {
		if s != nil {
			problems = append(problems, s.Stop())
		}
	}
	return errors.Join(problems...)
}

// sentinel is one process of `redis-server --sentinel`.
type sentinel struct {
	addr string
	cmd  *exec.Cmd
}

func (w *World) openSentinel(name, addr, primary string) (*sentinel, error) {
	path, ok := redistest.Find()
	if !ok {
		return nil, redistest.ErrNotInstalled
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("address of %s: %w", name, err)
	}
	host, primaryPort, err := net.SplitHostPort(primary)
	if err != nil {
		return nil, fmt.Errorf("address of the primary of %s: %w", name, err)
	}
	// A Sentinel keeps what it learns in its configuration file.
	dir := filepath.Join(w.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory of %s: %w", name, err)
	}
	file := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf(`port %s
bind 127.0.0.1
dir %s
logfile %s
sentinel monitor %s %s %s %d
sentinel down-after-milliseconds %[4]s %[8]d
sentinel failover-timeout %[4]s %[9]d
sentinel parallel-syncs %[4]s 1
`, port, dir, filepath.Join(dir, "sentinel.log"), pairName, host, primaryPort, quorum,
		downAfter.Milliseconds(), 10*downAfter.Milliseconds())
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return nil, fmt.Errorf("configure %s: %w", name, err)
	}
	cmd := exec.Command(path, file, "--sentinel")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: w.group()}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return &sentinel{addr: addr, cmd: cmd}, nil
}

func (s *sentinel) close() error {
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill sentinel %s: %w", s.addr, err)
	}
	_ = s.cmd.Wait() // it says that it was killed
	return nil
}
