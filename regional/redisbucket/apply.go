package redisbucket

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
)

// Apply applies assignments in one flush and returns the answers of those that
// are applied, now or before. The error joins what kept the others from it:
// enforce.ErrStale, bucket.ErrOldSession, bucket.ErrExpired, bucket.ErrStaleEpoch
// or enforce.ErrStoreDown. Applying an assignment again is the same as once.
func (s *Store) Apply(ctx context.Context, incarnation string, asks []bucket.ApplyAsk) ([]quota.Applied, error) {
	if len(asks) == 0 {
		return nil, nil
	}
	for i := range asks {
		if err := validApply(&asks[i]); err != nil {
			return nil, err
		}
	}
	if s.cluster != nil {
		cmds, err := s.cluster.apply(ctx, incarnation, asks)
		if err != nil {
			return nil, err
		}
		return applications(asks, cmds, nil)
	}
	cmds := make([]redis.Cmder, len(asks))
	for i := range asks {
		a := &asks[i]
		cmds[i] = newInts(ctx, evalsha(&s.scripts.apply, []string{s.stateKey, s.bucketKey(a.Assignment.Key), s.lentKey}, s.applyArgs(incarnation, a)))
	}
	down := s.guard(ctx, "apply", func(c *redis.Client) error { return s.flush(ctx, c, &s.scripts.apply, cmds) })
	return applications(asks, cmds, down)
}

// applications says how the calls of asks ended; down is why all of them failed.
func applications(asks []bucket.ApplyAsk, cmds []redis.Cmder, down error) ([]quota.Applied, error) {
	applied := make([]quota.Applied, 0, len(asks))
	var problems []error
	for i := range asks {
		a := &asks[i].Assignment
		reply, err := cmds[i].(ints).Result()
		switch {
		case errors.Is(err, enforce.ErrStale), errors.Is(err, enforce.ErrStoreDown):
			problems = append(problems, fmt.Errorf("apply assignment %d of %q: %w", a.Epoch, a.Key, err))
		case err != nil:
			if down == nil {
				problems = append(problems, fmt.Errorf("apply assignment %d of %q: %w: %w", a.Epoch, a.Key, enforce.ErrStoreDown, err))
			}
		case len(reply) != 2:
			// Never sent: the breaker is open.
		case reply[0] != 1:
			problems = append(problems, fmt.Errorf("apply assignment %d of %q: %w", a.Epoch, a.Key, refusal(reply[0])))
		default:
			applied = append(applied, quota.Applied{Key: a.Key, Session: a.Session, Epoch: a.Epoch, Surrendered: quota.Tokens(reply[1])})
		}
	}
	return applied, errors.Join(append(problems, down)...)
}

// flush sends cmds, all calls of one script, in one pipeline, and those again that
// met a server without the script.
func (s *Store) flush(ctx context.Context, c *redis.Client, sc *script, cmds []redis.Cmder) error {
	send := func(cmds []redis.Cmder) error {
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error { return p.BatchProcess(ctx, cmds...) })
		return err
	}
	err := send(cmds)
	if !noScript(err) {
		return err
	}
	if err := c.ScriptLoad(ctx, sc.source).Err(); err != nil {
		return fmt.Errorf("load script: %w", err)
	}
	var again []redis.Cmder
	for i, cmd := range cmds {
		if noScript(cmd.Err()) {
			cmds[i] = newInts(ctx, cmd.Args())
			again = append(again, cmds[i])
		}
	}
	return send(again)
}

func refusal(code int64) error {
	switch code {
	case 0:
		return fmt.Errorf("%w: %w", enforce.ErrStale, bucket.ErrIncarnation)
	case -1:
		return bucket.ErrOldSession
	case -2:
		return bucket.ErrExpired
	case -3:
		return bucket.ErrStaleEpoch
	case -4:
		return bucket.ErrSettling
	case -5:
		return bucket.ErrOldConfig
	}
	return fmt.Errorf("unknown answer %d: %w", code, enforce.ErrStoreDown)
}

func validApply(ask *bucket.ApplyAsk) error {
	a := &ask.Assignment
	var loan quota.Loan
	if a.Loan != nil {
		loan = *a.Loan
	}
	if err := errors.Join(bucket.Valid(a.Lease.Add(loan.Capacity)), bucket.ValidAmount(a.Credit+loan.Credit), ask.Standing.Valid()); err != nil {
		return fmt.Errorf("apply assignment %d of %q: %w", a.Epoch, a.Key, err)
	}
	return nil
}

