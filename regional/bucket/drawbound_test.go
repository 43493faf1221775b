package bucket

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
)

// purse is what agents have drawn and may still use, on a clock that never goes back.
type purse []struct {
	tokens quota.Tokens
	until  quota.Micros
}

func (p *purse) put(now quota.Micros, g Grant) {
	*p = append(*p, struct {
		tokens quota.Tokens
		until  quota.Micros
	}{g.Tokens, now + g.Span})
}

func (p purse) usable(now quota.Micros) (sum quota.Tokens) {
	for _, g := range p {
		if now < g.until {
			sum += g.tokens
		}
	}
	return sum
}

// use uses some of one grant.
func (p purse) use(t *rapid.T, now quota.Micros) (used quota.Tokens) {
	for i := range p {
		if now < p[i].until && p[i].tokens > 0 && rapid.Bool().Draw(t, "use this") {
			used = quota.Tokens(rapid.Int64Range(1, int64(p[i].tokens)).Draw(t, "used"))
			p[i].tokens -= used
			return used
		}
	}
	return 0
}

// TestBoundWithDraws checks the Bound for every interval of a random history of one
// standing share of which tokens are drawn: a token counts when it is used, and it is
// used at any moment that its Grant allows.
func TestBoundWithDraws(t *testing.T) {
	draws := 0
	rapid.Check(t, func(t *rapid.T) {
		c := anyCapacity(t)
		s := region()
		var log []event
		var p purse
		at, real := start, quota.Micros(0) // the clock may be set back, time cannot
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			step := quota.Micros(rapid.Int64Range(-1000, 60_000).Draw(t, "step"))
			at, real = at+step, real+max(step, 0)
			if cost := p.use(t, real); cost > 0 {
				log = append(log, event{real, cost})
			}
			a := Ask{
				Key: "k", Standing: full(c),
				Cost:  quota.Tokens(rapid.Int64Range(0, max(1, int64(c.Burst))/rapid.Int64Range(1, 20).Draw(t, "part")).Draw(t, "cost")),
				Ahead: quota.Tokens(rapid.Int64Range(0, int64(c.Burst)/4).Draw(t, "ahead")),
			}
			admitted, v := s.Take(at, []Ask{a})
			if admitted {
				log = append(log, event{real, a.Cost})
			}
			if v[0].Grant.Tokens > 0 {
				draws++
				p.put(real, v[0].Grant)
			}
			if rapid.IntRange(0, 9).Draw(t, "sweep") == 0 {
				s.Sweep(at)
			}
		}
		withinBound(t, c, 0, log)
	})
	if draws == 0 {
		t.Error("nothing was ever drawn")
	}
}

