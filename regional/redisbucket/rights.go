package redisbucket

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// errRights: the server lets the user in, but not do what a store must.
var errRights = errors.New("the redis user has too few rights")

// ACL returns the line that makes a user with the rights that a store with the
// prefix needs, and no others; in a cluster every node needs it. A database other
// than 0 takes +select, too.
func ACL(user, prefix string, inCluster bool) string {
	line := "ACL SETUSER " + user + " on >PASSWORD resetchannels resetkeys ~" + prefix + "* -@all"
	for _, p := range probes(prefix, inCluster) {
		if p.right[0] == '+' {
			line += " " + p.right
		}
	}
	return line
}

// probe is a right and a command that needs it and does no harm.
type probe struct {
	right string
	words []any
}

func probes(prefix string, inCluster bool) []probe {
	key := prefix + "probe"
	list := []probe{
		{"~" + prefix + "*", []any{"hget", key, "f"}},
		{"+evalsha", []any{"evalsha", strings.Repeat("0", 40), 0}},
		{"+eval", []any{"eval", "return 1", 0}},
		{"+script|load", []any{"script", "load", "return 1"}},
		{"+info", []any{"info", "server"}},
		{"+time", []any{"time"}},
		{"+get", []any{"get", key}},
		{"+hget", []any{"hget", key, "f"}},
		{"+hmget", []any{"hmget", key, "f"}},
		{"+hgetall", []any{"hgetall", key}},
		{"+hdel", []any{"hdel", key, "f"}},
		{"+pexpire", []any{"pexpire", key, 1}},
		{"+hset", []any{"hset", key, "f", ""}},
		{"+set", []any{"set", key, "", "px", 1}}, // the key is gone at once
	}
	if inCluster {
		list = append(list,
			probe{"+cluster|slots", []any{"cluster", "slots"}},
			probe{"+cluster|myid", []any{"cluster", "myid"}},
			probe{"+asking", []any{"asking"}})
	}
	return list
}

// permitted asks for every right once, so that one that is missing is named when
// the agent starts, and not when a decision first needs it. The nodes of a cluster
// have users of their own each.
func (s *Store) permitted(ctx context.Context, cn *redis.Conn, fresh bool) error {
	if s.rights.Load() && !(fresh && s.address.kind == cluster) {
		return nil
	}
	list := probes(s.cfg.Prefix, s.address.kind == cluster)
	cmds := make([]*redis.Cmd, len(list))
	// A probe may fail for other reasons, which are none of the user's.
	_, _ = cn.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range list {
			cmds[i] = p.Do(ctx, list[i].words...)
		}
		return nil
	})
	var missing []string
	for i, cmd := range cmds {
		switch err := cmd.Err(); {
		case err == nil:
		case redis.HasErrorPrefix(err, "NOPERM"):
			// One text is about a command, another about the keys.
			if aboutKeys := strings.Contains(err.Error(), "key"); aboutKeys == (list[i].right[0] == '~') {
				missing = append(missing, list[i].right)
			}
		case !answered(err):
			return fmt.Errorf("ask for rights: %w", err)
		}
	}
	if len(missing) > 0 {
		user := s.address.username
		if user == "" {
			user = "default"
		}
		return fmt.Errorf("%w: user %q lacks %s; an operator gives them with: ACL SETUSER %s %s",
			errRights, user, strings.Join(missing, ", "), user, strings.Join(missing, " "))
	}
	s.rights.Store(true)
	return nil
}

// answered reports whether err is what the server said, and not the want of an answer.
func answered(err error) bool {
	var said redis.Error
	return errors.As(err, &said)
}
