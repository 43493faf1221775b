package fairshare

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// oneByOne is the definition: hand out one unit at a time to whoever has least
// for its weight afterwards.
func oneByOne(total int64, claims []Claim) []int64 {
	got := make([]int64, len(claims))
	for i, c := range claims {
		got[i] = c.floor()
		total -= got[i]
	}
	for ; total > 0; total-- {
		next := -1
		for i, c := range claims {
			if got[i] >= c.want() {
				continue
			}
			if next < 0 {
				next = i
				continue
			}
			a := (got[i] + 1) * int64(claims[next].weight())
			b := (got[next] + 1) * int64(c.weight())
			if a < b || a == b && c.Rank > claims[next].Rank {
				next = i
			}
		}
		if next < 0 {
			break
		}
		got[next]++
	}
	return got
}

func TestDivideEqualsOneUnitAtATime(t *testing.T) {
	claim := rapid.Custom(func(t *rapid.T) Claim {
		return Claim{
			Weight: rapid.Int64Range(-1, 12).Draw(t, "weight"),
			Want:   rapid.Int64Range(-1, 60).Draw(t, "want"),
			Floor:  rapid.Int64Range(-1, 15).Draw(t, "floor"),
			Rank:   rapid.Uint64Range(0, 3).Draw(t, "rank"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		claims := rapid.SliceOfN(claim, 0, 9).Draw(t, "claims")
		total := rapid.Int64Range(-5, 300).Draw(t, "total")
		want := oneByOne(total, claims)
		if have := Divide(nil, total, claims); !slices.Equal(have, want) {
			t.Fatalf("%d between %+v: have %v, want %v", total, claims, have, want)
		}
	})
}

// At the largest amounts, where one unit at a time would take for ever, the
// result is exact in sum, inside its limits, and level to one unit.
func TestDivideLargeAmounts(t *testing.T) {
	claim := rapid.Custom(func(t *rapid.T) Claim {
		return Claim{
			Weight: rapid.Int64Range(1, 1<<33).Draw(t, "weight"),
			Want:   rapid.Int64Range(0, 1<<33).Draw(t, "want"),
			Floor:  rapid.Int64Range(0, 1<<31).Draw(t, "floor"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		claims := rapid.SliceOfN(claim, 1, 40).Draw(t, "claims")
		total := rapid.Int64Range(0, 1<<38).Draw(t, "total")
		got := Divide(nil, total, claims)
		var sum, floors, wants int64
		for i, c := range claims {
			if got[i] < c.floor() || got[i] > c.want() {
				t.Fatalf("claim %+v got %d", c, got[i])
			}
			sum, floors, wants = sum+got[i], floors+c.floor(), wants+c.want()
		}
		if want := max(floors, min(total, wants)); sum != want {
			t.Fatalf("sum is %d, want %d", sum, want)
		}
		for i, a := range claims {
			for j, b := range claims {
				// Moving a unit from a to b must not make b the better off of the two.
				taken := level{uint64(got[i]), a.weight()}
				given := level{uint64(got[j]) + 1, b.weight()}
				if got[i] > a.floor() && got[j] < b.want() && given.compare(taken) < 0 {
					t.Fatalf("claim %+v has %d while %+v has only %d", a, got[i], b, got[j])
				}
			}
		}
	})
}

func TestDivide(t *testing.T) {
	for _, tt := range []struct {
		reason string
		total  int64
		claims []Claim
		want   []int64
	}{
		{"nobody is there", 10, nil, nil},
		{"all wants fit", 10, []Claim{{Want: 3}, {Want: 4}}, []int64{3, 4}},
		{"small wants are met, the rest is level", 100, []Claim{{Want: 10}, {Want: 300}, {Want: 90}}, []int64{10, 45, 45}},
		{"by weight", 90, []Claim{{Weight: 1, Want: 300}, {Weight: 2, Want: 300}}, []int64{30, 60}},
		{"a floor is not shared", 30, []Claim{{Floor: 20, Want: 20}, {Want: 50}, {Want: 50}}, []int64{20, 5, 5}},
		{"a floor above the want is kept", 10, []Claim{{Floor: 4, Want: 1}, {Want: 50}}, []int64{4, 6}},
		{"floors exceed the total", 5, []Claim{{Floor: 4}, {Floor: 4, Want: 9}}, []int64{4, 4}},
		{"the remainder follows the rank", 5, []Claim{{Want: 9, Rank: 1}, {Want: 9, Rank: 3}, {Want: 9, Rank: 2}}, []int64{1, 2, 2}},
		{"K64: five tokens for ten claimants", 5, slices.Repeat([]Claim{{Want: 1}}, 10), []int64{1, 1, 1, 1, 1, 0, 0, 0, 0, 0}},
	} {
		if have := Divide(nil, tt.total, tt.claims); !slices.Equal(have, tt.want) {
			t.Errorf("%s: have %v, want %v", tt.reason, have, tt.want)
		}
	}
}

func TestDivideAppends(t *testing.T) {
	have := Divide([]int64{7}, 4, []Claim{{Want: 9}, {Want: 9}})
	if want := []int64{7, 2, 2}; !slices.Equal(have, want) {
		t.Errorf("have %v, want %v", have, want)
	}
}

// Over many keys every region gets the odd token equally often.
func TestRankFavoursNobody(t *testing.T) {
	regions := []string{"ap", "eu", "us"}
	got := make([]int64, len(regions))
	const keys = 30_000
	for k := range keys {
		claims := make([]Claim, len(regions))
		for i, r := range regions {
			claims[i] = Claim{Want: 1, Rank: Rank(fmt.Sprintf("shop|user=%d", k), r)}
		}
		for i, n := range Divide(nil, 1, claims) {
			got[i] += n
		}
	}
	for i, n := range got {
		if n < keys/3*95/100 || n > keys/3*105/100 {
			t.Errorf("%s got the odd token of %d keys, want about %d", regions[i], n, keys/3)
		}
	}
}

func BenchmarkDivide(b *testing.B) {
	claims := []Claim{{1, 900, 33, 3}, {1, 250, 33, 2}, {1, 75, 33, 1}, {2, 0, 33, 9}, {1, 3000, 0, 7}}
	got := make([]int64, 0, len(claims))
	b.ReportAllocs()
	for b.Loop() {
		got = Divide(got[:0], 1000, claims)
	}
}
