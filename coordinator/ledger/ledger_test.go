package ledger

import (
	"errors"
	"fmt"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
)

// documents are versions of one rule document, to edit back and forth.
var documents = [][]quota.Source{
	{{Name: "api.yaml", Text: document(100, "second", 0.1)}},
	{{Name: "api.yaml", Text: document(30, "second", 0.1)}},
	{{Name: "api.yaml", Text: document(2000, "minute", 0.3)}},
	{{Name: "api.yaml", Text: document(200, "second", 0.6)}},
	{{Name: "api.yaml", Text: "domain: api\ndescriptors: []\n"}},
	{{Name: "api.yaml", Text: windowDocument(100, "minute", 0.3)}},
	{{Name: "api.yaml", Text: windowDocument(100, "minute", 0.1)}},
	{{Name: "api.yaml", Text: "allow_override: false\n" + document(100, "second", 0.1)}},
}

func document(n int, unit string, standing float64) string {
	return fmt.Sprintf(`domain: api
descriptors:
  - key: user
    rate_limit:
      requests_per_unit: %d
      unit: %s
      quota: {standing_share: %g}
`, n, unit, standing)
}

func userKey(t testing.TB, name string) quota.Key {
	t.Helper()
	set, err := rules.Parse(documents[0])
	if err != nil {
		t.Fatal(err)
	}
	entries := []rules.Entry{{Key: "user", Value: name}}
	return set.Match("api", entries).Key("api", entries, 0)
}

// driver applies batches of one term, one microsecond apart unless told otherwise.
type driver struct {
	testing.TB
	*Ledger
	now quota.Micros
}

func (d *driver) do(ops ...Op) error {
	d.Helper()
	res := d.Apply(d.Index()+1, Batch{Term: 1, At: d.now, Ops: ops})
	return errors.Join(append(res.Errs, res.Refused)...)
}

func (d *driver) must(ops ...Op) {
	d.Helper()
	if err := d.do(ops...); err != nil {
		d.Fatal(err)
	}
}

// found returns a cluster of three regions that have adopted document 0: limit
// 100/s with burst 100, standing shares of 3 tokens each.
func found(t testing.TB) *driver {
	d := &driver{TB: t, Ledger: New()}
	d.must(
		Found{Cluster: "c1", Shares: quota.Shares{{Region: "eu", Weight: 1}, {Region: "us", Weight: 1}, {Region: "ap", Weight: 1}}},
		SetRules{Sources: documents[0]},
	)
	for _, r := range []string{"ap", "eu", "us"} {
		d.must(OpenSession{Region: r, Incarnation: r + "-1"})
		d.adopt(r)
	}
	return d
}

func (d *driver) adopt(region string) {
	d.Helper()
	v := d.Current().Version
	d.must(Offer{Region: region, Version: v}, Adopted{Region: region, Version: v})
}

func (d *driver) session(region string) quota.SessionID { return d.Region(region).Session.ID }

func perSecond(tokens int64) quota.Capacity {
	return quota.Capacity{Rate: quota.Rate{Tokens: quota.Tokens(tokens) * quota.Token, Per: quota.Second}, Burst: quota.Tokens(tokens) * quota.Token}
}

func (d *driver) assignment(region string, tokens int64, credit quota.Tokens) Assign {
	a := Assign{Region: region, Session: d.session(region), Key: userKey(d, "bob"), Lease: perSecond(tokens), Credit: credit}
	if acct := d.Account(a.Key); acct != nil {
		if h, ok := acct.Holding(region); ok {
			a.Prev = h.Epoch
		}
	}
	return a
}

func (d *driver) confirmation(region string, surrendered quota.Tokens) Confirm {
	h, _ := d.Account(userKey(d, "bob")).Holding(region)
	return Confirm{Region: region, Session: d.session(region), Key: userKey(d, "bob"), Epoch: h.Epoch, Surrendered: surrendered}
}

