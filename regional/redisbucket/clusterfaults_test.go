package redisbucket

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

func testK51Cluster(t *testing.T, c *redistest.Cluster) {
	s := openAt(t, c.URL(), nil)
	st := connected(t, s)
	share := full(per(0, day, 10))
	flush := func() {
		t.Helper()
		for _, n := range c.Nodes {
			if _, err := n.Do("SCRIPT", "FLUSH"); err != nil {
				t.Fatal(err)
			}
		}
	}
	keys := apart(20)
	for i, k := range keys {
		if i%5 == 0 {
			flush()
		}
		if res := take(t, s, of(st, ask(k, 1, share))); !res.Admitted {
			t.Errorf("%s: have %+v", k, res)
		}
	}
	take(t, s, of(st, ask(keys[0], 9, share)))
	var asks []bucket.Ask
	var applies []bucket.ApplyAsk
	for _, k := range keys[1:] {
		asks = append(asks, ask(k, 1, share))
		applies = append(applies, bucket.ApplyAsk{Assignment: quota.Assignment{Key: k, Session: 5, Epoch: 1, Lease: share.Capacity}, Standing: share})
	}
	flush()
	if res := take(t, s, of(st, append(asks, ask(keys[0], 1, share))...)); res.Admitted {
		t.Errorf("have %+v", res)
	}
	for _, k := range keys[1:] {
		if v := take(t, s, of(st, ask(k, 0, share))).Verdicts[0]; v.Level != quota.Whole(9) {
			t.Errorf("%s: a refund without its script: have %v", k, v.Level)
		}
	}
	flush()
	if done, err := s.Apply(t.Context(), st.Incarnation, applies); err != nil || len(done) != len(applies) {
		t.Errorf("have %d applied, %v", len(done), err)
	}
	flush()
	state(t, s)
	if err := s.Renew(t.Context(), st.Incarnation, 5, st.Now+61*quota.Second); err != nil {
		t.Error(err)
	}
}

// lossy loses the reply to a call on a bucket, with the connection: to the next one
// when lose is 1, to the one after it when lose is 2.
type lossy struct {
	net.Conn
	lose *atomic.Int64
	sent *atomic.Int64
	lost bool
}

func (l *lossy) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("}b:")) {
		l.sent.Add(1)
		l.lost = l.lose.Add(-1) == 0
	}
	return l.Conn.Write(b)
}

