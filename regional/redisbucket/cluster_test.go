package redisbucket

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

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
		{"K26 negative hits on keys in all slots", testNegativeHits},
		{"nothing is drawn ahead", testNothingIsDrawnInACluster},
		{"sliding windows", testClusterWindows},
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
