package envoyrls

import (
	"fmt"
	"math"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
)

// read reads an envoy.service.ratelimit.v3.RateLimitRequest, as package proto reads
// messages: the last of several equal fields counts, messages of the same field are
// merged, unknown fields are skipped. An error says that the bytes are no such message.
//
// A weight of the request counts at least 1, a weight of a descriptor may be 0 and then
// only looks (case K23). Negative hits are given back (case K24).
func (c *call) read(m []byte) (err error) {
	r := &c.request
	domain := r.Domain // of the request before
	*r = enforce.Request{Descriptors: r.Descriptors[:0]}
	c.entries, c.bad, c.size = c.entries[:0], nil, len(m)
	for f := (field{}); len(m) > 0 && err == nil; {
		if m, err = f.cut(m); err != nil {
			return err
		}
		switch f.tag {
		case requestDomain:
			r.Domain, err = f.text(domain)
		case requestDescriptors:
			err = c.readDescriptor(f.bytes)
		case requestHitsAddend:
			r.Hits = uint32(f.n)
		}
	}
	return err
}

func (c *call) readDescriptor(m []byte) (err error) {
	var d enforce.Descriptor
	var o override
	first := len(c.entries)
	for f := (field{}); len(m) > 0 && err == nil; {
		if m, err = f.cut(m); err != nil {
			return err
		}
		switch f.tag {
		case descriptorEntries:
			err = c.readEntry(f.bytes)
		case descriptorLimit:
			o.given = true
			err = o.read(f.bytes)
		case descriptorHitsAddend:
			if d.Hits == nil {
				d.Hits = new(uint64)
			}
			err = readWrapper(f.bytes, d.Hits)
		case descriptorIsNegativeHits:
			d.Refund = f.n != 0
		}
	}
	if d.Entries = c.entries[first:len(c.entries):len(c.entries)]; o.given && err == nil {
		var bad error
		if d.Override, bad = o.limit(); bad != nil && c.bad == nil {
			c.bad = fmt.Errorf("descriptors[%d].limit: %w; without `limit` the rule's own counts", len(c.request.Descriptors), bad)
		}
	}
	c.request.Descriptors = append(c.request.Descriptors, d)
	return err
}

func (c *call) readEntry(m []byte) (err error) {
	var was, e rules.Entry
	if n := len(c.entries); n < cap(c.entries) {
		was = c.entries[:n+1][n] // of the request before
	}
	for f := (field{}); len(m) > 0 && err == nil; {
		if m, err = f.cut(m); err != nil {
			return err
		}
		switch f.tag {
		case entryKey:
			e.Key, err = f.text(was.Key)
		case entryValue:
			e.Value, err = f.text(was.Value)
		}
	}
	c.entries = append(c.entries, e)
	return err
}

// override is a descriptor's limit.
type override struct {
	given    bool
	requests uint32
	unit     int32
	units    uint64 // how many of them, 0 for one
}

func (o *override) read(m []byte) (err error) {
	for f := (field{}); len(m) > 0 && err == nil; {
		if m, err = f.cut(m); err != nil {
			return err
		}
		switch f.tag {
		case overrideRequestsPerUnit:
			o.requests = uint32(f.n)
		case overrideUnit:
			o.unit = int32(f.n)
		case overrideUnitMultiplier:
			err = readWrapper(f.bytes, &o.units)
		}
	}
	return err
}

// limit returns what is to be counted. Envoy's units have the numbers of rules.Unit. The
// error is rules.ErrOverride.
func (o *override) limit() (rules.Override, error) {
	unit := rules.UnitUnknown
	if o.unit > 0 && o.unit <= math.MaxUint8 {
		unit = rules.Unit(o.unit)
	}
	if n := uint32(o.units); n > 1 {
		return rules.Override{}, fmt.Errorf("%w: unit_multiplier %d: a request's limit is for one unit; leave it out", rules.ErrOverride, n)
	}
	return rules.NewOverride(o.requests, unit)
}

// readWrapper reads a google.protobuf.UInt64Value; a UInt32Value is the same to it.
func readWrapper(m []byte, to *uint64) (err error) {
	for f := (field{}); len(m) > 0; {
		if m, err = f.cut(m); err != nil {
			return err
		}
		if f.tag == wrapperValue {
			*to = f.n
		}
	}
	return nil
}
