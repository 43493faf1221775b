package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/coordinator/fsm"
	"github.com/quorate/quorate/coordinator/raftnode"
	"github.com/quorate/quorate/coordinator/rpc"
)

// Node is one coordinator node.
type Node struct {
	cfg     Config
	log     *slog.Logger
	fsm     *fsm.FSM
	raft    *raftnode.Node // set before opened
	rpc     *rpc.Server
	rules   *rulesDir // nil without a directory
	metrics *metrics

	opened   atomic.Bool // raft is there
	draining atomic.Bool
	serving  atomic.Pointer[term] // the term that this node leads and serves
	health   chan struct{}        // holds one token when readiness may have changed
}

// New checks the configuration and fills in its defaults. Nothing runs and no
// file or port is opened before Run.
func New(cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg.withDefaults(), fsm: fsm.New(), health: make(chan struct{}, 1)}
	n.log = n.cfg.Logger
	n.metrics = newMetrics(n.cfg.Registerer, n)
	n.rpc = rpc.New(rpc.Config{
		AnswerTimeout: n.cfg.Timing.Answer * 3 / 4, Reflection: n.cfg.Reflection, TLS: n.cfg.GRPCTLS,
		RulesDir: n.cfg.RulesDir, Logger: n.log, Registerer: n.cfg.Registerer,
	}, rpc.Ports{Leader: n, State: n, Self: n})
	if n.cfg.RulesDir != "" {
		n.rules = newRulesDir(n)
	}
	return n, nil
}

// parts are the running parts of a node. The first one that fails ends it.
type parts struct{ failed chan error }

// start runs one part; the channel that it returns is closed when the part has
// ended.
func (p parts) start(name string, run func() error) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := run(); err != nil {
			p.failed <- fmt.Errorf("%s: %w", name, err)
		}
	}()
	return done
}

// failures returns what has failed by now.
func (p parts) failures() (err error) {
	for {
		select {
		case one := <-p.failed:
			err = errors.Join(err, one)
		default:
			return err
		}
	}
}

// Run runs the node until ctx ends or something fails, drains, and returns when
// everything has stopped. It is called once.
func (n *Node) Run(ctx context.Context) error {
	p := parts{make(chan error, 8)} // as many as there are parts
	stopAdmin, err := n.startAdmin(p)
	if err != nil {
		return err
	}
	defer stopAdmin()
	listener, err := n.cfg.Listen("tcp", n.cfg.GRPCAddr)
	if err != nil {
		return fmt.Errorf("listen for agents: %w", err)
	}
	if err := n.open(); err != nil {
		listener.Close()
		return err
	}
	raftCtx, stopRaft := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRaft()
	background, stopBackground := context.WithCancel(raftCtx)
	raft := p.start("raft", func() error { return n.raft.Run(raftCtx) })
	agents := p.start("agents", func() error { return n.rpc.Serve(listener) })
	others := []<-chan struct{}{
		p.start("leader", func() error { return n.lead(background) }),
		p.start("health", func() error { return n.watchHealth(background) }),
	}
	if n.rules != nil {
		others = append(others, p.start("rules", func() error { return n.rules.watch(background) }))
	}
	n.log.Info("coordinator node runs", slog.String("node", n.cfg.Node), slog.String("version", n.cfg.Version),
		slog.String("raft", n.cfg.RaftAdvertise), slog.String("grpc", n.cfg.GRPCAdvertise), slog.String("admin", n.cfg.AdminAddr))

	var failure error
	select {
	case <-ctx.Done():
	case failure = <-p.failed:
	}
	n.log.Info("coordinator node drains", slog.String("node", n.cfg.Node))
	n.draining.Store(true)
	n.rpc.Stop(n.cfg.Drain)
	<-agents
	stopBackground()
	for _, done := range others {
		<-done
	}
	stopRaft() // hands leadership over first
	<-raft
	failure = errors.Join(failure, p.failures())
	n.log.Info("coordinator node has stopped", slog.String("node", n.cfg.Node))
	return failure
}

// startAdmin serves AdminAddr from before Raft is there until stop is called.
func (n *Node) startAdmin(p parts) (stop func(), err error) {
	if n.cfg.AdminAddr == "" {
		return func() {}, nil
	}
	l, err := n.cfg.Listen("tcp", n.cfg.AdminAddr)
	if err != nil {
		return nil, fmt.Errorf("listen for admin: %w", err)
	}
	server := n.adminServer()
	done := p.start("admin", func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve HTTP: %w", err)
		}
		return nil
	})
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Drain)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
		<-done
	}, nil
}

// open starts Raft.
func (n *Node) open() error {
	servers, err := raftnode.ParseCluster(n.cfg.InitialCluster)
	if err != nil {
		return err
	}
	n.raft, err = raftnode.Open(raftnode.Config{
		Node: n.cfg.Node, DataDir: n.cfg.DataDir, Bind: n.cfg.RaftAddr, Advertise: n.cfg.RaftAdvertise,
		InitialCluster: servers, Timeouts: n.cfg.RaftTimeouts,
		ServerTLS: n.cfg.RaftServerTLS, ClientTLS: n.cfg.RaftClientTLS, Dial: n.cfg.DialRaft, Listen: n.cfg.Listen,
		FSM: n.fsm, Cluster: n.cluster, Logger: n.log,
	})
	if err != nil {
		return err
	}
	n.opened.Store(true)
	return nil
}

// behind is how many committed entries a ready node may still have to apply.
const behind = 1000

// ready says why the node is not ready, nil when it is: it knows a leader, is
// close to what is committed, and serves if it leads itself. With a rules
// directory the cluster must have rules, too.
func (n *Node) ready() error {
	switch {
	case n.draining.Load():
		return errors.New("shutting down")
	case !n.opened.Load():
		return errors.New("starting")
	}
	s := n.raft.Status()
	switch {
	case s.Leader == "":
		return errors.New("no leader is known")
	case s.Role == "leader" && n.serving.Load() == nil:
		return errors.New("just elected, catching up")
	case s.Applied+behind < s.Commit:
		return fmt.Errorf("%d committed entries are not applied yet", s.Commit-s.Applied)
	case n.rules != nil:
		return n.rules.ready()
	}
	return nil
}

func (n *Node) tellHealth() {
	select {
	case n.health <- struct{}{}:
	default:
	}
}

// watchHealth keeps the gRPC health service in step with ready.
func (n *Node) watchHealth(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		n.rpc.Serving(n.ready() == nil, n.serving.Load() != nil)
		select {
		case <-ctx.Done():
			return nil
		case <-n.health:
		case <-tick.C:
		}
	}
}
