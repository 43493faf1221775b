package redisbucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

func TestPartitions(t *testing.T) {
	r := redistest.Run(t, "--cluster-enabled", "yes")
	ranges := make(map[int]bool)
	for p, tag := range tags {
		have, err := r.Do("CLUSTER", "KEYSLOT", "quorate:{"+tag+"}state")
		if err != nil || have != strconv.Itoa(slotOf(tag)) {
			t.Errorf("tag %q: redis says slot %s, we say %d, %v", tag, have, slotOf(tag), err)
		}
		ranges[slotOf(tag)*partitions/clusterSlots] = true
		if p != slotOf(tag)*partitions/clusterSlots {
			t.Errorf("tag %q is in slot %d, not in range %d", tag, slotOf(tag), p)
		}
	}
	if len(ranges) != partitions {
		t.Errorf("%d ranges of slots are used, want %d", len(ranges), partitions)
	}
	if partitionOf("api|user=1#hourly") != partitionOf("api|user=1#daily") {
		t.Error("limits of one descriptor are in different partitions")
	}
	seen := make(map[int]int)
	for i := range 6400 {
		seen[partitionOf(quota.Key(fmt.Sprintf("api|user=%d", i)))]++
	}
	for p := range partitions {
		if seen[p] < 50 || seen[p] > 200 {
			t.Errorf("partition %d has %d of 6400 keys", p, seen[p])
		}
	}
}

// apart returns n keys in as many partitions.
func apart(n int) (keys []quota.Key) {
	seen := make(map[int]bool)
	for i := 0; len(keys) < n; i++ {
		k := quota.Key("api|user=" + strconv.Itoa(i))
		if p := partitionOf(k); !seen[p] {
			seen[p] = true
			keys = append(keys, k)
		}
	}
	return keys
}

func TestCluster(t *testing.T) {
	c := redistest.RunCluster(t, 3, false)
	for _, tc := range []struct {
		name string
		test func(t *testing.T, c *redistest.Cluster)
	}{
		{"a store does everything", func(t *testing.T, c *redistest.Cluster) { everything(t, openAt(t, c.URL(), nil)) }},
		{"two agents see one region", testTwoAgents},
		{"K52 keys in all slots are counted", testK52},
		{"K26 what a denied request was charged is given back", testK26},
		{"a refund is bounded", testRefunds},
		{"K53 braces in keys", testK53Cluster},
		{"K51 the scripts are gone on every node", testK51Cluster},
		{"requests with many keys decide as one store would", testManyKeys},
		{"a lost reply means exactly one execution", testClusterLostReply},
		{"the minimal rights are enough and needed on every node", testClusterRights},
		{"a new version is in force in all partitions", testClusterVersions},
		{"what waits for a partition shares a call", testPartitionsShareCalls},
		{"crowds across partitions", testCrowdsAcrossPartitions},
		{"a reply lost in the middle of a request", testLostInTheMiddle},
		{"a partition that moved begins a new incarnation", testMovedPartition},
		{"a slot moves under load", testMovesUnderLoad},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, c) })
	}
}

