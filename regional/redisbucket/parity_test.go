package redisbucket

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
)

// amounts draws small, round, ordinary and extreme numbers of micro-tokens or
// microseconds, at most limit.
func amounts(limit int64) *rapid.Generator[int64] {
	return rapid.Custom(func(t *rapid.T) int64 {
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			return rapid.Int64Range(0, min(10, limit)).Draw(t, "small")
		case 1:
			return min(limit, 1_000_000*rapid.Int64Range(0, 1000).Draw(t, "whole"))
		case 2:
			return limit - rapid.Int64Range(0, min(10, limit)).Draw(t, "large")
		case 3:
			return min(limit, int64(1)<<rapid.IntRange(0, 52).Draw(t, "power")+rapid.Int64Range(0, 1).Draw(t, "more"))
		}
		return rapid.Int64Range(0, limit).Draw(t, "any")
	})
}

// TestRefillEqualsQuotaRefill compares the scripts' division with quota's, on
// many numbers in one call.
func TestRefillEqualsQuotaRefill(t *testing.T) {
	ctx := context.Background()
	s := openAt(t, shared.URL(), nil)
	body := preludeSource + bucketSource + `
local out = {}
for i = 1, #ARGV, 5 do
  local level, unspent = refill(tonumber(ARGV[i]), tonumber(ARGV[i+1]), tonumber(ARGV[i+2]), tonumber(ARGV[i+3]), tonumber(ARGV[i+4]))
  out[#out+1], out[#out+2] = level, unspent
end
return out`
	largest := int64(quota.MaxTokens)
	rapid.Check(t, func(t *rapid.T) {
		var args []any
		for range 100 {
			level := amounts(largest).Draw(t, "level")
			if rapid.IntRange(0, 3).Draw(t, "debt") == 0 {
				level = -level
			}
			rate, per := amounts(largest).Draw(t, "rate"), amounts(int64(bucket.MaxPeriod)).Draw(t, "per")
			elapsed := amounts(largest).Draw(t, "elapsed")
			// Near the edges: a gain just at, above or below a whole quotient and the burst.
			if rapid.Bool().Draw(t, "edge") && rate > 0 {
				want := amounts(largest).Draw(t, "gain")
				if wait, ok := (quota.Capacity{Rate: quota.Rate{Tokens: quota.Tokens(rate), Per: quota.Micros(per)}, Burst: quota.MaxTokens}).TimeTo(0, quota.Tokens(want)); ok {
					elapsed = min(largest, max(0, int64(wait)+rapid.Int64Range(-2, 2).Draw(t, "off")))
				}
			}
			args = append(args, level, elapsed, rate, per, amounts(largest).Draw(t, "burst"))
		}
		cmd := newInts(ctx, append([]any{"eval", body, 0}, args...))
		if err := s.client.Load().Process(ctx, cmd); err != nil {
			t.Fatal(err)
		}
		for i, have := 0, cmd.Val(); i < len(args); i, have = i+5, have[2:] {
			n := func(j int) int64 { return args[i+j].(int64) }
			c := quota.Capacity{Rate: quota.Rate{Tokens: quota.Tokens(n(2)), Per: quota.Micros(n(3))}, Burst: quota.Tokens(n(4))}
			level, unspent := c.Refill(quota.Tokens(n(0)), quota.Micros(n(1)))
			if int64(level) != have[0] || int64(unspent) != have[1] {
				t.Fatalf("refill %v: want %d, %d, have %d, %d", args[i:i+5], level, unspent, have[0], have[1])
			}
		}
	})
}

// twins is a real store and the reference, given the same steps.
type twins struct {
	length quota.Micros // of the sliding windows
	t      *rapid.T
	ctx    context.Context
	real   *Store
	ref    *bucket.Store
	now    quota.Micros
	inc    string
	past   []string // incarnations, the current one last
	life   int
}

