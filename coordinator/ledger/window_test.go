package ledger

import (
	"errors"
	"fmt"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
)

func windowDocument(n int, unit string, standing float64) string {
	return fmt.Sprintf(`domain: api
descriptors:
  - key: user
    rate_limit:
      requests_per_unit: %d
      unit: %s
      quota: {standing_share: %g, algorithm: fixed_window}
`, n, unit, standing)
}

// bobs is bob's window that begins after n minutes of Unix time.
func bobs(n int) quota.Key { return quota.Key(fmt.Sprintf("api|user=bob##%d+60", 60*n)) }

const minute = 60 * quota.Second

// windowed is found with 100 requests a minute, in windows: standing shares of 10.
func windowed(t testing.TB) *driver {
	d := found(t)
	d.must(SetRules{Sources: documents[5]})
	for _, r := range []string{"ap", "eu", "us"} {
		d.adopt(r)
	}
	return d
}

func (d *driver) inWindow(region string, k quota.Key, burst, credit quota.Tokens) Assign {
	a := Assign{
		Region: region, Session: d.session(region), Key: k, Credit: credit,
		Lease: quota.Capacity{Rate: quota.Rate{Per: minute}, Burst: burst},
	}
	if acct := d.Account(k); acct != nil {
		if h, ok := acct.Holding(region); ok {
			a.Prev = h.Epoch
		}
	}
	return a
}

func (d *driver) confirmed(region string, k quota.Key, surrendered quota.Tokens) {
	d.Helper()
	h, _ := d.Account(k).Holding(region)
	d.must(Confirm{Region: region, Session: d.session(region), Key: k, Epoch: h.Epoch, Surrendered: surrendered})
}

func TestAWindowIsNeverRefilled(t *testing.T) {
	const tok = quota.Token
	d := windowed(t)
	k := bobs(7)
	d.must(d.inWindow("us", k, 50*tok, 40*tok))
	d.confirmed("us", k, 0)
	d.now += 30 * quota.Second
	if have := d.Account(k).Level(d.Clock()); have != 30*tok {
		t.Errorf("after half a minute the pool has %v, want 30", have)
	}
	d.must(EndSession{Region: "us", Session: d.session("us")})
	d.now += 30 * quota.Second
	if have := d.Account(k).Level(d.Clock()); have != 30*tok {
		t.Errorf("after the end of the session the pool has %v, want 30: what it held counts as spent", have)
	}
	if err := d.do(d.inWindow("eu", k, 41*tok, 31*tok)); !errors.Is(err, ErrCredit) {
		t.Errorf("a credit of more than there is left: have %v, want %v", err, ErrCredit)
	}
	d.must(d.inWindow("eu", bobs(8), 80*tok, 70*tok)) // the next window has all of it
	if err := d.do(Assign{Region: "eu", Session: d.session("eu"), Key: bobs(9), Lease: perSecond(50).In(minute)}); !errors.Is(err, ErrNoRoom) {
		t.Errorf("a lease with a rate: have %v, want %v", err, ErrNoRoom)
	}
}

// An account that is dropped while its window runs would come back full.
func TestAWindowsAccountIsKeptUntilNobodyIsInIt(t *testing.T) {
	const tok = quota.Token
	d := windowed(t)
	k := bobs(7)
	d.must(d.inWindow("us", k, 50*tok, 40*tok))
	d.confirmed("us", k, 0)
	d.now += windowSpan(minute) + quota.Second
	if err := d.do(Drop{Key: k}); !errors.Is(err, ErrNotIdle) {
		t.Errorf("drop with a lease: have %v, want %v", err, ErrNotIdle)
	}
	release := d.inWindow("us", k, 0, 0)
	release.Release = true
	d.must(release)
	d.confirmed("us", k, 0)
	d.now += minute + leastMargin
	if err := d.do(Drop{Key: k}); !errors.Is(err, ErrNotIdle) {
		t.Errorf("drop %v before the end of the margin: have %v, want %v", d.Account(k).Left(d.Clock()).Duration(), err, ErrNotIdle)
	}
	d.now += 2 * quota.Second
	d.must(Drop{Key: k})
	if d.Account(k) != nil {
		t.Error("the account is still there")
	}
}

