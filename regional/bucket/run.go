package bucket

import "github.com/quorate/quorate/coordinator/quota"

// Run is a number of requests in a row that ask the same of the same buckets.
//
// Requests that are served in one step find no refill between them. So of a run
// the first ones are admitted, as many as the scarcest bucket has tokens for, and
// after the first denial all others are denied too: a run needs a division or two for
// each bucket, however long it is.
type Run struct {
	Count int
	Costs []quota.Tokens // of each bucket, as Ask.Cost
}

// Admit returns how many requests of the run the buckets admit. Of asks the costs are
// ignored.
func (r Run) Admit(asks []Ask, buckets []Balance) int {
	n := int64(r.Count)
	for i := range buckets {
		b, cost := &buckets[i], r.Costs[i]
		switch least := asks[i].least(cost); {
		case least == 0 || b.Holding == Allowed:
		case b.Holding == Denied || b.Level < least:
			return 0
		case cost > 0:
			// The last one that is admitted may make a debt.
			n = min(n, int64((b.Level-least)/cost)+1)
		}
	}
	return int(n)
}

// Charge takes the tokens of n admitted requests, or gives them back. Of asks the
// costs are ignored.
func (r Run) Charge(asks []Ask, buckets []Balance, n int) {
	for i := range buckets {
		asks[i].charge(&buckets[i], r.Costs[i], n)
	}
}

// Verdicts returns what one request of a run is told: asks is what it asks for,
// start the buckets before the run, which is left as it is, place its place in the
// run (0 is the first), and n how many of the run were admitted.
func Verdicts(asks []Ask, start []Balance, place, n int) []Verdict {
	verdicts := make([]Verdict, len(asks))
	for i := range asks {
		b := start[i]
		asks[i].charge(&b, asks[i].Cost, min(place, n))
		verdicts[i] = Judge(&asks[i], b, place < n)
	}
	return verdicts
}