// TestScriptsEqualReference runs random histories through Redis and through
// bucket.Store: every answer and every stored record must be the same.
func TestScriptsEqualReference(t *testing.T) {
	histories(t, func(w *twins) {
		w.length = max(1, quota.Micros(amounts(int64(bucket.MaxPeriod)).Draw(w.t, "window")))
		for range rapid.IntRange(1, 40).Draw(w.t, "steps") {
			w.step()
			w.compare()
		}
	})
}

// histories runs random histories on a store with a clock of its own.
func histories(t *testing.T, run func(w *twins)) {
	ctx := context.Background()
	if _, err := shared.Do("HSET", "test:clock", "s", "0", "us", "0"); err != nil {
		t.Fatal(err)
	}
	cfg := Config{URL: shared.URL(), ServerID: "life", Timeout: patient, DialTimeout: patient, Budget: patient}
	real, err := open(cfg, func(source string) string { return withShortChunks(withTestClock(source)) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = real.Close() })
	rapid.Check(t, func(t *rapid.T) {
		prefix := newPrefix()
		real.stateKey, real.configKey, real.prevKey, real.lentKey = prefix+"state", prefix+"config", prefix+"config:prev", prefix+"lent"
		real.bucketHead = prefix + "b:{"
		real.lineup = lineup{}
		w := &twins{t: t, ctx: ctx, real: real, ref: bucket.NewStore(), now: 1 << 40}
		w.tick(0)
		w.incarnate()
		run(w)
	})
}

