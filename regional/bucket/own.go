package bucket

import "github.com/quorate/quorate/coordinator/quota"

// Own is a sliding log without a store: of what one agent admits while the store is
// away. Its times are rounded up to a part of the window, so that it stays small; so
// places are free that much later. The zero Own is empty.
type Own struct{ log log }

// parts is how many different times an Own can have in a window.
const parts = 64

// Balance returns what is left of burst at now.
func (o *Own) Balance(now, length quota.Micros, burst, cost quota.Tokens) Balance {
	o.log = o.log.at(now, length)
	f := frame{Places: Places{Log: o.log}, kind: LogWindow, at: now, length: length}
	b := Balance{Holding: OnStanding, Capacity: quota.Capacity{Rate: quota.Rate{Per: length}, Burst: burst}}
	f.tell(&b)
	b.Wait = f.until(&b, cost)
	return b
}

// Refund gives back what was admitted last, up to cost.
func (o *Own) Refund(now, length quota.Micros, cost quota.Tokens) {
	o.log = o.log.at(now, length).back(cost)
}

// Admit occupies places.
func (o *Own) Admit(now, length quota.Micros, cost quota.Tokens) {
	part := length/parts + 1
	o.log = o.log.at(now, length).add(now+part-1-(now+part-1)%part, cost)
}
