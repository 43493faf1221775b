package ledger

import (
	"errors"
	"fmt"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
)

// overrideKey is counted by a request's limit of 100 a second: as much as the rule's.
const overrideKey = quota.Key("api|user=bob##override+1+100")

func (d *driver) overridden(region string, tokens int64, credit quota.Tokens) Assign {
	a := Assign{Region: region, Session: d.session(region), Key: overrideKey, Lease: perSecond(tokens), Credit: credit}
	if acct := d.Account(a.Key); acct != nil {
		if h, ok := acct.Holding(region); ok {
			a.Prev = h.Epoch
		}
	}
	return a
}

// Regions share the limit of a request as they share a rule's, beside it, and of all of
// it: nobody has a standing share of a limit that nobody knew of.
func TestRegionsShareTheLimitOfARequest(t *testing.T) {
	const tok = quota.Token
	d := found(t)
	d.must(d.overridden("eu", 60, 60*tok))
	if err := d.do(d.overridden("us", 41, 0)); !errors.Is(err, ErrNoRoom) {
		t.Errorf("one token more than there is: have %v, want ErrNoRoom", err)
	}
	d.must(d.overridden("us", 40, 40*tok))
	d.must(d.assignment("us", 94, 91*tok)) // the rule's own bucket has what it had
	confirm := func(region string, surrendered quota.Tokens) {
		t.Helper()
		h, _ := d.Account(overrideKey).Holding(region)
		d.must(Confirm{Region: region, Session: d.session(region), Key: overrideKey, Epoch: h.Epoch, Surrendered: surrendered})
	}
	confirm("eu", 0)
	confirm("us", 0)

	a := d.Account(overrideKey)
	for _, r := range []string{"ap", "eu", "us"} {
		if s := a.Share(r); !s.IsZero() {
			t.Errorf("%s has a standing share of %v", r, s)
		}
	}
	if a.Rule() != "api/user" || !a.Pool().IsZero() || a.Level(d.Clock()) != 0 {
		t.Errorf("of %s the pool has %v with %v, want nothing", a.Rule(), a.Pool(), a.Level(d.Clock()))
	}
	// eu gives 25 back with what is in them, and ap takes that and no more.
	d.must(d.overridden("eu", 35, 0))
	confirm("eu", 20*tok)
	if a.Pool() != perSecond(25) || a.Level(d.Clock()) < 20*tok || a.Level(d.Clock()) > 21*tok {
		t.Errorf("the pool has %v with %v", a.Pool(), a.Level(d.Clock()))
	}
	if err := d.do(d.overridden("ap", 26, 0)); !errors.Is(err, ErrNoRoom) {
		t.Errorf("more than was given back: have %v, want ErrNoRoom", err)
	}
	if err := d.do(d.overridden("ap", 25, 22*tok)); !errors.Is(err, ErrCredit) {
		t.Errorf("more tokens than were surrendered: have %v, want ErrCredit", err)
	}
	d.must(d.overridden("ap", 25, 20*tok))
	confirm("ap", 0)
	sum := perSecond(0)
	for _, h := range a.Holdings() {
		sum = sum.Add(h.Lease)
	}
	if sum.Add(a.Pool()) != perSecond(100) {
		t.Errorf("leases %v and the pool %v are not the limit", sum, a.Pool())
	}
}

// Overrides that are switched off leave their accounts as every edit does: nothing new
// is given, and what is held comes back.
func TestOverridesThatAreSwitchedOff(t *testing.T) {
	d := found(t)
	d.must(d.overridden("eu", 60, 0))
	d.must(SetRules{Sources: []quota.Source{{Name: "api.yaml", Text: "allow_override: false\n" + document(100, "second", 0.1)}}})
	a := d.Account(overrideKey)
	if !a.Orphaned() || a.Limit().Capacity != perSecond(100) {
		t.Errorf("have %v of %q, want an orphan with its last limit", a.Limit(), a.Rule())
	}
	if d.Opening("api|user=ann##override+1+100") != nil || d.Opening("api|other=ann##override+1+100") != nil {
		t.Error("an account may be opened for an override that does not count")
	}
	d.must(SetRules{Sources: documents[0]})
	if a := d.Account(overrideKey); a.Orphaned() || a.Pool() != perSecond(40) {
		t.Errorf("switched on again: the pool has %v", a.Pool())
	}
	if a := d.Opening("api|other=ann##override+1+7"); a == nil || a.Rule() != "api#override" || a.Limit().Capacity != perSecond(7) {
		t.Errorf("what no rule matches: have %+v", a)
	}
}

// K91: any number of limits of requests leaves the memory for terms bounded.
func TestK91TermsOfOverridesAreBounded(t *testing.T) {
	d := found(t)
	before := len(d.terms.seen)
	for i := range 3 * maxOverrides {
		k := quota.Key(fmt.Sprintf("api|user=u%d##override+60+%d", i, i))
		if a := d.open(k, d.terms); a == nil || a.Limit().Burst != quota.Whole(uint64(i)) {
			t.Fatalf("%s opens as %+v", k, a)
		}
		if len(d.terms.overrides) > maxOverrides || len(d.terms.seen) != before {
			t.Fatalf("%d terms of overrides, and %d others", len(d.terms.overrides), len(d.terms.seen))
		}
	}
	one, other := d.open("api|user=a##override+60+7", d.terms), d.open("api|user=b##override+60+7", d.terms)
	if one.terms != other.terms {
		t.Error("accounts of one limit do not share their terms")
	}
}