func (s *Store) applyArgs(incarnation string, ask *bucket.ApplyAsk) []any {
	a, st := &ask.Assignment, &ask.Standing
	var loan quota.Loan
	var ends any = ""
	if a.Loan != nil {
		loan, ends = *a.Loan, int64(ask.LoanUntil)
	}
	return []any{
		incarnation, uint64(a.Session), uint64(a.Epoch),
		int64(a.Lease.Rate.Tokens), int64(a.Lease.Rate.Per), int64(a.Lease.Burst), int64(a.Credit), flag(a.Release),
		int64(st.Rate.Tokens), int64(st.Rate.Per), int64(st.Burst), int64(st.Base), int64(st.Since), int64(st.Began()),
		int64(quota.MicrosOf(a.Lend)),
		int64(loan.Capacity.Rate.Tokens), int64(loan.Capacity.Rate.Per), int64(loan.Capacity.Burst), int64(loan.Credit), ends,
		int64(bucket.Notice), string(a.Key), flag(a.Home), int64(st.Lasts), int(st.Window), st.Config,
	}
}

// flag is a yes or no as the scripts read it.
func flag(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// Read returns the record of key as it is stored, without refilling it; ok is
// false when there is none.
func (s *Store) Read(ctx context.Context, key quota.Key) (rec bucket.Record, ok bool, err error) {
	var fields []any
	if s.cluster != nil {
		fields, err = s.cluster.readBucket(ctx, key)
	} else {
		err = s.guard(ctx, "read", func(c *redis.Client) error {
			fields, err = c.HMGet(ctx, s.bucketKey(key), "level", "at", "inc", "lease", "away", "drawn").Result()
			return err
		})
	}
	if err != nil {
		return rec, false, err
	}
	if len(fields) != 6 || fields[0] == nil {
		return rec, false, nil
	}
	text := func(i int) string { t, _ := fields[i].(string); return t }
	level, err1 := strconv.ParseInt(text(0), 10, 64)
	at, err2 := strconv.ParseInt(text(1), 10, 64)
	rec = bucket.Record{Level: quota.Tokens(level), At: quota.Micros(at), Incarnation: text(2)}
	err = errors.Join(err1, err2)
	if away := text(4); away != "" {
		until, bad := strconv.ParseInt(away, 10, 64)
		rec.Away, err = quota.Micros(until), errors.Join(err, bad)
	}
	if slot := text(5); slot != "" {
		_, bad := fmt.Sscanf(slot, "%d %d", &rec.Drawn, &rec.DrawnUntil)
		err = errors.Join(err, bad)
	}
	if lease := text(3); lease != "" {
		err = errors.Join(err, parseLease(lease, &rec))
	}
	if err != nil {
		return rec, false, fmt.Errorf("read bucket %q: %w", key, err)
	}
	return rec, true, nil
}

// parseLease reads the lease field of a record, as apply.lua writes it.
func parseLease(text string, rec *bucket.Record) error {
	words := strings.Fields(text)
	if len(words) != 7 && len(words) != 8 && len(words) != 11 {
		return fmt.Errorf("lease field %q has %d words instead of 7, 8 of a sliding window or 11 with a loan", text, len(words))
	}
	var n [11]int64
	for i, w := range words {
		v, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			return fmt.Errorf("lease field %q: %w", text, err)
		}
		n[i] = v
	}
	rec.Session, rec.Epoch = quota.SessionID(n[0]), quota.Epoch(n[1])
	rec.Lease = quota.Capacity{Rate: quota.Rate{Tokens: quota.Tokens(n[2]), Per: quota.Micros(n[3])}, Burst: quota.Tokens(n[4])}
	rec.Surrendered, rec.Released = quota.Tokens(n[5]), n[6] == 1
	if len(words) == 8 {
		rec.Aim, rec.Leaving = quota.Tokens(n[7]), n[6] == 2
		return nil
	}
	rec.Loan = quota.Capacity{Rate: quota.Rate{Tokens: quota.Tokens(n[7]), Per: quota.Micros(n[8])}, Burst: quota.Tokens(n[9])}
	rec.LoanUntil = quota.Micros(n[10])
	return nil
}
