package settings

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestForeignVariablesRankBelowTheFile(t *testing.T) {
	for _, tc := range []struct {
		reason, env, arg string
		want             time.Duration
		origin, warning  string
		problem          string
	}{
		{"nobody else", "THEIR_TTL=3s", "", 3 * time.Second, "env THEIR_TTL", "", ""},
		{"empty is not set", "THEIR_TTL=", "", 10 * time.Second, "default", "", ""},
		{"a flag wins and is told", "THEIR_TTL=3s", "--ttl=4s", 4 * time.Second, "flag --ttl", "THEIR_TTL is not used: ttl comes from flag --ttl", ""},
		{"a wrong value is a problem of the variable", "THEIR_TTL=x", "", 10 * time.Second, "default", "", "environment variable THEIR_TTL: want a duration"},
	} {
		o := defaults()
		s := New(&o)
		s.env = func() []string { return []string{tc.env} }
		s.Translate(func(env map[string]string, own func(string) string) (f Foreign) {
			if v := env["THEIR_TTL"]; v != "" {
				f.Values = append(f.Values, Value{"ttl", v, "THEIR_TTL"})
			}
			if (own("ttl") != "") != (tc.arg != "") {
				t.Errorf("%s: have own origin %q", tc.reason, own("ttl"))
			}
			return f
		})
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		s.Bind(flags)
		if tc.arg != "" {
			if err := flags.Parse([]string{tc.arg}); err != nil {
				t.Fatal(err)
			}
		}
		err := s.Load()
		if (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
			t.Errorf("%s: have %v, want %q", tc.reason, err, tc.problem)
		}
		if o.TTL != tc.want || s.originOf("ttl") != tc.origin || !strings.Contains(strings.Join(s.Warnings(), "\n"), tc.warning) {
			t.Errorf("%s: have %v from %q, warnings %q", tc.reason, o.TTL, s.originOf("ttl"), s.Warnings())
		}
	}
}