func (w *twins) tick(by quota.Micros) {
	w.now = min(max(w.now+by, 0), bucket.Forever)
	us := int64(w.now)
	if err := w.real.client.Load().HSet(w.ctx, "test:clock", "s", us/1_000_000, "us", us%1_000_000).Err(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *twins) incarnate() {
	w.life++
	w.real.cfg.ServerID = fmt.Sprintf("life-%d", w.life)
	if err := w.real.check(w.ctx); err != nil {
		w.t.Fatal(err)
	}
	w.inc = w.real.lineup.current
	w.past = append(w.past, w.inc)
	w.ref.Incarnate(w.now, w.inc)
}

func (w *twins) key() quota.Key {
	return rapid.SampledFrom([]quota.Key{"a", "b", "c}{", "log", "counter"}).Draw(w.t, "key")
}

func (w *twins) tokens(name string) quota.Tokens {
	return quota.Tokens(amounts(int64(quota.MaxTokens)).Draw(w.t, name))
}

func (w *twins) capacity(key quota.Key) quota.Capacity {
	if windows[key] != bucket.NoWindow {
		return quota.Capacity{Rate: quota.Rate{Per: w.length}, Burst: w.tokens("burst")}
	}
	return quota.Capacity{
		Rate:  quota.Rate{Tokens: w.tokens("rate"), Per: quota.Micros(amounts(int64(bucket.MaxPeriod)).Draw(w.t, "per"))},
		Burst: w.tokens("burst"),
	}
}

func (w *twins) standing(key quota.Key) bucket.Standing {
	var lasts quota.Micros // of a fixed window
	if windows[key] == bucket.NoWindow && rapid.IntRange(0, 3).Draw(w.t, "windowed") == 0 {
		lasts = quota.Micros(rapid.Int64Range(1, 7300*86400*1e6).Draw(w.t, "lasts"))
	}
	st := bucket.Standing{
		Lasts: lasts, Capacity: w.capacity(key), Base: w.tokens("base"), Window: windows[key], Config: w.ref.State(w.now).Config,
		Since: max(0, w.now+quota.Micros(rapid.Int64Range(-1e9, 1e6).Draw(w.t, "since"))),
		From:  max(0, w.now+quota.Micros(rapid.Int64Range(-1e9, 1e6).Draw(w.t, "from"))),
	}
	if st.Window != bucket.NoWindow && rapid.IntRange(0, 9).Draw(w.t, "another configuration") == 0 {
		st.Config++
	}
	return st
}

// cost draws what the bucket may or may not have.
func (w *twins) cost(key quota.Key, burst quota.Tokens) quota.Tokens {
	rec, _ := w.ref.Read(key)
	switch rapid.IntRange(0, 5).Draw(w.t, "cost kind") {
	case 0:
		return 0
	case 1:
		if windows[key] != bucket.NoWindow {
			return burst
		}
		return max(0, rec.Level)
	case 2:
		return burst / 3
	case 3:
		return -burst / 3
	case 4:
		return -w.tokens("refund")
	}
	return w.tokens("cost")
}

// ask draws one without a cost.
func (w *twins) ask(key quota.Key) bucket.Ask {
	a := bucket.Ask{
		Key: key, Standing: w.standing(key), Mode: bucket.Mode(rapid.IntRange(0, 3).Draw(w.t, "mode")),
		Settle: rapid.IntRange(0, 4).Draw(w.t, "settle") == 0,
	}
	a.Ahead = w.ahead(key, a.Standing)
	switch kind := rapid.IntRange(0, 3).Draw(w.t, "debt kind"); {
	case windows[key] != bucket.NoWindow: // has none
	case kind == 0:
		a.Debt = w.tokens("debt")
	case kind == 1:
		a.Debt = a.Standing.Burst / 2
	}
	return a
}

// ahead draws how much to draw ahead of a bucket, by its standing share or its record.
func (w *twins) ahead(key quota.Key, st bucket.Standing) quota.Tokens {
	switch rapid.IntRange(0, 6).Draw(w.t, "ahead kind") {
	case 0:
		return w.tokens("ahead")
	case 1:
		return st.Burst / 10
	case 2:
		gain, _ := st.Refill(0, bucket.DrawSpan/10)
		return gain
	case 3, 4:
		rec, _ := w.ref.Read(key)
		gain, _ := rec.Lease.Refill(0, bucket.DrawSpan/quota.Micros(rapid.IntRange(2, 10).Draw(w.t, "part of a slot")))
		return gain
	}
	return 0
}

func (w *twins) incarnation() string { // mostly the current one
	if rapid.IntRange(0, 9).Draw(w.t, "other incarnation") == 0 {
		return "other"
	}
	return w.inc
}

// session draws one around the current one.
func (w *twins) session() quota.SessionID {
	st := w.ref.State(w.now)
	if rapid.IntRange(0, 2).Draw(w.t, "session kind") > 0 {
		return st.Session
	}
	return quota.SessionID(max(0, int64(max(st.Session, st.MinSession))+rapid.Int64Range(-2, 2).Draw(w.t, "session")))
}

func (w *twins) step() {
	w.tick(quota.Micros(rapid.SampledFrom([]int64{0, 0, 1, 17, 1000, 3e4, 8e4, 1e6, 1e7, 3e9, 4e14, -1, -1e6, -1e10}).Draw(w.t, "time")))
	// Read the state of both: it advances both high-water marks.
	w.same("state", w.ref.State(w.now), state(w.t, w.real), nil, nil)
	switch rapid.IntRange(0, 16).Draw(w.t, "op") {
	case 0, 1, 2:
		w.take()
	case 3, 4, 5:
		w.takeTogether()
	case 6, 7, 8, 9:
		w.apply()
	case 10:
		key, tokens := w.key(), w.tokens("tokens")
		st := w.standing(key)
		other := w.key()
		charges := []bucket.Charge{{Key: key, Tokens: tokens, Standing: st}, {Key: other, Tokens: 1, Standing: w.standing(other)}}
		inc := w.incarnation()
		w.same("charge", nil, nil, w.ref.Charge(w.now, inc, charges), w.real.Charge(w.ctx, inc, charges))
	case 11, 12:
		session, deadline := w.session(), w.now+quota.Micros(rapid.Int64Range(-1e6, rapid.SampledFrom([]int64{2e5, 1e10, 1e10}).Draw(w.t, "far")).Draw(w.t, "deadline"))
		if w.ref.State(w.now).Session == 0 {
			session = w.ref.State(w.now).MinSession + 1
		}
		deadline, inc := max(0, deadline), w.incarnation()
		w.same("renew", nil, nil, w.ref.Renew(w.now, inc, session, deadline), w.real.Renew(w.ctx, inc, session, deadline))
	case 13:
		session := w.session()
		w.ref.Drop(session)
		w.same("drop", nil, nil, nil, w.real.Drop(w.ctx, session))
	case 14:
		w.adopt()
	case 15:
		w.lend()
	case 16:
		if rapid.Bool().Draw(w.t, "incarnate") {
			w.incarnate()
		} else {
			w.sweep()
		}
	}
}

func (w *twins) take() {
	st := w.ref.State(w.now)
	t := enforce.Take{Incarnation: w.incarnation(), Config: st.Config}
	if rapid.IntRange(0, 9).Draw(w.t, "other config") == 0 {
		t.Config++
	}
	for range rapid.IntRange(1, 3).Draw(w.t, "asks") {
		a := w.ask(w.key())
		a.Cost = w.cost(a.Key, a.Standing.Burst)
		t.Asks = append(t.Asks, a)
	}
	have, err := w.real.Take(w.ctx, t)
	if !w.ref.Current(t.Incarnation, t.Config) {
		if !errors.Is(err, enforce.ErrStale) {
			w.t.Fatalf("take: want stale, have %v", err)
		}
		return
	}
	want := enforce.TakeResult{Now: st.Now}
	want.Admitted, want.Verdicts = w.ref.Take(w.now, t.Asks)
	w.same("take", want, have, nil, err)
}

// takeTogether serves requests on several sets of buckets in one flush. The
// reference serves one set after the other, and of each its runs.
func (w *twins) takeTogether() {
	st := w.ref.State(w.now)
	type set struct {
		group *group
		runs  []bucket.Run
		stale bool
	}
	var sets []set
	var groups []*group
	for range rapid.IntRange(1, 4).Draw(w.t, "sets") {
		x := set{group: &group{incarnation: st.Incarnation, config: st.Config}}
		if x.stale = rapid.IntRange(0, 9).Draw(w.t, "stale") == 0; x.stale {
			x.group.config++
		}
		for _, key := range rapid.SampledFrom([][]quota.Key{{"a"}, {"b"}, {"a", "b"}, {"b", "c}{", "a"}, {"log"}, {"counter", "a", "log"}}).Draw(w.t, "set") {
			x.group.asks = append(x.group.asks, w.ask(key))
		}
		for range rapid.IntRange(1, 3).Draw(w.t, "runs") {
			r := bucket.Run{Count: rapid.IntRange(1, 4).Draw(w.t, "count")}
			asks := slices.Clone(x.group.asks)
			for i := range asks {
				asks[i].Cost = w.cost(asks[i].Key, asks[i].Standing.Burst) / quota.Tokens(rapid.IntRange(1, 3).Draw(w.t, "part"))
				r.Costs = append(r.Costs, asks[i].Cost)
			}
			if n := len(x.runs); n > 0 && slices.Equal(x.runs[n-1].Costs, r.Costs) {
				x.runs[n-1].Count += r.Count
			} else {
				x.runs = append(x.runs, r)
			}
			for range r.Count {
				waiter := newWaiter().(*waiter)
				waiter.asks = slices.Clone(asks)
				for i := range asks {
					waiter.asks[i].Ahead = w.ahead(asks[i].Key, asks[i].Standing)
				}
				x.group.waiters = append(x.group.waiters, waiter)
			}
		}
		sets = append(sets, x)
		groups = append(groups, x.group)
	}
	new(flusher).flush(w.real, groups)
	for _, x := range sets {
		waiters := x.group.waiters
		if x.stale {
			for _, waiter := range waiters {
				<-waiter.done
				if !errors.Is(waiter.err, enforce.ErrStale) {
					w.t.Fatalf("take together: want stale, have %v", waiter.err)
				}
			}
			continue
		}
		// Of each bucket the one who asks for the most ahead counts, and the first gets it.
		asks, first := slices.Clone(x.group.asks), make([]int, len(x.group.asks))
		for i := range asks {
			asks[i].Ahead, first[i] = 0, -1
			for j, waiter := range waiters {
				if asks[i].Ahead = max(asks[i].Ahead, waiter.asks[i].Ahead); asks[i].Ahead > 0 && first[i] < 0 {
					first[i] = j
				}
			}
		}
		left, admitted, waits, grants := w.ref.TakeRuns(w.now, asks, x.runs)
		j := 0
		for i, r := range x.runs {
			bucket.Await(left, waits[i])
			for place := range r.Count {
				<-waiters[0].done
				want := enforce.TakeResult{
					Now: st.Now, Admitted: place < admitted[i], Verdicts: bucket.Verdicts(waiters[0].asks, left, place, admitted[i]),
				}
				for i, grant := range grants {
					if first[i] == j {
						want.Verdicts[i].Grant = grant
					}
				}
				j++
				have, err := waiters[0].result(waiters[0].asks)
				w.same("take together", want, have, nil, err)
				waiters = waiters[1:]
			}
			r.Charge(x.group.asks, left, admitted[i])
		}
	}
}

func (w *twins) apply() {
	key, inc := w.key(), w.incarnation()
	rec, _ := w.ref.Read(key)
	a := quota.Assignment{
		Key: key, Session: w.session(), Lease: w.capacity(key), Credit: w.tokens("credit"),
		Epoch:   quota.Epoch(max(0, int64(rec.Epoch)+rapid.Int64Range(-1, 2).Draw(w.t, "epoch"))),
		Release: rapid.IntRange(0, 4).Draw(w.t, "release") == 0,
	}
	if rec.Drawn > 0 && rapid.Bool().Draw(w.t, "about what is drawn") {
		a.Lease.Burst = max(0, rec.Drawn+quota.Tokens(rapid.Int64Range(-1, 1).Draw(w.t, "more than drawn")))
	}
	a.Home = rapid.Bool().Draw(w.t, "home")
	ask := bucket.ApplyAsk{Assignment: a, Standing: w.standing(key)}
	if windows[key] != bucket.NoWindow {
		ask.Assignment.Home = false
		w.applied(inc, ask)
		return
	}
	switch rapid.IntRange(0, 3).Draw(w.t, "loan") {
	case 0: // lent
		ask.Assignment.Release, ask.Assignment.Credit, ask.Assignment.Home = true, 0, false
		ask.Assignment.Lease = quota.Capacity{Rate: quota.Rate{Per: a.Lease.Rate.Per}}
		ask.Assignment.Lend = w.span("lend").Duration()
	case 1: // borrowed
		loan := quota.Loan{Capacity: w.capacity(key), Credit: w.tokens("loan credit")}
		if rapid.Bool().Draw(w.t, "same period") {
			loan.Capacity.Rate.Per = a.Lease.Rate.Per
		}
		loan.Capacity.Burst = min(loan.Capacity.Burst, quota.MaxTokens-a.Lease.Burst)
		loan.Capacity.Rate.Tokens = min(loan.Capacity.Rate.Tokens, quota.MaxTokens-a.Lease.Rate.Tokens)
		loan.Credit = min(loan.Credit, quota.MaxTokens-a.Credit)
		ask.Assignment.Loan, ask.LoanUntil = &loan, max(0, w.now+w.span("until")-quota.Second)
		if rapid.Bool().Draw(w.t, "short loan") {
			ask.LoanUntil = w.now + quota.Micros(rapid.Int64Range(0, int64(bucket.DrawSpan)).Draw(w.t, "until"))
		}
	}
	w.applied(inc, ask)
}

func (w *twins) applied(inc string, ask bucket.ApplyAsk) {
	want, wantErr := w.ref.Apply(w.now, inc, ask)
	have, err := w.real.Apply(w.ctx, inc, []bucket.ApplyAsk{ask})
	if wantErr != nil {
		w.same("apply", nil, nil, wantErr, err)
		return
	}
	w.same("apply", []quota.Applied{want}, have, nil, err)
}

func (w *twins) span(name string) quota.Micros {
	return quota.Micros(rapid.Int64Range(0, 10e6).Draw(w.t, name))
}

// lend takes over what an older incarnation has lent, and reads what is lent.
func (w *twins) lend() {
	var lends []bucket.LendAsk
	for range rapid.IntRange(0, 2).Draw(w.t, "loans") {
		key := w.key()
		if windows[key] != bucket.NoWindow {
			continue // never lent
		}
		lends = append(lends, bucket.LendAsk{Key: key, Share: w.capacity(key)})
	}
	inc, span := w.incarnation(), w.span("span")
	w.same("lend", nil, nil, w.ref.Lend(w.now, inc, lends, span), w.real.Lend(w.ctx, inc, lends, span))
	have, err := w.real.Lent(w.ctx)
	w.same("lent", w.ref.Lent(w.now), have, nil, err)
	w.same("changes of what is lent", w.ref.State(w.now), state(w.t, w.real), nil, nil)
}

func (w *twins) adopt() {
	version := uint64(max(0, int64(w.ref.State(w.now).Config)+rapid.Int64Range(-1, 2).Draw(w.t, "version")))
	blob, inc := []byte(strconv.FormatUint(version, 10)), w.incarnation()
	w.same("adopt", nil, nil, w.ref.Adopt(w.now, inc, version, blob), w.real.Adopt(w.ctx, inc, version, blob))
	cur, prev := w.ref.Config()
	haveCur, havePrev, err := w.real.Config(w.ctx)
	w.same("config", [2]bucket.Adopted{cur, prev}, [2]bucket.Adopted{haveCur, havePrev}, nil, err)
	inc = w.incarnation()
	w.same("mark first", nil, nil, w.ref.MarkFirst(inc), w.real.MarkFirst(w.ctx, inc))
}

// sweep expires in Redis what is over in the reference; the lifetimes themselves
// are compared with every record.
func (w *twins) sweep() {
	for _, key := range w.ref.Sweep(w.now) {
		if err := w.real.client.Load().Del(w.ctx, w.real.bucketKey(key)).Err(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// same compares results, and errors by their sentinels.
func (w *twins) same(what string, want, have any, wantErr, haveErr error) {
	if !reflect.DeepEqual(want, have) {
		w.t.Fatalf("%s:\nreference %+v\nredis     %+v (%v)", what, want, have, haveErr)
	}
	for _, sentinel := range []error{bucket.ErrIncarnation, bucket.ErrOldSession, bucket.ErrExpired, bucket.ErrStaleEpoch, bucket.ErrOldConfig, bucket.ErrSettling} {
		if errors.Is(wantErr, sentinel) != errors.Is(haveErr, sentinel) {
			w.t.Fatalf("%s: reference %v, redis %v", what, wantErr, haveErr)
		}
	}
	if (wantErr == nil) != (haveErr == nil) {
		w.t.Fatalf("%s: reference %v, redis %v", what, wantErr, haveErr)
	}
}

// compare compares all records as they are stored.
func (w *twins) compare() {
	for _, key := range []quota.Key{"a", "b", "c}{", "log", "counter"} {
		want, wantOK := w.ref.Read(key)
		have, ok, err := w.real.Read(w.ctx, key)
		if err != nil || ok != wantOK || want != have {
			w.t.Fatalf("record %q:\nreference %v %+v\nredis     %v %+v (%v)", key, wantOK, want, ok, have, err)
		}
		if !ok {
			continue
		}
		if windows[key] != bucket.NoWindow {
			w.comparePlaces(key)
		}
		if !slices.Contains(w.past, have.Incarnation) {
			w.t.Fatalf("record %q of an incarnation that never was: %q", key, have.Incarnation)
		}
		ms, err := w.real.client.Load().HGet(w.ctx, w.real.bucketKey(key), "ttl").Int64()
		left := w.ref.Life(key)
		if err != nil || ms < 1000 || quota.Micros(ms)*1000 < left-1000 || quota.Micros(ms)*1000 > left+2000 {
			w.t.Fatalf("record %q lives %d ms in redis (%v), %d us in the reference", key, ms, err, left)
		}
	}
}
