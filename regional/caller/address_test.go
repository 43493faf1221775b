package caller

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func addresses(t testing.TB, cfg AddressConfig) *Addresses {
	t.Helper()
	a, err := NewAddresses(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// K88: only trusted proxies are believed about whom a call is from.
func TestK88ClientBehindProxies(t *testing.T) {
	behind := AddressConfig{Trusted: []string{"10.0.0.0/8", "fd00::/8", "192.0.2.1"}}
	socket := AddressConfig{TrustSocket: true}
	for why, c := range map[string]struct {
		cfg       AddressConfig
		peer      string
		forwarded []string
		want      string
		err       error
	}{
		"nobody is trusted by default": {AddressConfig{}, "10.0.0.1:999", []string{"203.0.113.7"}, "10.0.0.1", nil},
		"not this peer":                {behind, "198.51.100.1:1", []string{"203.0.113.7"}, "198.51.100.1", nil},
		"a proxy says it":              {behind, "10.0.0.1:1", []string{"203.0.113.7"}, "203.0.113.7", nil},
		"a single address as a proxy":  {behind, "192.0.2.1:1", []string{"203.0.113.7"}, "203.0.113.7", nil},
		"its neighbour is none":        {behind, "192.0.2.2:1", []string{"203.0.113.7"}, "192.0.2.2", nil},
		"what the client wrote stands on the left": {
			behind, "10.0.0.1:1", []string{"1.1.1.1, 203.0.113.7"}, "203.0.113.7", nil,
		},
		"and in lines of its own":             {behind, "10.0.0.1:1", []string{"1.1.1.1", "203.0.113.7"}, "203.0.113.7", nil},
		"even if it pretends to be a proxy":   {behind, "10.0.0.1:1", []string{"1.1.1.1, 10.0.0.9, 203.0.113.7"}, "203.0.113.7", nil},
		"garbage of the client does not help": {behind, "10.0.0.1:1", []string{"?, 203.0.113.7, 10.0.0.2"}, "203.0.113.7", nil},
		"two proxies":                         {behind, "10.0.0.1:1", []string{"203.0.113.7, 10.0.0.2"}, "203.0.113.7", nil},
		"two proxies of both families":        {behind, "[fd00::1]:1", []string{"203.0.113.7, 10.0.0.2,fd00::2"}, "203.0.113.7", nil},
		"a call from inside":                  {behind, "10.0.0.1:1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3", nil},
		"a call of the proxy itself":          {behind, "10.0.0.1:1", nil, "10.0.0.1", nil},
		"an empty list":                       {behind, "10.0.0.1:1", []string{"", " , "}, "10.0.0.1", nil},
		"empty elements":                      {behind, "10.0.0.1:1", []string{"203.0.113.7, ,"}, "203.0.113.7", nil},
		"a port":                              {behind, "10.0.0.1:1", []string{"203.0.113.7:1234"}, "203.0.113.7", nil},
		"brackets":                            {behind, "10.0.0.1:1", []string{"[2001:db8::1]"}, "2001:db8::1", nil},
		"brackets and a port":                 {behind, "10.0.0.1:1", []string{"[2001:db8::1]:80"}, "2001:db8::1", nil},
		"IPv4 in brackets":                    {behind, "10.0.0.1:1", []string{"[203.0.113.7]"}, "", ErrForwarded},
		"IPv4 mapped into IPv6":               {behind, "[::ffff:10.0.0.1]:1", []string{"::ffff:203.0.113.7"}, "203.0.113.7", nil},
		"a zone names nobody":                 {behind, "[fe80::1%eth0]:1", nil, "fe80::1", nil},
		"a name":                              {behind, "10.0.0.1:1", []string{"unknown"}, "", ErrForwarded},
		"octal":                               {behind, "10.0.0.1:1", []string{"0203.0.113.7"}, "", ErrForwarded},
		"no address at all":                   {behind, "10.0.0.1:1", []string{"0.0.0.0"}, "", ErrForwarded},
		"garbage behind a proxy":              {behind, "10.0.0.1:1", []string{"203.0.113.7, x, 10.0.0.2"}, "", ErrForwarded},
		"too many proxies": {
			behind, "10.0.0.1:1", []string{"203.0.113.7" + strings.Repeat(", 10.0.0.2", maxHops)}, "", ErrForwarded,
		},
		"as many as allowed": {
			behind, "10.0.0.1:1", []string{"203.0.113.7" + strings.Repeat(", 10.0.0.2", maxHops-1)}, "203.0.113.7", nil,
		},
		"a socket":                 {behind, "@", []string{"203.0.113.7"}, "", ErrNoAddress},
		"a trusted socket":         {socket, "@", []string{"203.0.113.7"}, "203.0.113.7", nil},
		"and nothing said":         {socket, "", nil, "", ErrNoAddress},
		"a socket is not the rest": {socket, "203.0.113.9:1", []string{"203.0.113.7"}, "203.0.113.9", nil},
		"a peer without a port":    {behind, "2001:db8::5", nil, "2001:db8::5", nil},
		"a peer that is no address": {
			behind, "localhost:80", []string{"203.0.113.7"}, "", ErrNoAddress,
		},
	} {
		have, err := addresses(t, c.cfg).Client(c.peer, c.forwarded)
		if !errors.Is(err, c.err) || c.err == nil && (err != nil || have.String() != c.want) {
			t.Errorf("%s: want %q, %v, have %q, %v", why, c.want, c.err, have, err)
		}
	}
}

func TestK89WhatCountsOfAnAddress(t *testing.T) {
	for _, c := range []struct {
		cfg        AddressConfig
		addr, want string
	}{
		{AddressConfig{}, "192.0.2.7", "192.0.2.7"},
		{AddressConfig{}, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		{AddressConfig{}, "2001:db8:1:2::", "2001:db8:1:2::/64"},
		{AddressConfig{IPv6Bits: 56}, "2001:db8:1:2ff::1", "2001:db8:1:200::/56"},
		{AddressConfig{IPv6Bits: 128}, "2001:db8::1", "2001:db8::1"},
		{AddressConfig{IPv4Bits: 24}, "192.0.2.7", "192.0.2.0/24"},
	} {
		if have := addresses(t, c.cfg).Value(netip.MustParseAddr(c.addr)); have != c.want {
			t.Errorf("%s with %+v: want %s, have %s", c.addr, c.cfg, c.want, have)
		}
	}
}

func TestAddressConfigNamesEveryProblem(t *testing.T) {
	_, err := NewAddresses(AddressConfig{
		Trusted:  []string{"10.0.0.0/8", "10.0.0.1/8", "::ffff:10.0.0.0/104", "proxy", "1.2.3.4/33", "fe80::1%eth0"},
		IPv4Bits: 33, IPv6Bits: -1,
	})
	if !errors.Is(err, ErrConfig) {
		t.Fatalf("have %v", err)
	}
	for _, want := range []string{`"10.0.0.1/8": there are bits after the prefix; the network is 10.0.0.0/8`, `"::ffff:10.0.0.0/104": write it as`, `"proxy"`, `"1.2.3.4/33"`, `"fe80::1%eth0"`, "33 bits of an IPv4", "-1 bits of an IPv6"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
}

// K88: whatever a client writes into the header, it stays who it is.
func TestK88NothingAClientWritesMatters(t *testing.T) {
	a := addresses(t, AddressConfig{Trusted: []string{"10.0.0.0/8"}})
	element := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"10.0.0.9", "1.1.1.1", "::1", ",", "", "10.0.0.9:1"}))
	rapid.Check(t, func(t *rapid.T) {
		written := rapid.SliceOfN(element, 0, 4).Draw(t, "written")
		proxies := strings.Repeat(", 10.1.1.1", rapid.IntRange(0, 3).Draw(t, "proxies"))
		forwarded := append(written, "203.0.113.7"+proxies)
		if n := len(written); n > 0 && rapid.Bool().Draw(t, "one_line") {
			forwarded = []string{strings.Join(forwarded, ",")}
		}
		have, err := a.Client("10.0.0.1:443", forwarded)
		if err != nil || have.String() != "203.0.113.7" {
			t.Fatalf("%q: have %v, %v", forwarded, have, err)
		}
	})
}

func FuzzClient(f *testing.F) {
	for _, s := range []string{"", "203.0.113.7", "1.1.1.1, [2001:db8::1]:80, 10.0.0.2", "::ffff:10.0.0.1", "fe80::1%x", "unknown,,"} {
		f.Add("10.0.0.1:1", s)
		f.Add(s, "203.0.113.7")
	}
	a, err := NewAddresses(AddressConfig{Trusted: []string{"10.0.0.0/8"}, TrustSocket: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, peer, forwarded string) {
		addr, err := a.Client(peer, []string{forwarded})
		if err != nil {
			if !errors.Is(err, ErrNoAddress) && !errors.Is(err, ErrForwarded) {
				t.Errorf("have %v", err)
			}
			return
		}
		if !addr.IsValid() || addr.Zone() != "" || addr.Is4In6() || addr.IsUnspecified() {
			t.Errorf("%q, %q: have %v", peer, forwarded, addr)
		}
		value := a.Value(addr)
		text, _, _ := strings.Cut(value, "/")
		if back, err := netip.ParseAddr(text); err != nil || a.Value(back) != value {
			t.Errorf("%q is no address or network: %v", value, err)
		}
	})
}

func BenchmarkClient(b *testing.B) {
	a := addresses(b, AddressConfig{Trusted: []string{"10.0.0.0/8", "192.168.0.0/16"}})
	forwarded := []string{"198.51.100.1, 203.0.113.7, 10.0.0.2"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Client("10.0.0.1:443", forwarded); err != nil {
			b.Fatal(err)
		}
	}
}