func TestAssignIsRefusedWhatBreaksTheSums(t *testing.T) {
	const tok = quota.Token
	for _, tt := range []struct {
		reason string
		op     func(d *driver) Assign
		want   error
	}{
		{"all that the shares of the others leave", func(d *driver) Assign { return d.assignment("us", 94, 91*tok) }, nil},
		{"one token more than they leave", func(d *driver) Assign { return d.assignment("us", 95, 0) }, ErrNoRoom},
		{"more credit than the growth of burst", func(d *driver) Assign { return d.assignment("us", 13, 11*tok) }, ErrCredit},
		{"a lease below the standing share", func(d *driver) Assign { return d.assignment("us", 2, 0) }, ErrBelowShare},
		{"another session", func(d *driver) Assign { a := d.assignment("us", 9, 0); a.Session = 99; return a }, ErrSession},
		{"an unknown region", func(d *driver) Assign { a := d.assignment("us", 9, 0); a.Region = "sa"; return a }, ErrUnknownRegion},
		{"a key that no rule counts", func(d *driver) Assign { a := d.assignment("us", 9, 0); a.Key = "api|nobody=x"; return a }, ErrNoRule},
		{"a lease in another period", func(d *driver) Assign { a := d.assignment("us", 9, 0); a.Lease.Rate.Per = 7; return a }, ErrInvalid},
		{"a negative credit", func(d *driver) Assign { return d.assignment("us", 9, -1) }, ErrInvalid},
		{"a lease that never was released", func(d *driver) Assign { a := d.assignment("us", 0, 0); a.Release = true; return a }, ErrNoRule},
	} {
		d := found(t)
		before := d.Len()
		err := d.do(tt.op(d))
		if !errors.Is(err, tt.want) || (tt.want == nil) != (err == nil) {
			t.Errorf("%s: have %v, want %v", tt.reason, err, tt.want)
		}
		if err != nil && d.Len() != before {
			t.Errorf("%s: a refusal opened an account", tt.reason)
		}
	}
}

// The whole way of a token: pool, flight, region, and back.
func TestTokensTravelWithCapacity(t *testing.T) {
	const tok = quota.Token
	d := found(t)
	key := userKey(t, "bob")
	check := func(reason string, pool int64, level quota.Tokens) {
		t.Helper()
		a := d.Account(key)
		if have := a.Pool().Burst; have != quota.Tokens(pool)*tok {
			t.Errorf("%s: pool burst %v, want %d", reason, have, pool)
		}
		if have := a.Level(d.Clock()); have != level {
			t.Errorf("%s: pool level %v, want %v", reason, have, level)
		}
	}
	d.must(d.assignment("us", 53, 50*tok))
	check("a growth takes capacity and credit at commit", 41, 41*tok)
	if err := d.do(d.assignment("us", 60, 0)); !errors.Is(err, ErrEpoch) && !errors.Is(err, ErrInFlight) {
		t.Errorf("a second assignment in flight: have %v", err)
	}
	d.must(d.confirmation("us", 0))
	check("a confirmed growth frees nothing", 41, 41*tok)
	d.must(d.assignment("us", 13, 0))
	check("a shrink frees nothing before it is confirmed", 41, 41*tok)
	d.must(d.confirmation("us", 25*tok))
	check("a confirmed shrink frees burst and what the region surrendered", 81, 66*tok)
	d.must(d.assignment("eu", 43, 40*tok))
	check("another region grows from it", 41, 26*tok)
	d.must(EndSession{Region: "eu", Session: d.session("eu")})
	check("the end of a session returns capacity and no tokens", 81, 26*tok)
	d.now += quota.Second / 4
	d.must()
	check("the pool refills at its own rate on the ledger clock", 81, 26*tok+81*tok/4)
	if err := d.do(Drop{Key: key}); !errors.Is(err, ErrNotIdle) {
		t.Errorf("dropping an account in use: have %v", err)
	}
	d.must(Assign{Region: "us", Session: d.session("us"), Key: key, Prev: 2, Release: true})
	d.must(d.confirmation("us", 0))
	d.now += quota.Second
	d.must(Drop{Key: key})
	if d.Len() != 0 {
		t.Errorf("account is still there")
	}
}

func TestAShareThatGrowsWaitsForRoom(t *testing.T) {
	d := found(t)
	d.must(d.assignment("us", 94, 0), d.confirmation2("us"))
	d.must(SetRules{Sources: documents[3]}) // standing 0.6 of 200: 40 each
	v := d.Current().Version
	// The limit has doubled, so the pool has 100: two regions fit, in any order.
	d.must(Offer{Region: "eu", Version: v}, Offer{Region: "ap", Version: v})
	if have := d.Account(userKey(t, "bob")).Pool().Burst; have != (200-94-80)*quota.Token {
		t.Errorf("pool after two offers: have %v, want 26", have)
	}
	// Going back to a tenth frees the shares only when the regions confirm it.
	d.must(Adopted{Region: "eu", Version: v}, SetRules{Sources: documents[0]})
	if have := d.Account(userKey(t, "bob")).Pool().Burst; have != (100-94-80)*quota.Token {
		t.Errorf("pool after the limit was lowered: have %v, want -74", have)
	}
	if err := d.do(d.assignment("us", 95, 0)); !errors.Is(err, ErrNoRoom) {
		t.Errorf("growing from an overdrawn pool: have %v, want %v", err, ErrNoRoom)
	}
	d.must(d.assignment("us", 10, 0)) // shrinking always goes
}