func (l *lossy) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b) // the script has run
	if l.lost && err == nil {
		_ = l.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

func lossyDialer(lose, sent *atomic.Int64) func(context.Context, string, string) (net.Conn, error) {
	return func(_ context.Context, network, addr string) (net.Conn, error) {
		conn, err := net.Dial(network, addr)
		if err != nil {
			return nil, err
		}
		return &lossy{Conn: conn, lose: lose, sent: sent}, nil
	}
}

func testClusterLostReply(t *testing.T, c *redistest.Cluster) {
	s := openAt(t, c.URL(), nil)
	var lose, sent atomic.Int64
	s.cluster.client.Options().Dialer = lossyDialer(&lose, &sent)
	st := connected(t, s)
	share := full(per(0, day, 100))
	keys := apart(3)
	for _, tc := range []struct {
		name string
		do   func(k quota.Key) error
		want quota.Tokens
	}{
		{"take", func(k quota.Key) error { return second(s.Take(t.Context(), of(st, ask(k, 1, share)))) }, quota.Whole(99)},
		{"charge", func(k quota.Key) error {
			return s.Charge(t.Context(), st.Incarnation, []bucket.Charge{{Key: k, Tokens: quota.Whole(1), Standing: share}})
		}, quota.Whole(99)},
		{"apply in a pipeline", func(k quota.Key) error {
			a := quota.Assignment{Key: k, Session: 5, Epoch: 1, Lease: per(0, day, 200), Credit: quota.Whole(10)}
			return second(s.Apply(t.Context(), st.Incarnation, []bucket.ApplyAsk{{Assignment: a, Standing: share}}))
		}, quota.Whole(110)},
	} {
		key := keys[0]
		keys = keys[1:]
		before := sent.Load()
		lose.Store(1)
		if err := tc.do(key); !errors.Is(err, enforce.ErrStoreDown) {
			t.Errorf("%s: want %v, have %v", tc.name, enforce.ErrStoreDown, err)
		}
		if n := sent.Load() - before; n != 1 {
			t.Errorf("%s: sent %d times", tc.name, n)
		}
		if rec, ok, err := s.Read(t.Context(), key); err != nil || !ok || rec.Level != tc.want {
			t.Errorf("%s: want level %v, have %v %v %v", tc.name, tc.want, rec.Level, ok, err)
		}
	}
	if rec, _, err := s.Read(t.Context(), apart(1)[0]); err != nil || rec.Incarnation != st.Incarnation {
		t.Errorf("a record is of the region's incarnation: have %q, %v", rec.Incarnation, err)
	}
}

func testMovedPartition(t *testing.T, c *redistest.Cluster) {
	s := openAt(t, c.URL(), nil)
	other := openAt(t, c.URL(), func(cfg *Config) { cfg.Prefix = s.cfg.Prefix })
	st := connected(t, s)
	state(t, other)
	share := full(per(0, day, 10))
	moved, stays := apart(partitions)[0], apart(partitions)[1]
	for _, k := range apart(partitions) {
		take(t, s, of(st, ask(k, 1, share)))
	}
	slot := slotOf(tags[partitionOf(moved)])
	from := c.Nodes[slot*3/clusterSlots]
	to := c.Nodes[(slot*3/clusterSlots+1)%3]
	if err := c.Move(slot, from, to); err != nil {
		t.Fatal(err)
	}
	// Its clock and its data are another node's now: nobody may use the old view there.
	for _, agent := range []*Store{s, other} {
		if _, err := agent.Take(t.Context(), of(st, ask(moved, 1, share))); !errors.Is(err, enforce.ErrStale) {
			t.Errorf("want %v, have %v", enforce.ErrStale, err)
		}
	}
	now := state(t, s)
	if now.Incarnation == st.Incarnation || now.Session != 0 || now.MinSession != 6 || s.Replaced() != st.Incarnation {
		t.Errorf("have %+v, replaced %q", now, s.Replaced())
	}
	// And from then on nowhere, whatever it may be late with.
	if _, err := other.Take(t.Context(), of(st, ask(stays, 1, share))); !errors.Is(err, enforce.ErrStale) {
		t.Errorf("want %v, have %v", enforce.ErrStale, err)
	}
	if err := other.Renew(t.Context(), st.Incarnation, 7, st.Now+60*quota.Second); !errors.Is(err, enforce.ErrStale) {
		t.Errorf("want %v, have %v", enforce.ErrStale, err)
	}
	if again := state(t, other); again.Incarnation != now.Incarnation || other.Replaced() != st.Incarnation {
		t.Errorf("have %+v, replaced %q", again, other.Replaced())
	}
	empty := bucket.Standing{Capacity: share.Capacity, From: now.Since}
	if res := take(t, s, of(now, ask(moved, 1, empty))); res.Admitted {
		t.Errorf("its record is void and its share starts empty: have %+v", res)
	}
	if res := take(t, s, of(now, ask(stays, 1, empty))); !res.Admitted || res.Verdicts[0].Level != quota.Whole(8) {
		t.Errorf("the others' records go on: have %+v", res)
	}
}

// K54 in a cluster: a primary dies under load and its replica takes over.
func TestK54AClusterReplacesAPrimary(t *testing.T) {
	c := redistest.RunCluster(t, 3, true)
	s := openAt(t, c.URL(), func(cfg *Config) { cfg.Timeout, cfg.DialTimeout, cfg.Budget, cfg.PoolSize = 0, 0, 0, 8 }) // the defaults
	st := connected(t, s)
	share := full(per(1_000_000, quota.Second, 1_000_000))
	keys := apart(partitions)
	var applies []bucket.ApplyAsk
	for _, k := range keys {
		applies = append(applies, bucket.ApplyAsk{Assignment: quota.Assignment{Key: k, Session: 5, Epoch: 1, Lease: share.Capacity}, Standing: share})
	}
	if done, err := s.Apply(t.Context(), st.Incarnation, applies); err != nil || len(done) != len(keys) {
		t.Fatal(len(done), err)
	}
	var next atomic.Int64
	var log bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&log, nil)) // before anything but this test uses it
	l := startLoad(t, s, 16, func() bucket.Ask { return ask(keys[next.Add(1)%partitions], 1, share) })
	if err := c.Nodes[0].Kill(); err != nil {
		t.Fatal(err)
	}
	promoted := primaryAgain(t, c.Nodes[3])
	// Another agent, or this one's loop, reads the state all the time.
	var now bucket.State
	eventually(t, 20*time.Second, "a new incarnation", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var err error
		now, err = s.State(ctx)
		return err == nil && now.Incarnation != st.Incarnation
	})
	eventually(t, 10*time.Second, "an answer in it", func() bool { return l.view.Load().Incarnation == now.Incarnation })
	t.Logf("served again %v after the replica took over; the longest call took %v",
		time.Since(promoted).Round(time.Millisecond), time.Duration(l.longest.Load()).Round(time.Millisecond))
	before := l.answers.Load()
	eventually(t, 10*time.Second, "answers go on", func() bool { return l.answers.Load() > before+100 })
	l.end()
	if have := time.Duration(l.longest.Load()); have > 2*time.Second {
		t.Errorf("a call took %v", have)
	}
	if now.Session != 0 || now.MinSession != 6 || s.Replaced() != st.Incarnation {
		t.Errorf("have %+v, replaced %q", now, s.Replaced())
	}
	if have := strings.Count(log.String(), "does not answer"); have > 3 {
		t.Errorf("one node that is away is told %d times:\n%s", have, &log)
	}
	for _, k := range keys {
		if v := take(t, s, of(now, ask(k, 0, share))).Verdicts[0]; v.Holding != bucket.OnStanding {
			t.Errorf("%s: the lease is void, everywhere: have %+v", k, v)
		}
	}
}

func TestAClockThatJumpedIsNoticed(t *testing.T) {
	ms := func(n int64) quota.Micros { return quota.Micros(n * 1000) }
	for _, tc := range []struct {
		reason    string
		low, high quota.Micros
		want      bool
	}{
		{"as before", ms(100), ms(102), false},
		{"a slow reading", ms(0), ms(900), false},
		{"a little drift", ms(300), ms(302), false},
		{"forward", ms(400), ms(402), true},
		{"back", ms(-200), ms(-198), true},
	} {
		c := &clustered{}
		last := &view{incarnation: "a"}
		last.parts[7] = clock{low: ms(100), high: ms(103)}
		c.view.Store(last)
		now := &view{incarnation: "a"}
		now.parts[7] = clock{low: tc.low, high: tc.high}
		if p, have := c.jumped(now); have != tc.want || have && p != 7 {
			t.Errorf("%s: have %v in %d, want %v", tc.reason, have, p, tc.want)
		}
		now.incarnation = "b"
		if _, have := c.jumped(now); have {
			t.Errorf("%s: another incarnation has another clock", tc.reason)
		}
	}
}
