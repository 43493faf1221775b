package check

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
)

// limits draws limits small enough for plain int64 arithmetic in the oracle,
// with periods that do not divide the rate.
func limits() *rapid.Generator[quota.Capacity] {
	return rapid.Custom(func(t *rapid.T) quota.Capacity {
		return quota.Capacity{
			Rate: quota.Rate{
				Tokens: quota.Tokens(rapid.Int64Range(0, 50).Draw(t, "rate")),
				Per:    quota.Micros(rapid.Int64Range(1, 17).Draw(t, "per")),
			},
			Burst: quota.Tokens(rapid.Int64Range(0, 100).Draw(t, "burst")),
		}
	})
}

func admissionsOf(most int64) *rapid.Generator[[]Admission] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Admission {
		sent := quota.Micros(rapid.Int64Range(0, 60).Draw(t, "sent"))
		return Admission{
			Cost:     quota.Tokens(rapid.Int64Range(0, 60).Draw(t, "cost")),
			Sent:     sent,
			Answered: sent + quota.Micros(rapid.Int64Range(0, most).Draw(t, "latency")),
		}
	}), 0, 25)
}

// every tries all windows between any two instants and returns the worst
// overshoot, rounded up to a micro-token, at least 0.
func every(limit quota.Capacity, list []Admission, within func(a Admission, x, y quota.Micros) bool) quota.Tokens {
	per := int64(limit.Rate.Per)
	worst := int64(0)
	for x := quota.Micros(0); x <= 80; x++ {
		for y := x; y <= 80; y++ {
			sum := int64(0)
			for _, a := range list {
				if within(a, x, y) {
					sum += int64(a.Cost)
				}
			}
			worst = max(worst, sum*per-int64(limit.Burst)*per-int64(limit.Rate.Tokens)*int64(y-x))
		}
	}
	return quota.Tokens((worst + per - 1) / per)
}

// The single pass and the tree find what trying every window finds.
func TestAuditEqualsTryingEveryWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := limits().Draw(t, "limit")
		list := admissionsOf(20).Draw(t, "admissions")
		have := Audit(limit, 0, list)
		for _, tt := range []struct {
			name   string
			have   quota.Tokens
			within func(a Admission, x, y quota.Micros) bool
		}{
			{"certain", have.Certain, func(a Admission, x, y quota.Micros) bool { return a.Sent >= x && a.Answered <= y }},
			{"raw", have.Raw, func(a Admission, x, y quota.Micros) bool { return a.Answered >= x && a.Answered <= y }},
			{"possible", have.Possible, func(a Admission, x, y quota.Micros) bool { return a.Answered >= x && a.Sent <= y }},
		} {
			if want := every(limit, list, tt.within); tt.have != want {
				t.Fatalf("%s overshoot: have %d, want %d", tt.name, tt.have, want)
			}
		}
	})
}

// Wherever within its interval an admission really happened, the truth lies
// between the certain and the possible figure.
func TestTruthLiesBetweenCertainAndPossible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := limits().Draw(t, "limit")
		list := admissionsOf(20).Draw(t, "admissions")
		exact := make([]Admission, len(list))
		for i, a := range list {
			at := quota.Micros(rapid.Int64Range(int64(a.Sent), int64(a.Answered)).Draw(t, "at"))
			exact[i] = Admission{Cost: a.Cost, Sent: at, Answered: at}
		}
		seen, truth := Audit(limit, 0, list), Audit(limit, 0, exact)
		if seen.Certain > truth.Raw || truth.Raw > seen.Possible {
			t.Fatalf("truth %d is outside %d … %d", truth.Raw, seen.Certain, seen.Possible)
		}
		if truth.Certain != truth.Raw || truth.Raw != truth.Possible {
			t.Fatalf("exact times leave a doubt: %+v", truth)
		}
	})
}

// What a central bucket admits is inside the Bound, and one more request at any
// of its refusals would not have been.
func TestIdealIsInsideTheBoundAndMaximal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := limits().Draw(t, "limit")
		ideal := NewIdeal(limit)
		var list []Admission
		at := quota.Micros(0)
		for range rapid.IntRange(0, 60).Draw(t, "arrivals") {
			at += quota.Micros(rapid.Int64Range(0, 5).Draw(t, "gap"))
			a := Admission{Cost: quota.Tokens(rapid.Int64Range(0, 60).Draw(t, "cost")), Sent: at, Answered: at}
			if ideal.Offer(at, a.Cost) {
				list = append(list, a)
			} else if r := Audit(limit, 0, append([]Admission{a}, list...)); !r.Broken() {
				t.Fatalf("refused %d at %d, but it fits", a.Cost, at)
			}
		}
		if r := Audit(limit, 0, list); r.Possible != 0 || r.Admitted != ideal.Admitted() {
			t.Fatalf("ideal admitted %d: %+v", ideal.Admitted(), r)
		}
	})
}

