package ledger

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
)

// anyOp draws an operation, sensible or not, against the present state.
func anyOp(t *rapid.T, l *Ledger, keys []quota.Key) Op {
	region := rapid.SampledFrom([]string{"ap", "eu", "us", "sa"}).Draw(t, "region")
	key := rapid.SampledFrom(keys).Draw(t, "key")
	var session quota.SessionID
	var incarnation string
	if r := l.Region(region); r != nil && r.Session != nil {
		session, incarnation = r.Session.ID, r.Session.Incarnation
	}
	version := l.Current().Version
	var epoch quota.Epoch
	if a := l.Account(key); a != nil {
		if h, ok := a.Holding(region); ok {
			epoch = h.Epoch
		}
	}
	tokens := func(name string) quota.Tokens { return quota.Tokens(rapid.Int64Range(0, 250_000_000).Draw(t, name)) }
	switch rapid.IntRange(0, 21).Draw(t, "kind") {
	case 16, 17:
		return Lend{Region: region, Session: session, Key: key, Prev: epoch, For: quota.Micros(rapid.Int64Range(0, 2_000_000).Draw(t, "for"))}
	case 18, 19:
		return Borrow{Region: region, Session: session, Key: key, Prev: epoch, Lenders: []string{rapid.SampledFrom([]string{"ap", "eu", "us"}).Draw(t, "lender")}}
	case 20:
		return EndLoan{Key: key, Lender: region}
	case 0:
		return OpenSession{Region: region, Incarnation: rapid.SampledFrom([]string{"i1", "i2"}).Draw(t, "incarnation"), Replaces: incarnation}
	case 1:
		return EndSession{Region: region, Session: session}
	case 2:
		return MarkSilent{Region: region, Session: session, Silent: rapid.Bool().Draw(t, "silent")}
	case 3:
		return SetRules{Sources: rapid.SampledFrom(append(documents[:len(documents):len(documents)], slidings...)).Draw(t, "document")}
	case 4:
		return AddRegion{Region: region, Weight: rapid.Int64Range(0, 5).Draw(t, "weight")}
	case 5:
		return DrainRegion{Region: region}
	case 6:
		return RemoveRegion{Region: region, Force: rapid.Bool().Draw(t, "force")}
	case 7, 8:
		return Offer{Region: region, Version: version}
	case 9, 10:
		return Adopted{Region: region, Version: version}
	case 11:
		return Drop{Key: key}
	case 12:
		return Confirm{Region: region, Session: session, Key: key, Epoch: epoch, Surrendered: tokens("surrendered")}
	}
	per := quota.Second
	a := l.Account(key)
	if a == nil {
		a = l.Opening(key)
	}
	if a != nil {
		per = a.Limit().Rate.Per
	}
	if a != nil && a.sliding() > 0 {
		return anyPlaces(t, a, Assign{Region: region, Session: session, Key: key, Prev: epoch})
	}
	return Assign{
		Region: region, Session: session, Key: key, Prev: epoch, Release: rapid.Bool().Draw(t, "release"),
		Lease:  quota.Capacity{Rate: quota.Rate{Tokens: tokens("rate"), Per: per}, Burst: tokens("burst")},
		Credit: tokens("credit"),
	}
}

func anyBatch(t *rapid.T, l *Ledger, keys []quota.Key, term *uint64, at *quota.Micros) Batch {
	if rapid.IntRange(0, 9).Draw(t, "election") == 0 {
		*term++
		*at = 0
	}
	*at += quota.Micros(rapid.Int64Range(-1000, 500_000).Draw(t, "elapsed"))
	b := Batch{Term: *term, At: max(*at, 0)}
	for range rapid.IntRange(0, 4).Draw(t, "ops") {
		b.Ops = append(b.Ops, anyOp(t, l, keys))
	}
	return b
}

// Any sequence of operations keeps I1–I3, and the state depends on nothing but
// the entries: replayed, restored from a snapshot, and with every operation
// given twice, the hash is the same (I8).
func TestAnyHistoryKeepsTheInvariants(t *testing.T) {
	keys := []quota.Key{
		userKey(t, "ann"), userKey(t, "bob"), userKey(t, "{}|=#%"), "api|nothing=x", "api|user=ann##0+60", "api|user=ann##log+1", "api|user=bob##log+1",
		"api|user=ann##override+1+100", "api|nothing=x##override+1+3",
	}
	rapid.Check(t, func(t *rapid.T) {
		l, replay, twice := New(), New(), New()
		start := Batch{Term: 1, Ops: []Op{
			Found{Cluster: "c", Shares: quota.Shares{{Region: "eu", Weight: 1}, {Region: "us", Weight: 2}}},
			SetRules{Sources: documents[0]},
		}}
		for _, l := range []*Ledger{l, replay, twice} {
			l.Apply(1, start)
		}
		term, at := uint64(1), quota.Micros(0)
		for range rapid.IntRange(1, 60).Draw(t, "entries") {
			lowered := l.Current().Version
			b := anyBatch(t, l, keys, &term, &at)
			overdrawn, unseen := overdraft(l), l.samples()
			index := l.Index() + 1
			l.Apply(index, b)
			replay.Apply(index, b)
			var doubled []Op
			for _, op := range b.Ops {
				doubled = append(doubled, op, op)
			}
			twice.Apply(index, Batch{Term: b.Term, At: b.At, Ops: doubled})

			for k, a := range l.accounts {
				pool := a.Pool()
				worse := pool.Burst < min(overdrawn[k].Burst, 0) || pool.Rate.Tokens < min(overdrawn[k].Rate.Tokens, 0)
				if worse && l.Current().Version == lowered {
					t.Fatalf("I1: pool of %s went to %v without an edit", k, pool)
				}
				if level := a.Level(l.Clock()); level < 0 || level > max(pool.Burst, 0) {
					t.Fatalf("I3: pool of %s has level %v of %v", k, level, pool)
				}
				if problem := miscounted(a); problem != "" {
					t.Fatalf("I3: %s: %s", k, problem)
				}
				for _, h := range a.held {
					if r := l.Region(h.Region); r == nil || r.Session == nil {
						t.Fatalf("I5: %s holds %s without a session", h.Region, k)
					}
				}
			}
			for k, now := range l.samples() {
				left, before := now.limit.Capacity.Sub(now.sum), unseen[k]
				if l.Current().Version == lowered && left.Burst < min(before.limit.Burst-before.sum.Burst, 0) {
					t.Fatalf("I1: the regions own %v of the limit %v of an unseen key", now.sum, now.limit.Capacity)
				}
			}
			if replay.Hash() != l.Hash() {
				t.Fatalf("I8: a replay has another hash at %d", index)
			}
			if twice.Hash() != l.Hash() {
				t.Fatalf("I8: every operation twice is not once at %d: %#v", index, b.Ops)
			}
			if rapid.IntRange(0, 7).Draw(t, "snapshot") == 0 {
				restored, err := Restore(l.Snapshot())
				if err != nil {
					t.Fatal(err)
				}
				replay = restored
			}
		}
	})
}

func overdraft(l *Ledger) map[quota.Key]quota.Capacity {
	of := map[quota.Key]quota.Capacity{}
	for k, a := range l.accounts {
		of[k] = a.Pool()
	}
	return of
}