// A region that cannot be reached goes on with the share it has confirmed, also of
// keys that nobody has asked for yet.
func TestAShareThatGrowsWaitsForRoomInUnseenKeysToo(t *testing.T) {
	d := found(t)
	d.must(SetRules{Sources: []quota.Source{{Name: "api.yaml", Text: document(100, "second", 0.9)}}}) // 30 each
	for _, r := range []string{"eu", "us", "ap"} {
		d.adopt(r)
	}
	d.must(DrainRegion{Region: "us"}, DrainRegion{Region: "ap"}) // 90 for eu alone
	v := d.Current().Version
	if err := d.do(Offer{Region: "eu", Version: v}); !errors.Is(err, ErrNoRoom) {
		t.Errorf("offer 90 beside 60 that two regions have not given up yet: have %v, want %v", err, ErrNoRoom)
	}
	d.adopt("us")
	if err := d.do(Offer{Region: "eu", Version: v}); !errors.Is(err, ErrNoRoom) {
		t.Errorf("offer 90 beside 30: have %v, want %v", err, ErrNoRoom)
	}
	d.adopt("ap")
	d.must(Offer{Region: "eu", Version: v})
}

// confirmation2 confirms the assignment made earlier in the same batch.
func (d *driver) confirmation2(region string) Confirm {
	return Confirm{Region: region, Session: d.session(region), Key: userKey(d, "bob"), Epoch: d.Region(region).Session.Epochs + 1}
}

// Shares that were spent and then taken away must not come back as a full pool.
func TestAnAccountOpensWithoutTheTokensOfShrunkShares(t *testing.T) {
	const tok = quota.Token
	d := found(t)
	d.must(SetRules{Sources: documents[3]}) // standing 0.6 of 200
	for _, r := range []string{"ap", "eu", "us"} {
		d.adopt(r)
	}
	d.must(SetRules{Sources: []quota.Source{{Name: "api.yaml", Text: document(200, "second", 0)}}})
	for _, r := range []string{"ap", "eu", "us"} {
		d.adopt(r)
	}
	d.must(d.assignment("us", 1, 0))
	if have := d.Account(userKey(t, "bob")).Level(d.Clock()); have != 80*tok-0 {
		t.Errorf("level of the pool at once: have %v, want 80: the regions may have spent their 120", have)
	}
	d.now += 10 * quota.Second
	d.must(Assign{Region: "us", Session: d.session("us"), Key: userKey(t, "eve"), Lease: perSecond(1)})
	if have := d.Account(userKey(t, "eve")).Level(d.Clock()); have < 199*tok {
		t.Errorf("level of the pool after time to full: have %v, want 199", have)
	}
}

func TestSessions(t *testing.T) {
	d := found(t)
	first := d.session("us")
	for _, tt := range []struct {
		reason string
		op     Op
		want   error
	}{
		{"the same incarnation re-attaches, it does not open", OpenSession{Region: "us", Incarnation: "us-1"}, ErrSessionLive},
		{"a second store behind the same name", OpenSession{Region: "us", Incarnation: "us-2"}, ErrSessionLive},
		{"one that names the wrong predecessor", OpenSession{Region: "us", Incarnation: "us-2", Replaces: "us-0"}, ErrSessionLive},
		{"an old session cannot be ended", EndSession{Region: "us", Session: first + 40}, ErrSession},
		{"nor marked", MarkSilent{Region: "us", Session: first + 40, Silent: true}, ErrSession},
		{"an unknown region", OpenSession{Region: "sa", Incarnation: "x"}, ErrUnknownRegion},
	} {
		if err := d.do(tt.op); !errors.Is(err, tt.want) {
			t.Errorf("%s: have %v, want %v", tt.reason, err, tt.want)
		}
	}
	d.must(OpenSession{Region: "us", Incarnation: "us-2", Replaces: "us-1"})
	if have := d.session("us"); have <= first {
		t.Errorf("a replacing session has number %d, want more than %d", have, first)
	}
	if have := d.Region("us").First; have != "us-1" {
		t.Errorf("first incarnation: have %q, want us-1", have)
	}
	d.must(MarkSilent{Region: "us", Session: d.session("us"), Silent: true})
	d.now += 3 * quota.Second
	d.must()
	if s := d.Region("us").Session; d.Clock()-s.SilentSince != 3*quota.Second {
		t.Errorf("silent for %v, want 3 s", d.Clock()-s.SilentSince)
	}
}