func TestAudit(t *testing.T) {
	limit := quota.Capacity{Rate: quota.Rate{Tokens: 10 * quota.Token, Per: quota.Second}, Burst: 5 * quota.Token}
	at := func(whole uint64, sent, answered quota.Micros) Admission {
		return Admission{Cost: quota.Whole(whole), Sent: sent, Answered: answered}
	}
	for _, tt := range []struct {
		reason                 string
		rho                    int64
		list                   []Admission
		certain, raw, possible quota.Tokens
	}{
		{"nothing admitted", 0, nil, 0, 0, 0},
		{"the burst at once fits", 0, []Admission{at(5, 7, 7)}, 0, 0, 0},
		{"one more at the same instant does not", 0, []Admission{at(6, 7, 7)}, quota.Token, quota.Token, quota.Token},
		{"the rate over a second fits", 0, []Admission{at(5, 0, 0), at(10, quota.Second, quota.Second)}, 5 * quota.Token, 5 * quota.Token, 5 * quota.Token},
		{"spread it does", 0, []Admission{at(5, 0, 0), at(5, quota.Second/2, quota.Second/2), at(5, quota.Second, quota.Second)}, 0, 0, 0},
		{"answers that were held up accuse only by their times", 0, []Admission{at(5, 0, quota.Second), at(5, quota.Second, quota.Second)}, 0, 5 * quota.Token, 5 * quota.Token},
		{"a slow answer hides nothing that cannot be explained", 0, []Admission{at(5, 0, quota.Second/2), at(12, 0, quota.Second/2)}, 7 * quota.Token, 12 * quota.Token, 12 * quota.Token},
		{"a clock that is 20 % fast admits 20 % more", 200_000, []Admission{at(5, 0, 0), at(5, 416_667, 416_667)}, 0, 0, 0},
		{"an answer before its request counts at the later time", 0, []Admission{at(6, 7, 3)}, quota.Token, quota.Token, quota.Token},
	} {
		have := Audit(limit, tt.rho, tt.list)
		if have.Certain != tt.certain || have.Raw != tt.raw || have.Possible != tt.possible {
			t.Errorf("%s: have certain %v raw %v possible %v, want %v %v %v", tt.reason, have.Certain, have.Raw, have.Possible, tt.certain, tt.raw, tt.possible)
		}
		if have.Broken() != (tt.certain > 0) {
			t.Errorf("%s: broken %v", tt.reason, have.Broken())
		}
	}
}

func TestMeterReportsHeadroom(t *testing.T) {
	limit := quota.Capacity{Rate: quota.Rate{Tokens: 10 * quota.Token, Per: quota.Second}, Burst: 5 * quota.Token}
	m := NewMeter(limit)
	if have := m.Headroom(0); have != limit.Burst {
		t.Errorf("before anything: have %v, want the burst", have)
	}
	m.Admit(0, 5*quota.Token)
	for _, tt := range []struct {
		reason string
		now    quota.Micros
		want   quota.Tokens
	}{
		{"empty at once", 0, 0},
		{"refilled by the rate", 100_000, quota.Token},
		{"rounded down", 1, 10},
		{"never above the burst", 10 * quota.Second, limit.Burst},
	} {
		if have := m.Headroom(tt.now); have != tt.want {
			t.Errorf("%s: have %v, want %v", tt.reason, have, tt.want)
		}
	}
	m.Admit(0, 2*quota.Token)
	if have, want := m.Worst(), -2*quota.Token; have != want {
		t.Errorf("overshoot: have %v, want %v", have, want)
	}
}

// The largest limits, periods and times stay exact.
func TestLargestValuesStayExact(t *testing.T) {
	year := quota.Micros(365 * 24 * 3600 * int64(quota.Second))
	limit := quota.Capacity{Rate: quota.Rate{Tokens: quota.MaxTokens, Per: year}, Burst: quota.MaxTokens}
	list := []Admission{
		{Cost: quota.MaxTokens, Sent: 0, Answered: 0},
		{Cost: quota.MaxTokens, Sent: year - 1, Answered: year - 1},
	}
	// The year is one microsecond short, which is 285.6 micro-tokens.
	if have, want := Audit(limit, 0, list).Certain, quota.Tokens(286); have != want {
		t.Errorf("have %d, want %d", have, want)
	}
}

