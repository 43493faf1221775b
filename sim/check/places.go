package check

import "github.com/quorate/quorate/coordinator/quota"

// Places is an exact sliding window: how much is admitted in any window of one length.
// It is a meter, a central limiter and a counter of what was denied in vain at once, as
// Meter, Ideal and Spare are for a bucket; use one for each. Feed it in the order of
// time. It is not safe for concurrent use.
type Places struct {
	limit    quota.Tokens
	length   quota.Micros
	log      []Admission // of the last window; Sent is when
	inside   quota.Tokens
	worst    quota.Tokens
	admitted quota.Tokens
	denied   quota.Tokens
}

// NewPlaces returns a window that is empty. Admissions that are a length apart are not
// in one window.
func NewPlaces(limit quota.Tokens, length quota.Micros) *Places {
	return &Places{limit: limit, length: length, worst: limit}
}

func (p *Places) advance(now quota.Micros) {
	n := 0
	for n < len(p.log) && p.log[n].Sent <= now-p.length {
		p.inside -= p.log[n].Cost
		n++
	}
	p.log = p.log[n:]
}

// Admit counts an admission of cost at the time at.
func (p *Places) Admit(at quota.Micros, cost quota.Tokens) {
	p.advance(at)
	p.log = append(p.log, Admission{Cost: cost, Sent: at})
	p.inside += cost
	p.admitted += cost
	p.worst = min(p.worst, p.limit-p.inside)
}

// GiveBack counts what is given back at the time at: places of the youngest admissions,
// as many as are left.
func (p *Places) GiveBack(at quota.Micros, cost quota.Tokens) {
	p.advance(at)
	for n := len(p.log); n > 0 && cost > 0; n = len(p.log) {
		last := &p.log[n-1]
		freed := min(cost, last.Cost)
		last.Cost, p.inside, cost = last.Cost-freed, p.inside-freed, cost-freed
		if last.Cost == 0 {
			p.log = p.log[:n-1]
		}
	}
}

// Admitted returns the sum of all costs.
func (p *Places) Admitted() quota.Tokens { return p.admitted }

// Headroom returns what could still be admitted at now, negative while there is too
// much in the window.
func (p *Places) Headroom(now quota.Micros) quota.Tokens {
	p.advance(now)
	return p.limit - p.inside
}

// Worst returns the smallest headroom there ever was.
func (p *Places) Worst() quota.Tokens { return p.worst }

// Offer admits an arrival of cost at the time at when the window has room, and reports
// whether it did.
func (p *Places) Offer(at quota.Micros, cost quota.Tokens) bool {
	if p.Headroom(at) < cost {
		return false
	}
	p.Admit(at, cost)
	return true
}

// Deny notes that cost was denied at the time at, and reports whether it counts, see
// Spare.
func (p *Places) Deny(at quota.Micros, cost quota.Tokens) bool {
	if !p.Offer(at, cost) {
		return false
	}
	p.denied += cost
	return true
}

// Denied returns the sum of the costs that count.
func (p *Places) Denied() quota.Tokens { return p.denied }
