package caller

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/quorate/quorate/regional/enforce"
)

// call is what the tests ask about: values by name.
type call map[string]string

func key(name string, missing Missing) Key[call] {
	return Key[call]{Name: name, Missing: missing, Value: func(c call) (string, error) {
		if c[name] == "twice" {
			return "", ErrMany
		}
		return c[name], nil
	}}
}

// asked renders a request: "user=1|path=/a; ip=2".
func asked(r enforce.Request) string {
	var ds []string
	for _, d := range r.Descriptors {
		var es []string
		for _, e := range d.Entries {
			es = append(es, e.Key+"="+e.Value)
		}
		ds = append(ds, strings.Join(es, "|"))
	}
	return strings.Join(ds, "; ")
}

// K90: what is missing has a policy, and none of them is silent.
func TestK90MissingValues(t *testing.T) {
	long := strings.Repeat("x", maxValue+1)
	for why, c := range map[string]struct {
		call    call
		want    string
		refused error
	}{
		"all there":                        {call{"user": "1", "path": "/a", "ip": "2", "t": "3"}, "user=1|path=/a; ip=2; t=3", nil},
		"a descriptor that is not counted": {call{"user": "1", "ip": "2", "t": "3"}, "ip=2; t=3", nil},
		"one key for all without":          {call{"ip": "2"}, "ip=2; t=", nil},
		"a call that makes no sense":       {call{"user": "1", "path": "/a"}, "", ErrMissing},
		"a value that is there twice":      {call{"ip": "2", "t": "twice"}, "", ErrMany},
		"a value that is long":             {call{"ip": long}, "ip=" + Digest(long) + "; t=", nil},
	} {
		have := ""
		g, err := New(Config[call]{
			Decide: func(_ context.Context, r enforce.Request) (enforce.Decision, error) {
				have = asked(r)
				return enforce.Decision{Over: true}, nil
			},
			Domain:      "shop",
			Descriptors: [][]Key[call]{{key("user", Skip), key("path", Skip)}, {key("ip", Refuse)}, {key("t", Share)}},
			OnFailure:   Deny,
		})
		if err != nil {
			t.Fatal(err)
		}
		d, err := g.Ask(t.Context(), c.call)
		var refused *RefusedError
		if have != c.want || !errors.Is(err, c.refused) || errors.As(err, &refused) != (c.refused != nil) || d.Over != (c.refused == nil) {
			t.Errorf("%s: want %q, %v, have %q, %+v, %v", why, c.want, c.refused, have, d, err)
		}
	}
}

func TestGateThatCountsNothingAsksNobody(t *testing.T) {
	g, err := New(Config[call]{
		Decide: func(context.Context, enforce.Request) (enforce.Decision, error) {
			t.Error("asked")
			return enforce.Decision{}, nil
		},
		Domain: "shop", Descriptors: [][]Key[call]{{key("user", Skip)}}, OnFailure: Deny,
	})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := g.Ask(t.Context(), nil); err != nil || d.Over || len(d.Statuses) != 0 {
		t.Errorf("have %+v, %v", d, err)
	}
}

func TestCost(t *testing.T) {
	var have enforce.Request
	cost := uint64(0)
	g, err := New(Config[call]{
		Decide: func(_ context.Context, r enforce.Request) (enforce.Decision, error) {
			have = r
			return enforce.Decision{}, nil
		},
		Domain: "shop", Descriptors: [][]Key[call]{{key("user", Share)}, {key("ip", Share)}}, OnFailure: Deny,
		Cost: func(call) uint64 { return cost },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, cost = range []uint64{0, 1, 1 << 40} {
		if _, err := g.Ask(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		for _, d := range have.Descriptors {
			if d.Hits == nil || *d.Hits != cost {
				t.Errorf("want a cost of %d, have %v", cost, d.Hits)
			}
		}
	}
}

// K57: each policy is what happens, and it is said once.
func TestK57NothingDecided(t *testing.T) {
	down := errors.New("no rules yet")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for why, c := range map[string]struct {
		ctx    context.Context
		policy OnFailure
		want   error
		lines  int
	}{
		"deny":                          {t.Context(), Deny, ErrUndecided, 2},
		"admit":                         {t.Context(), Admit, nil, 2},
		"deny, and nobody waits for it": {gone, Deny, context.Canceled, 0},
		"admit, and nobody waits":       {gone, Admit, context.Canceled, 0},
	} {
		var fail error
		var told bytes.Buffer
		g, err := New(Config[call]{
			Decide: func(context.Context, enforce.Request) (enforce.Decision, error) { return enforce.Decision{}, fail },
			Domain: "shop", Descriptors: [][]Key[call]{{key("user", Share)}}, OnFailure: c.policy,
			Logger: slog.New(slog.NewTextHandler(&told, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		fail = down
		for range 3 {
			if d, err := g.Ask(c.ctx, nil); !errors.Is(err, c.want) || c.want == nil && err != nil || d.Over {
				t.Errorf("%s: want %v, have %+v, %v", why, c.want, d, err)
			}
		}
		fail = nil
		for range 3 {
			if _, err := g.Ask(c.ctx, nil); err != nil {
				t.Errorf("%s: after the failure: have %v", why, err)
			}
		}
		if have := told.String(); strings.Count(have, "\n") != c.lines || strings.Contains(have, "no rules yet") != (c.lines > 0) {
			t.Errorf("%s: want %d lines, have:\n%s", why, c.lines, have)
		}
	}
}

func TestConfigNamesEveryProblem(t *testing.T) {
	_, err := New(Config[call]{Descriptors: [][]Key[call]{{}, {{Name: "a"}, {Missing: Share}, {Name: "b", Value: func(call) (string, error) { return "", nil }}}}})
	if !errors.Is(err, ErrConfig) {
		t.Fatalf("have %v", err)
	}
	for _, want := range []string{"nothing decides", "no domain", "descriptor 1 has no keys", `key "a" of descriptor 2 has no Value`, "key 2 of descriptor 2 has no name", `key "b" of descriptor 2: say what`, "Deny or Admit"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
	if _, err := New(Config[call]{}); err == nil || !strings.Contains(err.Error(), "no descriptors") {
		t.Errorf("have %v", err)
	}
}

func TestSecrets(t *testing.T) {
	// printf %s secret | sha256sum | cut -c1-32
	if have := Digest("secret"); have != "2bb80d537b1da3e38bd30361aa855686" {
		t.Errorf("have %s", have)
	}
	for value, want := range map[string]string{
		"Bearer abc": "abc", "bEARER  abc ": "abc", "Basic abc": "", "Bearer": "", "": "", "Bearerabc": "", "Bearer a b": "a b",
	} {
		if have := BearerToken(value); have != want {
			t.Errorf("%q: want %q, have %q", value, want, have)
		}
	}
}
