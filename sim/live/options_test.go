package live

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/sim/netproxy"
)

func TestInvalidOptionsNameTheProblem(t *testing.T) {
	for _, tt := range []struct {
		reason string
		opts   Options
		want   string
	}{
		{"a region without a name", Options{Regions: []RegionSpec{{}}}, "region 0 has no name"},
		{"a region twice", Options{Regions: []RegionSpec{{Name: "eu"}, {Name: "eu"}}}, "region eu is there twice"},
		{"a negative weight", Options{Regions: []RegionSpec{{Name: "eu", Weight: -1}}}, "weight -1"},
		{"an unknown store", Options{Regions: []RegionSpec{{Name: "eu", Store: "disk"}}}, `store "disk"`},
		{"too few coordinators", Options{Coordinators: -1}, "coordinators: -1"},
		{"a delay the wrong way round", Options{Delay: netproxy.Delay{Min: time.Second}}, "delay: 1s … 0s"},
	} {
		err := tt.opts.Validate()
		if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: have %v, want %q", tt.reason, err, tt.want)
		}
	}
	if err := (Options{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	if have := (Options{}).withDefaults(); have.Coordinators != 3 || len(have.Regions) != 3 || have.Regions[0].Agents != 1 {
		t.Errorf("defaults: have %+v", have)
	}
}

func TestPortsAreHandedOutOnce(t *testing.T) {
	var p ports
	seen := map[string]bool{}
	addrs, err := p.take(50)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if seen[a] {
			t.Errorf("%s twice", a)
		}
		seen[a] = true
	}
}
