package redisbucket

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/sony/gobreaker/v2"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
)

// clustered is a store on a Redis Cluster; the package comment has the argument.
type clustered struct {
	s       *Store
	client  *redis.ClusterClient
	parts   [partitions]part
	view    atomic.Pointer[view]
	reading chan struct{} // holds a token while all partitions are read
}

// part is what never changes of a partition.
type part struct {
	stateKey string
	lentKey  string
	bucket   string // what its bucket keys begin with
	breaker  *gobreaker.CircuitBreaker[struct{}]
}

// view is the region as it was last read: what this process needs to speak to
// its partitions.
type view struct {
	incarnation string // of the region
	since       quota.Micros
	parts       [partitions]clock
}

// clock is a partition's incarnation, and what its node's clock shows more than
// that of the region: at least low, at most high.
type clock struct {
	incarnation string
	low, high   quota.Micros
}

// errElsewhere: a partition is not what the caller's view says; nothing was done.
var errElsewhere = errors.New("the partition has moved on")

func (s *Store) newClustered() *clustered {
	c := &clustered{s: s, reading: make(chan struct{}, 1)}
	for p := range c.parts {
		head := s.cfg.Prefix + "{" + tags[p] + "}"
		// A node that is away must not keep the others' partitions from deciding.
		c.parts[p] = part{stateKey: head + "state", lentKey: head + "lent", bucket: head + "b:", breaker: s.newBreaker()}
	}
	c.client = redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: s.address.hosts, Username: s.address.username, Password: s.address.password, TLSConfig: s.tls(),
		Protocol: 2, DisableIdentity: true, DisableRoutingPolicies: true,
		MaintNotificationsConfig:   &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		ClusterStateReloadInterval: 5 * time.Second,
		MaxRetries:                 -1, DialerRetries: 1, DialTimeout: s.cfg.DialTimeout,
		ReadTimeout: s.cfg.Timeout, WriteTimeout: s.cfg.Timeout, PoolTimeout: s.cfg.Timeout,
		ContextTimeoutEnabled: true, PoolSize: s.cfg.PoolSize,
		OnConnect: func(ctx context.Context, cn *redis.Conn) error { return c.greet(ctx, cn, true) },
	})
	return c
}

// greet brings the partitions of the node behind a connection into the life of
// that node: those that were begun elsewhere, or in an earlier life, begin anew
// and are of no use until the region is read again. It runs on every new
// connection before its first use, and now and then on an old one.
func (c *clustered) greet(ctx context.Context, cn *redis.Conn, fresh bool) error {
	s := c.s
	if err := s.permitted(ctx, cn, fresh); err != nil {
		return fmt.Errorf("identify redis node: %w", err)
	}
	var info, id *redis.Cmd
	load := s.scripts.all()
	if !fresh {
		load = []*script{&s.scripts.incarnate}
	}
	if _, err := cn.Pipelined(ctx, func(p redis.Pipeliner) error {
		info, id = p.Do(ctx, "info", "server", "replication", "memory"), p.Do(ctx, "cluster", "myid")
		for _, sc := range load {
			p.ScriptLoad(ctx, sc.source)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("identify redis node: %w", err)
	}
	text, _ := info.Text()
	node, _ := id.Text()
	about := parseInfo(text)
	if about["role"] == "slave" {
		// It answers every script with where its primary is. Should it become one,
		// its partitions are still those of another node.
		return nil
	}
	if err := usable(about); err != nil {
		return fmt.Errorf("identify redis node: %w", err)
	}
	if fresh {
		s.warnEviction(about["maxmemory_policy"])
	}
	life, replid := node+"/"+about["run_id"], about["master_replid"]
	cmds := make([]redis.Cmder, partitions)
	for p := range c.parts {
		cmds[p] = newValues(ctx, evalsha(&s.scripts.incarnate, []string{c.parts[p].stateKey}, []any{rand.Text(), life, replid}))
	}
	// The partitions of other nodes answer where they are.
	_, _ = cn.Pipelined(ctx, func(p redis.Pipeliner) error { return p.BatchProcess(ctx, cmds...) })
	begun := 0
	for _, cmd := range cmds {
		reply, err := cmd.(values).Result()
		switch {
		case err == nil && len(reply) == 3:
			if created, _ := reply[1].(int64); created == 1 {
				begun++
			}
		case err == nil:
			return fmt.Errorf("find incarnation: reply of %d words instead of 3", len(reply))
		case !redirected(err):
			return fmt.Errorf("find incarnation: %w", err)
		}
	}
	if begun > 0 {
		s.log.Info("partitions of the regional store begin anew", "node", node, "partitions", begun, "run_id", about["run_id"], "replid", replid)
	}
	return nil
}

// elsewhere reports whether err says that a partition has moved on.
func elsewhere(err error) bool {
	return err != nil && (redis.HasErrorPrefix(err, "ELSEWHERE") || errors.Is(err, errElsewhere))
}

// redirected reports whether err says that keys are not on this node, or not now.
func redirected(err error) bool {
	for _, word := range []string{"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"} {
		if redis.HasErrorPrefix(err, word) {
			return true
		}
	}
	return false
}

// check greets every primary, on a connection that may be old.
func (c *clustered) check(ctx context.Context) error {
	err := c.client.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		cn := node.Conn()
		defer cn.Close() //nolint:errcheck // it only goes back to the pool
		return c.greet(ctx, cn, false)
	})
	if err != nil {
		c.s.metrics.failed("identify", reason(err))
		return fmt.Errorf("identify in regional store: %w: %w", enforce.ErrStoreDown, err)
	}
	c.s.checked.Store(int64(time.Since(c.s.start)))
	return nil
}