func TestWindowSpan(t *testing.T) {
	for _, tt := range []struct {
		reason       string
		length, want quota.Micros
	}{
		{"a short window has the least margin", minute, 61*quota.Second + quota.Second/5 + 600*quota.Second},
		{"half an hour its own length", 1800 * quota.Second, 3636 * quota.Second},
		{"a day the most", 86400 * quota.Second, 86400*quota.Second + 1728*quota.Second + 3600*quota.Second},
	} {
		if have := windowSpan(tt.length); have != tt.want {
			t.Errorf("%s: have %v, want %v", tt.reason, have.Duration(), tt.want.Duration())
		}
	}
}

func TestBeginsAfter(t *testing.T) {
	const day = 86400 * quota.Second
	for _, tt := range []struct {
		reason    string
		per, want quota.Micros
	}{
		{"a minute, and what clocks differ by on both sides of it", minute, 61*quota.Second + quota.Second/5 + 120*quota.Second},
		{"more than the longest month in which clocks are put back", 30 * day, (31*day + 26*3600*quota.Second + 21600*quota.Second) * 51 / 50},
		{"more than the longest year", 365 * day, 366*day + 26*3600*quota.Second},
	} {
		if have := beginsAfter(tt.per); have < tt.want || tt.per == minute && have != tt.want {
			t.Errorf("%s: have %v, want %v", tt.reason, have.Duration(), tt.want.Duration())
		}
	}
}

func TestWindowsAreNotLent(t *testing.T) {
	d := windowed(t)
	d.must(d.inWindow("us", bobs(7), 50*quota.Token, 0))
	if err := d.do(Lend{Region: "eu", Session: d.session("eu"), Key: bobs(7), For: minute}); !errors.Is(err, ErrNoLoan) {
		t.Errorf("have %v, want %v", err, ErrNoLoan)
	}
}

// Where standing shares shrink, the windows that run may have spent them, and those
// that begin later have not.
func TestWindowsOpenWithoutTheTokensOfShrunkShares(t *testing.T) {
	const tok = quota.Token
	d := windowed(t)
	d.must(SetRules{Sources: documents[6]}) // standing 0.1: shares of 3
	for _, r := range []string{"ap", "eu", "us"} {
		d.adopt(r)
	}
	d.must(d.inWindow("us", bobs(7), 4*tok, 0))
	if have := d.Account(bobs(7)).Level(d.Clock()); have != 70*tok {
		t.Errorf("a window that may have begun before: have %v, want 70", have)
	}
	restored, err := Restore(d.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	d.Ledger = restored
	d.now += beginsAfter(minute) - quota.Second
	d.must(d.inWindow("us", bobs(8), 4*tok, 0))
	if have := d.Account(bobs(8)).Level(d.Clock()); have != 70*tok {
		t.Errorf("a window that may just have: have %v, want 70", have)
	}
	d.now += quota.Second
	d.must(d.inWindow("us", bobs(9), 4*tok, 0))
	if have := d.Account(bobs(9)).Level(d.Clock()); have != 90*tok {
		t.Errorf("a window that has not: have %v, want 91, less what is reserved for the lease", have)
	}
}

// An edit of the unit begins to count anew: the old windows are nobody's any more.
func TestAnEditOfTheWindowsBeginsANewCount(t *testing.T) {
	d := windowed(t)
	d.must(d.inWindow("us", bobs(60), 50*quota.Token, 0))
	d.must(SetRules{Sources: []quota.Source{{Name: "api.yaml", Text: windowDocument(100, "hour", 0.3)}}})
	if !d.Account(bobs(60)).Orphaned() {
		t.Error("the minute is still counted")
	}
	if d.Opening("api|user=bob##3600+3600") == nil || d.Opening(bobs(61)) != nil {
		t.Error("hours should be counted, and minutes should not")
	}
	if err := d.do(Assign{Region: "eu", Session: d.session("eu"), Key: bobs(61), Lease: quota.Capacity{Rate: quota.Rate{Per: minute}}}); !errors.Is(err, ErrNoRule) {
		t.Errorf("have %v, want %v", err, ErrNoRule)
	}
}
