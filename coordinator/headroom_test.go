package coordinator

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// opened returns a ledger with an account of 100/s, burst 100.
func opened(t *testing.T) *ledger.Ledger {
	t.Helper()
	l := ledger.New()
	res := l.Apply(1, ledger.Batch{Term: 1, Ops: []ledger.Op{
		ledger.Found{Cluster: "c", Shares: quota.Shares{{Region: "eu", Weight: 1}}},
		ledger.SetRules{Sources: []quota.Source{{Name: "a.yaml", Text: document}}},
		ledger.OpenSession{Region: "eu", Incarnation: "i"},
		ledger.Assign{Region: "eu", Session: 1, Key: ada, Lease: quota.Capacity{Rate: quota.Rate{Tokens: 50 * quota.Token, Per: quota.Second}, Burst: 50 * quota.Token}},
	}})
	for _, err := range res.Errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func usage(agent string, admitted quota.Tokens, window time.Duration) quota.SyncRequest {
	return quota.SyncRequest{Region: "eu", Agent: agent, Usage: []quota.Usage{{Key: ada, Admitted: admitted, Window: window}}}
}

// Whatever the windows and delays of reports: regions that together admit what a
// central bucket would never bring the headroom below zero.
func TestHeadroomOfCorrectRegionsStaysAboveZero(t *testing.T) {
	l := opened(t)
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var h headroom
		limit := quota.Capacity{Rate: quota.Rate{Tokens: 100 * quota.Token, Per: quota.Second}, Burst: 100 * quota.Token}
		level, at := limit.Burst, quota.Micros(0)
		agents := []string{"a", "b", "c"}
		since := map[string]quota.Micros{}
		sums := map[string]quota.Tokens{}
		type late struct {
			at  quota.Micros
			req quota.SyncRequest
		}
		var queue []late
		for now := quota.Micros(0); now < 30*quota.Second; now += 20_000 {
			level, _ = limit.Refill(level, now-at)
			at = now
			if r.IntN(4) > 0 { // the greediest regions there can be
				take := level - level%quota.Token
				sums[agents[r.IntN(3)]] += take
				level -= take
			}
			for _, a := range agents {
				if r.IntN(20) == 0 {
					queue = append(queue, late{now + quota.Micros(r.IntN(2_000_000)), usage(a, sums[a], (now - since[a]).Duration())})
					since[a], sums[a] = now, 0
				}
			}
			for i := 0; i < len(queue); i++ {
				if queue[i].at <= now {
					h.report(now, l, queue[i].req, false)
					queue = append(queue[:i], queue[i+1:]...)
					i--
				}
			}
		}
		if h.worst < 0 {
			t.Fatalf("seed %d: headroom %v", seed, h.worst)
		}
	}
}

func TestHeadroomShowsABrokenBound(t *testing.T) {
	l := opened(t)
	var h headroom
	for i := range quota.Micros(20) {
		h.report(i*quota.Second, l, usage("a", 200*quota.Token, time.Second), false) // twice the limit
	}
	if !h.seen || h.worst >= 0 {
		t.Errorf("have %v, want below zero", h.worst)
	}
}

// An agent that did not get an answer reports the same again on its next stream.
func TestHeadroomCountsRepeatedReportsOnce(t *testing.T) {
	l := opened(t)
	var once, twice headroom
	for i := range quota.Micros(50) {
		now := i * quota.Second
		once.report(now, l, usage("a", 100*quota.Token, time.Second), false)
		twice.report(now, l, usage("a", 100*quota.Token, time.Second), false)
		twice.report(now, l, usage("a", 100*quota.Token, time.Second), true)
	}
	if once.worst != twice.worst || once.worst < 0 {
		t.Errorf("have %v with and %v without repetitions", twice.worst, once.worst)
	}
}

func TestHeadroomForgetsKeysWithoutAccounts(t *testing.T) {
	l := opened(t)
	var h headroom
	for i := range 3000 {
		req := usage("a", quota.Token, time.Second)
		req.Usage[0].Key = quota.Key("api|user=" + string(rune('a'+i%26)))
		h.report(0, l, req, false)
	}
	if len(h.buckets) != 1 && len(h.buckets) != 0 || len(h.last) != 1 {
		t.Errorf("have %d buckets and %d agents", len(h.buckets), len(h.last))
	}
	req := usage("a", quota.Token, time.Second)
	req.Leaving = true
	h.report(0, l, req, false)
	if len(h.last) != 0 {
		t.Error("an agent that left is remembered")
	}
}

// A report does not tell in which of two windows something was admitted.
func TestHeadroomDoesNotFollowSlidingWindows(t *testing.T) {
	const key = quota.Key("api|user=ada##log+60")
	l := ledger.New()
	l.Apply(1, ledger.Batch{Term: 1, Ops: []ledger.Op{
		ledger.Found{Cluster: "c", Shares: quota.Shares{{Region: "eu", Weight: 1}}},
		ledger.SetRules{Sources: []quota.Source{{Name: "a.yaml", Text: "domain: api\ndescriptors:\n  - {key: user, rate_limit: {unit: minute, requests_per_unit: 10, quota: {algorithm: sliding_window_log}}}\n"}}},
		ledger.OpenSession{Region: "eu", Incarnation: "i"},
		ledger.Assign{Region: "eu", Session: 1, Key: key, Lease: quota.Capacity{Rate: quota.Rate{Per: 60 * quota.Second}, Burst: quota.Whole(8)}, Credit: quota.Whole(7)},
	}})
	if l.Account(key) == nil {
		t.Fatal("no account")
	}
	var h headroom
	req := usage("a", quota.Whole(100), time.Second)
	req.Usage[0].Key = key
	h.report(0, l, req, false)
	if h.seen {
		t.Errorf("have %v", h.worst)
	}
}

// After a limit was lowered, what was leased under the old one may still be spent.
func TestHeadroomAllowsForARecall(t *testing.T) {
	var b charged
	old := quota.Capacity{Rate: quota.Rate{Tokens: 100 * quota.Token, Per: quota.Second}, Burst: 100 * quota.Token}
	low := quota.Capacity{Rate: quota.Rate{Tokens: 10 * quota.Token, Per: quota.Second}, Burst: 10 * quota.Token}
	b = charged{limit: old, newer: old}
	b.level = b.full()
	for i := range quota.Micros(10) {
		if level := b.charge(i*quota.Second, low, low, 100*quota.Token, time100ms); level < 0 {
			t.Fatalf("second %d of the recall: headroom %v", i, level)
		}
	}
	for i := quota.Micros(70); i < 90; i++ {
		b.charge(i*quota.Second, low, low, 100*quota.Token, time100ms)
	}
	if b.level >= 0 {
		t.Errorf("a minute later the old limit still counts: headroom %v", b.level)
	}
}

const time100ms = quota.Second / 10