// TestPotentialOfALeaseWithDraws follows a lease that grows, shrinks, borrows and ends
// while tokens of it are drawn. The level and what is still usable of the drawn tokens
// are its potential: it is never above the burst in force, and from one step to the next
// it grows by the refill and by credits, less what is used and surrendered. Only while an
// assignment settles the potential may be above the burst.
func TestPotentialOfALeaseWithDraws(t *testing.T) {
	draws := 0
	rapid.Check(t, func(t *rapid.T) {
		capacity := func(name string, burst int64) quota.Capacity {
			return quota.Capacity{
				Rate:  quota.Rate{Tokens: quota.Tokens(rapid.Int64Range(0, 2*burst).Draw(t, name+" rate")), Per: second},
				Burst: quota.Tokens(rapid.Int64Range(0, burst/rapid.SampledFrom([]int64{1, 1, 200}).Draw(t, name+" is small")).Draw(t, name+" burst")),
			}
		}
		st := full(capacity("standing", 20))
		s := region()
		at, real, epoch := start, quota.Micros(0), quota.Epoch(0)
		renew := func() {
			if err := s.Renew(at, "one", 1, at+quota.Micros(rapid.SampledFrom([]int64{1, 50_000, 10_000_000, 10_000_000, 10_000_000}).Draw(t, "deadline"))); err != nil {
				t.Fatal(err)
			}
		}
		renew()
		var p purse
		look := func() (quota.Tokens, quota.Capacity) {
			v := take(s.Clone(), at, Ask{Key: "k", Standing: st})
			return v.Level + p.usable(real), v.Capacity
		}
		var settling *ApplyAsk
		apply := func(ask ApplyAsk) (credit, surrendered quota.Tokens) {
			again := settling != nil
			answer, err := s.Apply(at, "one", ask)
			switch {
			case errors.Is(err, ErrSettling):
				settling = &ask
			case err == nil:
				settling = nil
			case errors.Is(err, ErrExpired) && !again:
				return 0, 0
			default:
				t.Fatal(err)
			}
			if again {
				return 0, 0
			}
			epoch++
			credit = ask.Assignment.Credit
			if loan := ask.Assignment.Loan; loan != nil && s.State(at).Now < ask.LoanUntil {
				credit += loan.Credit
			}
			return credit, answer.Surrendered
		}
		potential, had := look()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			step := quota.Micros(rapid.SampledFrom([]int64{0, 0, 0, 1, 500, 7000, 20_000, 50_000, 99_999, 300_000, 10_000_000, -1000}).Draw(t, "step"))
			at, real = at+step, real+max(step, 0)
			s.State(at) // a clock that steps back revives no lease
			passed, have := look()
			gain, _ := quota.Capacity{Rate: quota.Rate{Tokens: max(st.Rate.Tokens, had.Rate.Tokens, have.Rate.Tokens), Per: second}, Burst: quota.MaxTokens}.Refill(0, max(step, 0))
			if passed > potential+gain+1 { // and the fraction that there was
				t.Fatalf("the potential was %d and is %d after %d us at %v and %v", potential, passed, step, had, have)
			}
			most := passed
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op < 4:
				a := Ask{Key: "k", Standing: st, Ahead: quota.Tokens(rapid.Int64Range(0, int64(have.Burst)/6).Draw(t, "ahead"))}
				a.Cost = quota.Tokens(rapid.Int64Range(-int64(have.Burst)/4, int64(have.Burst)/rapid.SampledFrom([]int64{2, 16, 1 << 30}).Draw(t, "part")).Draw(t, "cost"))
				a.Settle = rapid.IntRange(0, 9).Draw(t, "settle") == 0
				a.Debt = quota.Tokens(rapid.SampledFrom([]int64{0, 0, 100}).Draw(t, "debt"))
				v := take(s, at, a)
				if v.Admitted {
					most -= a.Cost - v.Uncharged
				}
				if v.Grant.Tokens > 0 {
					draws++
					p.put(real, v.Grant)
				}
			case op < 7:
				most -= p.use(t, real)
			case op == 7:
				renew()
				most = quota.MaxTokens // a lease whose deadline has passed may be back
			case settling != nil:
				apply(*settling)
			default:
				a := quota.Assignment{Key: "k", Session: 1, Epoch: epoch + 1, Lease: st.Add(capacity("lease", 5000)), Release: rapid.IntRange(0, 2).Draw(t, "release") == 0}
				if a.Release {
					a.Lease = st.Capacity
				}
				a.Credit = quota.Tokens(rapid.Int64Range(0, int64(max(0, a.Lease.Burst-have.Burst))).Draw(t, "credit"))
				ask := ApplyAsk{Assignment: a, Standing: st}
				if !a.Release && rapid.Bool().Draw(t, "borrows") {
					loan := quota.Loan{Capacity: capacity("loan", 5000)}
					loan.Credit = quota.Tokens(rapid.Int64Range(0, int64(loan.Capacity.Burst)).Draw(t, "loan credit"))
					ask.Assignment.Loan, ask.LoanUntil = &loan, at+quota.Micros(rapid.Int64Range(0, 200_000).Draw(t, "loan until"))
				}
				credit, surrendered := apply(ask)
				most += credit - surrendered
			}
			potential, had = look()
			if potential > most {
				t.Fatalf("the potential was %d and is %d, want %d at most", passed, potential, most)
			}
			if potential > had.Burst && settling == nil {
				t.Fatalf("the potential %d is above the burst of %v, with %d drawn", potential, had, p.usable(real))
			}
		}
	})
	if draws == 0 {
		t.Error("nothing was drawn")
	}
}