func TestWideEqualsBigIntegers(t *testing.T) {
	big64 := func(w wide) *big.Int {
		v := new(big.Int).Lsh(big.NewInt(w.hi), 64)
		return v.Add(v, new(big.Int).SetUint64(w.lo))
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64Range(-1<<60, 1<<60).Draw(t, "a"), rapid.Int64Range(0, 1<<52).Draw(t, "b")
		c, d := rapid.Int64Range(-1<<60, 1<<60).Draw(t, "c"), rapid.Int64Range(1, 1<<45).Draw(t, "d")
		x, y := product(a, b), product(c, d)
		bx := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		by := new(big.Int).Mul(big.NewInt(c), big.NewInt(d))
		if big64(x).Cmp(bx) != 0 || big64(x.plus(y)).Cmp(new(big.Int).Add(bx, by)) != 0 ||
			big64(x.minus(y)).Cmp(new(big.Int).Sub(bx, by)) != 0 || x.less(y) != (bx.Cmp(by) < 0) {
			t.Fatalf("%d*%d and %d*%d differ from big integers", a, b, c, d)
		}
		floor, mod := new(big.Int).DivMod(bx, big.NewInt(d), new(big.Int))
		ceil := new(big.Int).Set(floor)
		if mod.Sign() != 0 {
			ceil.Add(ceil, big.NewInt(1))
		}
		limit := big.NewInt(int64(quota.MaxTokens))
		if floor.CmpAbs(limit) <= 0 && int64(x.floorOver(d)) != floor.Int64() {
			t.Fatalf("floor(%v/%d): have %d, want %v", bx, d, x.floorOver(d), floor)
		}
		if ceil.CmpAbs(limit) <= 0 && int64(x.ceilOver(d)) != ceil.Int64() {
			t.Fatalf("ceil(%v/%d): have %d, want %v", bx, d, x.ceilOver(d), ceil)
		}
	})
}

// An audit of a long run is fast enough to be part of every test.
func BenchmarkAudit(b *testing.B) {
	limit := quota.Capacity{Rate: quota.Rate{Tokens: 1000 * quota.Token, Per: quota.Second}, Burst: 1000 * quota.Token}
	list := make([]Admission, 60_000)
	for i := range list {
		at := quota.Micros(i) * 1000
		list[i] = Admission{Cost: quota.Token, Sent: at, Answered: at + quota.Micros(i%7)*300}
	}
	for b.Loop() {
		Audit(limit, 0, list)
	}
}

// The oracle looks at every window of a history in which some is given back.
func TestMeterOfWhatIsGivenBack(t *testing.T) {
	limit := quota.Capacity{Rate: quota.Rate{Tokens: 3, Per: 7}, Burst: 20}
	type event struct {
		at  quota.Micros
		net quota.Tokens
	}
	rapid.Check(t, func(t *rapid.T) {
		m := NewMeter(limit)
		var list []event
		var now quota.Micros
		worst := limit.Burst
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			now += quota.Micros(rapid.IntRange(0, 12).Draw(t, "wait"))
			net := quota.Tokens(rapid.IntRange(-9, 9).Draw(t, "net"))
			list = append(list, event{now, net})
			if net < 0 {
				m.GiveBack(now, -net)
			} else {
				m.Admit(now, net)
			}
			headroom, sum := limit.Burst, quota.Tokens(0)
			for i := len(list) - 1; i >= 0; i-- {
				sum += list[i].net
				// Rounded down, as the meter is: the period is 7.
				left := 7*int64(limit.Burst-sum) + 3*int64(now-list[i].at)
				headroom = min(headroom, quota.Tokens((left-((left%7)+7)%7)/7))
			}
			if have := m.Headroom(now); have != headroom {
				t.Fatalf("headroom %d after %v, want %d", have, list, headroom)
			}
			worst = min(worst, headroom)
		}
		if m.Worst() != worst {
			t.Fatalf("worst %d, want %d", m.Worst(), worst)
		}
	})
}

// What is charged whatever there is leaves a debt, which is paid before anything fits.
func TestAnIdealBucketInDebt(t *testing.T) {
	i := NewIdeal(quota.Capacity{Rate: quota.Rate{Tokens: quota.Token, Per: quota.Second}, Burst: 10 * quota.Token})
	i.Admit(0, 15*quota.Token)
	if i.Offer(5*quota.Second, quota.Token) || !i.Offer(6*quota.Second, quota.Token) {
		t.Error("a debt of 5 is not paid after 5 s, and then there is a token each second")
	}
	i.GiveBack(6*quota.Second, 100*quota.Token)
	if !i.Offer(6*quota.Second, 10*quota.Token) || i.Offer(6*quota.Second, 1) || i.Admitted() != 26*quota.Token {
		t.Errorf("what is given back fills the bucket and no more: admitted %v", i.Admitted())
	}
}