// guard is Store.guard for one partition.
func (c *clustered) guard(ctx context.Context, op string, p int, f func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s in regional store: %w: %w", op, enforce.ErrStoreDown, err)
	}
	began := time.Now()
	var answer error
	_, err := c.parts[p].breaker.Execute(func() (struct{}, error) {
		err := f()
		if elsewhere(err) {
			answer, err = errElsewhere, nil // the node is there
		}
		return struct{}{}, err
	})
	switch {
	case answer != nil:
		return fmt.Errorf("%s in regional store: %w: %w", op, enforce.ErrStale, answer)
	case err == nil:
		c.s.metrics.took(op, time.Since(began))
		return nil
	}
	if unreachable(err) || redirected(err) {
		c.client.ReloadState(ctx)
	}
	c.s.metrics.failed(op, reason(err))
	return fmt.Errorf("%s in regional store: %w: %w", op, enforce.ErrStoreDown, err)
}

// run sends a script to a partition; the view says which incarnation it must be.
func (c *clustered) run(ctx context.Context, sc *script, v *view, p int, keys []string, argv ...any) (reply []int64, err error) {
	err = c.guard(ctx, sc.name, p, func() error {
		reply, err = runInts(ctx, c.client, sc, evalsha(sc, keys, append(argv, v.incarnation)))
		return err
	})
	if err == nil && len(reply) == 0 {
		return nil, fmt.Errorf("%s in regional store: empty reply: %w", sc.name, enforce.ErrStoreDown)
	}
	return reply, err
}

// current returns the view of a region's incarnation, if it is the last one read.
func (c *clustered) current(incarnation string) (*view, error) {
	v := c.view.Load()
	if v == nil || v.incarnation != incarnation {
		return nil, fmt.Errorf("%w: %w", enforce.ErrStale, bucket.ErrIncarnation)
	}
	return v, nil
}

// each sends one script to every partition in one flush, and again to those that
// did not know it. argv returns a partition's arguments.
func (c *clustered) each(ctx context.Context, sc *script, first int, argv func(p int) []any) ([]values, error) {
	began := time.Now()
	cmds := make([]values, partitions)
	send := func(only func(p int) bool, word, what string) {
		var batch []redis.Cmder
		for p := first; p < partitions; p++ {
			if only(p) {
				keys := []string{c.parts[p].stateKey}
				if sc == &c.s.scripts.lent {
					keys = append(keys, c.parts[p].lentKey)
				}
				args := evalsha(sc, keys, argv(p))
				args[0], args[1] = word, what
				cmds[p] = newValues(ctx, args)
				batch = append(batch, cmds[p])
			}
		}
		if len(batch) > 0 {
			_, _ = c.client.Pipelined(ctx, func(p redis.Pipeliner) error { return p.BatchProcess(ctx, batch...) })
		}
	}
	send(func(int) bool { return true }, "evalsha", sc.sha)
	send(func(p int) bool { return noScript(cmds[p].Err()) }, "eval", sc.source)
	for p := first; p < partitions; p++ {
		if err := cmds[p].Err(); err != nil {
			if elsewhere(err) {
				return nil, fmt.Errorf("%s in regional store: %w: %w", sc.name, enforce.ErrStale, errElsewhere)
			}
			if unreachable(err) || redirected(err) {
				c.client.ReloadState(ctx)
			}
			c.s.metrics.failed(sc.name, reason(err))
			return nil, fmt.Errorf("%s in partition %d of regional store: %w: %w", sc.name, p, enforce.ErrStoreDown, err)
		}
	}
	c.s.metrics.took(sc.name, time.Since(began))
	return cmds, nil
}

// code is the first number of a reply.
func (c values) code() int64 {
	if reply := c.Val(); len(reply) > 0 {
		n, _ := reply[0].(int64)
		return n
	}
	return 0
}

// composite is the incarnation of a region whose partitions have these.
func composite(parts *[partitions]clock) string {
	var b strings.Builder
	for i := range parts {
		b.WriteString(parts[i].incarnation)
		b.WriteByte(' ')
	}
	sum := sha256.Sum256([]byte(b.String()))
	return strings.ToUpper(hex.EncodeToString(sum[:13]))
}
