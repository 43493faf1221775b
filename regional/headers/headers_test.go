package headers

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
)

func limit(name string, n uint32, per time.Duration) *rules.Limit {
	return &rules.Limit{
		Limit: quota.Limit{Capacity: quota.Capacity{
			Rate: quota.Rate{Tokens: quota.Whole(uint64(n)), Per: quota.MicrosOf(per)}, Burst: quota.Whole(uint64(n)),
		}},
		Name: name, RequestsPerUnit: n,
	}
}

// own is a limit that a request has brought.
func own(n uint32) *rules.Limit {
	l := limit("", n, time.Minute)
	l.Override = true
	return l
}

// now is half a second past a whole one.
var now = time.Unix(1_700_000_000, 500_000_000)

func lines(hs []Header) string {
	var b strings.Builder
	for _, h := range hs {
		b.WriteString(h.Name + ": " + h.Value + "\n")
	}
	return b.String()
}

func TestRender(t *testing.T) {
	perUser := &rules.Rule{ID: "api/user", Name: "per-user"}
	odd := &rules.Rule{ID: "api/päth=\"x\""}
	minute, day := limit("", 100, time.Minute), limit("daily", 1000, 24*time.Hour)
	for name, c := range map[string]struct {
		d     enforce.Decision
		style Style
		want  string
	}{
		"nothing asked for, nothing said": {
			d: enforce.Decision{Statuses: []enforce.Status{{Rule: perUser, Limit: minute}}},
		},
		"no rule counted": {d: enforce.Decision{Statuses: []enforce.Status{{Reason: enforce.NoRule}}}, style: Full()},
		"the least remaining binds, every limit is listed": {
			d: enforce.Decision{Statuses: []enforce.Status{
				{Rule: perUser, Limit: day, Remaining: 900, Reset: time.Hour},
				{Rule: perUser, Limit: minute, Remaining: 7, Reset: 1500 * time.Millisecond},
			}},
			style: Full(),
			want: "X-RateLimit-Limit: 100\nX-RateLimit-Remaining: 7\nX-RateLimit-Reset: 2\n" +
				"RateLimit: \"daily\";r=900;t=3600, \"per-user\";r=7;t=2\n" +
				"RateLimit-Policy: \"daily\";q=1000;w=86400, \"per-user\";q=100;w=60\n",
		},
		"a denial says why, and never less than 1": {
			d: enforce.Decision{Over: true, Retry: time.Millisecond, Statuses: []enforce.Status{
				{Over: true, Rule: odd, Limit: minute, Reset: time.Minute, Retry: time.Millisecond, Reason: enforce.LeaseEmpty},
			}},
			style: Full(),
			want: "X-RateLimit-Limit: 100\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 60\nX-RateLimit-Retry-After: 1\n" +
				"RateLimit: \"api/p%C3%A4th=\\\"x\\\"\";r=0;t=60\nRateLimit-Policy: \"api/p%C3%A4th=\\\"x\\\"\";q=100;w=60\n" +
				"Retry-After: 1\nX-RateLimit-Rule: api/p%C3%A4th=\"x\"\nX-RateLimit-Reason: lease_empty\n",
		},
		"one limit that counts two descriptors is listed once, at its tightest": {
			d: enforce.Decision{Statuses: []enforce.Status{
				{Rule: perUser, Limit: minute, Remaining: 9, Reset: time.Second},
				{Rule: perUser, Limit: minute, Remaining: 3, Reset: 2 * time.Second},
			}},
			style: Style{IETF: true},
			want:  "RateLimit: \"per-user\";r=3;t=2\nRateLimit-Policy: \"per-user\";q=100;w=60\n",
		},
		"limits of requests are told apart by what they say, not by their rule": {
			d: enforce.Decision{Statuses: []enforce.Status{
				{Rule: perUser, Limit: own(10), Remaining: 9, Reset: time.Second},
				{Rule: perUser, Limit: own(10), Remaining: 3, Reset: 2 * time.Second},
				{Rule: perUser, Limit: own(20), Remaining: 5, Reset: time.Second},
			}},
			style: Style{Legacy: true, IETF: true},
			want: "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 3\nX-RateLimit-Reset: 2\n" +
				"RateLimit: \"per-user\";r=3;t=2, \"per-user\";r=5;t=1\nRateLimit-Policy: \"per-user\";q=10;w=60, \"per-user\";q=20;w=60\n",
		},
		"a delay in whole milliseconds, rounded up, beside what is there already": {
			d: enforce.Decision{Delay: 300*time.Millisecond + time.Microsecond, Statuses: []enforce.Status{
				{Rule: perUser, Limit: minute, Remaining: 7, Reset: time.Second, Delay: time.Second},
			}},
			style: Style{Legacy: true, Delay: true},
			want:  "X-RateLimit-Limit: 100\nX-RateLimit-Remaining: 7\nX-RateLimit-Reset: 1\nX-RateLimit-Delay-Ms: 301\n",
		},
		"no delay, no field": {
			d:     enforce.Decision{Statuses: []enforce.Status{{Rule: perUser, Limit: minute}}},
			style: Style{Delay: true},
		},
		"a delay is not asked for": {
			d:     enforce.Decision{Delay: time.Second, Statuses: []enforce.Status{{Rule: perUser, Limit: minute}}},
			style: Style{RetryAfter: true},
		},
		"reset as a time of day, rounded up; the others stay seconds": {
			d: enforce.Decision{Statuses: []enforce.Status{
				{Rule: perUser, Limit: minute, Remaining: 7, Reset: 1500 * time.Millisecond},
			}},
			style: Style{Legacy: true, IETF: true, Epoch: true},
			want: "X-RateLimit-Limit: 100\nX-RateLimit-Remaining: 7\nX-RateLimit-Reset: 1700000002\n" +
				"RateLimit: \"per-user\";r=7;t=2\nRateLimit-Policy: \"per-user\";q=100;w=60\n",
		},
		"epoch alone renders nothing": {
			d:     enforce.Decision{Statuses: []enforce.Status{{Rule: perUser, Limit: minute}}},
			style: Style{Epoch: true},
		},
		"shadow rules do not bind": {
			d: enforce.Decision{Statuses: []enforce.Status{
				{Rule: perUser, Limit: minute, Shadowed: true},
				{Rule: perUser, Limit: day, Remaining: 5, Reset: time.Second},
			}},
			style: Style{Legacy: true},
			want:  "X-RateLimit-Limit: 1000\nX-RateLimit-Remaining: 5\nX-RateLimit-Reset: 1\n",
		},
	} {
		if have := lines(Render(c.d, c.style, now)); have != c.want {
			t.Errorf("%s:\nwant\n%s\nhave\n%s", name, c.want, have)
		}
	}
}