func testTwoAgents(t *testing.T, c *redistest.Cluster) {
	a := openAt(t, c.URL(), nil)
	b := openAt(t, c.URL(), func(cfg *Config) { cfg.Prefix = a.cfg.Prefix })
	one, two := state(t, a), state(t, b)
	if one.Incarnation != two.Incarnation || one.First || a.Replaced()+b.Replaced() != "" {
		t.Fatalf("have %+v and %+v", one, two)
	}
	one = connected(t, a)
	if two = state(t, b); two.Session != 5 || two.Deadline < one.Now+50*quota.Second || two.Deadline > one.Now+60*quota.Second {
		t.Errorf("have session %d until %v at %v", two.Session, two.Deadline, one.Now)
	}
	// Either may end it, and then nobody renews it.
	if err := b.Drop(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	if st := state(t, a); st.Session != 0 || st.MinSession != 6 {
		t.Errorf("have %+v", st)
	}
	if err := a.Renew(t.Context(), one.Incarnation, 5, one.Now+60*quota.Second); !errors.Is(err, bucket.ErrOldSession) {
		t.Errorf("want %v, have %v", bucket.ErrOldSession, err)
	}
}

func testK52(t *testing.T, c *redistest.Cluster) {
	s := openAt(t, c.URL(), nil)
	st := state(t, s)
	admitted := 0
	for range 2 {
		for i := range 100 {
			if take(t, s, of(st, ask(quota.Key(fmt.Sprintf("k%d", i)), 1, full(per(1, day, 1))))).Admitted {
				admitted++
			}
		}
	}
	if admitted != 100 {
		t.Errorf("want 100 admitted, have %d", admitted)
	}
}

func testK26(t *testing.T, c *redistest.Cluster) {
	s := openAt(t, c.URL(), nil)
	st := connected(t, s)
	share := full(per(0, day, 10))
	keys := apart(51)
	empty := keys[50]
	take(t, s, of(st, ask(empty, 10, share)))
	// Half of them are leases.
	for i, k := range keys[:50] {
		if i%2 == 0 {
			a := quota.Assignment{Key: k, Session: 5, Epoch: 1, Lease: share.Capacity}
			if _, err := s.Apply(t.Context(), st.Incarnation, []bucket.ApplyAsk{{Assignment: a, Standing: share}}); err != nil {
				t.Fatal(err)
			}
		}
		take(t, s, of(st, ask(k, 1, share)))
	}
	asks := make([]bucket.Ask, 0, 51)
	for _, k := range keys[:50] {
		asks = append(asks, ask(k, 2, share))
	}
	res := take(t, s, of(st, append(asks, ask(empty, 1, share))...))
	if res.Admitted || res.Verdicts[50].Admitted {
		t.Fatalf("have %+v", res)
	}
	for i, k := range keys[:50] {
		if v := res.Verdicts[i]; !v.Admitted || v.Level != quota.Whole(9) {
			t.Errorf("%s: the verdict is %+v", k, v)
		}
		if v := take(t, s, of(st, ask(k, 0, share))).Verdicts[0]; v.Level != quota.Whole(9) {
			t.Errorf("%s: want 9 left, have %v", k, v.Level)
		}
	}
	if v := take(t, s, of(st, asks...)); !v.Admitted || v.Verdicts[0].Level != quota.Whole(7) {
		t.Errorf("without the empty one: have %+v", v)
	}
}

// A refund is refused when the bucket is no longer the one that was charged, and
// stops at the burst.
func testRefunds(t *testing.T, c *redistest.Cluster) {
	s := openAt(t, c.URL(), nil)
	st := connected(t, s)
	share := full(per(0, day, 10))
	apply := func(epoch quota.Epoch, burst uint64) {
		t.Helper()
		a := quota.Assignment{Key: "k", Session: 5, Epoch: epoch, Lease: per(0, day, burst)}
		if _, err := s.Apply(t.Context(), st.Incarnation, []bucket.ApplyAsk{{Assignment: a, Standing: share}}); err != nil {
			t.Fatal(err)
		}
	}
	level := func() quota.Tokens {
		t.Helper()
		return take(t, s, of(st, ask("k", 0, share))).Verdicts[0].Level
	}
	refund := func(g *portion) {
		t.Helper()
		s.cluster.giveBack(of(st), []*portion{g})
	}
	charge := func(n uint64) *portion {
		t.Helper()
		g := portions([]bucket.Ask{ask("k", n, share)})[0]
		l := &s.lanes[g.partition]
		w, err := s.enter(l, 0, of(st), g.asks)
		if err != nil {
			t.Fatal(err)
		}
		if g.answer = s.await(t.Context(), l, w, patient); g.answer.err != nil || g.answer.n != 1 {
			t.Fatalf("have %+v", g.answer)
		}
		return g
	}
	apply(1, 10)
	g := charge(4)
	if refund(g); level() != quota.Whole(10) {
		t.Errorf("want 10 again, have %v", level())
	}
	if refund(g); level() != quota.Whole(10) {
		t.Errorf("a second time must not exceed the burst: have %v", level())
	}
	g = charge(4)
	apply(2, 20)
	if refund(g); level() != quota.Whole(6) {
		t.Errorf("another epoch: want 6, have %v", level())
	}
	g = charge(4)
	if err := s.Renew(t.Context(), st.Incarnation, 6, st.Now+60*quota.Second); err != nil {
		t.Fatal(err)
	}
	before := level()
	if refund(g); level() != before {
		t.Errorf("another session: want %v, have %v", before, level())
	}
	g = charge(1)
	if err := s.Adopt(t.Context(), st.Incarnation, st.Config+1, []byte("next")); err != nil {
		t.Fatal(err)
	}
	refund(g)
	if st = state(t, s); level() != before-quota.Whole(1) {
		t.Errorf("another configuration: want %v, have %v", before-quota.Whole(1), level())
	}
}

func testK53Cluster(t *testing.T, c *redistest.Cluster) {
	s := openAt(t, c.URL(), nil)
	st := state(t, s)
	share := full(per(1, day, 1))
	for _, k := range []quota.Key{"a{b}c", "{", "}", "", "{}", "}{", "a b", "{06S}"} {
		if res := take(t, s, of(st, ask(k, 1, share))); !res.Admitted {
			t.Errorf("%q shares a bucket with another key", k)
		}
		if res := take(t, s, of(st, ask(k, 1, share))); res.Admitted {
			t.Errorf("%q is not counted", k)
		}
	}
	nodes := 0
	for _, n := range c.Nodes {
		if size, err := n.Do("DBSIZE"); err == nil && size != "0" {
			nodes++
		}
	}
	if nodes != 3 {
		t.Errorf("the keys are on %d nodes", nodes)
	}
}

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

// testManyKeys compares random requests with the store in memory. Nothing refills,
// so that the clocks do not matter.
func testManyKeys(t *testing.T, c *redistest.Cluster) {
	s := openAt(t, c.URL(), nil)
	st := state(t, s)
	history := 0
	rapid.Check(t, func(t *rapid.T) {
		history++
		want := bucket.NewStore()
		want.Incarnate(1, st.Incarnation)
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			var asks []bucket.Ask
			for range rapid.IntRange(1, 4).Draw(t, "keys") {
				key := quota.Key(fmt.Sprintf("h%d|k=%d#%d", history, rapid.IntRange(0, 3).Draw(t, "key"), rapid.IntRange(0, 1).Draw(t, "limit")))
				asks = append(asks, ask(key, rapid.Uint64Range(0, 4).Draw(t, "cost"), full(per(0, quota.Second, 6))))
			}
			admitted, verdicts := want.Take(2, asks)
			have := take(t, s, of(st, asks...))
			if have.Admitted != admitted {
				t.Fatalf("admitted %v, want %v: %+v", have.Admitted, admitted, asks)
			}
			for i := range verdicts {
				if have.Verdicts[i] != verdicts[i] {
					t.Errorf("ask %d of %+v:\nhave %+v\nwant %+v", i, asks, have.Verdicts[i], verdicts[i])
				}
			}
		}
	})
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

func testClusterRights(t *testing.T, c *redistest.Cluster) {
	const prefix = "rights:"
	everywhere := func(words ...string) {
		t.Helper()
		for _, n := range c.Nodes {
			if _, err := n.Do(words...); err != nil {
				t.Fatal(err)
			}
		}
	}
	everywhere(strings.Fields(strings.Replace(ACL("agent", prefix, true), ">PASSWORD", ">pw", 1))...)
	user := func(cfg *Config) { cfg.Prefix, cfg.Username, cfg.Password = prefix, "agent", "pw" }
	everything(t, openAt(t, c.URL(), user))
	for _, right := range []string{"cluster|slots", "cluster|myid", "asking", "hset"} {
		if _, err := c.Nodes[2].Do("ACL", "SETUSER", "agent", "-"+right); err != nil {
			t.Fatal(err)
		}
		_, err := openAt(t, c.URL(), user).State(t.Context())
		if !errors.Is(err, errRights) || !strings.Contains(err.Error(), "+"+right) {
			t.Errorf("without %s on one node: have %v", right, err)
		}
		if _, err := c.Nodes[2].Do("ACL", "SETUSER", "agent", "+"+right); err != nil {
			t.Fatal(err)
		}
	}
}

func testClusterVersions(t *testing.T, c *redistest.Cluster) {
	s := openAt(t, c.URL(), nil)
	old := state(t, s)
	if err := s.Adopt(t.Context(), old.Incarnation, 3, []byte("three")); err != nil {
		t.Fatal(err)
	}
	share := full(per(1, day, 1))
	for _, k := range apart(partitions) {
		if _, err := s.Take(t.Context(), of(old, ask(k, 1, share))); !errors.Is(err, enforce.ErrStale) {
			t.Errorf("%s: want %v, have %v", k, enforce.ErrStale, err)
		}
	}
	// An adopter that ended in the middle of it is made up for.
	if _, err := runInts(t.Context(), s.cluster.client, &s.scripts.adopt, evalsha(&s.scripts.adopt, s.cluster.configKeys(),
		[]any{s.cluster.view.Load().parts[0].incarnation, 4, "four", old.Incarnation})); err != nil {
		t.Fatal(err)
	}
	st := state(t, s)
	cur, prev, err := s.Config(t.Context())
	if st.Config != 4 || st.Prev != 3 || string(cur.Blob) != "four" || string(prev.Blob) != "three" || err != nil {
		t.Errorf("have %+v, %s, %s, %v", st, cur.Blob, prev.Blob, err)
	}
	for _, k := range apart(partitions) {
		take(t, s, of(st, ask(k, 1, share)))
	}
	if err := s.Adopt(t.Context(), st.Incarnation, 3, []byte("three")); !errors.Is(err, bucket.ErrOldConfig) {
		t.Errorf("want %v, have %v", bucket.ErrOldConfig, err)
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

// What the region may do is the least that any partition allows, on the region's
// clock.
func TestTheRegionIsTheLeastOfItsPartitions(t *testing.T) {
	c := &clustered{}
	v := &view{incarnation: "x"}
	var parts [partitions]partState
	for p := range parts {
		parts[p].Session, parts[p].MinSession, parts[p].Deadline, parts[p].Since = 5, 2, 1000, 10
	}
	// This clock shows 5,000 to 5,010 more.
	v.parts[9] = clock{low: 5000, high: 5010}
	parts[9].Deadline, parts[9].MinSession, parts[9].Since = 5900, 4, 5020
	st := c.sum(v, &parts)
	if st.Session != 5 || st.MinSession != 4 || st.Deadline != 890 || st.Since != 20 || st.Incarnation != "x" {
		t.Errorf("have %+v", st)
	}
	parts[30].Session = 6
	if st := c.sum(v, &parts); st.Session != 0 || st.Deadline != 0 {
		t.Errorf("a renewal that has not reached all: have %+v", st)
	}
}