func TestTheClockStandsStillAcrossTerms(t *testing.T) {
	l := New()
	for _, tt := range []struct {
		reason string
		batch  Batch
		want   quota.Micros
		err    error
	}{
		{"a term starts the count", Batch{Term: 1, At: 500}, 0, nil},
		{"time of one leader is added", Batch{Term: 1, At: 700}, 200, nil},
		{"it never goes back", Batch{Term: 1, At: 600}, 200, nil},
		{"and what went back is not counted twice", Batch{Term: 1, At: 800}, 300, nil},
		{"a new leader adds nothing", Batch{Term: 3, At: 900_000}, 300, nil},
		{"a deposed leader is refused (raft#695)", Batch{Term: 1, At: 1_000_000}, 300, ErrOldTerm},
		{"the new one goes on", Batch{Term: 3, At: 900_010}, 310, nil},
	} {
		res := l.Apply(l.Index()+1, tt.batch)
		if !errors.Is(res.Refused, tt.err) {
			t.Errorf("%s: have %v, want %v", tt.reason, res.Refused, tt.err)
		}
		if l.Clock() != tt.want {
			t.Errorf("%s: clock %d, want %d", tt.reason, l.Clock(), tt.want)
		}
	}
}

func TestARegionThatJoinsLateStartsWithoutTokens(t *testing.T) {
	d := found(t)
	d.must(AddRegion{Region: "sa", Weight: 1}, OpenSession{Region: "sa", Incarnation: "sa-1"})
	if r := d.Region("sa"); r.First != "" || !r.Late {
		t.Errorf("late region: have first %q late %v", r.First, r.Late)
	}
	if err := d.do(RemoveRegion{Region: "sa"}); !errors.Is(err, ErrNotDrained) {
		t.Errorf("removing a region in use: have %v", err)
	}
	d.must(DrainRegion{Region: "sa"})
	d.adopt("sa")
	d.must(EndSession{Region: "sa", Session: d.session("sa")}, RemoveRegion{Region: "sa"})
	if d.Region("sa") != nil {
		t.Error("region is still there")
	}
}

func TestABadDocumentChangesNothing(t *testing.T) {
	d := found(t)
	before := d.Current().Version
	err := d.do(SetRules{Sources: []quota.Source{{Name: "x.yaml", Text: "domain: x\nbogus: 1\n"}}})
	if !errors.Is(err, ErrRules) {
		t.Errorf("have %v, want %v", err, ErrRules)
	}
	for _, version := range []uint64{0, 7} {
		if err := d.do(SetRules{Sources: documents[1], IfVersion: &version}); !errors.Is(err, ErrVersion) {
			t.Errorf("from version %d: have %v, want %v", version, err, ErrVersion)
		}
	}
	if d.Current().Version != before {
		t.Error("version moved")
	}
}

// A region that hears of a rule later than others starts its share full, so the
// tokens must still be there: an account opened before keeps them back.
func TestASharePendingAdoptionIsKeptBack(t *testing.T) {
	const tok = quota.Token
	d := &driver{TB: t, Ledger: New()}
	d.must(
		Found{Cluster: "c1", Shares: quota.Shares{{Region: "eu", Weight: 1}, {Region: "us", Weight: 1}}},
		SetRules{Sources: documents[0]},
		OpenSession{Region: "us", Incarnation: "us-1"},
	)
	d.adopt("us")
	if err := d.do(d.assignment("us", 96, 0)); !errors.Is(err, ErrNoRoom) {
		t.Errorf("taking the share of a region that has not adopted yet: have %v, want %v", err, ErrNoRoom)
	}
	d.must(d.assignment("us", 95, 90*tok))
	d.must(OpenSession{Region: "eu", Incarnation: "eu-1"})
	d.adopt("eu")
	if have := d.Region("eu").First; have != "eu-1" {
		t.Errorf("first incarnation: have %q, want eu-1", have)
	}

	// A region that has adopted nothing when the rules change begins empty.
	d.must(AddRegion{Region: "ap", Weight: 1}, OpenSession{Region: "ap", Incarnation: "ap-1"})
	late := &driver{TB: t, Ledger: New()}
	late.must(
		Found{Cluster: "c1", Shares: quota.Shares{{Region: "eu", Weight: 1}}},
		SetRules{Sources: documents[0]},
		OpenSession{Region: "eu", Incarnation: "eu-1"},
		SetRules{Sources: documents[1]},
	)
	if r := late.Region("eu"); r.First != "" || !r.Late {
		t.Errorf("after a change of the rules: have first %q late %v", r.First, r.Late)
	}
}
