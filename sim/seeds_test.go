package sim

import "testing"

// Seeds of long sweeps that once broke a promise, each with what it had met.
func TestSeedsThatOnceBrokeAPromise(t *testing.T) {
	for seed, met := range map[uint64]string{
		16826:  "a region that waits for its rules, and others with a little too much each",
		44450:  "the same, after a minute in which the region reached nobody",
		21230:  "a configuration pushed to a life of the store that was over, by a leader that was deposed",
		35510:  "the same, late by seconds of jitter",
		25912:  "the same, held back by a cut",
		12611:  "a borrower out of reach for a whole loan, whose lender has lent to another since",
		24775:  "the same",
		10763:  "the same",
		33042:  "a share that grew while it was lent, for which nobody made room",
		21406:  "a request that was planned again when the window in which it came was over",
		8161:   "a loan in flight that ended: the tokens of both in it are gone, which the auditor did not know",
		33548:  "messages so close together that the leader, as it is simulated here, put off its rounds for ever",
		89798:  "the same, with a millisecond on the way",
		100365: "a loan on its way to its borrower when the leader was deposed, whose lender asked for something again",
		43340:  "46 microseconds after a request, which a clock that is read in whole ones shows as 47",
		43399:  "a standing share of a sliding window that grew while a lease was on its way",
		10019:  "an account of a sliding window whose first lease was refused, so that nobody got one",
		57923:  "regions with modest demand in a sliding window, and a greedy one: the check forgot that arrivals vary",
		64063:  "a loan whose lender answered when it was long over, and used its share again",
		14144:  "a release that had to leave a lease of which the ledger knew nothing, and a share that shrank then",
		303390: "a small region that was short of what three others had a little too much",
		304413: "another one",
		709:    "a lender whose loan ended before anybody had taken it, and who heard nothing of that",
		94386:  "a loan on a store clock that stood still, used after its end, for which the auditor made no exception",
	} {
		r, err := Run(Draw(seed), seed)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range r.Violations {
			t.Errorf("seed %d (%s): %s is broken at %v: %s", seed, met, v.Promise, v.At.Duration(), v.What)
		}
	}
}
