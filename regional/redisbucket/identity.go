package redisbucket

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// errNotUsable: the server answers, but buckets must not be kept on it.
var errNotUsable = errors.New("this redis server cannot hold the region's buckets")

// lineup is what this process has seen of the incarnations at its address.
type lineup struct {
	current string
	// held says that current had a session while this process saw it.
	held bool
	// replaced is the last incarnation that had a session and was followed by
	// another one.
	replaced string
	gone     map[string]bool
}

// Replaced returns the incarnation that this process saw at its address before
// the current one, empty when it saw none. The coordinator may end its session
// at once.
func (s *Store) Replaced() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lineup.replaced
}

// meet records the incarnation that the server answered with. One that was
// replaced before must not come back: then two servers share the address.
func (s *Store) meet(incarnation string, session bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.lineup
	if l.gone[incarnation] {
		return fmt.Errorf("%w: it is incarnation %s, which %s has replaced: two servers answer at one address, or old data was restored into a running one",
			errNotUsable, incarnation, l.current)
	}
	if incarnation != l.current {
		s.metrics.incarnations.Inc()
		if l.current != "" {
			s.log.Warn("regional store lost its continuity: all leases are void",
				"incarnation", incarnation, "replaced", l.current)
			if l.gone == nil {
				l.gone = make(map[string]bool)
			}
			l.gone[l.current] = true
			if l.held || l.replaced == "" {
				l.replaced = l.current
			}
		} else {
			s.log.Info("regional store found", "incarnation", incarnation)
		}
		l.current, l.held = incarnation, false
	}
	l.held = l.held || session
	return nil
}

// identify checks that the server is a primary, and continues the incarnation of
// its data or begins another. It runs on every new connection before its first
// use (fresh), and again now and then on an old one.
func (s *Store) identify(ctx context.Context, cn *redis.Conn, fresh bool) error {
	run, replid := s.cfg.ServerID, s.cfg.ServerID
	if s.cfg.ServerID == "" {
		if err := s.permitted(ctx, cn, fresh); err != nil {
			return fmt.Errorf("identify redis server: %w", err)
		}
		// One round trip; INFO's role is ROLE's first word.
		sections := []any{"info", "server", "replication"}
		if fresh {
			sections = append(sections, "memory")
		}
		cmd := redis.NewStringCmd(ctx, sections...)
		if err := cn.Process(ctx, cmd); err != nil {
			return fmt.Errorf("identify redis server: %w", err)
		}
		info := parseInfo(cmd.Val())
		if err := usable(info); err != nil {
			return fmt.Errorf("identify redis server: %w", err)
		}
		if fresh {
			s.warnEviction(info["maxmemory_policy"])
		}
		run, replid = info["run_id"], info["master_replid"]
	}
	if fresh {
		if _, err := cn.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, sc := range s.scripts.all() {
				p.ScriptLoad(ctx, sc.source)
			}
			return nil
		}); err != nil {
			return fmt.Errorf("load scripts: %w", err)
		}
	}
	sc := &s.scripts.incarnate
	reply, err := runValues(ctx, cn, sc, evalsha(sc, []string{s.stateKey}, []any{rand.Text(), run, replid}))
	if err != nil {
		return fmt.Errorf("find incarnation: %w", err)
	}
	if len(reply) != 3 {
		return fmt.Errorf("find incarnation: reply of %d words instead of 3", len(reply))
	}
	id, ok := reply[0].(string)
	if !ok || id == "" {
		return fmt.Errorf("find incarnation: unexpected reply %v", reply)
	}
	// The script ended an incarnation that this process may never have seen; what
	// it saw itself is all it may name as replaced.
	if created, _ := reply[1].(int64); created == 1 {
		s.log.Info("new incarnation of the regional store", "incarnation", id, "before", reply[2], "run_id", run, "replid", replid)
	}
	return s.meet(id, false)
}

// usable refuses a server whose data may not be the newest, or that cannot say
// who it is.
func usable(info map[string]string) error {
	if role := info["role"]; role != "master" {
		return fmt.Errorf("%w: its role is %q, not master", errNotUsable, role)
	}
	version := info["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 7 {
		return fmt.Errorf("%w: its version is %q, 7.0 or later is needed", errNotUsable, version)
	}
	if info["run_id"] == "" || info["master_replid"] == "" {
		return fmt.Errorf("%w: INFO has no run_id or master_replid, so lost data could not be noticed", errNotUsable)
	}
	return nil
}

func (s *Store) warnEviction(policy string) {
	s.mu.Lock()
	warn := policy != "noeviction" && !s.warned
	s.warned = s.warned || warn
	s.mu.Unlock()
	if warn {
		s.log.Warn("redis may evict buckets, and an evicted bucket counts as refilled: set maxmemory-policy noeviction", "maxmemory_policy", policy)
	}
}

// parseInfo reads the field:value lines of INFO.
func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			info[k] = v
		}
	}
	return info
}