func TestK85TwoDenialsGiveTheLongerRetryAfterOnce(t *testing.T) {
	r, l := &rules.Rule{ID: "r"}, limit("", 10, time.Minute)
	have := lines(Render(enforce.Decision{Over: true, Retry: 50 * time.Second, Statuses: []enforce.Status{
		{Over: true, Rule: r, Limit: l, Retry: 10 * time.Second},
		{Over: true, Rule: r, Limit: l, Retry: 50 * time.Second},
	}}, Style{RetryAfter: true}, now))
	if want := "Retry-After: 50\n"; have != want {
		t.Fatalf("want %q, have %q", want, have)
	}
	if have := lines(Render(enforce.Decision{Statuses: []enforce.Status{{Rule: r, Limit: l}}}, Style{RetryAfter: true}, now)); have != "" {
		t.Fatalf("want no Retry-After without a denial, have %q", have)
	}
}

func TestK82SecondsAreRoundedUp(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want int64
	}{
		{-time.Hour, 0}, {0, 0}, {1, 1}, {900 * time.Millisecond, 1}, {time.Second, 1},
		{1900 * time.Millisecond, 2}, {math.MaxInt64, 9223372037},
	} {
		if have := Seconds(c.d); have != c.want {
			t.Errorf("%s: want %d, have %d", c.d, c.want, have)
		}
	}
}

func TestK11NeverSatisfiableIsNotToldToHurry(t *testing.T) {
	r, l := &rules.Rule{ID: "r"}, limit("", 5, time.Minute)
	d := enforce.Decision{Over: true, Statuses: []enforce.Status{{Over: true, Never: true, Rule: r, Limit: l, Reason: enforce.BurstExceeded}}}
	if have := RetrySeconds(d); have != 60 {
		t.Fatalf("want the window of 60 s, have %d", have)
	}
}

// numbers finds the parameters of RateLimit and RateLimit-Policy.
var numbers = regexp.MustCompile(`;([a-z])=([^;,]*)`)

// K83, K84, K87: whatever the statuses hold, every number is a whole one between
// 0 and what the limits can explain, and a reset is always there.
func TestK83EveryNumberIsWholeAndInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		over := rapid.Bool().Draw(t, "over")
		some := func(name string) time.Duration { return time.Duration(rapid.Int64Range(-1e18, 1e18).Draw(t, name)) }
		d := enforce.Decision{Over: over, Retry: some("retry")}
		style, longest := Full(), int64(0)
		style.Epoch = rapid.Bool().Draw(t, "epoch")
		for range rapid.IntRange(1, 3).Draw(t, "statuses") {
			n := rapid.Uint32Range(1, math.MaxUint32).Draw(t, "requests")
			per := rapid.Int64Range(1, 365*86400).Draw(t, "per")
			longest = max(longest, per)
			d.Statuses = append(d.Statuses, enforce.Status{
				Over: over, Rule: &rules.Rule{ID: "r"}, Limit: limit("", n, time.Duration(per)*time.Second), Never: rapid.Bool().Draw(t, "never"),
				Remaining: rapid.Uint32().Draw(t, "remaining"), Reset: some("reset"), Retry: some("retry"), Reason: enforce.LeaseEmpty,
			})
			if s := d.Statuses[len(d.Statuses)-1]; !s.Never {
				longest = max(longest, Seconds(s.Retry))
			}
		}
		number := func(name, text string) int64 {
			v, err := strconv.ParseInt(text, 10, 64)
			if err != nil || v < 0 || strconv.FormatInt(v, 10) != text {
				t.Fatalf("%s: %q is not a whole number from 0", name, text)
			}
			return v
		}
		reset := false
		for _, h := range Render(d, style, now) {
			switch h.Name {
			case Limit, Remaining, Reset, XRetry, RetryAfter:
				v := number(h.Name, h.Value)
				if (h.Name == RetryAfter || h.Name == XRetry) && (v < 1 || v > longest) {
					t.Fatalf("%s: %d is outside 1…%d", h.Name, v, longest)
				}
				reset = reset || h.Name == Reset
			case RateLimit, Policy:
				params := numbers.FindAllStringSubmatch(h.Value, -1)
				if len(params) != 2*len(d.Statuses) {
					t.Fatalf("%s: %q does not list %d limits", h.Name, h.Value, len(d.Statuses))
				}
				for _, p := range params {
					number(h.Name+" "+p[1], p[2])
				}
			}
		}
		if !reset {
			t.Fatal("no reset in the reply")
		}
	})
}
