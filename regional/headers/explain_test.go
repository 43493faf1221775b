package headers

import (
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
)

func TestExplanationNamesRuleSourceAndScope(t *testing.T) {
	r, l := &rules.Rule{ID: "api/user", Name: "per-user"}, limit("", 100, time.Minute)
	d := enforce.Decision{Over: true, Statuses: []enforce.Status{
		{
			Over: true, Rule: r, Limit: l, Reset: time.Minute, Retry: 1200 * time.Millisecond,
			Reason: enforce.GlobalExhausted, Source: enforce.FromLease,
		},
		{Rule: r, Limit: l, Shadowed: true, Reason: enforce.Shadow, Source: enforce.FromShare},
		{Rule: &rules.Rule{ID: `ap"i`}, Reason: enforce.Unlimited},
		{Reason: enforce.NoRule},
		{Rule: r, Limit: l, Remaining: 3, Reset: time.Second, Delay: 1500 * time.Microsecond, Reason: enforce.WithinLease, Source: enforce.FromLease},
	}}
	want := `"api/user";over;reason=global_exhausted;source=lease;scope=world;limit="per-user";r=0;t=60;retry=2, ` +
		`"api/user";shadow;reason=shadow;source=standing_share;limit="per-user";r=0;t=0, ` +
		`"ap\"i";reason=unlimited, "";reason=no_rule, "api/user";reason=within_lease;source=lease;limit="per-user";r=3;t=1;delay_ms=2`
	if have := lines(Render(d, Style{Explain: true}, now)); have != Explain+": "+want+"\n" {
		t.Errorf("want\n%s\nhave\n%s", want, have)
	}
	if have := lines(Render(enforce.Decision{}, Style{Explain: true}, now)); have != "" {
		t.Errorf("nothing to explain: have %q", have)
	}
}

func TestAsked(t *testing.T) {
	for value, want := range map[string]bool{"": false, "0": false, "false": false, "1": true, "true": true, "why": true} {
		if have := Asked(value); have != want {
			t.Errorf("%q: want %v", value, want)
		}
	}
}
