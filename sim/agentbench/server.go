package agentbench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional"
	"github.com/quorate/quorate/regional/lease"
	"github.com/quorate/quorate/regional/redisbucket"
)

// The systems that are compared.
const (
	Empty   = "empty handler"  // answers OK and decides nothing
	Each    = "call for each"  // an agent whose every request is a script call of its own
	Exact   = "quorate, exact" // the agent without allowances
	Quorate = "quorate"        // the agent
	Peer    = "peer"           // another RLS server, see Config.Peer
)

// Systems are all of them but Peer, in the order of the table.
var Systems = []string{Empty, Each, Exact, Quorate}

// roleVariable tells a process that it is a server of a bench, and which;
// redisVariable where its Redis is; profileVariable the file for its CPU profile.
const (
	roleVariable    = "QUORATE_BENCH_SERVER"
	redisVariable   = "QUORATE_BENCH_REDIS"
	profileVariable = "QUORATE_BENCH_PROFILE"
)

// Main serves and does not return when this process is a server of a bench.
// Otherwise it does nothing.
func Main() {
	role := os.Getenv(roleVariable)
	if role == "" {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent closes it, or ends
		cancel()
	}()
	stop := func() error { return nil }
	err := error(nil)
	if file := os.Getenv(profileVariable); file != "" {
		stop, err = profile(file)
	}
	if err == nil {
		err = errors.Join(serve(ctx, role, os.Getenv(redisVariable), os.Stdout), stop())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench server:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// profile writes a CPU profile into file until stop.
func profile(file string) (stop func() error, err error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("write profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("write profile: %w", err), f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}

// serve runs a system until ctx ends. It prints its address once it is ready.
func serve(ctx context.Context, system, redis string, out io.Writer) error {
	if system == Empty {
		return serveEmpty(ctx, out)
	}
	store, err := redisbucket.New(redisbucket.Config{URL: redis, Budget: time.Second})
	if err != nil {
		return err
	}
	cfg := regional.Config{
		Region: "here", Agent: "bench", Coordinators: []string{"127.0.0.1:1"}, // nobody: the rules are in Redis
		Store: store, GRPCAddr: "127.0.0.1:0", Exact: system != Quorate,
	}
	if err := adopt(ctx, store); err != nil {
		return errors.Join(err, store.Close())
	}
	if system == Each {
		if cfg.Store, err = newEach(store, redis); err != nil {
			return errors.Join(err, store.Close())
		}
	}
	regional.TuneProcess()
	a, err := regional.New(cfg)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	for ; len(a.NotReady()) > 0; time.Sleep(5 * time.Millisecond) {
		select {
		case err := <-done:
			return err
		default:
		}
	}
	addr, _, _ := a.Addrs()
	fmt.Fprintln(out, addr)
	return <-done
}

// adopt makes Rules the region's configuration.
func adopt(ctx context.Context, store *redisbucket.Store) error {
	st, err := store.State(ctx)
	if err != nil {
		return err
	}
	blob, err := configuration()
	if err != nil {
		return err
	}
	if err := store.MarkFirst(ctx, st.Incarnation); err != nil {
		return err
	}
	return store.Adopt(ctx, st.Incarnation, 1, blob)
}

// configuration is version 1 of what a region adopts, as its store has it: Rules,
// and the whole of every limit for region "here".
func configuration() ([]byte, error) {
	return lease.Encode(quota.Config{
		Version: 1, Sources: []quota.Source{{Name: "bench.yaml", Text: Rules}},
		Shares: quota.Shares{{Region: "here", Weight: 1}},
	}, "here", nil)
}

// empty is the handler that decides nothing.
type empty struct {
	rls.UnimplementedRateLimitServiceServer
}

func (empty) ShouldRateLimit(context.Context, *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	return &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK}, nil
}

func serveEmpty(ctx context.Context, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("open port: %w", err)
	}
	s := grpc.NewServer()
	rls.RegisterRateLimitServiceServer(s, empty{})
	context.AfterFunc(ctx, s.Stop)
	fmt.Fprintln(out, l.Addr())
	return s.Serve(l)
}

// process is a system that runs as a process of its own.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	addr  string
	ends  bool // when stdin is closed
}

// start runs this program again as a server of system, with a CPU profile if
// there is a file for it.
func start(system, redis, profile string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"="+system, redisVariable+"="+redis, profileVariable+"="+profile)
	cmd.Stderr = os.Stderr
	// A group of its own: an interrupt ends the bench, which then ends it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", system, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", system, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", system, err)
	}
	p := &process{cmd: cmd, stdin: stdin, ends: true}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: it ended before it was ready: %w", system, err), p.stop())
	}
	p.addr = strings.TrimSpace(line)
	return p, nil
}

// stop ends the process.
func (p *process) stop() error {
	_ = p.stdin.Close()
	if !p.ends {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.cmd.Wait() // its exit code is its own matter
		return nil
	}
	force := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer force.Stop()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("stop a server: %w", err)
	}
	return nil
}
