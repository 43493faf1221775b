package bucket

import "github.com/quorate/quorate/coordinator/quota"

// Run is a number of requests in a row that ask the same of the same buckets.
//
// Requests that are served in one step find no refill between them. So of a run
// the first ones are admitted, as many as the scarcest bucket has tokens for, and
// after the first denial all others are denied too: a run needs one division for
// each bucket, however long it is.
type Run struct {
	Count int
	Costs []quota.Tokens // of each bucket; 0 looks and charges nothing
}

// Admit returns how many requests of the run the buckets admit.
func (r Run) Admit(buckets []Balance) int {
	n := int64(r.Count)
	for i := range buckets {
		b, cost := &buckets[i], r.Costs[i]
		switch {
		case cost <= 0 || b.Holding == Allowed:
		case b.Holding == Denied:
			return 0
		default:
			n = min(n, int64(max(b.Level, 0)/cost))
		}
	}
	return int(n)
}

// Charge takes the tokens of n admitted requests.
func (r Run) Charge(buckets []Balance, n int) {
	for i := range buckets {
		if b := &buckets[i]; b.Holding != Allowed {
			b.charge(quota.Tokens(n) * max(r.Costs[i], 0))
		}
	}
}

// Verdicts returns what one request of a run is told: asks is what it asks for,
// start the buckets before the run, which is left as it is, place its place in the
// run (0 is the first), and n how many of the run were admitted.
func Verdicts(asks []Ask, start []Balance, place, n int) []Verdict {
	verdicts := make([]Verdict, len(asks))
	for i := range asks {
		b := start[i]
		if b.Holding != Allowed {
			b.charge(quota.Tokens(min(place, n)) * max(asks[i].Cost, 0))
		}
		verdicts[i] = Judge(asks[i], b, place < n)
	}
	return verdicts
}
