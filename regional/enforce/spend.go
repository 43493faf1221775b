package enforce

import (
	"time"

	"github.com/quorate/quorate/regional/bucket"
)

// spend pays the asks from allowances, all or none, and records that they are admitted.
// Where it does not, the store has to be asked, to draw for those that have too little,
// and drew called with the answer. now must not be older than the decision.
func (e *Enforcer) spend(now time.Duration, p *plan) bool {
	for _, j := range p.index {
		if p.items[j].allowance == nil {
			return false
		}
	}
	all := true
	for a, j := range p.index {
		it := &p.items[j]
		it.paid = 0
		p.asks[a].Ahead = it.allowance.spend(now, it)
		all = all && it.paid > 0
	}
	for _, j := range p.index {
		it := &p.items[j]
		switch {
		case all:
			it.asked, it.over = true, false
		case it.paid > 0:
			it.allowance.giveBack(it.ask.Cost, it.paid)
		}
	}
	p.drawn = p.drawn || all
	if all {
		p.judge(p.index, true)
	}
	return all
}

// drew ends the draws of the asks. verdicts is empty when the store did not answer.
func (e *Enforcer) drew(now time.Duration, p *plan, verdicts []bucket.Verdict, connected bool) {
	for a, j := range p.index {
		if p.asks[a].Ahead == 0 {
			continue
		}
		var v *bucket.Verdict
		if len(verdicts) > 0 {
			v = &verdicts[a]
		}
		p.items[j].allowance.drew(now, v, connected)
	}
}
